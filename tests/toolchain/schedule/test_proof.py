"""The proof: it holds for what the scheduler makes, and for nothing that is changed in it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tilewright.errors import UnsupportedError
from tilewright.toolchain import Artifact
from tilewright.toolchain.elf import elf_sections
from tilewright.toolchain.schedule import prove
from tilewright.toolchain.schedule.code import Code, Line, read_code, with_loop_of
from tilewright.toolchain.schedule.distances import Event, Pair, required, shortest, stretches
from tilewright.toolchain.schedule.encode import (
    READ_BOARD,
    REUSE,
    SLOT_A,
    STALL,
    WAIT,
    WRITE_BOARD,
    register_counts,
    with_bits,
    with_register,
)
from tilewright.toolchain.schedule.proof import check_code
from toolchain.schedule.tiled_kernels import compiled, scheduled

PLAIN = "4x4"
Words = list[int]


@cache
def original() -> tuple[Code, dict[Pair, int]]:
    code = read_code(compiled(PLAIN))
    return code, required(code)


@pytest.fixture(scope="module")
def code() -> Code:
    return read_code(scheduled(PLAIN).artifact)


def with_words(artifact: Artifact, code: Code, words: Words) -> Artifact:
    at = elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].offset
    at += code.loop[0].ins.address
    cubin = bytearray(artifact.cubin)
    cubin[at : at + 16 * len(words)] = b"".join(word.to_bytes(16, "little") for word in words)
    return replace(artifact, cubin=bytes(cubin))


def refuse(code: Code, change: Callable[[Words], None], reason: str) -> None:
    """Change the loop's words, and expect the proof to fail for this reason."""
    artifact = scheduled(PLAIN).artifact
    words = [line.word for line in code.loop]
    change(words)
    assert words != [line.word for line in code.loop]
    old, distances = original()
    new = with_loop_of(old, with_words(artifact, code, words))
    with pytest.raises(UnsupportedError, match=reason):
        check_code(old, new, scheduled(PLAIN).report.registers_after, distances)


def first(code: Code, fits: Callable[[Line], object], start: int = 0) -> int:
    return next(n for n, line in enumerate(code.loop) if n >= start and fits(line))


def field(n: int, where: tuple[int, int], value: int) -> Callable[[Words], None]:
    def change(words: Words) -> None:
        words[n] = with_bits(words[n], *where, value)

    return change


def swap(one: int, two: int) -> Callable[[Words], None]:
    def change(words: Words) -> None:
        words[one], words[two] = words[two], words[one]

    return change


def opcode(*names: str) -> Callable[[Line], bool]:
    return lambda line: line.ins.opcode in names and line.ins.predicate != "!PT"


def test_what_the_scheduler_makes_is_proved() -> None:
    prove(compiled(PLAIN), scheduled(PLAIN).artifact)


def test_a_kernel_is_no_schedule_of_itself() -> None:
    # ptxas leaves loads in flight at the branch back: its own epilogue waits for those.
    with pytest.raises(UnsupportedError, match="not proved"):
        prove(compiled(PLAIN), compiled(PLAIN))


def test_a_wait_that_is_missing(code: Code) -> None:
    n = first(code, lambda line: line.ins.opcode == "FFMA" and line.control.wait, start=1)
    refuse(code, field(n, WAIT, 0), "does not wait for scoreboards")


def test_a_first_wait_that_is_missing(code: Code) -> None:
    wait = code.loop[0].control.wait
    refuse(code, field(0, WAIT, wait & wait - 1), "in flight when it was entered")


def test_a_last_wait_that_is_missing(code: Code) -> None:
    refuse(code, field(len(code.loop) - 1, WAIT, 0), "in flight behind the loop")


def test_a_load_without_its_scoreboard(code: Code) -> None:
    refuse(code, field(first(code, opcode("LDS")), WRITE_BOARD, 7), "no scoreboard of its own")


def test_a_load_on_the_scoreboard_that_counts_copies(code: Code) -> None:
    group = code.loop[first(code, opcode("LDGDEPBAR"))].control.write_barrier
    refuse(code, field(first(code, opcode("LDS")), WRITE_BOARD, group), "scoreboard of its own")


def test_a_copy_without_its_scoreboard(code: Code) -> None:
    refuse(code, field(first(code, opcode("LDGSTS")), READ_BOARD, 7), "no scoreboard of its own")


def test_copies_counted_elsewhere(code: Code) -> None:
    n = first(code, opcode("LDGDEPBAR"))
    refuse(
        code, field(n, WRITE_BOARD, 1), "counted by another scoreboard|waits for all of its copies"
    )


def test_a_load_across_the_barrier(code: Code) -> None:
    n = first(code, opcode("BAR"))
    refuse(code, field(n, WAIT, 0), "in flight across the barrier")


@pytest.mark.parametrize("place", [16, 24, 32, 64])
def test_another_register(code: Code, place: int) -> None:
    n = first(code, opcode("FFMA"), start=40)
    flipped = code.loop[n].word >> place & 255 ^ 2

    def change(words: Words) -> None:
        words[n] = with_register(words[n], place, flipped)

    refuse(code, change, "not proved")


def test_another_address(code: Code) -> None:
    n = first(code, opcode("LDS"))

    def change(words: Words) -> None:
        words[n] ^= 1 << 50  # in the offset of the address

    refuse(code, change, "holds something else")


