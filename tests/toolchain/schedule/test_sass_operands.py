"""What instructions read and write: each form by hand, from the listings of real kernels."""

import pytest

from tilewright.errors import UnsupportedError
from tilewright.toolchain.sass import SassInstruction, parse_sass
from tilewright.toolchain.schedule.operands import never_runs, operands


def instruction(text: str) -> SassInstruction:
    listing = f'\t.target\tsm_90\n.section .text.k,"ax",@progbits\n        /*0000*/ {text} ;\n'
    return parse_sass(listing).functions["k"].instructions[0]


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("FFMA R3, R4.reuse, R5, R3", "R4 R5 R3", "R3"),
        ("LDS.128 R8, [R152+UR4+0x220]", "R152 UR4", "R8 R9 R10 R11"),
        ("LDS.64 R8, [R2]", "R2", "R8 R9"),
        ("@P3 LDGSTS.E [R13+0x880], desc[UR8][R4.64+0x10]", "R13 UR8 R4 R5 UR9", ""),
        ("STG.E.128 desc[UR8][R72.64], R64", "UR8 R72 R73 UR9 R64 R65 R66 R67", ""),
        ("IADD3 R142, P1, R142, 0x20, RZ", "R142", "R142 P1"),
        ("IADD3.X R5, RZ, R144, RZ, P0, !PT", "R144 P0", "R5"),
        ("LEA R4, P0, R157, R142, 0x2", "R157 R142", "R4 P0"),
        ("LEA.HI.X R73, R64, UR7, R65, 0x2, P0", "R64 UR7 R65 P0", "R73"),
        ("IMAD.WIDE.U32 R56, R139, UR4, R132", "R139 UR4 R132 R133", "R56 R57"),
        ("IMAD.WIDE.U32 R56, P0, R139, R4, R132", "R139 R4 R132 R133", "R56 R57 P0"),
        ("ISETP.GT.AND P3, P1, R154, RZ, P2", "R154 P2", "P3 P1"),
        ("ISETP.GT.AND P3, PT, R154, RZ, PT", "R154", "P3"),
        ("UISETP.NE.AND UP0, UPT, UR4, 0x9300, UPT", "UR4", "UP0"),
        ("PLOP3.LUT P0, PT, PT, PT, UP1, 0x80, 0x0", "UP1", "P0"),
        ("USEL UR4, UR6, URZ, UP0", "UR6 UP0", "UR4"),
        ("SEL R4, R10, 0x7, P0", "R10 P0", "R4"),
        ("ULDC.64 UR4, c[0x0][0x288]", "", "UR4 UR5"),
        ("CS2R R8, SRZ", "", "R8 R9"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
        ("DEPBAR.LE SB0, 0x2", "", ""),
        # An opcode that is not known: it may read up to four each, and is not taken to write.
        ("QMMA.16832 R4, R8, R12, R4", " ".join(f"R{n}" for f in (4, 8, 12, 4)
                                               for n in range(f, f + 4)), ""),
    ],
)  # fmt: skip
def test_reads_and_writes(text: str, reads: str, writes: str) -> None:
    found = operands(instruction(text))
    assert found.reads == tuple(reads.split())
    assert sorted(found.writes) == sorted(writes.split())


def test_the_template_names_no_register_but_all_else() -> None:
    one = operands(instruction("@!P3 IADD3.X R5, R1.reuse, R144, RZ, P0, !PT"))
    two = operands(instruction("@!P0 IADD3.X R9, R3, R14, RZ, P1, !PT"))
    assert one.template == two.template == "!P# IADD3.X R# R# R# RZ P# !PT"
    assert one.predicate == "P3"
    assert one.all_reads == ("R1", "R144", "P0", "P3")
    assert operands(instruction("IADD3.X R9, R3, -R14, RZ, P1, !PT")).template != one.template


def test_an_idle_load_is_known() -> None:
    assert never_runs(instruction("@!PT LDS RZ, [RZ]"))
    assert not never_runs(instruction("@!P1 LDS R4, [R5]"))


def test_matrix_instructions_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"HGMMA.*does not name"):
        operands(instruction("HGMMA.64x8x16.F32 R24, gdesc[UR8], R24"))
