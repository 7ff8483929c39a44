"""That a scheduled kernel computes what the plain one does, shown from its machine code alone.

Both are disassembled and their loops followed with values in the place of registers: what a
register holds is the expression that computed it from what the registers held when the turn
began. If, at the turn's end, every register that matters holds the same expression in both, and
both have had the same effects in the same order, then so it is after any number of turns. It is
said of every way through the new loop, moreover, that no result is used before it is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest

from tilewright.errors import UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.control import INSTRUCTION_BYTES
from tilewright.toolchain.elf import elf_sections
from tilewright.toolchain.resources import resources
from tilewright.toolchain.schedule.boards import BOARDS, InFlight, counted
from tilewright.toolchain.schedule.code import Code, Line, read_code, with_loop_of
from tilewright.toolchain.schedule.distances import (
    BOARD_LATENCY,
    Pair,
    before_loop,
    event,
    need,
    required,
    run_of,
    shortest,
)
from tilewright.toolchain.schedule.encode import STALL, YIELD, register_counts, with_bits, with_control
from tilewright.toolchain.schedule.liveness import live_around
from tilewright.toolchain.schedule.operands import CONTROL, FIXED, never_runs

_LEAST_EXIT = 6  # cycles from the last result of an FFMA to what follows the loop


def prove(before: Artifact, after: Artifact) -> None:
    """Show that `after`, a schedule of `before`, computes the same.

    Raises:
        UnsupportedError: the step of the proof that fails.
    """
    old = read_code(before)
    new = with_loop_of(old, after)
    check_change(before, after, old, new)
    check_code(old, new, resources(after).registers, required(old))


def check_code(old: Code, new: Code, registers: int, distances: Mapping[Pair, int]) -> None:
    """Show that the loop of `new` computes what that of `old` does, with so many registers.

    Raises:
        UnsupportedError: the step of the proof that fails.
    """
    if len(old.lines) != len(new.lines):
        raise _failure("the loops have other lengths")
    _same_values(old, new)
    _registers_declared(new, registers)
    _far_enough(old, new, distances)
    _waited_for(old, new)
    _reused_unchanged(new)


def _failure(what: str) -> UnsupportedError:
    return UnsupportedError(f"the schedule is not proved to be right: {what}")


def check_change(before: Artifact, after: Artifact, code: Code, new: Code) -> None:
    """Of the file, only the loop and the register count may differ, and one stall count.

    That is the one of the instruction before the loop, which may be longer.

    Raises:
        UnsupportedError: anything else has changed.
    """
    one, two = code.lines[code.start - 1], new.lines[new.start - 1]
    if (
        with_bits(with_bits(one.word ^ two.word, *STALL, 0), *YIELD, 0)
        or two.control.stall < one.control.stall
    ):
        raise _failure("the instruction before the loop has changed in more than a longer stall")
    text = elf_sections(before.cubin)[f".text.{before.symbol}"].offset
    spans = [(text + code.loop[0].ins.address, len(code.loop) * INSTRUCTION_BYTES)]
    spans.append((text + code.lines[code.start - 1].ins.address, INSTRUCTION_BYTES))
    spans += [(at, 4) for at in register_counts(before)]
    here, there = bytearray(before.cubin), bytearray(after.cubin)
    for at, size in spans:
        here[at : at + size] = there[at : at + size] = bytes(size)
    if here != there:
        raise _failure("the file differs outside the loop")
    if resources(after).registers < resources(before).registers:
        raise _failure("it declares fewer registers")


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
        elif opcode in CONTROL or opcode == "LDGSTS" or never_runs(line.ins):
            # What has no register to rename has all of its bits but control.
            label = f"{with_control(line.word, 0):x}" if opcode in CONTROL else ops.template
            self.effects.append((label, (*condition[1:], *reads)))
            self.syncs += opcode in ("BAR", "DEPBAR")
            self.copies += opcode == "LDGSTS"
        elif opcode in FIXED:
            self._compute(line, reads, condition)
        else:
            raise _failure(f"{line}: what it does is not understood")

    def _condition(self, line: Line) -> _Condition:
        if line.ops.predicate is None or line.ins.predicate is None:
            return ()
        sign = "if not" if line.ins.predicate.startswith("!") else "if"
        return sign, self.read(line.ops.predicate)

    def _load(self, line: Line, reads: tuple[int, ...]) -> None:
        if line.ins.predicate is not None:
            raise _failure(f"{line}: a load that may not run")
        loaded = self.known.number((line.ops.template, self.syncs), reads)
        self.loads[loaded].append(self.copies)
        for part, register in enumerate(line.ops.writes):
            self.holds[register] = self.known.number(part, (loaded,))

    def _compute(self, line: Line, reads: tuple[int, ...], condition: _Condition) -> None:
        results = []
        for part, register in enumerate(line.ops.writes):
            value = self.known.number((line.ops.template, part), reads)
            if condition:
                parts = (condition[1], value, self.read(register))
                value = self.known.number(condition[0], parts)
            results.append(value)
        self.holds.update(zip(line.ops.writes, results, strict=True))


def _same_values(old: Code, new: Code) -> None:
    """The same effects in the same order, and the same in every register that matters.

    Those are the registers that the loop's effects or code behind it may depend on: what they hold
    at the end of one turn is what these find at the start of the next.
    """
    known = _Expressions()
    one, two = _Turn(known), _Turn(known)
    for turn, code in ((one, old), (two, new)):
        for line in code.loop:
            turn.follow(line)
    for mine, other in zip_longest(one.effects, two.effects):
        if mine != other:
            raise _failure(f"another effect: {mine and mine[0]}, now {other and other[0]}")
    _, behind = live_around(old)
    matter = set(behind) | known.inputs(n for _, parts in one.effects for n in parts)
    todo = set(matter)
    while todo:
        register = todo.pop()
        if one.read(register) != two.read(register):
            raise _failure(f"{register} holds something else at the end of a turn")
        new_ones = known.inputs([one.read(register)]) - matter
        matter |= new_ones
        todo |= new_ones
    if {n: len(c) for n, c in one.loads.items()} != {n: len(c) for n, c in two.loads.items()}:
        raise _failure("another address is loaded, or on another side of a barrier")
    for load, copies in two.loads.items():
        if any(x > y for x, y in zip(sorted(copies), sorted(one.loads[load]), strict=True)):
            raise _failure("a load has gone behind a copy that may overwrite what it reads")


def _registers_declared(code: Code, count: int) -> None:
    for line in code.loop:
        for register in (*line.ops.reads, *line.ops.writes):
            if register[0] == "R" and int(register[1:]) >= count:
                raise _failure(f"{line}: the kernel declares {count} registers")


def _far_enough(old: Code, new: Code, kept: Mapping[Pair, int]) -> None:
    """Fixed latencies: no pair is closer than ptxas has such a pair in this kernel."""
    entry = run_of(before_loop(new))
    turn = run_of(new.loop)
    found = shortest([turn + turn])
    for pair, distance in shortest([entry + turn], start=len(entry)).items():
        found[pair] = min(found.get(pair, distance), distance)
    for pair, distance in found.items():
        if distance < need(pair, kept):
            raise _failure(
                f"{distance} cycles from {pair[1]} to {pair[2]} ({pair[0]}): {need(pair, kept)} "
                "are required"
            )
    _, behind = live_around(old)
    then, now = _until_end(old, behind), _until_end(new, behind)
    for name, distance in now.items():
        least = _LEAST_EXIT if name == "FFMA" else then.get(name, distance)
        if distance < least:
            raise _failure(f"{distance} cycles from {name} to the end of the loop: {least} required")


def _until_end(code: Code, behind: frozenset[str]) -> dict[str, int]:
    """Return the least cycles from each instruction's result to the end, for what lives on."""
    found: dict[str, int] = {}
    left = 0
    settled: set[str] = set()
    for line in reversed(code.loop):
        left += max(line.control.stall, 1)
        if line.ins.opcode in FIXED:
            for register in set(line.ops.writes) & behind - settled:
                name = line.ins.mnemonic
                found[name] = min(found.get(name, left), left)
        settled.update(line.ops.writes)
    return found


