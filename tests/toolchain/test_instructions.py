"""The instruction table: suffixes split and checked, and the registers written and read."""

from pathlib import Path

import pytest

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.instructions import INSTRUCTIONS, decode, defs_uses, row_of
from tilewright.toolchain.ptx.ir import Instruction
from tilewright.toolchain.ptx.parser import parse

TEXT = (Path(__file__).parent / "data" / "spellings.txt").read_text()
LEGAL, ILLEGAL, READ_ONLY = (part.split("]")[1].split() for part in TEXT.split("[")[1:])


@pytest.mark.parametrize("text", LEGAL)
def test_legal(text):
    info = decode(text).info
    assert info is not None
    assert not info.open


@pytest.mark.parametrize("text", ILLEGAL)
def test_illegal(text):
    with pytest.raises(PtxError, match=f"^{text.split('.')[0]} "):
        decode(text)


@pytest.mark.parametrize("text", READ_ONLY)
def test_read_but_not_executed(text):
    info = decode(text).info
    assert info is not None
    assert info.open
    assert info.category in ("async", "tensor", "texture")


def test_unknown():
    assert decode("vadd.u32.u32.u32.sat").info is None


@pytest.mark.parametrize(
    ("text", "opcode", "types", "space", "vector", "flags"),
    [
        ("cvt.rn.satfinite.e4m3x2.f32", "cvt", ("e4m3x2", "f32"), None, 1, ("rn", "satfinite")),
        ("ld.global.nc.v4.f32", "ld", ("f32",), "global", 4, ("nc",)),
        ("ld.shared::cta.u32", "ld", ("u32",), "shared", 1, ()),
        ("ld.param::entry.b64", "ld", ("b64",), "param", 1, ()),
        ("ld.shared::cluster.u32", "ld", ("u32",), "shared::cluster", 1, ()),
        ("cvta.to.global.u64", "cvta", ("u64",), "global", 1, ("to",)),
        ("setp.lt.and.f32", "setp", ("f32",), None, 1, ("lt", "and")),
        ("shfl.sync.bfly.b32", "shfl", ("b32",), None, 1, ("sync", "bfly")),
        ("atom.global.v4.f32.add", "atom", ("f32",), "global", 4, ("add",)),
        ("cp.async.cg.shared.global", "cp", (), "shared", 1, ("async", "cg", "global")),
        ("mma.m8n8k4.f64.f64.f64.f64", "mma", ("f64",) * 4, None, 1, ("m8n8k4",)),
        ("prmt.b32.b4e", "prmt", ("b32",), None, 1, ("b4e",)),
    ],
)
def test_suffixes(text, opcode, types, space, vector, flags):
    assert decode(text)[:5] == (opcode, types, space, vector, flags)


