"""How many cycles lie between instructions that depend on one another: results come in fixed time.

Nothing in hardware holds an instruction back until a fixed-latency result is there: stall counts
do. How many cycles a pair needs is not documented, but ptxas keeps to it, so the least distance
that it leaves, over a whole kernel, between two instructions of these names is enough for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.code import Code, Line
from tilewright.toolchain.schedule.encode import LONGEST_STALL, Encoded
from tilewright.toolchain.schedule.operands import FIXED, Operands, never_runs

# No fixed latency is as long. The longest distance that ptxas is seen to keep on sm_90 is 13, from
# ISETP to the instruction that it guards.
ENOUGH = 24
# From one FFMA to another that adds to its result. Source: Jia et al., arXiv 1804.06826, table of
# latencies; ptxas keeps the same on sm_90 (a test compiles a chain).
FFMA_LATENCY = 4
# From an instruction that takes a scoreboard to one that waits for it: ptxas keeps 5 after an LDS.
BOARD_LATENCY = 5

_MEMORY = "memory"  # stands for what barriers, waits and accesses of shared memory order
_ORDERING = frozenset({"BAR", "DEPBAR", "LDGDEPBAR"})
_ACCESSES = frozenset({"LDS", "LDGSTS"})

Pair = tuple[str, str, str, str]  # relation, first and second instruction, kind of register


class Event(NamedTuple):
    """An instruction as far as its time matters: what it touches, and whether in fixed time."""

    name: str
    fixed: bool
    guard: str | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def event(line: Line, ops: Operands | None = None) -> Event:
    """Return the event of an instruction, with these operands if it has got others."""
    ops = ops or line.ops
    opcode = line.ins.opcode
    reads, writes = ops.reads, ops.writes
    if opcode in _ORDERING:
        reads, writes = (*reads, _MEMORY), (*writes, _MEMORY)
    elif opcode in _ACCESSES and not never_runs(line.ins):
        reads = (*reads, _MEMORY)
    fixed = opcode in FIXED or opcode in _ORDERING
    return Event(line.ins.mnemonic, fixed, ops.predicate, reads, writes)


class Clock:
    """Goes through instructions as they issue, and knows what each must keep away from."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[Event, int, int]] = {}
        self._read: dict[str, dict[str, tuple[int, int]]] = {}

    def pairs(self, now: Event) -> Iterable[tuple[Pair, int, int]]:
        """Yield each pair that ends here: its name, the first one's time and its number."""
        for register in now.reads if now.guard is None else (*now.reads, now.guard):
            if (found := self._written.get(register)) is not None:
                second = f"@{now.name}" if register == now.guard else now.name
                yield ("result", found[0].name, second, _kind(register)), found[1], found[2]
        for register in now.writes:
            kind = _kind(register)
            if (found := self._written.get(register)) is not None:
                yield ("overwritten", found[0].name, now.name, kind), found[1], found[2]
            for name, (time, number) in self._read.get(register, {}).items():
                yield ("read", name, now.name, kind), time, number

    def take(self, now: Event, time: int, number: int) -> None:
        """Let an instruction issue. Registers that scoreboards guard are left out."""
        for register in now.writes:
            self._written.pop(register, None)
            self._read.pop(register, None)
            if now.fixed:
                self._written[register] = now, time, number
        if not now.fixed:
            for register in now.reads:
                if not register.startswith("R"):
                    self._read.setdefault(register, {})[now.name] = time, number


def _kind(register: str) -> str:
    return register.rstrip("0123456789")


def shortest(turns: Iterable[Sequence[tuple[Event, int]]], *, start: int = 0) -> dict[Pair, int]:
    """Return the least distance of every kind of pair in runs of (instruction, stall).

    Pairs that end before the instruction `start` of a run do not count.
    """
    found: dict[Pair, int] = {}
    for turn in turns:
        clock, time = Clock(), 0
        for number, (now, stall) in enumerate(turn):
            for pair, since, _ in clock.pairs(now) if number >= start else ():
                found[pair] = min(found.get(pair, ENOUGH), time - since)
            clock.take(now, time, 0)
            time += max(stall, 1)
    return found


def run_of(lines: Iterable[Line]) -> list[tuple[Event, int]]:
    """Return the instructions with the stall counts that they have."""
    return [(event(line), line.control.stall) for line in lines]


def required(code: Code) -> dict[Pair, int]:
    """Return the distances that ptxas keeps in a kernel: in straight runs, and around its loop."""
    runs: list[list[tuple[Event, int]]] = [[]]
    for line in code.lines:
        runs[-1].append((event(line), line.control.stall))
        if line.ins.opcode in ("BRA", "EXIT", "BSYNC"):
            runs.append([])
    own = run_of(code.loop)
    found = shortest([*runs, own + own])
    return {pair: need for pair, need in found.items() if pair[:3] != ("result", "FFMA", "FFMA")}


def need(pair: Pair, kept: Mapping[Pair, int]) -> int:
    """Return the cycles that a pair needs at least."""
    if pair[1:3] == ("FFMA", "FFMA"):
        return FFMA_LATENCY
    return kept.get(pair, ENOUGH)


def settle(entry: Sequence[tuple[Event, int]], turn: Sequence[tuple[Event, Encoded]],
           kept: Mapping[Pair, int]) -> None:  # fmt: skip
    """Raise the stall counts of a turn until every pair is far enough apart, around it and from
    the code before it.

    Raises:
        UnsupportedError: a distance that stall counts cannot make.
    """
    changed = True
    while changed:
        changed = False
        clock, time = Clock(), 0
        boards: dict[int, tuple[int, int]] = {}
        for number, (now, stall) in enumerate(entry, -len(entry)):
            clock.take(now, time, number)
            time += max(stall, 1)
        for number in range(2 * len(turn)):
            now, encoded = turn[number % len(turn)]
            lacks = [
                (since + need(pair, kept) - time, first) for pair, since, first in clock.pairs(now)
            ]
            lacks += [
                (since + BOARD_LATENCY - time, first)
                for board, (since, first) in boards.items()
                if encoded.wait >> board & 1
            ]
            lack, first = max(lacks, default=(0, 0))
            if lack > 0:
                changed = True
                _delay(turn, number, first, lack)
                time += lack
            clock.take(now, time, number)
            boards |= {b: (time, number) for b in (encoded.write_board, encoded.read_board)}
            time += encoded.stall


def _delay(turn: Sequence[tuple[Event, Encoded]], number: int, first: int, lack: int) -> None:
    """Stall instructions before this one, back to the one that it must keep away from."""
    for before in range(number - 1, max(first, -1) - 1, -1):
        if before < 0:
            break
        encoded = turn[before % len(turn)][1]
        more = min(lack, LONGEST_STALL - encoded.stall)
        encoded.stall += more
        lack -= more
        if not lack:
            return
    raise UnsupportedError(
        f"{turn[number % len(turn)][0].name} cannot be kept {lack} cycles further from what it "
        "depends on"
    )
