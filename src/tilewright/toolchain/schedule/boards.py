"""Scoreboards: which a load or a copy holds, and which instructions wait for it.

A turn starts and ends with nothing in flight but the copies that DEPBAR counts: its first
instruction waits for whatever code before the loop has left, its branch for its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright.errors import UnsupportedError
from tilewright.toolchain.control import Control
from tilewright.toolchain.schedule.distances import Event

BOARDS = 6


def counted(lines: Iterable[tuple[str, Control]]) -> frozenset[int]:
    """Return the scoreboards that count groups of copies, of a loop's (opcode, control) pairs.

    Raises:
        UnsupportedError: an instruction that waits for one of them to be clear.
    """
    pairs = list(lines)
    found = frozenset(
        control.write_barrier
        for opcode, control in pairs
        if opcode == "LDGDEPBAR" and control.write_barrier is not None
    )
    if any(control.wait >> board & 1 for _, control in pairs for board in found):
        raise UnsupportedError("an instruction of the loop waits for all of its copies")
    return found


@dataclass(slots=True)
class InFlight:
    """What instructions in flight still read and write, by scoreboard."""

    reads: dict[int, set[str]] = field(default_factory=dict)
    writes: dict[int, set[str]] = field(default_factory=dict)

    def add(self, now: Event, write_board: int | None, read_board: int | None) -> None:
        """Let an instruction hold scoreboards until its operands are read, its results written."""
        reads, writes = _general(now.reads), _general(now.writes)
        if write_board is not None:
            self.writes.setdefault(write_board, set()).update(writes)
        for board in (write_board, read_board):
            if board is not None:
                self.reads.setdefault(board, set()).update(reads)

    def needed(self, now: Event) -> int:
        """Return the scoreboards that an instruction must have waited for, a bit for each."""
        reads, writes = {*now.reads, now.guard}, {*now.writes}
        return sum(
            1 << board
            for board in {*self.reads, *self.writes}
            if not (reads | writes).isdisjoint(self.writes.get(board, ()))
            or not writes.isdisjoint(self.reads.get(board, ()))
        )

    def held(self) -> int:
        """Return the scoreboards that are held, a bit for each."""
        return sum(1 << board for board in {*self.reads, *self.writes})

    def clear(self, wait: int) -> None:
        """Take away what an instruction with this wait mask has waited for."""
        for board in range(BOARDS):
            if wait >> board & 1:
                self.reads.pop(board, None)
                self.writes.pop(board, None)


def _general(names: Iterable[str]) -> set[str]:
    """Return the general registers: uniform ones and predicates are read when it issues."""
    return {name for name in names if name[0] == "R"}
