"""What lies behind the pipes of an SM: the load-store unit, its L1, and its part of L2 and DRAM.

Every unit is a server with a rate: what comes later waits in line. The times at which results come
are therefore known when an instruction issues.

The load-store unit has two servers, each of which takes two cycles for a pass. What one warp sends
it serves one after the other. It looks at the first instructions of its queue alone: one may
overtake few others that wait for their warp's. Each partition has a queue before that one.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

from tilewright.model.arrivals import Arrivals, Turns
from tilewright.model.machine import Machine
from tilewright.model.operations import Operation
from tilewright.model.traffic import SECTOR_BYTES, Hit, Hits

# Pipes whose instructions do nothing where every lane is predicated off.
_MEMORY = frozenset({"shared", "global", "shuffle"})
# The latency's name where it is not the pipe's.
_LATENCY_OF = {"constant": "const", "xu": "xu", "fp64": "fp64", "special": "special"}

# Cycles, all assumed: from issue to the load-store unit, from there until the registers of an
# instruction have been read, and until one is done that no lane takes part in.
_TO_UNIT = 2
_TO_READ = 8
_WITHOUT_LANES = 12
# Cycles, measured, sm_90: of a server for a pass, and so of a result for each pass behind its first
# (one warp: stream-lds*-four-way, 2.0; four warps of a partition take half of that), and for each
# register that goes from a partition to the unit (stream-sts*, stream-ldg*-l1).
_PASS = _OUT = 2
_SERVERS = 2
# Cycles for which a line that an SM asks the L2 for takes its way there, whether for one sector or
# four: measured, sm_90, 4.4, 8.1 and 16.1 for LDG.128 of 4, 8 and 16 lines.
_LINE = 1.0
# Memory instructions that the unit holds of all partitions, beside the partitions' own queues:
# loads with four-way conflicts fill both, 28 of one warp, 13 a partition with all four.
_HELD = 20
# ... and of these the first ones, in the order of their issue, among which it finds one to serve.
# Measured, sm_90: beside 16 loads of one warp, each served for 8 or 16 cycles, a load of another
# partition waits 37 or 136 cycles at most; beside 64 loads, which fill the unit, 118.
_WINDOW = 4


class Queue(deque[float]):
    """When the memory instructions that a partition queued leave for the unit.

    `out` is when its way there is free.
    """

    out: float = 0.0


class Way:
    """When the unit is ready for a warp's next instruction: it takes them in their order."""

    free: float = 0.0


