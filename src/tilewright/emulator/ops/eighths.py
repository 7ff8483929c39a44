"""cvt to and from packed 8-bit floats (PTX ISA 9.7.9.21): e4m3x2 and e5m2x2.

Both formats are part of float16: e5m2 is its upper byte, and e4m3 has its layout but for three
mantissa bits instead of ten, once the value is scaled by 2^-8 to make the exponents' biases equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tilewright.emulator.codegen import FLOAT, HALF, I8, I16, I32, Emitter, like
from tilewright.emulator.ops import halves
from tilewright.emulator.ops.packed import pack, unpack
from tilewright.emulator.ops.table import unsupported
from tilewright.toolchain.ptx.ir import Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """An 8-bit float: `scale` and `shift` take its value and its bits to those of float16."""

    mantissa: int
    least: float  # the smallest normal number
    largest: float
    scale: float
    shift: int


FORMATS = {
    "e4m3x2": Format(mantissa=3, least=2.0**-6, largest=448.0, scale=2.0**-8, shift=7),
    "e5m2x2": Format(mantissa=2, least=2.0**-14, largest=57344.0, scale=1.0, shift=8),
}
_NAN = 0x7F


def convert(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """Convert two float32, or a pair of float16, to two 8-bit floats; or those to float16."""
    to, source = ins.types
    if source in FORMATS and to == "f16x2":
        return pack(e, *(_widened(e, ins, part) for part in unpack(e, args[0])))
    if source == "f32" and len(args) == 2:
        high, low = args
    elif source == "f16x2":
        low, high = (halves.to_float(e, part, "f16") for part in unpack(e, args[0]))
    else:
        raise unsupported(ins, f"cvt from {source} to {to}")
    return pack(e, *(_rounded(e, ins, x, FORMATS[to]) for x in (low, high)))


def _rounded(e: Emitter, ins: Instruction, x: ir.Value, form: Format) -> ir.Value:
    """Round float32 to the nearest number of the format; what is past its range to its end."""
    bits = e.b.bitcast(x, like(x, I32))
    power = e.b.bitcast(e.b.and_(bits, e.const(bits, 0x7F800000)), x.type)
    power = e.intrinsic("llvm.maxnum", [power, e.const(x, form.least)])
    power = e.intrinsic("llvm.minnum", [power, e.const(x, 2.0**16)])  # past every range
    unit = e.b.fmul(power, e.const(x, 2.0**-form.mantissa))
    near = e.b.fmul(e.intrinsic("llvm.rint", [e.b.fdiv(x, unit)]), unit)
    near = e.intrinsic("llvm.minnum", [near, e.const(x, form.largest)])
    near = e.intrinsic("llvm.maxnum", [near, e.const(x, -form.largest)])
    if "relu" in ins.flags:
        near = e.select(e.b.fcmp_ordered(">", near, e.const(x, 0.0)), near, e.const(x, 0.0))
    half = e.b.fptrunc(e.b.fmul(near, e.const(x, form.scale)), like(x, HALF))
    wide = e.b.bitcast(half, like(x, I16))
    size = e.b.and_(e.b.lshr(wide, e.const(wide, form.shift)), e.const(wide, 0x7F))
    sign = e.b.and_(e.b.lshr(wide, e.const(wide, 8)), e.const(wide, 0x80))
    byte = e.b.trunc(e.b.or_(size, sign), like(x, I8))
    return e.select(e.b.fcmp_unordered("uno", x, x), e.const(byte, _NAN), byte)


def _widened(e: Emitter, ins: Instruction, byte: ir.Value) -> ir.Value:
    """Return an 8-bit float as the 16 bits of a float16, exactly."""
    form = FORMATS[ins.types[1]]
    wide = e.b.zext(byte, like(byte, I16))
    size, sign = (e.b.and_(wide, e.const(wide, mask)) for mask in (0x7F, 0x80))
    joined = e.b.or_(e.b.shl(size, e.const(wide, form.shift)), e.b.shl(sign, e.const(wide, 8)))
    value = e.b.fpext(e.b.bitcast(joined, like(byte, HALF)), like(byte, FLOAT))
    half = halves.from_float(e, e.b.fmul(value, e.const(value, 1 / form.scale)), "f16")
    if form.shift == 7:  # e4m3 has a NaN where float16 has a number
        half = e.select(
            e.b.icmp_unsigned("==", size, e.const(size, _NAN)), e.const(half, halves.NAN), half
        )
    if "relu" in ins.flags:
        half = e.intrinsic("llvm.smax", [half, e.const(half, 0)])
    return half
