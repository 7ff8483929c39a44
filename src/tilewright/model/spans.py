"""Runs of arithmetic that one warp issues in one go: the simulation of an SM takes them as a whole.

Most of a GEMM's instructions are multiply-adds with a stall count of 1. Nothing comes between them,
since the warp that issued last goes first; register banks alone hold them up.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.model.machine import Machine
from tilewright.model.operations import Operation

# Pipes whose instructions touch nothing outside their partition, and give results in fixed time.
_PLAIN = frozenset({"fma", "alu", "imad", "uniform"})
LONGEST = 64  # instructions; the other warps of the partition look again after each span


class Span:
    """Plain instructions of a path, one after the other.

    Units: `pipes` cycles that each pipe works for all of them; `stall` cycles from the last one's
    issue to the warp's next.
    """

    __slots__ = ("_fma_interval", "_reads", "_times", "length", "pipes", "stall")

    def __init__(self, operations: Sequence[Operation], machine: Machine) -> None:
        self.length = len(operations)
        self.stall = operations[-1].stall
        self.pipes: dict[str, int] = {}
        for op in operations:
            self.pipes[op.pipe] = self.pipes.get(op.pipe, 0) + machine.interval.get(op.pipe, 1)
        self._reads = [(op.reads, op.pipe == "fma") for op in operations]
        self._fma_interval = machine.interval["fma"]
        self._times: dict[tuple[int, int], tuple[int, int, int]] = {}

    def time(self, first: int, second: int) -> tuple[int, int, int]:
        """Return the cycles from banks that are `first`, `second` behind, and theirs after it.

        A bank gives one register a cycle, and an instruction issues when its banks are no more
        than a cycle behind.
        """
        found = self._times.get((first, second))
        if found is None:
            now, banks = 0, [first, second]
            for reads, multiplies in self._reads:
                late = max(banks[0] if reads[0] else 0, banks[1] if reads[1] else 0)
                now = max(now, late - 1)
                for bank in (0, 1):
                    if reads[bank]:
                        banks[bank] = max(banks[bank], now) + reads[bank]
                now += self._fma_interval if multiplies else 1
            found = (now, max(banks[0] - now, 0), max(banks[1] - now, 0))
            self._times[first, second] = found
        return found


def spans(
    operations: Sequence[Operation], path: Sequence[int], machine: Machine
) -> dict[int, Span]:
    """Return the spans of a path by where they start; the path's last instruction is in none."""
    found: dict[int, Span] = {}
    last = len(path) - 1
    start = 0
    while start < last:
        end = _end(operations, path, start, last)
        if end - start > 1:
            found[start] = Span([operations[i] for i in path[start:end]], machine)
        start = max(end, start + 1)
    return found


def _end(operations: Sequence[Operation], path: Sequence[int], start: int, last: int) -> int:
    """Return where the span that starts here ends: at a wait, a busy pipe or a longer stall."""
    end = start
    while end < last and end - start < LONGEST and _plain(operations[path[end]]):
        op = operations[path[end]]
        if end > start:
            before = operations[path[end - 1]]
            if op.wait or (op.pipe != "fma" and before.pipe == op.pipe):
                break
        end += 1
        if op.stall != 1:
            break
    return end


def _plain(op: Operation) -> bool:
    return op.pipe in _PLAIN and op.write_barrier < 0 and op.read_barrier < 0