class Units:
    """The memory units as one SM sees them, with the time until which each is taken.

    `sms` SMs share the L2 and the DRAM. `busy` are the cycles that each unit worked. Blocks that
    run `together` reach what they share at the same time: all wait for the one fetch.
    """

    def __init__(
        self, machine: Machine, hits: Hits, *, sms: int, warps_per_block: int, together: bool
    ) -> None:
        self.busy: dict[str, float] = {}
        self._machine, self.hits = machine, hits
        self._lanes = 32 / machine.lsu_lanes  # cycles for the addresses of a warp
        self._servers = [0.0] * _SERVERS
        self._held: list[float] = []  # the latest times at which it serves, in their order
        self._l2 = self._dram = 0.0
        self._l2_rate = machine.l2_bytes_per_cycle / sms
        self._l2_stores = machine.l2_stores_per_cycle / sms
        self._dram_rate = machine.dram_bytes_per_cycle / sms
        self._turns = Turns()
        self._arrivals = Arrivals(
            self._turns, machine.latency, warps_per_block=warps_per_block, together=together
        )
        self._fetched: dict[int, float] = {}

    def execute(
        self, now: float, op: Operation, queue: Queue, block: int, way: Way
    ) -> tuple[float, float]:
        """Return when the result of a block's operation is there, and when its operands are read.

        `queue` takes the time at which a memory instruction leaves it.
        """
        if op.pipe in _MEMORY and not self._turns.due("lanes", op.index, op.share):
            return now + _WITHOUT_LANES, now + _TO_READ
        latency = self._machine.latency
        if op.pipe == "shared":
            cost = max(op.wavefronts, self._lanes)
            start = self._through_lsu(now, cost, queue, way, op)
            late = latency["lds"] + _PASS * (max(op.wavefronts, 1) - 1)
            return start - _TO_UNIT + late, start + _TO_READ
        if op.pipe == "shuffle":
            start = self._through_lsu(now, self._lanes, queue, way, op)
            return start - _TO_UNIT + latency["shfl"], start + _TO_READ
        if op.pipe == "global":
            return self._global(now, op, queue, block, way)
        if op.pipe == "membar":  # what went before is seen by all once the L2 has said so
            done = max(now, self._l2) + latency["membar"]
            return done, done
        if op.pipe in _LATENCY_OF:
            return now + latency[_LATENCY_OF[op.pipe]], now + _TO_READ
        return now + op.stall, now + 2

    def _global(
        self, now: float, op: Operation, queue: Queue, block: int, way: Way
    ) -> tuple[float, float]:
        latency, machine = self._machine.latency, self._machine
        passes = max(op.wavefronts, op.size / 4, op.lines / machine.l1_tags)
        hit = self.hits.of(op.index)
        taken = 0.0 if op.load else self._taken(op, hit)
        cost = max(passes, self._lanes, taken)
        start = self._through_lsu(now, cost, queue, way, op)
        late = latency["l1"] + _PASS * (passes - 1)
        result = start - _TO_UNIT + late
        self._arrivals.count(block, op.index)
        if not self._turns.due("missing", op.index, hit.missing) and op.load:
            # `pending` is a share of all requests, and these are the ones that hit.
            waits = hit.pending and hit.pending / (1 - hit.missing)
            if self._turns.due("pending", op.index, waits):
                result = max(result, self._fetched.get(op.index, 0.0))
            return result, start + _TO_READ
        result = max(result, self._fetch(now, start, op, hit, block))
        if not op.load:
            return start + _TO_READ, start + _TO_READ
        self._fetched[op.index] = result
        return result, start + _TO_READ

    def _taken(self, op: Operation, hit: Hit) -> float:
        """Return how long a store is at the unit: until its sectors have gone to the L2.

        Of the L2's way others' share is used. Sectors that are not full cost both sides more.
        """
        machine = self._machine
        leaving = hit.sectors + op.partial * op.lines
        more = (machine.partial_sector - 1) * hit.sectors + machine.partial_line * op.lines
        coming = (hit.sectors + op.partial * more) * op.blocks
        sent, received = leaving / machine.sm_stores_per_cycle, coming / self._l2_stores
        return SECTOR_BYTES * max(sent, received)

    def _fetch(self, now: float, start: float, op: Operation, hit: Hit, block: int) -> float:
        """Return when the sectors that a request lacks are there: the last of its lines."""
        machine, latency = self._machine, self._machine.latency
        size, lines = SECTOR_BYTES * hit.sectors, max(op.lines, 1)
        cost = max(size * op.blocks / self._l2_rate, _LINE * op.lines)
        self._l2 = max(self._l2, start) + cost
        self._work("l2", cost)
        # Lines are as far as chance has it, evenly: the last of so many is as the root of one is.
        last: float = self._turns.draw() ** (1 / lines)
        late = latency["l2"] + machine.l2_spread * (last - 0.5)
        if not hit.dram:
            return self._l2 + late
        spent = size * hit.dram * op.blocks / self._dram_rate
        self._dram = max(self._dram, start) + spent
        self._work("dram", spent)
        arrival = self._arrivals.of(now, block, op.index, hit.dram)
        if arrival.other and self._turns.due("other half", op.index, 1 - 0.5**lines):
            late += machine.l2_far
        if arrival.fetches:
            # The latency of a miss is a mean of both halves.
            far = late - machine.l2_far / 2 + latency["dram"] - latency["l2"]
            return max(self._l2 + late, self._dram + far)
        return self._l2 + late + arrival.rest * (latency["dram"] - latency["l2"])

    def _through_lsu(self, now: float, cost: float, queue: Queue, way: Way, op: Operation) -> float:
        """Return when the load-store unit serves an instruction that costs it so many cycles.

        Latencies count from the issue: what is waited for beyond `_TO_UNIT` adds to them.
        """
        leaves = max(now + _TO_UNIT, queue.out)
        if len(self._held) == _HELD:
            leaves = max(leaves, self._held[0])
        queue.append(leaves)
        queue.out = leaves + _OUT * max(sum(op.reads), 1)
        ready = max(leaves, way.free)
        # Of the servers that are free, the one that has been so for the shortest time: before it
        # the other may serve what is yet to come. Else the first that will be.
        free = [each for each in self._servers if each <= ready]
        taken = self._servers.index(max(free) if free else min(self._servers))
        start = max(ready, self._servers[taken])
        if len(self._held) >= _WINDOW:  # when all but three of those before it have been served
            start = max(start, self._held[-_WINDOW])
        self._servers[taken] = way.free = start + _PASS * cost
        insort(self._held, start)
        del self._held[:-_HELD]
        self._work("lsu", cost)
        return start

    def _work(self, unit: str, cycles: float) -> None:
        self.busy[unit] = self.busy.get(unit, 0.0) + cycles
