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

# Stand for what barriers and waits order: accesses of shared memory, copies to it, their arrival.
_MEMORY, _COPIES, _ARRIVAL = "memory", "copies", "arrival"
# Longer than any fixed latency, for pairs that ptxas does not have closer. And, by the kind of the
# register, as long as the longest that it is seen to keep where nothing else holds it up, in 279
# kernels for sm_90: 7 cycles from an operation on general registers, 13 from a comparison to what
# it guards, 11 within the uniform datapath, 9 from there to the address of a load, and 4 from the
# wait for copies to the barrier.
ENOUGH = 24
_LONGEST = {"R": 8, "P": 13, "UR": 13, "UP": 13, _ARRIVAL: 4}
# From one FFMA to another that adds to its result. Source: Jia et al., arXiv 1804.06826, table of
# latencies; ptxas keeps the same on sm_90 (a test compiles a chain).
FFMA_LATENCY = 4
# From an instruction that takes a scoreboard to one that waits for it: ptxas keeps 5 after an LDS.
BOARD_LATENCY = 5

_TOUCHES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # opcode: reads, writes
    "BAR": ((_MEMORY, _ARRIVAL), (_MEMORY,)),
    "DEPBAR": ((_COPIES,), (_ARRIVAL,)),
    "LDGDEPBAR": ((), (_COPIES,)),
    "LDGSTS": ((_MEMORY, _COPIES), ()),
    "LDS": ((_MEMORY, _ARRIVAL), ()),
}
_WAITING = frozenset({"BAR", "DEPBAR"})
_JUMPS = frozenset({"BRA", "EXIT", "RET", "BSYNC"})

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
    also = _TOUCHES.get(opcode, ((), ())) if not never_runs(line.ins) else ((), ())
    reads, writes = (*ops.reads, *also[0]), (*ops.writes, *also[1])
    fixed = opcode in FIXED or bool(also[1])
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
                yield ("result", found[0].name, second, kind(register)), found[1], found[2]
        for register in now.writes:
            group = kind(register)
            if (found := self._written.get(register)) is not None:
                yield ("overwritten", found[0].name, now.name, group), found[1], found[2]
            for name, (time, number) in self._read.get(register, {}).items():
                yield ("read", name, now.name, group), time, number

    def take(self, now: Event, time: int, number: int) -> None:
        """Let an instruction issue. Registers that scoreboards guard are left out."""
        for register in now.writes:
            self._written.pop(register, None)
            self._read.pop(register, None)
            if now.fixed:
                self._written[register] = now, time, number
        for register in now.reads:
            if not register.startswith("R") and register != _ARRIVAL:
                self._read.setdefault(register, {})[now.name] = time, number


def kind(register: str) -> str:
    """Return R, P, UR, UP, or the name of something else that is written and read."""
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


def before_loop(code: Code) -> Sequence[Line]:
    """Return instructions before the loop: those whose results may still be on their way there."""
    return code.lines[max(code.start - ENOUGH, 0) : code.start]


def run_of(lines: Iterable[Line]) -> list[tuple[Event, int]]:
    """Return the instructions with the stall counts that they have."""
    return [(event(line), line.control.stall) for line in lines]


def stretches(lines: Iterable[Line]) -> list[list[tuple[Event, int]]]:
    """Return the stretches of code that issue by their stall counts alone."""
    runs: list[list[tuple[Event, int]]] = [[]]
    for line in lines:
        if line.control.wait or line.ins.opcode in _WAITING:
            runs.append([])
        runs[-1].append((event(line), line.control.stall))
        if line.ins.opcode in _JUMPS and line.ins.predicate is None:
            runs.append([])
    return runs


def required(code: Code) -> dict[Pair, int]:
    """Return the distances that ptxas keeps in a kernel: down its code, and around its loop.

    A pair with something between that may wait says nothing: it may be farther apart than it looks.
    """
    found = shortest([*stretches(code.lines), *stretches([*code.loop, *code.loop])])
    return {pair: need for pair, need in found.items() if pair[:3] != ("result", "FFMA", "FFMA")}


def need(pair: Pair, kept: Mapping[Pair, int]) -> int:
    """Return the cycles that a pair needs at least."""
    if pair[1:3] == ("FFMA", "FFMA"):
        return FFMA_LATENCY
    return min(kept.get(pair, ENOUGH), longest(pair[3]))


def longest(register: str) -> int:
    """Return the cycles after which a result in such a register is there, whoever reads it."""
    return _LONGEST.get(kind(register), ENOUGH)


def settle(entry: Sequence[tuple[Event, Encoded]], turn: Sequence[tuple[Event, Encoded]],
           kept: Mapping[Pair, int]) -> None:  # fmt: skip
    """Raise the stall counts of a turn until every pair is far enough apart, around it too.

    The last instruction before the loop, the last of `entry`, is stalled for what comes from there.

    Raises:
        UnsupportedError: a distance that stall counts cannot make.
    """
    run = [*entry, *turn, *turn]
    changed = True
    while changed:
        changed = False
        clock, time = Clock(), 0
        boards: dict[int, tuple[int, int]] = {}
        for number, (now, encoded) in enumerate(run):
            lacks = [
                (since + need(pair, kept) - time, first) for pair, since, first in clock.pairs(now)
            ]
            lacks += [
                (since + BOARD_LATENCY - time, first)
                for board, (since, first) in boards.items()
                if encoded.wait >> board & 1
            ]
            lack, first = max(lacks, default=(0, 0))
            if lack > 0 and number >= len(entry):
                changed = True
                outside = [len(entry) - 1] if first < len(entry) else []
                _delay(run, [*outside, *range(number - 1, max(first, len(entry)) - 1, -1)], lack)
                time += lack
            clock.take(now, time, number)
            boards |= {b: (time, number) for b in (encoded.write_board, encoded.read_board)}
            time += max(encoded.stall, 1)


def _delay(run: Sequence[tuple[Event, Encoded]], places: Iterable[int], lack: int) -> None:
    """Stall instructions at some of these places, the first ones rather, for so many cycles."""
    for place in places:
        encoded = run[place][1]
        more = min(lack, LONGEST_STALL - encoded.stall)
        encoded.stall += more
        lack -= more
        if not lack:
            return
    raise UnsupportedError("no stall counts keep the loop's instructions far enough apart")
