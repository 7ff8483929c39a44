"""That a scheduled kernel computes what the plain one does, shown from its machine code alone.

Both are disassembled and their loops followed with values in the place of registers: what a
register holds is the expression that computed it from what the registers held when the turn
began. If, at the turn's end, every register that matters holds the same expression in both, and
both have had the same effects in the same order, then so it is after any number of turns. It is
said of every way through the new loop, moreover, that no result is used before it is there.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    kind,
    longest,
    need,
    required,
    run_of,
    shortest,
)
from tilewright.toolchain.schedule.encode import (
    STALL,
    YIELD,
    register_counts,
    with_bits,
)
from tilewright.toolchain.schedule.liveness import live_around
from tilewright.toolchain.schedule.operands import FIXED, never_runs
from tilewright.toolchain.schedule.registers import RESERVED
from tilewright.toolchain.schedule.values import check_values, failure

_KEEP = frozenset({"BAR", "DEPBAR", "BRA"})  # which have the stall counts that ptxas gives them
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
        raise failure("the loops have other lengths")
    check_values(old, new)
    _registers_declared(new, registers)
    _far_enough(old, new, distances)
    _waited_for(old, new)
    _reused_unchanged(new)


def check_change(before: Artifact, after: Artifact, code: Code, new: Code) -> None:
    """Check the file: only the loop the register count may differ, and one stall count.

    That is the one of the instruction before the loop, which may be longer.

    Raises:
        UnsupportedError: anything else has changed.
    """
    one, two = code.lines[code.start - 1], new.lines[new.start - 1]
    if (
        with_bits(with_bits(one.word ^ two.word, *STALL, 0), *YIELD, 0)
        or two.control.stall < one.control.stall
    ):
        raise failure("the instruction before the loop has changed in more than a longer stall")
    text = elf_sections(before.cubin)[f".text.{before.symbol}"].offset
    spans = [(text + code.loop[0].ins.address, len(code.loop) * INSTRUCTION_BYTES)]
    spans.append((text + code.lines[code.start - 1].ins.address, INSTRUCTION_BYTES))
    spans += [(at, 4) for at in register_counts(before)]
    here, there = bytearray(before.cubin), bytearray(after.cubin)
    for at, size in spans:
        here[at : at + size] = there[at : at + size] = bytes(size)
    if here != there:
        raise failure("the file differs outside the loop")
    if resources(after).registers < resources(before).registers:
        raise failure("it declares fewer registers")


def _registers_declared(code: Code, count: int) -> None:
    for line in code.loop:
        for register in (*line.ops.reads, *line.ops.writes):
            if register[0] == "R" and int(register[1:]) >= count - RESERVED:
                raise failure(
                    f"{line}: of the {count} registers declared {count - RESERVED} are the kernel's"
                )


def _far_enough(old: Code, new: Code, kept: Mapping[Pair, int]) -> None:
    """Check fixed latencies: no pair is closer than ptxas has such a pair in this kernel."""
    entry = run_of(before_loop(new))
    turn = run_of(new.loop)
    found = shortest([turn + turn])
    for pair, distance in shortest([entry + turn], start=len(entry)).items():
        found[pair] = min(found.get(pair, distance), distance)
    for pair, distance in found.items():
        if distance < need(pair, kept):
            raise failure(
                f"{distance} cycles from {pair[1]} to {pair[2]} ({pair[0]}): {need(pair, kept)} "
                "are required"
            )
    stalls = (
        [line.control.stall for line in c.loop if line.ins.opcode in _KEEP] for c in (old, new)
    )
    if any(now < then for then, now in zip(*stalls, strict=True)):
        raise failure("a barrier, a wait or the branch has a shorter stall")
    _, behind = live_around(old)
    then, now = _until_end(old, behind), _until_end(new, behind)
    for (name, where), distance in now.items():
        enough = _LEAST_EXIT if name == "FFMA" else longest(where)
        least = min(then.get((name, where), distance), enough)
        if distance < least:
            raise failure(f"{distance} cycles from {name} to the end of the loop: {least} required")


def _until_end(code: Code, behind: frozenset[str]) -> dict[tuple[str, str], int]:
    """Return the least cycles from a result to the end, for what lives on.

    By instruction and kind of register.
    """
    found: dict[tuple[str, str], int] = {}
    left = 0
    settled: set[str] = set()
    for line in reversed(code.loop):
        left += max(line.control.stall, 1)
        if line.ins.opcode in FIXED:
            for register in set(line.ops.writes) & behind - settled:
                result = line.ins.mnemonic, kind(register)
                found[result] = min(found.get(result, left), left)
        settled.update(line.ops.writes)
    return found


def _waited_for(old: Code, new: Code) -> None:
    """Check scoreboards: nothing in flight is touched, and the loop leaves nothing behind."""
    groups = counted((line.ins.opcode, line.control) for line in old.loop)
    if groups != counted((line.ins.opcode, line.control) for line in new.loop):
        raise failure("copies are counted by another scoreboard")
    _entry_is_covered(old)
    everything = sum(1 << board for board in range(BOARDS) if board not in groups)
    if new.loop[0].control.wait & everything != everything:
        raise failure("the loop does not wait for what was in flight when it was entered")
    flying = InFlight()
    since: dict[int, int] = {}
    time = 0
    for line in new.loop:
        now, control = event(line), line.control
        for board in range(BOARDS):
            if (
                control.wait >> board & 1
                and time - since.get(board, -BOARD_LATENCY) < BOARD_LATENCY
            ):
                raise failure(f"{line}: it waits for scoreboard {board} before that is set")
        flying.clear(control.wait)
        if missing := flying.needed(now):
            raise failure(f"{line}: it does not wait for scoreboards {missing:06b}")
        if line.ins.opcode == "BAR" and flying.held():
            raise failure(f"{line}: loads are in flight across the barrier")
        _holds(line, groups)
        boards = (control.write_barrier, control.read_barrier)
        since |= {board: time for board in boards if board is not None}
        if line.ins.opcode != "LDGDEPBAR":
            flying.add(now, *boards)
        time += max(control.stall, 1)
    if flying.held():
        raise failure("loads or copies of the last turn are in flight behind the loop")


def _holds(line: Line, groups: frozenset[int]) -> None:
    """Check that what takes variable time holds a scoreboard, and not one that counts copies."""
    control, opcode = line.control, line.ins.opcode
    if never_runs(line.ins) or opcode in FIXED:
        if (control.write_barrier, control.read_barrier) != (None, None):
            raise failure(f"{line}: it holds a scoreboard for nothing")
    elif opcode in ("LDS", "LDGSTS"):
        board = control.read_barrier if opcode == "LDGSTS" else control.write_barrier
        if board is None or board in groups:
            raise failure(f"{line}: it holds no scoreboard of its own")


def _entry_is_covered(code: Code) -> None:
    """Check loads and copies before the loop that hold no scoreboard: a later one of a kind does.

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
    """Check that no register kept for the next multiply-add is written before that reads it."""
    kept: list[tuple[int, str]] = []
    for line in code.loop:
        if line.ins.opcode == "FFMA":
            for slot, register in kept:
                if line.ops.reads[slot] != register:
                    raise failure(f"{line}: {register} was kept for it in vain")
            flags = line.control.reuse
            kept = [(slot, line.ops.reads[slot]) for slot in range(3) if flags >> slot & 1]
        elif line.control.reuse:
            raise failure(f"{line}: only multiply-adds keep operands")
        elif changed := [r for _, r in kept if r in line.ops.writes]:
            raise failure(f"{line}: it writes {changed[0]}, which is kept for the next FFMA")
    if kept:
        raise failure("an operand is kept across the end of the loop")
