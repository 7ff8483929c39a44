"""float16 and bfloat16 instructions, single and packed (PTX ISA 9.7.4).

Each is computed wider and rounded once: float32 holds any sum or product of two halves with bits
to spare (24 >= 2·11 + 2), and float64 any product plus a third. A packed operand is two lanes.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tilewright.emulator.codegen import DOUBLE, FLOAT, HALF, I16, I32, Emitter, like
from tilewright.emulator.ops import floats
from tilewright.emulator.ops.table import elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction


def to_float(e: Emitter, x: ir.Value, kind: str) -> ir.Value:
    """A half (16 bits, any LLVM type) as float32, exactly."""
    if kind == "bf16":
        wide = e.b.shl(e.b.zext(e.cast(x, I16), like(x, I32)), e.const_of(like(x, I32), 16))
        return e.b.bitcast(wide, like(x, FLOAT))
    return e.b.fpext(e.cast(x, HALF), like(x, FLOAT))


def from_float(e: Emitter, x: ir.Value, kind: str, mode: str = "rn") -> ir.Value:
    """float32 rounded to 16 bits (i16); NaN becomes 0x7fff, as on the GPU."""
    bits = e.b.bitcast(x, like(x, I32))
    nan = e.b.fcmp_unordered("uno", x, x)
    if kind == "bf16":
        rounded = bits
        if mode == "rn":
            odd = e.b.and_(e.b.lshr(bits, e.const(bits, 16)), e.const(bits, 1))
            rounded = e.b.add(bits, e.b.add(odd, e.const(bits, 0x7FFF)))
        half = e.b.trunc(e.b.lshr(rounded, e.const(bits, 16)), like(x, I16))
    else:
        near = e.b.fptrunc(x, like(x, HALF))
        half = e.b.bitcast(near, like(x, I16))
        if mode == "rz":
            back = e.intrinsic("llvm.fabs", [e.b.fpext(near, x.type)])
            far = e.b.fcmp_ordered(">", back, e.intrinsic("llvm.fabs", [x]))
            half = e.select(far, e.b.sub(half, e.const(half, 1)), half)
    return e.select(nan, e.const(half, 0x7FFF), half)


def from_double(e: Emitter, x: ir.Value, kind: str) -> ir.Value:
    """float64 rounded once to 16 bits: to odd first, so that the second rounding is right."""
    return from_float(e, floats.round_double(e, x, "odd"), kind)


def unpack(e: Emitter, pair: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The low and high 16 bits of a packed register."""
    low = e.b.trunc(pair, like(pair, I16))
    return low, e.b.trunc(e.b.lshr(pair, e.const(pair, 16)), like(pair, I16))


def pack(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Two 16-bit values as one packed register."""
    wide = like(low, I32)
    up = e.b.shl(e.b.zext(high, wide), e.const_of(wide, 16))
    return e.b.or_(e.b.zext(low, wide), up)


Half = Callable[[Emitter, Instruction, str, tuple[ir.Value, ...]], ir.Value]


def _apply(e: Emitter, ins: Instruction, one: Half, args: tuple[ir.Value, ...]) -> ir.Value:
    """Run the code of one half on a register: once, or on both halves of a packed one."""
    kind = ins.types[-1]
    if kind.endswith("x2"):
        low, high = zip(*(unpack(e, a) for a in args), strict=True)
        return pack(e, one(e, ins, kind[:-2], low), one(e, ins, kind[:-2], high))
    result = one(e, ins, kind, args)
    return e.b.bitcast(result, like(result, HALF)) if kind == "f16" else result


def _finish(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    if "relu" in ins.flags:
        positive = e.b.fcmp_unordered(">", x, e.const(x, 0.0))
        x = e.select(positive, x, e.const(x, 0.0))
    return floats.saturate(e, x) if "sat" in ins.flags else x


def _rounded(e: Emitter, ins: Instruction, kind: str, args: tuple[ir.Value, ...]) -> ir.Value:
    if "ftz" in ins.flags:
        raise unsupported(ins, ".ftz on halves")
    if ins.opcode in ("fma", "mad"):
        wide = [e.b.fpext(to_float(e, a, kind), like(a, DOUBLE)) for a in args]
        exact = _finish(e, ins, e.intrinsic("llvm.fma", wide))
        return from_double(e, exact, kind)
    a, b = (to_float(e, x, kind) for x in args)
    result = {"add": e.b.fadd, "sub": e.b.fsub, "mul": e.b.fmul}[ins.opcode](a, b)
    return from_float(e, _finish(e, ins, result), kind)


def _exact(e: Emitter, ins: Instruction, kind: str, args: tuple[ir.Value, ...]) -> ir.Value:
    values = [to_float(e, a, kind) for a in args]
    if ins.opcode in ("min", "max"):
        result, *rest = values
        for other in rest:
            result = floats.extreme(e, ins, result, other)
    else:
        result = {"ex2": "llvm.exp2", "tanh": "llvm.tanh"}[ins.opcode]
        result = e.intrinsic(result, values)
    return from_float(e, result, kind)


def _sign(e: Emitter, ins: Instruction, _kind: str, args: tuple[ir.Value, ...]) -> ir.Value:
    bits = e.cast(args[0], I16)
    if ins.opcode == "neg":
        return e.b.xor(bits, e.const(bits, 0x8000))
    return e.b.and_(bits, e.const(bits, 0x7FFF))


@elementwise("add", "sub", "mul", "fma", "mad", family="half")
def arithmetic(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """One rounded operation."""
    return _apply(e, ins, _rounded, args)


@elementwise("min", "max", "ex2", "tanh", family="half")
def functions(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """The extreme of halves, or a function of one."""
    return _apply(e, ins, _exact, args)


@elementwise("neg", "abs", family="half")
def signs(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """The sign bit flipped or cleared."""
    return _apply(e, ins, _sign, args)


def compare(e: Emitter, relation: str, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """a `relation` b on single halves."""
    return floats.compare(e, relation, to_float(e, a, kind), to_float(e, b, kind))
