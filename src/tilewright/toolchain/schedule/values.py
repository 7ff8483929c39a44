"""What a turn of a loop computes, as expressions: two turns that compute the same have the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.code import Code, Line
from tilewright.toolchain.schedule.encode import with_control
from tilewright.toolchain.schedule.liveness import live_around
from tilewright.toolchain.schedule.operands import CONTROL, FIXED, MOVES, never_runs


def failure(what: str) -> UnsupportedError:
    """Return the error of a proof that fails."""
    return UnsupportedError(f"the schedule is not proved to be right: {what}")


_START = "at the start "
_Condition = tuple[str, int] | tuple[()]  # a sign and the number of a predicate; nothing: always


class _Expressions:
    """Expressions by number, equal ones alike: a label, and the numbers of those it is made of."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, tuple[int, ...]], int] = {}
        self._all: list[tuple[object, tuple[int, ...]]] = []

    def number(self, label: object, parts: tuple[int, ...] = ()) -> int:
        """Return the number of an expression."""
        found = self._numbers.setdefault((label, parts), len(self._all))
        if found == len(self._all):
            self._all.append((label, parts))
        return found

    def where(self, number: int, condition: _Condition) -> int:
        """Return what an expression is, given that a condition holds."""
        label, parts = self._all[number]
        while condition and (label, parts[:1]) == (condition[0], condition[1:]):
            number = parts[1]
            label, parts = self._all[number]
        return number

    def inputs(self, numbers: Iterable[int]) -> set[str]:
        """Return the registers whose values at the start of the turn are in some expressions."""
        found: set[str] = set()
        seen: set[int] = set()
        todo = list(numbers)
        while todo:
            number = todo.pop()
            if number not in seen:
                seen.add(number)
                label, parts = self._all[number]
                if isinstance(label, str) and label.startswith(_START):
                    found.add(label.removeprefix(_START))
                todo.extend(parts)
        return found


@dataclass(slots=True)
class _Turn:
    """A turn of a loop, followed.

    `loads` has for each load, in order, how many copies had been started before it.
    """

    known: _Expressions
    holds: dict[str, int] = field(default_factory=dict)
    effects: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    loads: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    syncs: int = 0
    copies: int = 0

    def read(self, register: str) -> int:
        """Return what a register holds."""
        if register not in self.holds:
            self.holds[register] = self.known.number(_START + register)
        return self.holds[register]

    def follow(self, line: Line) -> None:
        """Take in one instruction."""
        ops, opcode = line.ops, line.ins.opcode
        condition = self._condition(line)
        reads = tuple(self.known.where(self.read(r), condition) for r in ops.reads)
        if opcode == "FFMA" and line.ins.predicate is None:
            a, b, c = reads
            parts = (min(a, b), max(a, b), c)
            self.holds[ops.writes[0]] = self.known.number(ops.template, parts)
        elif opcode == "LDS" and not never_runs(line.ins):
            self._load(line, reads)
        elif opcode == "NOP":
            pass
        elif opcode in CONTROL or opcode == "LDGSTS" or never_runs(line.ins):
            # What has no register to rename has all of its bits but control.
            label = f"{with_control(line.word, 0):x}" if opcode in CONTROL else ops.template
            self.effects.append((label, (*condition[1:], *reads)))
            self.syncs += opcode in ("BAR", "DEPBAR")
            self.copies += opcode == "LDGSTS"
        elif opcode in FIXED:
            self._compute(line, reads, condition)
        else:
            raise failure(f"{line}: what it does is not understood")

    def _condition(self, line: Line) -> _Condition:
        if line.ops.predicate is None or line.ins.predicate is None:
            return ()
        sign = "if not" if line.ins.predicate.startswith("!") else "if"
        return sign, self.read(line.ops.predicate)

    def _load(self, line: Line, reads: tuple[int, ...]) -> None:
        if line.ins.predicate is not None:
            raise failure(f"{line}: a load that may not run")
        loaded = self.known.number((line.ops.template, self.syncs), reads)
        self.loads[loaded].append(self.copies)
        for part, register in enumerate(line.ops.writes):
            self.holds[register] = self.known.number(part, (loaded,))

    def _compute(self, line: Line, reads: tuple[int, ...], condition: _Condition) -> None:
        results = []
        for part, register in enumerate(line.ops.writes):
            moved = line.ops.template in MOVES
            value = reads[0] if moved else self.known.number((line.ops.template, part), reads)
            if condition:
                parts = (condition[1], value, self.read(register))
                value = self.known.number(condition[0], parts)
            results.append(value)
        self.holds.update(zip(line.ops.writes, results, strict=True))


def check_values(old: Code, new: Code) -> None:
    """Check that two loops have the same effects in the same order, and leave the same behind.

    That is the same in every register that the loop's effects or code behind it may depend on:
    what they hold at the end of one turn is what these find at the start of the next.

    Raises:
        UnsupportedError: the first difference.
    """
    known = _Expressions()
    one, two = _Turn(known), _Turn(known)
    for turn, code in ((one, old), (two, new)):
        for line in code.loop:
            turn.follow(line)
    for mine, other in zip_longest(one.effects, two.effects):
        if mine != other:
            raise failure(f"another effect: {mine and mine[0]}, now {other and other[0]}")
    _, behind = live_around(old)
    matter = set(behind) | known.inputs(n for _, parts in one.effects for n in parts)
    todo = set(matter)
    while todo:
        register = todo.pop()
        if one.read(register) != two.read(register):
            raise failure(f"{register} holds something else at the end of a turn")
        new_ones = known.inputs([one.read(register)]) - matter
        matter |= new_ones
        todo |= new_ones
    if {n: len(c) for n, c in one.loads.items()} != {n: len(c) for n, c in two.loads.items()}:
        raise failure("another address is loaded, or on another side of a barrier")
    for load, copies in two.loads.items():
        if any(x > y for x, y in zip(sorted(copies), sorted(one.loads[load]), strict=True)):
            raise failure("a load has gone behind a copy that may overwrite what it reads")