def test_a_register_that_is_not_declared(code: Code) -> None:
    artifact = scheduled(PLAIN).artifact
    cubin = bytearray(artifact.cubin)
    (at,) = register_counts(artifact)
    cubin[at] -= 8
    with pytest.raises(UnsupportedError, match="fewer registers"):
        prove(compiled(PLAIN), replace(artifact, cubin=bytes(cubin)))
    old, distances = original()
    with pytest.raises(UnsupportedError, match=r"are the kernel's"):
        check_code(
            old, code, max(int(r[1:]) for line in code.loop for r in line.ops.named), distances
        )


def test_sums_in_another_order(code: Code) -> None:
    """One accumulator's products of two steps of k, exchanged."""
    chain = code.loop[first(code, opcode("FFMA"), start=60)].ops.writes
    one = first(code, lambda line: line.ops.writes == chain)
    two = first(code, lambda line: line.ops.writes == chain, start=one + 1)
    refuse(code, swap(one, two), "not proved")


def test_a_load_into_registers_that_are_still_read(code: Code) -> None:
    def in_place(line: Line) -> bool:
        before = code.loop[code.loop.index(line) - 1]
        taken = {*line.ops.writes} & {*before.ops.reads}
        return line.ins.mnemonic == "LDS.128" and before.ins.opcode == "FFMA" and bool(taken)

    n = first(code, in_place, 1)  # of a row of A, four steps of k
    refuse(code, swap(n - 1, n), "holds something else at the end of a turn")


def test_a_load_before_the_barrier_that_makes_it_right(code: Code) -> None:
    barrier = first(code, opcode("BAR"))
    load = first(code, opcode("LDS"), start=barrier)

    def change(words: Words) -> None:
        words.insert(barrier, words.pop(load))

    refuse(code, change, "not proved")


def test_copies_in_another_order(code: Code) -> None:
    one = first(code, opcode("LDGSTS"))
    two = first(code, opcode("LDGSTS"), start=one + 1)
    refuse(code, swap(one, two), "another effect")


def test_a_copy_before_a_load_that_it_may_overwrite(code: Code) -> None:
    copy = first(code, opcode("LDGSTS"))
    load = max(n for n, line in enumerate(code.loop[:copy]) if opcode("LDS")(line))

    def change(words: Words) -> None:
        words.insert(copy, words.pop(load))

    refuse(code, change, "gone behind a copy")


def test_a_barrier_of_other_threads(code: Code) -> None:
    n = first(code, opcode("BAR"))

    def change(words: Words) -> None:
        words[n] ^= 1 << 54  # the number of the barrier

    refuse(code, change, "another effect")


def test_a_stall_that_is_too_short(code: Code) -> None:
    n = first(code, lambda line: line.ins.opcode == "FFMA" and line.control.stall > 1)
    refuse(code, field(n, STALL, 1), "cycles from .* are required")


def test_a_wait_for_copies_with_a_shorter_stall(code: Code) -> None:
    n = first(code, opcode("DEPBAR"))
    stall = code.loop[n].control.stall

    def change(words: Words) -> None:
        words[n] = with_bits(words[n], *STALL, stall - 1)
        words[n + 1] = with_bits(words[n + 1], *STALL, 11)

    refuse(code, change, "a shorter stall")


def test_an_operand_that_is_kept_in_vain(code: Code) -> None:
    n = first(code, lambda line: line.ins.opcode == "FFMA" and line.control.reuse in (1, 2))
    refuse(code, field(n, REUSE, 3), "kept for it in vain")


def test_a_flag_where_no_multiply_add_is(code: Code) -> None:
    refuse(code, field(first(code, opcode("IADD3")), REUSE, 1), "only multiply-adds keep")


def test_a_byte_outside_the_loop(code: Code) -> None:
    artifact = scheduled(PLAIN).artifact
    at = elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].offset
    for place, reason in (
        (at + 3, "outside the loop"),
        (at + code.loop[0].ins.address - 12, "more than a longer stall"),
    ):
        cubin = bytearray(artifact.cubin)
        cubin[place] ^= 1
        with pytest.raises(UnsupportedError, match=reason):
            prove(compiled(PLAIN), replace(artifact, cubin=bytes(cubin)))


def test_every_register_of_some_instructions(code: Code) -> None:
    """Each operand of instructions all over the loop: no other register will do."""
    for n in range(3, len(code.loop) - 1, 67):
        line = code.loop[n]
        if line.ins.opcode in ("FFMA", "LDS") and line.ins.predicate is None:

            def change(words: Words, n: int = n) -> None:
                words[n] = with_register(words[n], SLOT_A, words[n] >> SLOT_A & 255 ^ 4)

            refuse(code, change, "not proved")


def test_a_uniform_register_is_not_overwritten_while_it_is_read() -> None:
    """USEL UR4, UR5 and UMOV UR5 a cycle behind it gave wrong products on an H200."""
    select = Event("USEL", True, None, ("UR5",), ("UR4",))
    move = Event("UMOV", True, None, ("UR6",), ("UR5",))
    assert shortest([[(select, 3), (move, 1)]]) == {("read", "USEL", "UMOV", "UR"): 3}


def test_a_distance_across_a_wait_says_nothing() -> None:
    """What waits between two instructions keeps them farther apart than stall counts say."""
    code, _ = original()
    first = next(i for i, line in enumerate(code.lines) if line.ins.opcode == "BAR")
    around = replace(code, lines=code.lines[first - 1 : first + 2])
    across = {
        (one.ins.mnemonic, two.ins.mnemonic)
        for one, two in zip(around.lines[:1], around.lines[2:], strict=True)
    }
    runs = stretches(around.lines)
    assert [len(run) for run in runs if run] == [1, 2]
    assert across.isdisjoint(pair[1:3] for pair in shortest(runs))
