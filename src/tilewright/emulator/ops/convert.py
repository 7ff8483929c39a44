"""cvt: every conversion between integers and floats (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import (
    DOUBLE,
    FLOAT,
    HALF,
    I32,
    INTS,
    Emitter,
    declared,
    like,
    mangled,
)
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops import eighths, floats, halves
from tilewright.emulator.ops.integers import narrow, signed, widen
from tilewright.emulator.ops.packed import pack
from tilewright.emulator.ops.rounding import direction
from tilewright.emulator.ops.table import elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction

_HALVES = frozenset({"f16", "bf16"})
_FLOATS = _HALVES | {"f32", "f64"}
_INTEGERS = frozenset(f"{s}{b}" for s in "us" for b in (8, 16, 32, 64))
_TO_INTEGRAL = {"rni": "llvm.rint", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


@elementwise("cvt")
def cvt(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """Convert, by the pair of types."""
    to, source = ins.types[0], ins.types[-1]
    if "pack" in ins.flags:
        return _packed(e, ins, *args)
    if "rs" in ins.flags or len(args) > 2:
        raise unsupported(ins, "this form of cvt")
    if to in ("f16x2", "bf16x2") and source == "f32":
        return pack(e, *(_from_f32(e, ins, a, to.removesuffix("x2")) for a in reversed(args)))
    if to in eighths.FORMATS or source in eighths.FORMATS:
        return eighths.convert(e, ins, *args)
    if to == "tf32":
        return _tf32(e, ins, args[0])
    if not (_FLOATS | _INTEGERS).issuperset((to, source)) or len(args) > 1:
        raise unsupported(ins, f"cvt from {source} to {to}")
    if source in _INTEGERS:
        return (_to_float if to in _FLOATS else _between_integers)(e, ins, args[0])
    return (_between_floats if to in _FLOATS else _to_integer)(e, ins, args[0])


def _packed(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *c: ir.Value) -> ir.Value:
    """Saturate a and b to 2 to 16 bits, side by side under what is in c (PTX ISA 9.7.9.22)."""
    to = ins.types[0]
    bits = int(to[1:])
    least = -(1 << (bits - 1)) if signed(to) else 0
    high, low = (_clamped(e, x, least, least + (1 << bits) - 1) for x in (a, b))
    mask = e.const(a, (1 << bits) - 1)
    pair = e.b.or_(e.b.shl(e.b.and_(high, mask), e.const(a, bits)), e.b.and_(low, mask))
    return e.b.or_(e.b.shl(c[0], e.const(a, 2 * bits)), pair) if c else pair


def _clamped(e: Emitter, x: ir.Value, least: int, most: int) -> ir.Value:
    x = e.intrinsic("llvm.smax", [x, e.const(x, least)])
    return e.intrinsic("llvm.smin", [x, e.const(x, most)])


# --- integers -------------------------------------------------------------------------------------


def _between_integers(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    to, source = ins.types
    bits = BITS[to]
    if "sat" in ins.flags:
        least = -(1 << (bits - 1)) if signed(to) else 0
        return narrow(
            e, _clamped(e, widen(e, x, source, 128), least, least + (1 << bits) - 1), bits
        )
    return narrow(e, x, bits) if bits <= BITS[source] else widen(e, x, source, bits)


def _to_float(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """Round an integer once."""
    to, source = ins.types
    name = "sitofp" if signed(source) else "uitofp"
    if to in _HALVES:
        exact = floats.operation(e, name, "rn", [_jammed(e, x, source)], DOUBLE)
        return _register(e, _from_f64(e, ins, exact, to), to)
    lane = DOUBLE if to == "f64" else FLOAT
    return floats.finish(e, ins, floats.operation(e, name, direction(ins), [x], lane))


def _jammed(e: Emitter, x: ir.Value, source: str) -> ir.Value:
    """Fit 64 bits in float64's 53, so that rounding on to a half is right: as `to_odd` does."""
    if BITS[source] < 64:
        return x
    zero = e.const(x, 0)
    inexact = e.b.icmp_unsigned("!=", e.b.and_(x, e.const(x, 0x7FF)), zero)
    odd = e.b.and_(x, e.const(x, -0x800))
    odd = e.select(inexact, e.b.or_(odd, e.const(x, 0x800)), odd)
    size = x
    if signed(source):
        size = e.select(e.b.icmp_signed("<", x, zero), e.b.sub(zero, x), x)
    return e.select(e.b.icmp_unsigned(">", size, e.const(x, 1 << 53)), odd, x)


