"""One operation, all contenders: verified, then timed in one run, interleaved.

Each contender's launches are recorded in CUDA graphs, `launches` to a graph, each on a set of
operands of its own; a sample is one launch of a graph between two events, divided by `launches`.
So a kernel of 3 us is timed without the host, and with what lies between two kernels that follow
one another, which is the same for all. Enough launches go into a graph for a sample to last
SAMPLE_S. The sets rotate through three times the L2; where they are too small for that, the L2 is
emptied before each sample.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from tilewright.bench.contenders import Contender, Queue, Way
from tilewright.bench.operands import KINDS, DeviceSets, Kind, Operands, draws
from tilewright.bench.timing import Budget, time_interleaved
from tilewright.bench.verify import Verification, merge
from tilewright.device.events import EventStopwatch
from tilewright.device.graphs import Graph
from tilewright.device.memory import Arena
from tilewright.device.session import Session
from tilewright.errors import TilewrightError
from tilewright.kernels.gemm.operation import Operation
from tilewright.records import Timing

# A sample long enough that the gap between an event and a graph's first kernel, a few
# microseconds, is below one percent of it.
SAMPLE_S = 500e-6
_MOST_LAUNCHES = 64
# Ways of one contender that are timed side by side.
_GROUP = 8
# For choosing among a contender's ways: the fastest by a few samples.
QUICK = Budget(warmup_s=0.002, measure_s=0.01, min_rounds=3, max_rounds=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one contender did: `checks` by kind of data, `timing` None where one failed.

    Where a kind was drawn several times, its check is of all of them. `reason` says why it did not
    take part; `tried` is among how many ways `way` is the fastest.
    """

    way: Way | None = None
    timing: Timing | None = None
    checks: Mapping[Kind, Verification]
    tried: int = 0
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every check found it right."""
        return all(check.ok for check in self.checks.values())


def run_operation(
    session: Session,
    operation: Operation,
    contenders: Sequence[Contender],
    *,
    budget: Budget | None = None,
    kinds: Sequence[Kind] = KINDS,
) -> dict[str, Entry]:
    """Verify and time the contenders; the first of `kinds` is also the data of the timing.

    A contender that cannot compute the operation, or is wrong, is not timed and says so.

    Raises:
        ProblemError: operands that do not fit on the GPU.
        DeviceError: a fault of a kernel.
    """
    session.enter()
    with Arena(session) as arena:
        operands = Operands(operation, kinds[0])
        bench = OperationBench(arena, DeviceSets(arena, operands))
        entries = {c.name: bench.enter(c, operation, operands) for c in contenders}
        for seed, kind in itertools.product(range(draws(operation)), kinds):
            if (seed, kind) == (0, kinds[0]):
                continue
            other = Operands(operation, kind, seed)
            bench.sets.fill(other)
            entries = {name: bench.check(e, other) for name, e in entries.items()}
        bench.sets.fill(operands)
        right = {n: e.way for n, e in entries.items() if e.way is not None and e.ok}
        times = bench.time(right, budget or Budget()) if right else {}
    return {
        name: Entry(
            way=e.way, timing=times.get(name), checks=e.checks, tried=e.tried, reason=e.reason
        )
        for name, e in entries.items()
    }


class OperationBench:
    """The sets of one operation, and what is done with them."""

    def __init__(self, arena: Arena, sets: DeviceSets) -> None:
        self._arena = arena
        self._session = arena.session
        self.sets = sets

    def enter(self, contender: Contender, operation: Operation, operands: Operands) -> Entry:
        """Verify a contender's ways, and keep the fastest that is right."""
        try:
            ways = contender.ways(operation, self._arena)
        except TilewrightError as error:
            return Entry(checks={}, reason=str(error))
        right: dict[str, Way] = {}
        entries: dict[str, Entry] = {}
        for way in ways:
            entry = self._checked(Entry(way=way, checks={}, tried=len(ways)), operands)
            entries[way.name] = entry
            if entry.ok and entry.reason is None:
                right[way.name] = way
        if not right:
            nothing = Entry(checks={}, reason=f"{contender.label} has no kernel for it")
            return next(iter(entries.values()), nothing)
        return entries[self._fastest(right)]

    def _fastest(self, ways: Mapping[str, Way]) -> str:
        """Return the name of the fastest way: of groups timed side by side, then of the winners."""
        names = list(ways)
        while len(names) > 1:
            winners = []
            for first in range(0, len(names), _GROUP):
                group = names[first : first + _GROUP]
                times = self.time({name: ways[name] for name in group}, QUICK)
                winners.append(min(times, key=lambda name: times[name].median_s))
            names = winners
        return names[0]

    def check(self, entry: Entry, operands: Operands) -> Entry:
        """Add the check on one kind of data to an entry."""
        return entry if entry.way is None or entry.reason else self._checked(entry, operands)

    def _checked(self, entry: Entry, operands: Operands) -> Entry:
        assert entry.way is not None
        self.sets.poison()
        try:
            entry.way.bind(self.sets.pointers[0])()
        except TilewrightError as error:
            return Entry(checks=entry.checks, tried=entry.tried, reason=str(error))
        found = operands.judge(self.sets.result())
        if (before := entry.checks.get(operands.kind)) is not None:
            found = merge(before, found)
        return replace(entry, checks={**entry.checks, operands.kind: found})

    def time(self, ways: Mapping[str, Way], budget: Budget) -> dict[str, Timing]:
        """Time ways side by side."""
        queues = {
            name: [way.bind(there) for there in self.sets.pointers] for name, way in ways.items()
        }
        launches = self._launches([each[0] for each in queues.values()])
        with ExitStack() as stack:
            graphs = {
                name: [
                    stack.enter_context(Graph(self._session, functools.partial(_all, group)))
                    for group in _groups(each, launches)
                ]
                for name, each in queues.items()
            }
            return time_interleaved(
                {n: lambda i, g=g: g[i].launch() for n, g in graphs.items()},  # type: ignore[misc]
                stopwatch=EventStopwatch(self._session),
                sets=self.sets.count // launches,
                budget=budget,
                launches=launches,
                before=None if self.sets.cold else self.sets.flush,
            )

    def _launches(self, queues: Sequence[Queue]) -> int:
        """Return how many launches make the fastest candidate's sample long enough."""
        stopwatch = EventStopwatch(self._session)
        fastest = math.inf
        for queue in queues:
            queue()
            times = []
            for _ in range(3):
                start = stopwatch.mark()
                queue()
                times.append(stopwatch.seconds(start, stopwatch.mark()))
            fastest = min(fastest, *times)
        return shared_out(self.sets.count, math.ceil(SAMPLE_S / fastest))


def shared_out(sets: int, launches: int) -> int:
    """Return how many launches each graph gets, at least `launches` where there are so many sets.

    Every set has one place in one graph, so that none is met again while it is in the L2; what
    does not divide among the graphs is left out.
    """
    graphs = max(1, sets // min(launches, _MOST_LAUNCHES))
    return sets // graphs


def _groups(queues: Sequence[Queue], size: int) -> Iterator[Sequence[Queue]]:
    for first in range(0, len(queues) - size + 1, size):
        yield queues[first : first + size]


def _all(queues: Sequence[Queue]) -> None:
    for queue in queues:
        queue()
