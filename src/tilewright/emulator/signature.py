"""The PTX types of the operands and results of an elementwise instruction."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import DOUBLE, FLOAT, HALF, INTS
from tilewright.emulator.lanes import BITS
from tilewright.toolchain.ptx.ir import Instruction, Pair

Kinds = tuple[str, ...]


def lane_type(kind: str) -> ir.Type:
    """Return the LLVM type of one lane of `kind`; bfloat16 and packed types are integers."""
    floats = {"f16": HALF, "f32": FLOAT, "f64": DOUBLE}
    return floats.get(kind) or INTS[BITS[kind]]


def doubled(kind: str) -> str:
    """Return the type of twice the width (`s32`: `s64`)."""
    return f"{kind[0]}{BITS[kind] * 2}"


def signature(ins: Instruction) -> tuple[Kinds, Kinds]:
    """Return (result types, source types) of `ins`."""
    first, last = ins.types[0], ins.types[-1]
    sources = len(ins.operands) - 1
    match ins.opcode:
        case "add" | "sub" | "fma" if len(ins.types) > 1:
            return (first,), (*(last,) * (sources - 1), first)
        case "mul" | "mad" if "wide" in ins.flags:
            return (doubled(last),), (last, last, doubled(last))[:sources]
        case "mul24" | "mad24":
            return (last,), (last,) * sources
        case "shl" | "shr":
            return (last,), (last, "u32")
        case "shf":
            return (last,), (last, last, "u32")
        case "bfe":
            return (last,), (last, "u32", "u32")
        case "bfi":
            return (last,), (last, last, "u32", "u32")
        case "fns":
            return (last,), ("b32", "b32", "s32")
        case "lop3":
            return (last, "pred")[: sources - 3], (last, last, last, "u32", "pred")[:sources]
        case "popc" | "clz" | "bfind":
            return ("u32",), (last,)
        case "bmsk" | "szext":
            return (last,), (last, "u32")
        case "setp":
            pair = isinstance(ins.operands[0], Pair)
            return ("pred",) * (1 + pair), (last, last, "pred")[:sources]
        case "set":
            return (first,), (last, last, "pred")[:sources]
        case "testp":
            return ("pred",), (last,)
        case "selp":
            return (last,), (last, last, "pred")
        case "slct":
            return (first,), (first, first, last)
        case "dp4a" | "dp2a":
            return (_dot_type(ins),), (ins.types[0], ins.types[1], _dot_type(ins))
        case "cvt" if "pack" in ins.flags:
            return ("b32",), ("s32", "s32", "b32")[:sources]
        case "cvt":
            return (first,), (last,) * sources
        case _:
            return (last,), (last,) * sources


def _dot_type(ins: Instruction) -> str:
    return "u32" if ins.types[0][0] == "u" and ins.types[1][0] == "u" else "s32"