def _to_integer(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """Round to an integer and clamp to the type's range (PTX clamps even without .sat)."""
    to, source = ins.types
    if source in _HALVES:
        x = halves.to_float(e, x, source)
    (x,) = floats.inputs(e, ins, x)
    rounding = next((f for f in ins.flags if f in _TO_INTEGRAL), "rzi")
    x = e.intrinsic(_TO_INTEGRAL[rounding], [x])
    bits = BITS[to]
    name = "llvm.fptosi.sat" if signed(to) else "llvm.fptoui.sat"
    result = _converted(e, name, x, like(x, INTS[bits]))
    if source == "f64" or bits == 64:  # NaN gives the top bit, and 0 for the narrower types
        nan = e.b.fcmp_unordered("uno", x, x)
        result = e.select(nan, e.const(result, 1 << (bits - 1)), result)
    return result


def _converted(e: Emitter, name: str, x: ir.Value, kind: ir.Type) -> ir.Value:
    full = f"{name}.{mangled(kind)}.{mangled(x.type)}"
    return e.b.call(declared(e.module, full, kind, [x.type]), [x])


# --- floats ---------------------------------------------------------------------------------------


def _register(e: Emitter, half: ir.Value, kind: str) -> ir.Value:
    return e.cast(half, HALF) if kind == "f16" else half


def _suffixed(e: Emitter, ins: Instruction, half: ir.Value) -> ir.Value:
    """Apply .satfinite and .relu to 16 rounded bits."""
    if "satfinite" in ins.flags:
        f16 = ins.types[0].startswith("f16")
        infinity, largest = (0x7C00, 0x7BFF) if f16 else (0x7F80, 0x7F7F)
        size, sign = (e.b.and_(half, e.const(half, mask)) for mask in (0x7FFF, 0x8000))
        infinite = e.b.icmp_unsigned("==", size, e.const(half, infinity))
        half = e.select(infinite, e.b.or_(e.const(half, largest), sign), half)
    if "relu" in ins.flags:
        half = e.intrinsic("llvm.smax", [half, e.const(half, 0)])
    return half


def _from_f32(e: Emitter, ins: Instruction, x: ir.Value, to: str) -> ir.Value:
    """Round float32 to 16 bits."""
    (x,) = floats.inputs(e, ins, x)
    if "sat" in ins.flags:
        x = floats.saturate(e, x)
    return _suffixed(e, ins, halves.from_float(e, x, to, direction(ins)))


def _from_f64(e: Emitter, ins: Instruction, x: ir.Value, to: str) -> ir.Value:
    """Round float64 to 16 bits."""
    if "sat" in ins.flags:
        x = floats.saturate(e, x)
    return _suffixed(e, ins, halves.from_double(e, x, to, direction(ins)))


def _tf32(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """Round float32 to 10 bits of mantissa; .rna rounds ties away from zero."""
    bits = e.b.bitcast(x, like(x, I32))
    half = e.const(bits, 0x1000)
    if "rn" in ins.flags:
        odd = e.b.and_(e.b.lshr(bits, e.const(bits, 13)), e.const(bits, 1))
        half = e.b.add(odd, e.const(bits, 0x0FFF))
    elif "rz" in ins.flags:
        half = e.const(bits, 0)
    size = e.intrinsic("llvm.fabs", [x])
    infinity = e.const(x, float("inf"))
    rounded = e.b.and_(e.b.add(bits, half), e.const(bits, 0xFFFFE000))
    result = e.select(e.b.fcmp_ordered("<", size, infinity), rounded, bits)
    if "satfinite" in ins.flags:
        sign = e.b.and_(bits, e.const(bits, 0x80000000))
        over = e.b.icmp_unsigned(
            "==", e.b.and_(result, e.const(bits, 0x7FFFFFFF)), e.const(bits, 0x7F800000)
        )
        result = e.select(over, e.b.or_(sign, e.const(bits, 0x7F7FE000)), result)
    result = e.select(e.b.fcmp_unordered("uno", x, x), e.const(bits, 0x7FFFFFFF), result)
    if "relu" in ins.flags:
        result = e.intrinsic("llvm.smax", [result, e.const(result, 0)])
    return result


def _between_floats(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    to, source = ins.types
    if source in _HALVES:
        x = halves.to_float(e, x, source)
    elif source == "f32":
        (x,) = floats.inputs(e, ins, x)
    rounding = next((f for f in ins.flags if f in _TO_INTEGRAL), None)
    if rounding is not None:
        x = e.intrinsic(_TO_INTEGRAL[rounding], [x])
    if to in _HALVES:
        if source == "f64":
            return _register(e, _from_f64(e, ins, x, to), to)
        return _register(e, _from_f32(e, ins, x, to), to)
    if to == "f64" and source != "f64":
        x = e.b.fpext(x, like(x, DOUBLE))
    elif to == "f32" and source == "f64":
        x = floats.rounded(e, ins, "fptrunc", x, lane=FLOAT)
    return floats.finish(e, ins, x)