def _waited_for(old: Code, new: Code) -> None:
    """Scoreboards: nothing is touched that is in flight, and the loop leaves nothing behind."""
    groups = counted((line.ins.opcode, line.control) for line in old.loop)
    if groups != counted((line.ins.opcode, line.control) for line in new.loop):
        raise _failure("copies are counted by another scoreboard")
    _entry_is_covered(old)
    everything = sum(1 << board for board in range(BOARDS) if board not in groups)
    if new.loop[0].control.wait & everything != everything:
        raise _failure("the loop does not wait for what was in flight when it was entered")
    flying = InFlight()
    since: dict[int, int] = {}
    time = 0
    for line in new.loop:
        now, control = event(line), line.control
        for board in range(BOARDS):
            if control.wait >> board & 1 and time - since.get(board, -BOARD_LATENCY) < BOARD_LATENCY:
                raise _failure(f"{line}: it waits for scoreboard {board} before that is set")
        flying.clear(control.wait)
        if missing := flying.needed(now):
            raise _failure(f"{line}: it does not wait for scoreboards {missing:06b}")
        if line.ins.opcode == "BAR" and flying.held():
            raise _failure(f"{line}: loads are in flight across the barrier")
        _holds(line, groups)
        boards = (control.write_barrier, control.read_barrier)
        since |= {board: time for board in boards if board is not None}
        if line.ins.opcode != "LDGDEPBAR":
            flying.add(now, *boards)
        time += max(control.stall, 1)
    if flying.held():
        raise _failure("loads or copies of the last turn are in flight behind the loop")


