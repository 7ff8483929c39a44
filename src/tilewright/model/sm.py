"""One SM, cycle by cycle: the warps that are resident issue their instructions, and wait.

Each of the four partitions issues at most one instruction a cycle, of the warp that issued last if
it can, else of the oldest that can. A warp cannot before the stall count of its last instruction
has passed, the scoreboards that its next one names are clear, and that one's pipe, its queue and
the register banks are free. The times at which results come are known when an instruction issues:
every unit behind the pipes is a server with a rate, and what comes later waits in line.

Every cycle that a warp waits is charged to one reason, by the names that the profiler has for them.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.model.machine import Machine
from tilewright.model.operations import Operation
from tilewright.model.traffic import Hits

PARTITIONS = 4
_NEVER = float("inf")
_MEMORY = frozenset({"shared", "global", "shuffle"})
# Pipes whose instructions touch nothing outside their partition, and give results in fixed time.
_PLAIN = frozenset({"fma", "alu", "imad", "uniform"})
_LONGEST_SPAN = 64
# Pipes that are reached through the queue of the memory unit.
_QUEUED = frozenset({"shared", "shuffle", "constant", "special", "xu"})


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
    block: int
    at: int = 0
    ready: float = 0.0  # when the stall count and the scoreboards let the next instruction issue
    reason: str = "wait"  # what it waits for until then
    issued_at: float = -1.0
    held: float = 0.0  # until when its wait since it was ready is charged, and how much of it is
    charged: float = 0.0
    boards: list[float] = field(default_factory=lambda: [0.0] * 6)
    owners: list[str] = field(default_factory=lambda: ["long_scoreboard"] * 6)


@dataclass(frozen=True, slots=True)
class _Span:
    """Plain instructions of a path that one warp issues one after the other, and the cycles it takes.

    The warp that issued last goes first, so nothing comes between them but register bank conflicts.
    """

    operations: tuple[Operation, ...]
    pipes: tuple[tuple[str, int], ...]
    times: dict[tuple[int, int], tuple[int, int, int]]


@dataclass(slots=True)
class _Partition:
    warps: list[int]
    last: int = -1
    until: float = 0.0  # issues a span
    pipes: dict[str, float] = field(default_factory=dict)
    banks: list[float] = field(default_factory=lambda: [0.0, 0.0])
    near: deque[float] = field(default_factory=deque)  # when queued shared accesses start
    far: deque[float] = field(default_factory=deque)  # and global ones


class Sm:
    """The simulation of one set of resident blocks, all of whose warps take the same path.

    `sms` are the SMs that share the L2 and the DRAM at the same time.
    """

    def __init__(
        self,
        machine: Machine,
        operations: Sequence[Operation],
        path: Sequence[int],
        hits: Hits,
        *,
        blocks: int,
        warps_per_block: int,
        sms: int,
    ) -> None:
        self.machine, self.path, self.hits = machine, path, hits
        self.operations = operations
        count = blocks * warps_per_block
        self.warps = [_Warp(block=w // warps_per_block) for w in range(count)]
        self.partitions = [
            _Partition(warps=[w for w in range(count) if w % PARTITIONS == p])
            for p in range(PARTITIONS)
        ]
        self.waiting: list[list[int]] = [[] for _ in range(blocks)]
        self.alive = [warps_per_block] * blocks
        self.lsu = self.l2 = self.dram = self.barrier = 0.0
        self.l2_rate = machine.l2_bytes_per_cycle / sms
        self.dram_rate = machine.dram_bytes_per_cycle / sms
        self.credit: dict[int, float] = {}
        self.fetched: dict[int, float] = {}
        self.stalls: dict[str, float] = {}
        self.busy: dict[str, float] = {}
        self.end = 0.0
        self.issued = 0
        self.spans = _spans(operations, path, machine)
        self._woken: set[int] = set()
        self._wake_at = 0.0
        self.next: dict[int, float] = {}

    def run(self) -> Simulated:
        """Run until every warp has come to the end of its path."""
        events = [(0.0, p) for p in range(PARTITIONS) if self.partitions[p].warps]
        heapq.heapify(events)
        self.next = dict.fromkeys((p for _, p in events), 0.0)
        while events:
            now, number = heapq.heappop(events)
            if now > self.next.get(number, _NEVER):
                continue
            partition = self.partitions[number]
            after = self._step(now, partition)
            if after is not None and after < _NEVER:
                self.next[number] = after
                heapq.heappush(events, (after, number))
            elif partition.warps:
                self.next[number] = _NEVER  # all wait at a barrier: its release wakes them
            for other in self._woken:
                if self.next.get(other, _NEVER) > self._wake_at:
                    self.next[other] = self._wake_at
                    heapq.heappush(events, (self._wake_at, other))
            self._woken.clear()
        return Simulated(cycles=self.end, issued=self.issued, stalls=self.stalls, busy=self.busy)

    def _step(self, now: float, partition: _Partition) -> float | None:
        """Issue one instruction if a warp can; return when to look again."""
        if now < partition.until:
            return partition.until
        soonest = _NEVER
        chosen = -1
        order = partition.warps
        if partition.last in order:
            place = order.index(partition.last)
            order = order[place:] + order[:place]
        full: dict[str, tuple[float, str]] = {}  # the pipes that take nothing now
        for number in order:
            warp = self.warps[number]
            if warp.ready > now:
                if warp.ready < soonest:
                    soonest = warp.ready
                continue
            op = self.operations[self.path[warp.at]]
            taken = full.get(op.pipe)
            if taken is None:
                taken = self._taken_until(now, partition, op.pipe)
                if taken[0] > now:
                    full[op.pipe] = taken
            free, why = taken
            if free <= now:
                behind = self._operands_at(partition, op)
                if behind <= now:
                    chosen = number
                    break
                # It was picked, and holds the partition up until its operands are read.
                self._hold(warp, now, behind, "dispatch_stall")
                return math.ceil(behind)
            self._hold(warp, now, free, why)
            if free < soonest:
                soonest = free
        if chosen < 0:
            return soonest if soonest == _NEVER else math.ceil(soonest)
        span = self.spans.get(self.warps[chosen].at)
        if span is not None:
            return self._issue_span(now, partition, chosen, span)
        self._issue(now, partition, chosen)
        return now + 1 if partition.warps else None

    def _issue_span(self, now: float, partition: _Partition, number: int, span: _Span) -> float:
        warp = self.warps[number]
        self._charge(warp, now)
        length = len(span.operations)
        behind = [max(math.ceil(bank - now), 0) for bank in partition.banks]
        cycles, first, second = _span_time(span, behind[0], behind[1], self.machine)
        late = cycles - length
        if late:
            self.stalls["dispatch_stall"] = self.stalls.get("dispatch_stall", 0.0) + late
        self.issued += length
        partition.last = number
        partition.until = end = now + cycles
        partition.banks[:] = [end + first, end + second]
        for pipe, worked in span.pipes:
            partition.pipes[pipe] = end - 1 + self.machine.interval.get(pipe, 1)
            self.busy[pipe] = self.busy.get(pipe, 0.0) + worked
        warp.at += length
        warp.issued_at, warp.charged = end - 1, 0.0
        warp.ready, warp.reason = end - 1 + span.operations[-1].stall, "wait"
        self._wait_for_boards(warp)
        return end

    def _taken_until(self, now: float, partition: _Partition, pipe: str) -> tuple[float, str]:
        """When a pipe and its queue take another instruction, and what keeps them."""
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
        return (queue[0], why) if len(queue) >= self.machine.queue else (now, "")

    def _operands_at(self, partition: _Partition, op: Operation) -> float:
        """When the register banks are no more than a cycle behind."""
        banks = partition.banks
        first = banks[0] if op.reads[0] else 0.0
        second = banks[1] if op.reads[1] else 0.0
        return max(first, second) - 1

    def _hold(self, warp: _Warp, now: float, until: float, why: str) -> None:
        """Charge a ready warp's wait for a pipe, a queue or operands."""
        since = max(now, warp.held)
        if until > since:
            self.stalls[why] = self.stalls.get(why, 0.0) + until - since
            warp.charged += until - since
            warp.held = until

    def _issue(self, now: float, partition: _Partition, number: int) -> None:
        warp = self.warps[number]
        op = self.operations[self.path[warp.at]]
        self._charge(warp, now)
        self.issued += 1
        partition.last = number
        partition.pipes[op.pipe] = now + self.machine.interval.get(op.pipe, 1)
        self.busy[op.pipe] = self.busy.get(op.pipe, 0.0) + self.machine.interval.get(op.pipe, 1)
        for bank in (0, 1):
            if op.reads[bank]:
                partition.banks[bank] = max(partition.banks[bank], now) + op.reads[bank]
        result, read = self._execute(now, partition, op)
        self.end = max(self.end, result)
        kind = "long_scoreboard" if op.pipe == "global" else "short_scoreboard"
        for board, until in ((op.write_barrier, result), (op.read_barrier, read)):
            if board >= 0 and until >= warp.boards[board]:
                warp.boards[board], warp.owners[board] = until, kind
        warp.at += 1
        warp.issued_at, warp.charged = now, 0.0
        warp.ready, warp.reason = now + op.stall, "wait"
        if warp.at == len(self.path):
            partition.warps.remove(number)
            self._leave(now, warp.block)
        elif op.pipe == "barrier":
            warp.ready = _NEVER
            self.waiting[warp.block].append(number)
            start = max(now, self.barrier)
            self.barrier = start + 2
            self._release(start, warp.block)
        else:
            self._wait_for_boards(warp)

    def _wait_for_boards(self, warp: _Warp) -> None:
        wait = self.operations[self.path[warp.at]].wait
        board = 0
        while wait:
            if wait & 1 and warp.boards[board] > warp.ready:
                warp.ready, warp.reason = warp.boards[board], warp.owners[board]
            wait >>= 1
            board += 1

    def _leave(self, now: float, block: int) -> None:
        self.alive[block] -= 1
        self._release(now, block)

    def _release(self, now: float, block: int) -> None:
        """Let a block's warps go on once all that are alive have come to its barrier."""
        waiting = self.waiting[block]
        if not waiting or len(waiting) < self.alive[block]:
            return
        at = now + self.machine.latency["bar"]
        for number in waiting:
            warp = self.warps[number]
            warp.ready, warp.reason = at, "barrier"
            self._wait_for_boards(warp)
            self._woken.add(number % PARTITIONS)
        self._wake_at = at
        waiting.clear()

    def _execute(self, now: float, partition: _Partition, op: Operation) -> tuple[float, float]:
        """When an operation's result is there, and when its operands are read."""
        latency = self.machine.latency
        if op.pipe in _MEMORY and not self._takes_part(op):
            return now + 12, now + 8
        if op.pipe == "shared":
            cost = max(op.wavefronts, 32 / self.machine.lsu_lanes)
            start = self._through_lsu(now, cost, partition.near)
            late = max(latency[f"lds{_bits(op.size)}"], latency["lds32"] + 2 * (cost - 1))
            return start + late, start + 8
        if op.pipe == "shuffle":
            start = self._through_lsu(now, 32 / self.machine.lsu_lanes, partition.near)
            return start + latency["shfl"], start + 8
        if op.pipe == "global":
            return self._global(now, partition, op)
        if op.pipe in ("xu", "fp64", "constant", "special"):
            name = {"constant": "const"}.get(op.pipe, op.pipe)
            return now + latency[name], now + 8
        return now + op.stall, now + 2

    def _global(self, now: float, partition: _Partition, op: Operation) -> tuple[float, float]:
        cost = max(
            op.wavefronts,
            op.size / 4,
            32 / self.machine.lsu_lanes,
            op.lines / self.machine.l1_tags,
        )
        start = self._through_lsu(now, cost, partition.far)
        latency = self.machine.latency
        result = start + max(latency[f"l1_{_bits(op.size)}"], latency["l1_32"] + 2 * (cost - 1))
        hit = self.hits.of(op.index)
        far = self._due(op.index * 2, hit.missing)
        if not far and op.load:
            if hit.pending and self._due(op.index * 2 + (1 << 40), hit.pending):
                result = max(result, self.fetched.get(op.index, 0.0))
            return result, start + 8
        size = 32 * hit.sectors
        self.l2 = max(self.l2, start) + size / self.l2_rate
        self.busy["l2"] = self.busy.get("l2", 0.0) + size / self.l2_rate
        result = max(result, self.l2 + self.machine.latency["l2"])
        if hit.dram > 0:
            self.dram = max(self.dram, start) + size * hit.dram / self.dram_rate
            self.busy["dram"] = self.busy.get("dram", 0.0) + size * hit.dram / self.dram_rate
            if self._due(op.index * 2 + 1, hit.cold):
                result = max(result, self.dram + self.machine.latency["dram"])
        if not op.load:
            return start + 8, start + 8
        self.fetched[op.index] = result
        return result, start + 8

    def _through_lsu(self, now: float, cost: float, queue: deque[float]) -> float:
        start = max(now + 2, self.lsu)
        self.lsu = start + cost
        self.busy["lsu"] = self.busy.get("lsu", 0.0) + cost
        queue.append(start)
        return start

    def _takes_part(self, op: Operation) -> bool:
        return op.share >= 1 or self._due(-1 - op.index, op.share)

    def _due(self, key: int, share: float) -> bool:
        """Whether an event that happens to `share` of all executions happens to this one."""
        if share >= 1:
            return True
        if share <= 0:
            return False
        credit = self.credit.get(key, 0.5) + share
        self.credit[key] = credit - 1 if credit >= 1 else credit
        return credit >= 1

    def _charge(self, warp: _Warp, now: float) -> None:
        """Charge what the warp waited since its last instruction."""
        if warp.issued_at < 0:
            return
        waited = max(min(warp.ready, now) - warp.issued_at - 1, 0.0)
        if waited:
            self.stalls[warp.reason] = self.stalls.get(warp.reason, 0.0) + waited
        late = now - max(warp.ready, warp.issued_at + 1) - warp.charged
        if late > 0:
            self.stalls["not_selected"] = self.stalls.get("not_selected", 0.0) + late