@pytest.mark.parametrize(
    ("text", "section", "category"),
    [
        ("add.s32", "9.7.1.1", "integer"),
        ("rem.u32", "9.7.1.9", "integer"),
        ("add.cc.u32", "9.7.2.1", "integer"),
        ("mul.f32", "9.7.3.5", "float"),
        ("abs.f16", "9.7.4.6", "half"),
        ("fma.rn.f32.f16", "9.7.5.3", "half"),
        ("setp.eq.f16", "9.7.7.2", "compare"),
        ("xor.b32", "9.7.8.3", "logic"),
        ("cvt.pack.sat.u16.s32", "9.7.9.22", "convert"),
        ("bar.warp.sync", "9.7.13.2", "sync"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16", "9.7.14.5.15", "tensor"),
    ],
)
def test_rows(text, section, category):
    """Sections as the table of contents of PTX ISA 9.0 has them."""
    info = decode(text).info
    assert (info.section, info.category) == (section, category)


def test_messages_say_what_goes():
    with pytest.raises(PtxError, match=r"^mul needs one of \.hi, \.lo, \.wide$"):
        decode("mul.s32")
    with pytest.raises(
        PtxError, match=r"^popc does not take the type \.f32; it takes \.b32, \.b64$"
    ):
        decode("popc.f32")
    with pytest.raises(PtxError, match=r"^st does not take the space \.const; it takes .*\.shared"):
        decode("st.const.b32")
    with pytest.raises(PtxError, match=r"^cvt has 2 type suffixes, not 1$"):
        decode("cvt.f32")


def test_every_row_is_reachable_and_sound():
    for name, rows in INSTRUCTIONS.items():
        for row in rows:
            assert row.name == name
            assert row.section.startswith("9.7.")
            assert row.needs <= row.flags
            assert row.operands[0] <= row.operands[1]
            assert all(row.types)
            assert row.vector in (1, 4, 8)


def one(text):
    registers = (
        ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<4>; .global .b32 g;"
    )
    module = f".version 9.0\n.target sm_100a\n.entry k() {{ {registers} X: {text} }}"
    (found,) = parse(module).functions["k"].body
    return found


@pytest.mark.parametrize(
    ("text", "defs", "uses"),
    [
        ("add.s32 %r1, %r2, %r3;", "%r1", "%r2 %r3"),
        ("add.s32 %r1, %r1, %r1;", "%r1", "%r1"),
        ("@%p1 mov.b32 %r1, %tid.x;", "%r1", "%p1"),
        ("@!%p1 bra X;", "", "%p1"),
        ("ld.global.v2.f32 {%f1, _}, [%rd1+8];", "%f1", "%rd1"),
        ("ld.global.f32 %f1, [g];", "%f1", ""),
        ("st.shared.v2.f32 [%r1], {%f1, %f2};", "", "%r1 %f1 %f2"),
        ("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;", "%p1 %p2", "%r1 %r2 %p3"),
        ("shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, %r4;", "%r1 %p1", "%r2 %r3 %r4"),
        ("mov.b64 {%r1, %r2}, %rd1;", "%r1 %r2", "%rd1"),
        ("mov.b64 %rd1, {%r1, %r2};", "%rd1", "%r1 %r2"),
        ("atom.global.cas.b32 %r1, [%rd1], %r2, %r3;", "%r1", "%rd1 %r2 %r3"),
        ("atom.global.add.u32 _, [%rd1], %r2;", "", "%rd1 %r2"),
        ("red.global.add.u32 [%rd1], %r2;", "", "%rd1 %r2"),
        ("bar.sync %r1, %r2;", "", "%r1 %r2"),
        ("bar.red.popc.u32 %r1, %r2, %p1;", "%r1", "%r2 %p1"),
        ("call (%r1), %rd1, (%r2, %r3);", "%r1", "%rd1 %r2 %r3"),
        ("brx.idx %r1, X;", "", "%r1"),
        ("nanosleep.u32 %r1;", "", "%r1"),
        ("activemask.b32 %r1;", "%r1", ""),
        ("stacksave.u64 %rd1;", "%rd1", ""),
        ("stackrestore.u64 %rd1;", "", "%rd1"),
        ("elect.sync %r1|%p1, -1;", "%r1 %p1", ""),
        ("ret;", "", ""),
        ("prefetch.global.L2 [%rd1];", "", "%rd1"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;", "", "%r1 %rd1 %r2"),
        ("mbarrier.init.shared.b64 [%r1], %r2;", "", "%r1 %r2"),
        ("mbarrier.arrive.shared.b64 %rd1, [%r1];", "%rd1", "%r1"),
        (
            "mma.m8n8k4.row.col.f64.f64.f64.f64 {%rd1,%rd2}, {%r1}, {%r2}, {%rd1,%rd2};",
            "%rd1 %rd2",
            "%r1 %r2 %rd1 %rd2",
        ),
        (
            "wgmma.mma_async.m64n8k16.f32.f16.f16 {%f1, %f2}, %rd1, %rd2, 1, 1, 1, 0, 0;",
            "%f1 %f2",
            "%rd1 %rd2 %f1 %f2",
        ),
        ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 32;", "", "%r1"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];", "%r1", "%r2"),
        ("vadd.u32.u32.u32 %r1, %r2, %r3;", "%r1", "%r2 %r3"),
    ],
)
def test_registers_written_and_read(text, defs, uses):
    assert defs_uses(one(text)) == (tuple(defs.split()), tuple(uses.split()))


def test_the_row_of_an_instruction_that_nobody_parsed():
    assert row_of(Instruction(opcode="ret", ptx_line=1, text="ret;")).section == "9.7.12.6"
    assert row_of(Instruction(opcode="what", ptx_line=1, text="what;")) is None
