"""One SM, cycle by cycle: the warps that are resident issue their instructions, and wait.

Each of the four partitions issues at most one instruction a cycle: of the warp that issued last, if
it can go on, else of the one that issued longest ago. A warp cannot before the stall count of its
last instruction has passed, the scoreboards that its next one names are clear, and that one's pipe,
its queue and the register banks are free. At a barrier it goes on with arithmetic, and waits for
its block at the next access to memory or branch.

Every cycle that a warp waits is charged to one reason, by the names that the profiler has for them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.model.machine import Machine
from tilewright.model.operations import Operation
from tilewright.model.spans import LONGEST, Span, spans
from tilewright.model.traffic import Hits
from tilewright.model.units import Queue, Units, Way

PARTITIONS = 4
# Instructions beyond a warp's place that its next step may depend on: a span, and what ends it.
LOOKAHEAD = LONGEST + 1
_NEVER = float("inf")
# Where a warp that came to a barrier waits for the others: BAR.SYNC.DEFER_BLOCKING lets it go on
# until then. Measured, sm_90: in 03 to 08 a barrier's samples are at the next of these behind it.
_BLOCKING = frozenset({"shared", "global", "shuffle", "branch", "barrier", "membar", "fence"})
# Pipes that are reached through the queue of the memory unit.
_QUEUED = frozenset({"shared", "shuffle", "constant", "special", "xu"})
# Cycles between warps that come to barriers. Measured, sm_90: chain-bar with 32 warps, 2.4.
_BARRIER_INTERVAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What the simulation of some resident blocks gave.

    Units: `cycles` from the first issue to the last result; `stalls` cycles that warps waited, by
    reason, summed over warps; `busy` cycles that each unit worked, the partitions' pipes together.
    """

    cycles: float
    issued: int
    stalls: dict[str, float]
    busy: dict[str, float]


@dataclass(slots=True)
class _Warp:
    """A warp: its path, where on it it is, and since when and for what it waits.

    `ready` is when the stall count, the scoreboards and a barrier let the next instruction issue,
    `reason` what it waits for until then; `stalled` is when its stall count has passed, and
    `released` when the barrier that it came to last lets it go on. Of its wait since `ready`,
    `charged` cycles are charged to a pipe, a queue or operands, up to the time `held`.
    """

    block: int
    path: Sequence[Operation]
    spans: Mapping[int, Span]
    at: int = 0
    ready: float = 0.0
    stalled: float = 0.0
    released: float = 0.0
    reason: str = "wait"
    issued_at: float = -1.0
    held: float = 0.0
    charged: float = 0.0
    way: Way = field(default_factory=Way)
    boards: list[float] = field(default_factory=lambda: [0.0] * 6)
    owners: list[str] = field(default_factory=lambda: ["long_scoreboard"] * 6)


@dataclass(slots=True)
class _Partition:
    """A partition: its warps, and until when its pipes, banks and queues are taken.

    `warps` are in the order in which they were picked last, `last` at the end. `near` and `far`
    hold when the queued instructions of shared and of global memory leave; `until` is when it can
    issue next.
    """

    warps: list[int]
    last: int = -1
    until: float = 0.0
    pipes: dict[str, float] = field(default_factory=dict)
    banks: list[float] = field(default_factory=lambda: [0.0, 0.0])
    near: Queue = field(default_factory=Queue)
    far: Queue = field(default_factory=Queue)

    def picked(self, number: int) -> None:
        """Put a warp at the end of the turn."""
        if number != self.last:
            self.last = number
            self.warps.remove(number)
            self.warps.append(number)

    def ended(self, number: int) -> None:
        """Take out the warp that was picked last."""
        self.warps.remove(number)
        self.last = -1

    def operands_at(self, op: Operation) -> float:
        """Return when the register banks are no more than a cycle behind."""
        first = self.banks[0] if op.reads[0] else 0.0
        second = self.banks[1] if op.reads[1] else 0.0
        return max(first, second) - 1


