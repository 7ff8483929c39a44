"""float16 and bfloat16 instructions (PTX ISA 9.7.4 and 9.7.5).

Each is computed wider and rounded once: float32 holds what decides the rounding of a sum or
product of two halves, float64 their product, and of its sum with a third all but a sticky bit. A
float16 is an LLVM half, a bfloat16 its 16 bits.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import DOUBLE, FLOAT, HALF, I16, I32, Emitter, like
from tilewright.emulator.ops import floats
from tilewright.emulator.ops.rounding import odd_sum, to_odd
from tilewright.emulator.ops.table import elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction

NAN = 0x7FFF  # what a GPU gives for a NaN


def to_float(e: Emitter, x: ir.Value, kind: str) -> ir.Value:
    """Return a half (16 bits, any LLVM type) as float32, exactly."""
    if kind == "bf16":
        wide = e.b.shl(e.b.zext(e.cast(x, I16), like(x, I32)), e.const_of(like(x, I32), 16))
        return e.b.bitcast(wide, like(x, FLOAT))
    return e.b.fpext(e.cast(x, HALF), like(x, FLOAT))


def from_float(e: Emitter, x: ir.Value, kind: str, mode: str = "rn") -> ir.Value:
    """Round float32 to 16 bits, as an integer, by mode rn, rz, rm or rp."""
    bits = e.b.bitcast(x, like(x, I32))
    nan = e.b.fcmp_unordered("uno", x, x)
    if kind == "bf16":
        odd = e.b.and_(e.b.lshr(bits, e.const(bits, 16)), e.const(bits, 1))
        up = e.b.add(bits, e.b.add(odd, e.const(bits, 0x7FFF)))
        near = e.b.trunc(e.b.lshr(up, e.const(bits, 16)), like(x, I16))
    else:
        near = e.b.bitcast(e.b.fptrunc(x, like(x, HALF)), like(x, I16))
    if mode != "rn":
        near = _moved(e, near, x, kind, mode)
    return e.select(nan, e.const(near, NAN), near)


def _moved(e: Emitter, near: ir.Value, x: ir.Value, kind: str, mode: str) -> ir.Value:
    """Step from the nearest half to the one on the side that `mode` asks for."""
    back = to_float(e, near, kind)
    one = e.const(near, 1)
    negative = e.b.icmp_signed("<", e.b.bitcast(x, like(x, I32)), e.const_of(like(x, I32), 0))
    over, under = (e.b.fcmp_ordered(order, back, x) for order in "><")
    inward, outward = e.b.sub(near, one), e.b.add(near, one)
    if mode == "rz":
        return e.select(e.select(negative, under, over), inward, near)
    if mode == "rm":
        return e.select(over, e.select(negative, outward, inward), near)
    return e.select(under, e.select(negative, inward, outward), near)


def from_double(e: Emitter, x: ir.Value, kind: str, mode: str = "rn") -> ir.Value:
    """Round float64 once to 16 bits: to odd first, so that the second rounding is right."""
    return from_float(e, to_odd(e, x), kind, mode)


def flush(e: Emitter, x: ir.Value, kind: str) -> ir.Value:
    """Turn what rounds to a subnormal of `kind` into zero of its sign (see `floats.rounded`)."""
    least = 2.0**-14 * (1 - 2.0**-12) if kind == "f16" else 2.0**-126 * (1 - 2.0**-9)
    tiny = e.b.fcmp_ordered("<", e.intrinsic("llvm.fabs", [x]), e.const(x, least))
    return e.select(tiny, e.intrinsic("llvm.copysign", [e.const(x, 0.0), x]), x)


def _operands(e: Emitter, ins: Instruction, args: tuple[ir.Value, ...]) -> list[ir.Value]:
    kind = ins.types[-1]
    values = [to_float(e, a, kind) for a in args]
    return [flush(e, v, kind) for v in values] if "ftz" in ins.flags else values


def _result(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """Apply the suffixes of an instruction to its exact result, and round it."""
    kind = ins.types[-1]
    if "ftz" in ins.flags:
        x = flush(e, x, kind)
    if "sat" in ins.flags:
        x = floats.saturate(e, x)
    if "relu" in ins.flags:
        positive = e.b.fcmp_unordered(">", x, e.const(x, 0.0))
        x = e.select(positive, x, e.const(x, 0.0))
    half = from_float(e, x, kind)
    return e.cast(half, HALF) if kind == "f16" else half


@elementwise("add", "sub", "mul", "fma", "mad", family="half")
def arithmetic(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """One rounded operation."""
    if "oob" in ins.flags:
        raise unsupported(ins, "fma.oob")
    values = _operands(e, ins, args)
    if ins.opcode in ("fma", "mad"):
        a, b, c = (e.b.fpext(v, like(v, DOUBLE)) for v in values)
        return _result(e, ins, to_odd(e, odd_sum(e, e.b.fmul(a, b), c)))
    return _result(e, ins, floats.operation(e, f"f{ins.opcode}", "rn", values))


@elementwise("min", "max", family="half")
def min_max(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """Pick the extreme of two or three halves."""
    return _result(e, ins, floats.extreme_of(e, ins, tuple(_operands(e, ins, args))))


@elementwise("ex2", "tanh", family="half")
def function(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Compute a function of one half."""
    name = {"ex2": "llvm.exp2", "tanh": "llvm.tanh"}[ins.opcode]
    return _result(e, ins, e.intrinsic(name, _operands(e, ins, (a,))))


@elementwise("neg", "abs", family="half")
def signs(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Flip or clear the sign."""
    (x,) = _operands(e, ins, (a,))
    return _result(e, ins, e.b.fneg(x) if ins.opcode == "neg" else e.intrinsic("llvm.fabs", [x]))


@elementwise("add", "sub", family="mixed")
def mixed_sum(e: Emitter, ins: Instruction, a: ir.Value, c: ir.Value) -> ir.Value:
    """Add or subtract in float32, for a half a."""
    wide = to_float(e, a, ins.types[-1])
    return floats.finish(e, ins, floats.rounded(e, ins, f"f{ins.opcode}", wide, c))


@elementwise("fma", family="mixed")
def mixed_fma(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Multiply and add in float32, for halves a and b."""
    a, b = (to_float(e, x, ins.types[-1]) for x in (a, b))
    return floats.finish(e, ins, floats.rounded(e, ins, "fma", a, b, c))


def compare(e: Emitter, ins: Instruction, relation: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Compare single halves."""
    return floats.compare(e, relation, *_operands(e, ins, (a, b)))
