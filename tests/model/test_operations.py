"""Machine instructions as operations: pipes, the registers that they read, their accesses."""

import pytest
from small_programs import function, profile

from tilewright.accesses import Way
from tilewright.model.operations import OperandCache, operations, pipe_of, source_registers
from tilewright.model.profile import AccessCounts
from tilewright.toolchain.control import Control


# Nsight Compute's documentation, "Pipelines": fma, alu, xu, fp64, uniform, lsu, adu (here branch).
@pytest.mark.parametrize(
    ("text", "pipe"),
    [
        ("FFMA R0, R1, R2, R3", "fma"),
        ("HFMA2.MMA R0, -RZ, RZ, 0, 0", "fma"),
        ("IMAD.WIDE.U32 R0, R1, R2, R4", "imad"),
        ("IADD3 R0, R1, R2, R3", "alu"),
        ("ISETP.GE.AND P0, PT, R0, R1, PT", "alu"),
        ("MUFU.EX2 R0, R1", "xu"),
        ("DFMA R0, R2, R4, R6", "fp64"),
        ("UIADD3 UR4, UR4, 0x1, URZ", "uniform"),
        ("UTMALDG.2D [UR4], [UR6]", "alu"),
        ("LDS.128 R4, [R0]", "shared"),
        ("LDG.E R4, desc[UR4][R2.64]", "global"),
        ("STL [R1], R0", "global"),
        ("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", "shuffle"),
        ("LDC R1, c[0x0][0x28]", "constant"),
        ("S2R R0, SR_TID.X", "special"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier"),
        ("EXIT", "branch"),
    ],
)
def test_the_pipe_of_an_opcode(text: str, pipe: str) -> None:
    assert pipe_of(function(text).instructions[0]) == pipe


@pytest.mark.parametrize(
    ("text", "registers"),
    [
        ("FFMA R8, R4.reuse, R5, R8", [[4], [5], [8]]),
        ("FFMA R8, R4, 2, RZ", [[4], [], []]),
        ("IADD3 R0, P0, PT, R2, R3, R6", [[2], [3], [6]]),
        ("ISETP.GE.AND P0, PT, R34, R5, PT", [[34], [5]]),
        ("LDG.E.128 R4, desc[UR4][R2.64+0x10]", [[2, 3]]),
        ("STG.E.128 desc[UR4][R2.64], R8", [[2, 3], [8, 9, 10, 11]]),
        ("STS.64 [R5+0x20], R8", [[5], [8, 9]]),
        ("IMAD R0, R1, UR4, R2", [[1], [], [2]]),
        ("BAR.SYNC 0x0", []),
    ],
)
def test_the_registers_that_an_instruction_reads(text: str, registers: list[list[int]]) -> None:
    assert source_registers(function(text).instructions[0]) == registers


@pytest.mark.parametrize(
    ("sources", "reads"),
    [
        ([[4], [5], [8]], (2, 1)),
        ([[4], [4], [4]], (1, 0)),  # one register is read once
        ([[2, 3], [8, 9, 10, 11]], (3, 3)),
        ([], (0, 0)),
    ],
)
def test_each_bank_gives_a_register_once(sources: list[list[int]], reads: tuple[int, int]) -> None:
    assert OperandCache().reads(sources, 0) == reads


# The four examples of arXiv 2503.20481, listing 4: whether R2 is read again by the second and by
# the third instruction.
@pytest.mark.parametrize(
    ("second", "reuse", "again"),
    [
        ([[2], [7], [8]], 0, [(1, 1), (2, 1)]),  # found there once
        ([[2], [7], [8]], 1, [(1, 1), (1, 1)]),  # and kept again
        ([[7], [2], [8]], 0, [(2, 1), (1, 1)]),  # of another slot; R7 has another bank
        ([[4], [7], [8]], 0, [(2, 1), (2, 1)]),  # R4 has the same slot and bank
    ],
)
def test_a_register_is_kept_until_another_of_its_slot_and_bank(
    second: list[list[int]], reuse: int, again: list[tuple[int, int]]
) -> None:
    cache = OperandCache()
    assert cache.reads([[2], [3], [4]], 1) == (2, 1)
    assert [cache.reads(second, reuse), cache.reads([[2], [12], [13]], 0)] == again


def fields(reuse: int = 0, stall: int = 1, write: int | None = None) -> Control:
    return Control(stall=stall, write_barrier=write, read_barrier=None, wait=0, reuse=reuse)


def test_a_register_is_kept_for_the_next_instruction_alone() -> None:
    code = function(
        "FFMA R8, R4.reuse, R5, R8",
        "FFMA R9, R4.reuse, R7, R9",
        "FFMA R10, R4, R5, R10",
        "FFMA R11, R4, R5, R11",
    )
    control = {0: fields(reuse=1), 16: fields(reuse=1), 32: fields(), 48: fields()}
    found = operations(profile(code, [1, 1, 1, 1]), control)
    assert [op.reads for op in found] == [(2, 1), (0, 2), (1, 1), (1, 2)]
    control = {0: fields(reuse=2), 16: fields(), 32: fields(reuse=2), 48: fields(reuse=2)}
    found = operations(profile(code, [1, 1, 1, 1]), control)
    assert [op.reads for op in found] == [(2, 1), (1, 2), (2, 1), (1, 1)]


@pytest.mark.parametrize(
    ("way", "sectors", "partial"),
    [
        ("store", 4, 0.0),  # 32 floats side by side
        ("store", 5, 0.4),  # begun amid a sector: its first and its last
        ("store", 8, 1.0),  # in pairs, two sectors apart
        ("store", 32, 1.0),
        ("load", 32, 0.0),
        ("atomic", 32, 0.0),
    ],
)
def test_which_sectors_a_store_does_not_fill(way: Way, sectors: int, partial: float) -> None:
    code = function("STG.E desc[UR4][R2.64], R4", "EXIT")
    store = AccessCounts(
        space="global", way=way, size=4, requests=10, sectors=10 * sectors, lines=10,
        wavefronts=10, ideal=40,
    )  # fmt: skip
    control = {0: fields(), 16: fields()}
    first, _ = operations(profile(code, [10, 10], accesses={0: store}), control)
    assert first.partial == pytest.approx(partial)


def test_what_an_access_costs_by_its_requests() -> None:
    code = function("LDG.E.64 R4, desc[UR4][R2.64]", "STS [R5], R4", "EXIT")
    load = AccessCounts(
        space="global", way="load", size=8, requests=5, sectors=40, lines=15, wavefronts=20,
        ideal=40,
    )  # fmt: skip
    control = {0: fields(write=2, stall=0), 16: fields(stall=3), 32: fields(stall=5)}
    first, second, last = operations(profile(code, [10, 10, 10], accesses={0: load}), control)
    assert (first.share, first.lines, first.wavefronts, first.size) == (0.5, 3, 4, 8)
    assert (first.load, first.write_barrier, first.stall) == (True, 2, 1)  # 0 stalls one cycle
    assert (second.load, second.write_barrier, second.share) == (False, -1, 1)
    assert (last.index, last.pipe, last.stall) == (2, "branch", 5)