def _holds(line: Line, groups: frozenset[int]) -> None:
    """Whatever takes variable time must hold a scoreboard, and not one that counts copies."""
    control, opcode = line.control, line.ins.opcode
    if never_runs(line.ins) or opcode in FIXED:
        if (control.write_barrier, control.read_barrier) != (None, None):
            raise _failure(f"{line}: it holds a scoreboard for nothing")
    elif opcode in ("LDS", "LDGSTS"):
        board = control.write_barrier if opcode == "LDS" else control.read_barrier
        if board is None or board in groups:
            raise _failure(f"{line}: it holds no scoreboard of its own")


def _entry_is_covered(code: Code) -> None:
    """Loads and copies before the loop that hold no scoreboard: a later one of the kind does.

    Accesses of one kind finish in order, so the loop, which waits for that one, waits for them.
    """
    open_kinds: set[str] = set()
    for line in code.lines[: code.start]:
        opcode, control = line.ins.opcode, line.control
        if opcode in ("LDS", "LDGSTS", "LDG", "STS", "STG") and not never_runs(line.ins):
            held = control.write_barrier is not None or control.read_barrier is not None
            (open_kinds.discard if held else open_kinds.add)(opcode)
    if open_kinds:
        raise UnsupportedError(
            f"{', '.join(sorted(open_kinds))} before the loop holds no scoreboard that the loop "
            "could wait for"
        )


def _reused_unchanged(code: Code) -> None:
    """A register kept for the next multiply-add is not written before that has read it."""
    kept: list[tuple[int, str]] = []
    for line in code.loop:
        if line.ins.opcode == "FFMA":
            for slot, register in kept:
                if line.ops.reads[slot] != register:
                    raise _failure(f"{line}: {register} was kept for it in vain")
            flags = line.control.reuse
            kept = [(slot, line.ops.reads[slot]) for slot in range(3) if flags >> slot & 1]
        elif line.control.reuse:
            raise _failure(f"{line}: only multiply-adds keep operands")
        elif changed := [r for _, r in kept if r in line.ops.writes]:
            raise _failure(f"{line}: it writes {changed[0]}, which is kept for the next FFMA")
    if kept:
        raise _failure("an operand is kept across the end of the loop")
