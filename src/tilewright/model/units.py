"""What lies behind the pipes of an SM: the load-store unit, its L1, and its part of L2 and DRAM.

Every unit is a server with a rate: what comes later waits in line. The times at which results come
are therefore known when an instruction issues.
"""

from __future__ import annotations

from collections import deque

from tilewright.model.machine import Machine
from tilewright.model.operations import Operation
from tilewright.model.traffic import SECTOR_BYTES, Hits

# Pipes whose instructions do nothing where every lane is predicated off.
_MEMORY = frozenset({"shared", "global", "shuffle"})
# The latency's name where it is not the pipe's.
_LATENCY_OF = {"constant": "const", "xu": "xu", "fp64": "fp64", "special": "special"}

# Cycles, all assumed: from issue to the load-store unit, from there until the registers of an
# instruction have been read, and until one is done that no lane takes part in.
_TO_UNIT = 2
_TO_READ = 8
_WITHOUT_LANES = 12
# Cycles for which a pass through the load-store unit, or a register that it writes, takes the way
# of its partition. Measured, sm_90, one warp: two-way, four-way conflicts (stream-lds*-four-way)
# 2.0 a pass; stream-lds128-uniform 8 of two passes, as many as stream-lds128-unit of four.
_PORT = 2


class Queue(deque[float]):
    """When the memory instructions that a partition queued start; `port` when its way is free."""

    port: float = 0.0


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
        self._lsu = self._l2 = self._dram = 0.0
        self._l2_rate = machine.l2_bytes_per_cycle / sms
        self._dram_rate = machine.dram_bytes_per_cycle / sms
        self._together, self._warps_per_block = together, warps_per_block
        self._turns: dict[tuple[int, int], tuple[int, bool]] = {}
        self._credit: dict[tuple[str, int], float] = {}
        self._fetched: dict[int, float] = {}

    def execute(self, now: float, op: Operation, queue: Queue, block: int) -> tuple[float, float]:
        """Return when the result of a block's operation is there, and when its operands are read.

        `queue` takes the time at which a memory instruction leaves it.
        """
        if op.pipe in _MEMORY and not self._due("lanes", op.index, op.share):
            return now + _WITHOUT_LANES, now + _TO_READ
        latency = self._machine.latency
        if op.pipe == "shared":
            cost = max(op.wavefronts, self._lanes)
            start = self._through_lsu(now, cost, queue, _words(op))
            late = max(latency[f"lds{_bits(op.size)}"], latency["lds32"] + 2 * (cost - 1))
            return start - _TO_UNIT + late, start + _TO_READ
        if op.pipe == "shuffle":
            start = self._through_lsu(now, self._lanes, queue)
            return start - _TO_UNIT + latency["shfl"], start + _TO_READ
        if op.pipe == "global":
            return self._global(now, op, queue, block)
        if op.pipe in _LATENCY_OF:
            return now + latency[_LATENCY_OF[op.pipe]], now + _TO_READ
        return now + op.stall, now + 2

    def _global(self, now: float, op: Operation, queue: Queue, block: int) -> tuple[float, float]:
        machine, latency = self._machine, self._machine.latency
        cost = max(op.wavefronts, op.size / 4, self._lanes, op.lines / machine.l1_tags)
        start = self._through_lsu(now, cost, queue, _words(op))
        late = max(latency[f"l1_{_bits(op.size)}"], latency["l1_32"] + 2 * (cost - 1))
        result = start - _TO_UNIT + late
        hit = self.hits.of(op.index)
        if not self._due("missing", op.index, hit.missing) and op.load:
            # `pending` is a share of all requests, and these are the ones that hit.
            if hit.pending and self._due("pending", op.index, hit.pending / (1 - hit.missing)):
                result = max(result, self._fetched.get(op.index, 0.0))
            return result, start + _TO_READ
        size = SECTOR_BYTES * hit.sectors
        self._l2 = max(self._l2, start) + size / self._l2_rate
        self._work("l2", size / self._l2_rate)
        result = max(result, self._l2 + latency["l2"])
        if hit.dram > 0:
            self._dram = max(self._dram, start) + size * hit.dram / self._dram_rate
            self._work("dram", size * hit.dram / self._dram_rate)
            if self._together or self._leads(block, op.index, hit.dram):
                result = max(result, self._dram + latency["dram"])
        if not op.load:
            return start + _TO_READ, start + _TO_READ
        self._fetched[op.index] = result
        return result, start + _TO_READ

    def _leads(self, block: int, index: int, share: float) -> bool:
        """Whether a block is the first to reach what its warps ask for with this instruction.

        It is for `share` of the times, and then for all of its warps.
        """
        count, leads = self._turns.get((block, index), (0, False))
        if count % self._warps_per_block == 0:
            leads = self._due("leads", index, share)
        self._turns[block, index] = count + 1, leads
        return leads

    def _through_lsu(self, now: float, cost: float, queue: Queue, words: float = 0) -> float:
        """Return when the load-store unit takes an instruction that costs it so many cycles.

        `words` are the registers that it writes.

        Latencies count from the issue: what is waited for beyond `_TO_UNIT` adds to them.
        """
        start = max(now + _TO_UNIT, self._lsu, queue.port)
        # While a partition's way is taken, the unit serves the others.
        self._lsu = max(now + _TO_UNIT, self._lsu) + cost
        queue.port = start + _PORT * max(cost, words)
        self._work("lsu", cost)
        queue.append(start)
        return start

    def _work(self, unit: str, cycles: float) -> None:
        self.busy[unit] = self.busy.get(unit, 0.0) + cycles

    def _due(self, event: str, index: int, share: float) -> bool:
        """Whether an event that happens to `share` of all executions happens to this one."""
        if share >= 1:
            return True
        if share <= 0:
            return False
        credit = self._credit.get((event, index), 0.5) + share
        self._credit[event, index] = credit - 1 if credit >= 1 else credit
        return credit >= 1


def _words(op: Operation) -> float:
    return op.size / 4 if op.load else 0


def _bits(size: int) -> int:
    return 32 if size <= 4 else 64 if size <= 8 else 128
