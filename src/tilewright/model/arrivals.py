"""How blocks that share data reach it: which one fetches it, and how late the others find it.

The first block to reach what several read waits for the DRAM. One that comes while that fetch is on
its way waits for the rest of it; all later ones find the data in the L2, in their half of it once
one of that half has asked for it. Those that find it are faster, and close up to the one that
fetches; what else keeps their SMs busy drives them apart again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

_GOLDEN = (5**0.5 - 1) / 2  # its multiples spread evenly over a circle
# Of blocks that share, 1 - exp(-_PULL * (fetch / period)^2) are within a fetch of one another: a
# pull of a fetch a period, against steps at random that grow with the period. Measured, sm_90, when
# the blocks of six kernels ended: 11, for parts of 0.02 to 0.85. docs/model.md has the readings.
_PULL = 11.0


@dataclass(slots=True)
class Turns:
    """Which executions an event that happens to a share of them happens to: spread evenly."""

    credit: dict[tuple[str, object], float] = field(default_factory=dict)
    drawn: float = 0.0

    def due(self, event: str, key: object, share: float) -> bool:
        """Whether an event that happens to `share` of all executions happens to this one."""
        if share >= 1:
            return True
        if share <= 0:
            return False
        credit = self.credit.get((event, key), 0.5) + share
        self.credit[event, key] = credit - 1 if credit >= 1 else credit
        return credit >= 1

    def draw(self) -> float:
        """Return the next of numbers that are spread evenly from 0 to 1."""
        self.drawn = (self.drawn + _GOLDEN) % 1
        return self.drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How a block comes to what it shares: `fetches` from the DRAM, or from the `other` half.

    `rest` is the share of a fetch that is left to wait for where another block fetches. Units: `at`
    cycles, when the block came.
    """

    at: float
    fetches: bool = False
    other: bool = False
    rest: float = 0.0


class Arrivals:
    """The arrivals of an SM's blocks at what they share with the blocks of other SMs.

    Blocks that run `together` all wait for the one fetch. Units: `latency` cycles.
    """

    def __init__(
        self,
        turns: Turns,
        latency: Mapping[str, float],
        *,
        warps_per_block: int,
        together: bool,
    ) -> None:
        self._turns, self._warps, self._together = turns, warps_per_block, together
        self._miss, self._fetch = latency["dram"], latency["dram"] - latency["l2"]
        self._counts: dict[tuple[int, int], int] = {}
        self._seen: dict[tuple[int, int], int] = {}
        self._last: dict[tuple[int, float], Arrival] = {}

    def count(self, block: int, index: int) -> None:
        """Count an execution of an instruction, by one warp of a block."""
        self._counts[block, index] = self._counts.get((block, index), -1) + 1

    def of(self, now: float, block: int, index: int, share: float) -> Arrival:
        """Return how a block comes to what `1 / share` blocks read with an instruction.

        All its warps come with the first that has to fetch, and to all that the block reads and
        shares alike within the time of a miss.
        """
        trip = self._counts[block, index] // self._warps
        begins = self._seen.get((block, index)) != trip
        self._seen[block, index] = trip
        last = self._last.get((block, share))
        if last is None or (begins and now - last.at >= self._miss):
            late = 1 - math.exp(-_PULL * (self._fetch / (now - last.at)) ** 2) if last else 0.0
            last = self._last[block, share] = self._arrival(now, share, late)
        return last

    def _arrival(self, now: float, share: float, late: float) -> Arrival:
        if self._together or self._turns.due("fetches", share, share):
            return Arrival(at=now, fetches=True, other=True)
        # Whether none of the others, each as likely of either half, is of its own half before it.
        first = share * (1 - 2 ** (1 - 1 / share)) / (1 - share)
        return Arrival(
            at=now,
            other=self._turns.due("other", share, first),
            rest=self._turns.draw() if self._turns.due("late", share, late) else 0.0,
        )
