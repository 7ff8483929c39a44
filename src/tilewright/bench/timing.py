"""How a kernel is timed: warm, cold L2, side by side with what it is compared to.

The protocol. The caller has verified the results. Every candidate is launched until its time
settles. Then come rounds: each round launches every candidate once, in alternating order (A B, B A,
A B, ...), so that neither always runs in the wake of the other and both see the same clocks. Each
launch works on the next set of buffers; the sets together are at least three times the L2 cache, so
no launch finds its operands there. Events mark the stream right before and right after each launch;
nothing is subtracted. What is reported is the median and the quartiles.

A launch of a few microseconds is less than what events resolve and the host can queue. So one call
of a candidate may queue several launches, of all candidates as many, and its time is shared among
them; where the sets are too small to fill the L2, the caller has it emptied before each call.

The clock is a protocol of two methods, so the whole of it is tested without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeVar

import numpy as np

from tilewright.errors import ProblemError
from tilewright.records import Timing

# Three times the L2 is what leaves nothing of a set when its turn comes again, whatever the
# replacement policy keeps of the sets between.
L2_MULTIPLE = 3
_MOST_SETS = 256
# Rounds that are queued before the host waits for their times. The queue keeps the GPU busy while
# the host records events; it must stay below the about 1000 commands that a stream takes.
_BATCH_ROUNDS = 32
_SETTLED = 0.02
# Launches of a few microseconds would warm up for longer by the host's clock than by the GPU's.
_WARM_ROUNDS = 2000

Moment = TypeVar("Moment")


class Stopwatch(Protocol[Moment]):
    """Marks moments in the work of one stream."""

    def mark(self) -> Moment:
        """Mark the moment when the work queued so far is done."""

    def seconds(self, start: Moment, stop: Moment) -> float:
        """Wait for `stop` and return the seconds since `start`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long a measurement may take.

    Units: seconds of device time, all candidates together. A candidate so slow that `measure_s`
    is spent sooner still runs `min_rounds` times; a fast one at most `max_rounds`.
    """

    warmup_s: float = 0.1
    measure_s: float = 0.5
    min_rounds: int = 3
    max_rounds: int = 200

    def rounds(self, round_s: float) -> int:
        """Return how many rounds of `round_s` seconds fit."""
        fitting = math.floor(self.measure_s / round_s) if round_s > 0 else self.max_rounds
        return max(self.min_rounds, min(self.max_rounds, fitting))


def rotation_sets(set_bytes: int, l2_bytes: int) -> int:
    """Return how many sets of buffers keep the L2 cold: three L2s in all, and at least two.

    At most 256: a problem so small that more would be needed is timed with a warm L2.
    """
    return max(2, min(_MOST_SETS, math.ceil(L2_MULTIPLE * l2_bytes / set_bytes)))


def time_interleaved(
    candidates: Mapping[str, Callable[[int], None]],
    *,
    stopwatch: Stopwatch[Moment],
    sets: int,
    budget: Budget | None = None,
    launches: int = 1,
    before: Callable[[], None] | None = None,
) -> dict[str, Timing]:
    """Time the candidates side by side; each is called with the set of buffers to work on.

    A candidate only queues its work on the stopwatch's stream; it must not wait for it. One call
    queues `launches` launches. What `before` queues ahead of each call is not timed.

    Raises:
        ProblemError: nothing to time.
    """
    if not candidates or sets < 1:
        raise ProblemError(f"{len(candidates)} candidates, {sets} sets: expected one of each")
    limits = budget or Budget()
    turn = count()
    names = list(candidates)

    def launch(name: str) -> None:
        candidates[name](next(turn) % sets)

    def timed(name: str) -> tuple[Moment, Moment]:
        if before is not None:
            before()
        start = stopwatch.mark()
        launch(name)
        return start, stopwatch.mark()

    warm = _warm_up(names, timed, stopwatch, limits)
    fastest = min(names, key=lambda name: warm[name])
    times: dict[str, list[float]] = {name: [] for name in names}
    for batch in _batches(limits.rounds(sum(warm.values()))):
        # One launch that is not timed: while it runs, the host gets ahead of the GPU, and no gap
        # opens between an event and the launch it brackets.
        launch(fastest)
        marks = []
        for index in batch:
            for name in names if index % 2 == 0 else reversed(names):
                marks.append((name, *timed(name)))
        for name, start, stop in marks:
            times[name].append(stopwatch.seconds(start, stop) / launches)
    return {name: summarize(times[name], sets) for name in names}


def summarize(times: list[float], sets: int) -> Timing:
    """Return the median and the quartiles of `times`, interpolated linearly."""
    p25, median, p75 = (float(q) for q in np.percentile(times, (25, 50, 75)))
    return Timing(median_s=median, p25_s=p25, p75_s=p75, runs=len(times), sets=sets)


def _batches(rounds: int) -> Iterator[range]:
    for first in range(0, rounds, _BATCH_ROUNDS):
        yield range(first, min(first + _BATCH_ROUNDS, rounds))


def _warm_up(
    names: list[str],
    timed: Callable[[str], tuple[Moment, Moment]],
    stopwatch: Stopwatch[Moment],
    limits: Budget,
) -> dict[str, float]:
    """Run rounds until their time settles and return the times of the last.

    Settled: within 2 % of the round before, once `warmup_s` is spent. Rounds that never settle
    end at four times that; a first round that takes so long is warm-up enough.
    """
    spent, before = 0.0, math.inf
    times: dict[str, float] = {}
    for _ in range(_WARM_ROUNDS):
        for name in names:
            times[name] = stopwatch.seconds(*timed(name))
        total = sum(times.values())
        spent += total
        settled = abs(total - before) <= _SETTLED * before
        if spent >= 4 * limits.warmup_s or (spent >= limits.warmup_s and settled):
            break
        before = total
    return times
