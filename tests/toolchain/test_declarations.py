"""Module scope: the header, functions, and variables with their initial bytes."""

import math
import re
import struct

import pytest

from tilewright.errors import PtxError, UnsupportedError
from tilewright.toolchain.ptx.ir import Reg, Symbol
from tilewright.toolchain.ptx.parser import parse

HEADER = ".version 8.0\n.target sm_80, debug\n.address_size 64\n"


class TestModule:
    def test_header(self):
        module = parse(HEADER)
        assert (module.version, module.target, module.address_size) == ("8.0", "sm_80", 64)

    @pytest.mark.parametrize("missing", ["version", "target"])
    def test_header_is_needed(self, missing):
        text = re.sub(rf"\.{missing}.*\n", "", HEADER)
        with pytest.raises(PtxError, match=rf"has a \.{missing} directive"):
            parse(text)

    def test_entry_directives(self):
        text = (
            ".visible .entry k() .maxntid 256, 1, 1 .minnctapersm 2 .explicitcluster\n"
            '.reqnctapercluster 2,1,1 .pragma "nounroll"; .maxnreg 64 { ret; }'
        )
        assert parse(HEADER + text).functions["k"].directives == {
            "maxntid": (256, 1, 1),
            "minnctapersm": (2,),
            "explicitcluster": (),
            "reqnctapercluster": (2, 1, 1),
            "maxnreg": (64,),
        }

    def test_parameters(self):
        text = (
            ".weak .entry k(.param .u64 .ptr .global .align 16 a, .param .align 8 .b8 s[24],\n"
            ".param .f32 x, .param .u16 h)\n{ ret; }"
        )
        params = parse(HEADER + text).functions["k"].params
        assert [(p.name, p.type, p.align, p.size_bytes) for p in params] == [
            ("a", "u64", 8, 8),
            ("s", "b8", 8, 24),
            ("x", "f32", 4, 4),
            ("h", "u16", 2, 2),
        ]
        assert {p.space for p in params} == {"param"}

    def test_functions_and_prototypes(self):
        module = parse(
            HEADER + ".extern .func (.param .b32 r) printf (.param .b64 f, .param .b64 v) ;\n"
            ".func g(.param .b32 a) ;\n"
            ".func g(.param .b32 a) .noreturn { trap; }\n"
            ".visible .func (.param .align 16 .b8 out[16]) h() { ret; }\n.alias twin, h;"
        )
        assert set(module.functions) == {"g", "h", "twin"}
        assert [r.size_bytes for r in module.functions["h"].returns] == [16]
        assert not module.functions["g"].is_entry
        assert module.functions["twin"].name == "twin"

    def test_debug_sections_and_comments_are_skipped(self):
        module = parse(
            HEADER + '.file 1 "a//b.cu", 123, 45\n/* .entry no() { */\n'
            '.section .debug_info {\n.b8 1 // {\n}\n.pragma "x";\n@@DWARF .byte 1\n'
            ".entry k() { ret; } // end"
        )
        assert set(module.functions) == {"k"}


class TestVariables:
    def declared(self, text):
        module = parse(HEADER + text)
        return module.variables[next(iter(module.variables))]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (".global .align 4 .u32 v;", ("global", "u32", 4, 4)),
            (".visible .const .b8 v[3];", ("const", "b8", 1, 3)),
            (".extern .shared .align 16 .b8 v[];", ("shared", "b8", 16, 0)),
            (".shared .f32 v[8][4];", ("shared", "f32", 4, 128)),
            (".global .v4 .f32 v[2];", ("global", "f32", 16, 32)),
            (".common .global .align 8 .u64 v;", ("global", "u64", 8, 8)),
            (".global .attribute(.managed) .f64 v;", ("global", "f64", 8, 8)),
        ],
    )
    def test_space_type_alignment_size(self, text, expected):
        found = self.declared(text)
        assert (found.space, found.type, found.align, found.size_bytes) == expected
        assert found.init is None

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (".global .u32 v = 258;", struct.pack("<I", 258)),
            (".global .s16 v[3] = {-1, 0x10};", struct.pack("<hhh", -1, 16, 0)),
            (".const .f32 v[2] = {0f3F800000, 2.5};", struct.pack("<ff", 1.0, 2.5)),
            (".const .f64 v[2] = {0d4000000000000000, 3};", struct.pack("<dd", 2.0, 3.0)),
            (".const .f32 v[2] = {1e300, -1e300};", struct.pack("<ff", math.inf, -math.inf)),
            (".const .f32 v = 0f7F800001;", bytes.fromhex("0100807f")),  # A signalling NaN.
            (".const .f32 v = 0d4000000000000000;", struct.pack("<f", 2.0)),
            (".const .b32 v[2][2] = {{1, 2}, {3, 4}};", struct.pack("<4I", 1, 2, 3, 4)),
            (".global .u8 v[] = {017, 0b101, 255U};", bytes([15, 5, 255])),
            (".global .f16 v = 0.5;", struct.pack("<e", 0.5)),
        ],
    )
    def test_initial_bytes(self, text, expected):
        found = self.declared(text)
        assert found.init == expected
        assert found.size_bytes == len(expected)

    def test_addresses(self):
        module = parse(
            HEADER + ".global .u32 a;\n"
            ".global .u64 v[4] = {97, generic(a), a+8, 0};\n"
            ".global .b8 packed[9] = {1, 0xFF(generic(a)), 0xFF00(generic(a)), "
            "0xFF0000(generic(a)), 0xFF000000(generic(a)), 0xFF00000000(generic(a)), "
            "0xFF0000000000(generic(a)), 0xFF000000000000(generic(a)), "
            "0xFF00000000000000(generic(a))};"
        )
        assert module.variables["v"].relocations == {8: Symbol("a"), 16: Symbol("a", 8)}
        assert module.variables["v"].init == struct.pack("<Q", 97) + bytes(24)
        assert module.variables["packed"].relocations == {1: Symbol("a")}

    def test_in_a_body(self):
        body = (
            ".shared .align 16 .b8 tile[1024];\n.local .align 4 .b8 depot[8];\n"
            ".reg .b64 %rd<2>; mov.b64 %rd1, tile+16; ret;"
        )
        found = parse(f"{HEADER}.entry k() {{ {body} }}").functions["k"]
        assert [(v.name, v.space, v.size_bytes) for v in found.variables] == [
            ("tile", "shared", 1024),
            ("depot", "local", 8),
        ]
        assert found.body[0].operands == (Reg("%rd1"), Symbol("tile", 16))

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            (".global .u32 v[2] = {1, 2, 3};", "2 elements, and 3 initial values"),
            (".global v;", "expected a state space, a type and a name"),
            (".global .u32 v[n];", "not a whole number"),
            (".global .u32 v = 1 + x;", "not a constant or an address"),
        ],
    )
    def test_refused(self, text, says):
        with pytest.raises(PtxError, match=says):
            parse(HEADER + text)

    def test_texture_references_are_unsupported(self):
        with pytest.raises(UnsupportedError, match="pass a pointer"):
            parse(HEADER + ".global .texref t;")


class TestHeaderErrors:
    def test_header_directives(self):
        with pytest.raises(PtxError, match="'junk' is no directive"):
            parse(HEADER + ".entry k() junk { ret; }")

    def test_register_parameters_are_unsupported(self):
        with pytest.raises(UnsupportedError, match=r"use \.param"):
            parse(HEADER + ".func f(.reg .b32 a) { ret; }")