def _bits(size: int) -> int:
    return 32 if size <= 4 else 64 if size <= 8 else 128


def _spans(
    operations: Sequence[Operation], path: Sequence[int], machine: Machine
) -> dict[int, _Span]:
    """Return the spans of a path by where they start."""
    found: dict[int, _Span] = {}
    last = len(path) - 1
    start = 0
    while start < last:
        end = start
        while end < last and end - start < _LONGEST_SPAN and _plain(operations[path[end]]):
            op = operations[path[end]]
            if end > start and op.wait:
                break
            if end > start and op.pipe != "fma" and operations[path[end - 1]].pipe == op.pipe:
                break
            end += 1
            if op.stall != 1:
                break
        if end - start > 1:
            found[start] = _span([operations[i] for i in path[start:end]], machine)
        start = max(end, start + 1)
    return found


def _plain(op: Operation) -> bool:
    return op.pipe in _PLAIN and op.write_barrier < 0 and op.read_barrier < 0


def _span(operations: Sequence[Operation], machine: Machine) -> _Span:
    pipes: dict[str, int] = {}
    for op in operations:
        pipes[op.pipe] = pipes.get(op.pipe, 0) + machine.interval.get(op.pipe, 1)
    return _Span(tuple(operations), tuple(pipes.items()), {})


def _span_time(span: _Span, first: int, second: int, machine: Machine) -> tuple[int, int, int]:
    """Time a span whose register banks are so many cycles behind: its cycles, and theirs after it.

    A bank gives one register a cycle, and an instruction issues when its banks are no more than a
    cycle behind.
    """
    found = span.times.get((first, second))
    if found is None:
        now, banks = 0, [first, second]
        for op in span.operations:
            late = max(banks[0] if op.reads[0] else 0, banks[1] if op.reads[1] else 0)
            now = max(now, late - 1)
            for bank in (0, 1):
                if op.reads[bank]:
                    banks[bank] = max(banks[bank], now) + op.reads[bank]
            now += machine.interval["fma"] if op.pipe == "fma" else 1
        found = (now, max(banks[0] - now, 0), max(banks[1] - now, 0))
        span.times[first, second] = found
    return found