class Sm:
    """The simulation of one set of resident blocks.

    `ways` are the paths of the warps of each block, or of its first ones: those behind take them
    again from the start. `sms` are the SMs that share the L2 and the DRAM at the same time;
    `together` says that these are all blocks of a launch.
    """

    def __init__(
        self,
        machine: Machine,
        operations: Sequence[Operation],
        ways: Sequence[Sequence[int]],
        hits: Hits,
        *,
        blocks: int,
        warps_per_block: int,
        sms: int,
        together: bool = True,
    ) -> None:
        self._machine, self._operations = machine, operations
        self._units = Units(
            machine, hits, sms=sms, warps_per_block=warps_per_block, together=together
        )
        count = blocks * warps_per_block
        self._warps_per_block = warps_per_block
        self._warps = [
            _Warp(block=w // warps_per_block, path=path, spans=found)
            for w, (path, found) in enumerate(self._walks(ways, count))
        ]
        self._partitions = [
            _Partition(warps=list(range(first, count, PARTITIONS))) for first in range(PARTITIONS)
        ]
        # Barriers: who waits in each block, and when the unit is free.
        self._waiting: list[list[int]] = [[] for _ in range(blocks)]
        self._barrier = 0.0
        # When each partition looks for a warp again, and which ones a barrier's release wakes.
        self._next = [0.0 if each.warps else _NEVER for each in self._partitions]
        self._woken: set[int] = set()
        self._wake_at = 0.0
        self._furthest = 0  # how far along its path a warp has come
        self._stalls: dict[str, float] = {}
        self._end = 0.0
        self._issued = 0

    def _walks(
        self, ways: Sequence[Sequence[int]], count: int
    ) -> Iterator[tuple[Sequence[Operation], Mapping[int, Span]]]:
        """Yield the path of each of `count` warps, with its spans."""
        walks = {}
        for way in {id(way): way for way in ways}.values():
            code = [self._operations[index] for index in way]
            walks[id(way)] = code, spans(self._operations, way, self._machine)
        for number in range(count):
            yield walks[id(ways[number % self._warps_per_block % len(ways)])]

    def on(self, ways: Sequence[Sequence[int]]) -> Sm:
        """Return a copy that goes on along other paths, equal to these as far as it has read.

        It has read them up to `LOOKAHEAD` instructions beyond where the first warp is.
        """
        kept = [self._machine, self._operations, self._units.hits]
        kept += [each for warp in self._warps for each in (warp.path, warp.spans)]
        other = copy.deepcopy(self, {id(each): each for each in kept})
        walks = self._walks(ways, len(other._warps))
        for warp, (path, found) in zip(other._warps, walks, strict=True):
            warp.path, warp.spans = path, found
        return other

    def run(self) -> Simulated:
        """Run until every warp has come to the end of its path."""
        self.run_to(max((len(warp.path) for warp in self._warps), default=0) + 1)
        return Simulated(
            cycles=self._end, issued=self._issued, stalls=self._stalls, busy=self._units.busy
        )

    def run_to(self, place: int) -> None:
        """Run until a warp has come so far along its path, or all are at the end."""
        upcoming = self._next
        while self._furthest < place and (now := min(upcoming)) < _NEVER:
            number = upcoming.index(now)
            upcoming[number] = self._step(now, self._partitions[number])
            for other in self._woken:
                upcoming[other] = min(upcoming[other], self._wake_at)
            self._woken.clear()

    def _step(self, now: float, partition: _Partition) -> float:
        """Issue one instruction or span if a warp can; return when to look again."""
        if now < partition.until:
            return partition.until
        soonest = _NEVER
        full: dict[str, tuple[float, str]] = {}  # the pipes that take nothing now
        warps = self._warps
        turn: Sequence[int] = partition.warps
        if partition.last >= 0:
            turn = (turn[-1], *turn[:-1])
        for number in turn:
            warp = warps[number]
            ready = warp.ready
            if ready > now:
                if ready < soonest:
                    soonest = ready
                continue
            op = warp.path[warp.at]
            until, why = full.get(op.pipe) or self._taken_until(now, partition, op.pipe)
            if until > now:
                full[op.pipe] = (until, why)
                if until > warp.held:
                    self._hold(warp, now, until, why)
                if until < soonest:
                    soonest = until
                continue
            behind = partition.operands_at(op)
            if behind > now:
                # It is picked, and holds the partition up until its operands are read.
                after = math.ceil(behind)
                self._hold_dispatch(partition, now, after, after - now)
                partition.picked(number)
                partition.until = after
                return after
            span = warp.spans.get(warp.at)
            if span is not None:
                return self._issue_span(now, partition, number, span)
            self._issue(now, partition, number)
            return now + 1 if partition.warps else _NEVER
        return soonest if soonest == _NEVER else math.ceil(soonest)

    def _taken_until(self, now: float, partition: _Partition, pipe: str) -> tuple[float, str]:
        """Return when a pipe and its queue take another instruction, and what keeps them."""
        free = partition.pipes.get(pipe, 0.0)
        if free > now:
            return free, "math_pipe_throttle"
        if pipe == "global":
            queue, why = partition.far, "lg_throttle"
        elif pipe in _QUEUED:
            queue, why = partition.near, "mio_throttle"
        else:
            return now, ""
        while queue and queue[0] <= now:
            queue.popleft()
        return (queue[0], why) if len(queue) >= self._machine.queue else (now, "")

    def _issue_span(self, now: float, partition: _Partition, number: int, span: Span) -> float:
        warp = self._warps[number]
        self._charge(warp, now)
        behind = [max(math.ceil(bank - now), 0) for bank in partition.banks]
        cycles, first, second = span.time(behind[0], behind[1])
        end = now + cycles
        if cycles > span.length:
            self._hold_dispatch(partition, now, end, cycles - span.length)
        partition.picked(number)
        partition.until = end
        partition.banks[:] = [end + first, end + second]
        for pipe, worked in span.pipes.items():
            self._occupy(partition, pipe, end - 1 + self._machine.interval.get(pipe, 1), worked)
        self._issued += span.length
        self._advance(warp, end - 1, span.length, span.stall)
        self._wait(warp)
        return end

    def _issue(self, now: float, partition: _Partition, number: int) -> None:
        warp = self._warps[number]
        op = warp.path[warp.at]
        self._charge(warp, now)
        self._issued += 1
        partition.picked(number)
        partition.until = now + 1
        interval = self._machine.interval.get(op.pipe, 1)
        self._occupy(partition, op.pipe, now + interval, interval)
        for bank in (0, 1):
            if op.reads[bank]:
                partition.banks[bank] = max(partition.banks[bank], now) + op.reads[bank]
        queue = partition.far if op.pipe == "global" else partition.near
        result, read = self._units.execute(now, op, queue, warp.block, warp.way)
        self._end = max(self._end, result)
        kind = "long_scoreboard" if op.pipe == "global" else "short_scoreboard"
        for board, until in ((op.write_barrier, result), (op.read_barrier, read)):
            if board >= 0 and until >= warp.boards[board]:
                warp.boards[board], warp.owners[board] = until, kind
        self._advance(warp, now, 1, op.stall)
        if op.pipe == "membar":
            warp.ready, warp.reason = result, "membar"
        if warp.at == len(warp.path):
            partition.ended(number)
            return
        if op.pipe == "barrier":
            self._come_to_barrier(now, number)
        self._wait(warp)

    def _occupy(self, partition: _Partition, pipe: str, until: float, worked: int) -> None:
        partition.pipes[pipe] = until
        busy = self._units.busy
        busy[pipe] = busy.get(pipe, 0.0) + worked

    def _advance(self, warp: _Warp, issued_at: float, count: int, stall: int) -> None:
        warp.at += count
        if warp.at > self._furthest:
            self._furthest = warp.at
        warp.issued_at, warp.charged = issued_at, 0.0
        warp.ready = warp.stalled = issued_at + stall
        warp.reason = "wait"

    def _wait(self, warp: _Warp) -> None:
        """Let a warp whose stall count is known wait for a barrier and for scoreboards."""
        op = warp.path[warp.at]
        if warp.released > warp.ready and op.pipe in _BLOCKING:
            warp.ready, warp.reason = warp.released, "barrier"
        wait = op.wait
        board = 0
        while wait:
            if wait & 1 and warp.boards[board] > warp.ready:
                warp.ready, warp.reason = warp.boards[board], warp.owners[board]
            wait >>= 1
            board += 1

    def _come_to_barrier(self, now: float, number: int) -> None:
        """Let a warp wait, and once all of its block have come, let all go on."""
        self._warps[number].released = _NEVER
        waiting = self._waiting[self._warps[number].block]
        waiting.append(number)
        start = max(now, self._barrier)
        self._barrier = start + _BARRIER_INTERVAL
        if len(waiting) < self._warps_per_block:
            return
        at = start + self._machine.latency["bar"]
        for number in waiting:
            warp = self._warps[number]
            warp.released = at
            if warp.ready == _NEVER:
                warp.ready, warp.reason = warp.stalled, "wait"
                self._wait(warp)
                self._woken.add(number % PARTITIONS)
        self._wake_at = at
        waiting.clear()

    def _hold(self, warp: _Warp, now: float, until: float, why: str) -> None:
        """Charge a ready warp's wait for a pipe, a queue or operands, beyond what it is charged."""
        cycles = until - (now if now > warp.held else warp.held)
        self._add(why, cycles)
        warp.charged += cycles
        warp.held = until

    def _hold_dispatch(
        self, partition: _Partition, now: float, until: float, cycles: float
    ) -> None:
        """Charge cycles in which a partition waits for operands to all its warps that could issue.

        The cycles are spread evenly from `now` to `until`.
        """
        for number in partition.warps:
            warp = self._warps[number]
            since = max(now, warp.ready, warp.held)
            if since < until:
                part = cycles * (until - since) / (until - now)
                self._add("dispatch_stall", part)
                warp.charged += part

    def _charge(self, warp: _Warp, now: float) -> None:
        """Charge what the warp waited since its last instruction."""
        if warp.issued_at < 0:
            return
        last, ready = warp.issued_at + 1, warp.ready
        waited = (ready if ready < now else now) - last
        if waited > 0:
            self._add(warp.reason, waited)
        late = now - (ready if ready > last else last) - warp.charged
        if late > 0:
            self._add("not_selected", late)

    def _add(self, reason: str, cycles: float) -> None:
        self._stalls[reason] = self._stalls.get(reason, 0.0) + cycles
