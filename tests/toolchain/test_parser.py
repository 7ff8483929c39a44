"""The PTX reader: what it makes of every form that compilers write, and how it refuses the rest."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.ir import (
    Guard,
    Imm,
    Location,
    Mem,
    Not,
    Pair,
    Reg,
    Special,
    Symbol,
    Vec,
)
from tilewright.toolchain.ptx.parser import parse

HEADER = ".version 8.0\n.target sm_80, debug\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .b16 %h;"


def kernel(body, module="", params=""):
    """The kernel k of a module, with registers of every kind declared."""
    text = f"{HEADER}{module}\n.visible .entry k({params})\n{{\n{REGISTERS}\n{body}\n}}\n"
    return parse(text).functions["k"]


def instruction(text, module=""):
    (only,) = kernel(text, module).body
    return only


def operands(text, module=""):
    """Operands, read in an instruction of no known opcode but strictly: `mov` takes any two."""
    return instruction(f"mov.b32 %r0, {text};", module).operands[1]


def refusal(text, module="", error=PtxError):
    with pytest.raises(error) as raised:
        kernel(text, module)
    return str(raised.value)


class TestInstructions:
    def test_parts(self):
        found = instruction(
            "@!%p1 ld.global.nc.L1::no_allocate.v4.f32 {%f1, %f2,%f3,_}, [%rd1+16];"
        )
        assert (found.opcode, found.types, found.space) == ("ld", ("f32",), "global")
        assert (found.vector, found.flags) == (4, ("nc", "L1::no_allocate"))
        assert found.guard == Guard(Reg("%p1"), negated=True)
        assert found.operands == (
            Vec((Reg("%f1"), Reg("%f2"), Reg("%f3"), Reg("_"))),
            Mem(Reg("%rd1"), 16),
        )
        assert found.known

    def test_text_is_one_line(self):
        found = instruction("@%p1\tadd.s32 \t%r1,\n // why\n   %r2, 1 ;")
        assert found.text == "@%p1 add.s32 %r1, %r2, 1 ;"

    def test_modifiers_may_stand_apart(self):
        found = instruction(
            "cp.async.bulk.shared::cluster.global\n  .mbarrier::complete_tx::bytes"
            " [%r1], [%rd1], 64, [%r2];"
        )
        assert found.flags[-1] == "mbarrier::complete_tx::bytes"
        assert found.operands[2] == Imm(64)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("%r1", Reg("%r1")),
            ("%tid.x", Special("%tid.x")),
            ("%laneid", Special("%laneid")),
            ("%clock64", Special("%clock64")),
            ("WARP_SZ", Imm(32)),
            ("-7", Imm(-7)),
            ("0x7773U", Imm(0x7773)),
            ("017", Imm(15)),
            ("0", Imm(0)),
            ("0f3F800000", Imm(0x3F800000, "f32")),
            ("0f3f800000", Imm(0x3F800000, "f32")),
            ("0d3FF0000000000000", Imm(0x3FF0000000000000, "f64")),
            ("-1.5", Imm(0xBFF8000000000000, "f64")),
            ("1e3", Imm(0x408F400000000000, "f64")),
            ("g", Symbol("g")),
            ("g+8", Symbol("g", 8)),
            ("k", Symbol("k")),
        ],
    )
    def test_plain_operands(self, text, expected):
        assert operands(text, ".global .u32 g[4];") == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("[%rd1]", Mem(Reg("%rd1"))),
            ("[ %rd1 + 8 ]", Mem(Reg("%rd1"), 8)),
            ("[%rd1+-8]", Mem(Reg("%rd1"), -8)),
            ("[%rd1-8]", Mem(Reg("%rd1"), -8)),
            ("[g+4]", Mem(Symbol("g"), 4)),
            ("[4096]", Mem(Imm(4096))),
        ],
    )
    def test_addresses(self, text, expected):
        assert instruction(f"ld.b32 %r1, {text};", ".global .u32 g[4];").operands[1] == expected

    def test_pairs_and_negated_predicates(self):
        assert instruction("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;").operands[0] == Pair(
            Reg("%r1"), Reg("%p1")
        )
        assert instruction("setp.lt.and.s32 %p1 | _, %r1, 0, !%p2;").operands == (
            Pair(Reg("%p1"), Reg("_")),
            Reg("%r1"),
            Imm(0),
            Not(Reg("%p2")),
        )

    def test_packing(self):
        assert instruction("mov.b64 {%r1, %r2}, %rd1;").operands[0] == Vec((Reg("%r1"), Reg("%r2")))

    def test_tensor_coordinates_become_a_list_behind_the_address(self):
        found = instruction(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%r1], [%rd1, {%r2, %r3}], [%r4];"
        )
        assert found.space == "shared::cluster"
        assert found.operands[1] == Vec((Mem(Reg("%rd1")), Vec((Reg("%r2"), Reg("%r3")))))

    def test_calls(self):
        module = ".func f(.param .b32 a) ; .func (.param .b32 r) g() ;"
        body = (
            "{ .param .b32 r; .param .b32 a;\ncall.uni (r), \ng, \n(\na\n);\n"
            "call f, (a); call (r), g; call (r), %rd1, (a), proto; call %rd1, proto; }"
            "proto: .callprototype (.param .b32 _) _ (.param .b32 _);"
        )
        found = kernel(body, module)
        r, a = Vec((Symbol("r"),)), Vec((Symbol("a"),))
        assert [i.operands for i in found.body] == [
            (r, Symbol("g"), a),
            (Vec(()), Symbol("f"), a),
            (r, Symbol("g"), Vec(())),
            (r, Reg("%rd1"), a, Symbol("proto")),
            (Vec(()), Reg("%rd1"), Vec(()), Symbol("proto")),
        ]
        assert found.labels == {}

    def test_branch_tables_are_resolved(self):
        found = kernel("A: ts: .branchtargets A, B;\n@%p1 brx.idx %r1, ts;\nB: ret;")
        assert found.body[0].operands == (Reg("%r1"), Vec((Symbol("A"), Symbol("B"))))
        assert found.labels == {"A": 0, "B": 1}

    def test_unknown_opcodes_never_fail(self):
        found = instruction("vadd.u32.u32.u32 %r1, %r2.b0, $what, [%rd1 + %r2];")
        assert not found.known
        assert found.operands[:2] == (Reg("%r1"), Symbol("%r2.b0"))
        assert (found.opcode, found.types) == ("vadd", ("u32", "u32", "u32"))


class TestLabelsAndScopes:
    def test_labels(self):
        found = kernel("LOOP: add.s32 %r1, %r1, 1;\n$L__BB0_1:\nlow: @%p1 bra LOOP;\nEND:")
        assert found.labels == {"LOOP": 0, "$L__BB0_1": 1, "low": 1, "END": 2}
        assert found.body[1].operands == (Symbol("LOOP"),)

    def test_a_label_named_like_an_opcode(self):
        found = kernel("add: bra add;\nadd$1: ret;")
        assert found.labels == {"add": 0, "add$1": 1}

    def test_siblings_with_the_same_names(self):
        scope = "{ .reg .pred p; .reg .b32 t<2>; WAIT: setp.eq.b32 p, t1, 0; @p bra WAIT; }"
        found = kernel(scope + scope)
        assert found.labels == {"WAIT": 0, "WAIT.2": 2}
        assert found.body[1].operands == (Symbol("WAIT"),)
        assert found.body[3].operands == (Symbol("WAIT.2"),)
        assert found.body[3].guard == Guard(Reg("p.2"))
        assert found.registers["t1"] == found.registers["t1.2"] == "b32"

    def test_an_inner_scope_hides_and_gives_back(self):
        found = kernel(
            "bra X; { .reg .b64 %r1; X: mov.b64 %r1, 1; bra X; } mov.b32 %r1, 2; bra X; X: ret;"
        )
        assert [i.operands[0] for i in found.body if i.operands] == [
            Symbol("X"),
            Reg("%r1.2"),
            Symbol("X.2"),
            Reg("%r1"),
            Symbol("X"),
        ]
        assert found.labels == {"X": 5, "X.2": 1}
        assert (found.registers["%r1"], found.registers["%r1.2"]) == ("b32", "b64")

    def test_a_name_read_and_then_hidden(self):
        found = kernel("{ mov.b32 %r2, %r1; .reg .b32 %r1; mov.b32 %r2, %r1; }")
        assert [i.operands[1] for i in found.body] == [Reg("%r1"), Reg("%r1.2")]

    def test_a_jump_out_of_a_scope(self):
        found = kernel("{ { bra OUT; } } OUT: ret;")
        assert found.body[0].operands == (Symbol("OUT"),)

    def test_call_parameters_of_each_call_are_their_own(self):
        scope = "{ .param .align 8 .b8 param0[16]; st.param.b32 [param0+4], 1; }"
        found = kernel(scope + scope, params=".param .u64 param0")
        assert [v.name for v in found.variables] == ["param0.2", "param0.3"]
        assert [i.operands[0] for i in found.body] == [
            Mem(Symbol("param0.2"), 4),
            Mem(Symbol("param0.3"), 4),
        ]

    def test_register_ranges_and_lists(self):
        registers = kernel(".reg .f64 a, b<3>, %c;").registers
        assert [n for n, kind in registers.items() if kind == "f64"] == [
            "a",
            "b0",
            "b1",
            "b2",
            "%c",
        ]


class TestLocations:
    def test_the_innermost_line_and_none(self):
        found = kernel(
            "ret;\n.loc 1 7 3\nret;\n.loc\t2 5 1, function_name $L__info0, inlined_at 1 7 3\n"
            "ret;\n.loc 1 0 3\nret;",
            '.file 1 "a.cu"\n.file 2 "b.cuh", 12, 34',
        )
        assert [i.location for i in found.body] == [
            None,
            Location("a.cu", 7),
            Location("b.cuh", 5),
            None,
        ]

    def test_lines_count_comments(self):
        found = kernel("/* a\n b\n */ ret; // c\nret;")
        first = found.body[0].ptx_line
        assert first == 3 + 5 + 2  # The header, the lines before the body, the comment.
        assert found.body[1].ptx_line == first + 1


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("add.s32 %r1, %r2;", "add takes 3 operands, and here are 2"),
            ("add.rn.s32 %r1, %r2, %r3;", "add does not take .rn; it takes .sat"),
            ("fma.f32 %f1, %f2, %f3, %f4;", "fma needs one of .rm, .rn, .rp, .rz"),
            ("mov.b32 %r99, 1;", "'%r99' is not declared"),
            ("bra NOWHERE;", "'NOWHERE' is not declared"),
            ("@%r bra X; X: ret;", "'%r' is not declared"),
            ("@5 bra X;", "expected an instruction"),
            ("mov.b32 %r1, %r2\nmov.b32 %r3, 1;", "is a ';' missing"),
            ("mov.b32 %r1,, 1;", "missing beside a comma"),
            ("ld.b32 %r1, [%rd1;", "no ']' closes it"),
            ("ld.v2.b32 {%r1, %r2, [%rd1];", "a bracket is not closed"),
            ("ld.b32 %r1, [%rd1+0f3F800000];", "base+integer"),
            ("A: ret; A: ret;", "defined twice"),
            (".reg .v4 .f32 v;", "one scalar type"),
            (".branchtargets A;", "a label before"),
            (".loc one;", ".loc file line"),
            ("} extra", "expected a directive"),
            ("{ ret;", "closing '}' is missing"),
        ],
    )
    def test_say_what_was_expected(self, text, says):
        assert says in refusal(text)

    def test_show_the_line(self):
        message = refusal("mov.b32 %r1, 1;\n\tmov.b32 %r2, oops;\n")
        assert message.startswith("PTX line 9: 'oops' is not declared")
        assert message.endswith("\n  mov.b32 %r2, oops;")

    @pytest.mark.parametrize("text", ["", "\x7fELF", "int main() {}", "/* open"])
    def test_not_ptx(self, text):
        with pytest.raises(PtxError):
            parse(text)


def test_reads_thousands_of_lines_fast():
    lines = [
        f"$L{n}:\n.loc 1 {n} 3\n@%p1 fma.rn.f32 %f{n % 8}, %f1, 0f3F800000, %f2;\n"
        f"ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%rd1+{n * 16}];"
        for n in range(1, 751)
    ]
    text = f'{HEADER}.file 1 "a.cu"\n.entry k() {{ {REGISTERS}\n' + "\n".join(lines) + "\n}"
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        parse(text)
        best = min(best, time.process_time() - start)
    assert best < 0.06 * 3  # 3000 lines: 60 ms wanted, 3x for a slow or shared machine.


registers = st.sampled_from([f"%r{n}" for n in range(8)])
integers = st.integers(-(2**31), 2**32 - 1)
items = st.one_of(
    registers.map(lambda name: (name, Reg(name))),
    integers.map(lambda value: (str(value), Imm(value))),
    integers.map(lambda value: (f"{value:#x}".replace("-0x", "- 0x"), Imm(value))),
    st.floats(width=32).map(
        lambda x: (
            f"0f{struct.pack('>f', x).hex()}",
            Imm(*struct.unpack("<I", struct.pack("<f", x)), "f32"),
        )
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(
        lambda x: (f"{x:.20e}", Imm(*struct.unpack("<Q", struct.pack("<d", x)), "f64"))
    ),
    st.tuples(registers, st.integers(-4096, 4096)).map(
        lambda pair: (f"[{pair[0]}+{pair[1]}]", Mem(Reg(pair[0]), pair[1]))
    ),
    st.tuples(registers, registers).map(
        lambda pair: (f"{pair[0]}|{pair[1]}", Pair(Reg(pair[0]), Reg(pair[1])))
    ),
)
lists = st.lists(items, min_size=1, max_size=4).map(
    lambda many: (
        "{" + ", ".join(text for text, _ in many) + "}",
        Vec(tuple(operand for _, operand in many)),
    )
)


@given(
    st.lists(st.one_of(items, lists), min_size=1, max_size=5), st.sampled_from([", ", ",", " ,\n"])
)
def test_operands_come_back_as_they_were_written(written, comma):
    found = instruction(f"mma {comma.join(text for text, _ in written)};")
    assert found.operands == tuple(operand for _, operand in written)


blanks = st.sampled_from([" ", "\t", "\n", " /* a, b; { */ ", " // c } d\n"])


@given(st.data())
def test_blanks_and_comments_change_nothing(data):
    text = "@ %p1 st.global.v2.b32 [ %rd1 + 8 ] , { %r1 , 0x7U } ; L : bra L ;"
    tokens = text.split()
    spaced = "".join(token + data.draw(blanks) for token in tokens)
    found = kernel(spaced)
    plain = kernel("@%p1 st.global.v2.b32 [%rd1+8],{%r1,0x7U};L:bra L;")
    assert [(i.opcode, i.operands, i.guard) for i in found.body] == [
        (i.opcode, i.operands, i.guard) for i in plain.body
    ]
    assert found.labels == plain.labels
