"""Little's law on an SM: what must be in flight is the rate times the time that one takes.

Instructions a cycle times cycles an instruction takes are instructions in flight; those are warps
times the instructions that each has in flight. So where a few warps issue slower than the unit
behind them could work, more of them, or more independent instructions in each, make it faster, and
beyond the rate of that unit neither does.

Source: J. D. C. Little, Operations Research 9 (1961), 383-387; for GPUs V. Volkov, Better
Performance at Lower Occupancy (GTC 2010): a GeForce GTX 480's 18 cycles times 32 lanes are 576
operations in flight, 18 warps of one independent instruction each or 6 of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.model.machine import machine
from tilewright.model.operations import Operation, operations
from tilewright.model.units import Queue, Units, Way
from tilewright.model.whatif import Case

# Cycles from issue to result of a multiply-add and other arithmetic of fixed latency.
# Source: Jia et al., arXiv 1804.06826, its latencies of Volta's instructions; assumed of others.
ARITHMETIC_CYCLES = 4
_FIXED = frozenset({"fma", "imad", "alu", "uniform"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Little:
    """How many warps the best rate takes, by what few of them do.

    Units: `rate` and `few_rate` warp instructions a cycle of an SM, at best and with `few_warps`;
    `latency` the mean cycles from an instruction's issue to its result on an idle SM.
    """

    rate: float
    few_rate: float
    few_warps: int
    latency: float

    @property
    def in_flight(self) -> float:
        """Warp instructions that are in flight on an SM at the best rate."""
        return in_flight(self.rate, self.latency)

    @property
    def each(self) -> float:
        """Instructions that one warp has in flight, where few share the SM."""
        return in_flight(self.few_rate, self.latency) / self.few_warps

    @property
    def warps(self) -> float:
        """Warps that the best rate takes at least: more as they get in each other's way."""
        return warps_needed(self.in_flight, self.each)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values: the fields and what follows from them."""
        return asdict(self) | {
            "in_flight": self.in_flight,
            "each": self.each,
            "warps": self.warps,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Little:
        """Rebuild what `to_json` wrote."""
        return cls(**{name: data[name] for name in cls.__slots__})


def in_flight(rate: float, latency: float) -> float:
    """Return what is in flight at a rate (a cycle), each taking `latency` cycles."""
    return rate * latency


def warps_needed(needed: float, each: float) -> float:
    """Return the warps for `needed` instructions in flight, where each warp has `each`."""
    return needed / each


def mean_latency(case: Case) -> float:
    """Return the mean cycles from issue to result over a launch's instructions, on an idle SM."""
    total = executed = 0.0
    for op, counted in zip(
        operations(case.profile, case.control), case.profile.counted, strict=True
    ):
        if counted.executed:
            total += counted.executed * _latency(case, op)
            executed += counted.executed
    return total / executed


def _latency(case: Case, op: Operation) -> float:
    if op.pipe in _FIXED:
        return max(op.stall, ARITHMETIC_CYCLES)
    m = machine(case.gpu)
    alone = Units(m, case.hits, sms=1, warps_per_block=1, together=False)
    result, _ = alone.execute(0.0, op, Queue(), 0, Way())
    if op.pipe != "global" or not op.load:
        return result
    hit = case.hits.of(op.index)
    far = (1 - hit.dram) * m.latency["l2"] + hit.dram * m.latency["dram"]
    return (1 - hit.missing) * m.latency["l1"] + hit.missing * far
