"""cvt: every conversion between integers and floats (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import DOUBLE, FLOAT, HALF, I16, I32, INTS, Emitter, like
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops import floats, halves
from tilewright.emulator.ops.integers import narrow, signed, widen
from tilewright.emulator.ops.table import elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction

_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_TO_INTEGRAL = {"rni": "llvm.rint", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def _mode(ins: Instruction) -> str:
    return next((f for f in ins.flags if f in ("rn", "rz", "rm", "rp", "rna", "rs")), "rn")


@elementwise("cvt")
def cvt(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """One conversion, by the pair of types."""
    to, source = ins.types[0], ins.types[-1]
    if to in ("f16x2", "bf16x2") and source == "f32":
        high, low = (_from_f32(e, ins, a, to[:-2]) for a in args)
        return halves.pack(e, low, high)
    if to == "tf32":
        return _tf32(e, ins, args[0])
    if to not in _FLOATS | _INTEGERS or source not in _FLOATS | _INTEGERS or len(args) > 1:
        raise unsupported(ins, f"cvt from {source} to {to}")
    if source not in _FLOATS:
        return _from_integer(e, ins, args[0])
    if to not in _FLOATS:
        return _to_integer(e, ins, args[0])
    return _between_floats(e, ins, args[0])


_INTEGERS = frozenset(f"{s}{b}" for s in "us" for b in (8, 16, 32, 64))


def _range(kind: str) -> tuple[int, int]:
    bits = BITS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed(kind) else (0, (1 << bits) - 1)


def _from_integer(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    to, source = ins.types[0], ins.types[-1]
    if to not in _FLOATS:
        if "sat" in ins.flags:
            return _saturated(e, x, source, to)
        bits = BITS[to]
        return narrow(e, x, bits) if bits <= BITS[source] else widen(e, x, source, bits)
    if _mode(ins) != "rn":
        return _directed_from_integer(e, ins, x)
    convert = e.b.sitofp if signed(source) else e.b.uitofp
    if to == "f64":
        return convert(x, like(x, DOUBLE))
    if to == "f32":
        return floats.finish(e, ins, convert(x, like(x, FLOAT)))
    if BITS[source] > 32:
        raise unsupported(ins, f"cvt from {source} to {to}")
    return _half_register(e, halves.from_double(e, convert(x, like(x, DOUBLE)), to), to)


def _directed_from_integer(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    to, source = ins.types[0], ins.types[-1]
    if to != "f32" or BITS[source] > 32:
        raise unsupported(ins, f"the rounding mode .{_mode(ins)} of cvt from {source} to {to}")
    exact = (e.b.sitofp if signed(source) else e.b.uitofp)(x, like(x, DOUBLE))
    return floats.round_double(e, exact, _mode(ins))


def _saturated(e: Emitter, x: ir.Value, source: str, to: str) -> ir.Value:
    low, high = _range(to)
    x = widen(e, x, source, 128)
    order = e.b.icmp_signed
    x = e.select(order("<", x, e.const(x, low)), e.const(x, low), x)
    x = e.select(order(">", x, e.const(x, high)), e.const(x, high), x)
    return narrow(e, x, BITS[to])


def _to_integer(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """Round to an integer and clamp to the type's range (PTX clamps even without .sat)."""
    to, source = ins.types[0], ins.types[-1]
    if source in ("f16", "bf16"):
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
    from tilewright.emulator.codegen import mangled

    full = f"{name}.{mangled(kind)}.{mangled(x.type)}"
    function = e.module.globals.get(full)
    if function is None:
        function = ir.Function(e.module, ir.FunctionType(kind, [x.type]), full)
    return e.b.call(function, [x])


def _half_register(e: Emitter, half: ir.Value, kind: str) -> ir.Value:
    return e.b.bitcast(half, like(half, HALF)) if kind == "f16" else half


def _from_f32(e: Emitter, ins: Instruction, x: ir.Value, to: str) -> ir.Value:
    """float32 to 16 bits, with .relu and .satfinite."""
    mode = _mode(ins)
    if mode not in ("rn", "rz"):
        raise unsupported(ins, f"the rounding mode .{mode} of cvt to {to}")
    (x,) = floats.inputs(e, ins, x)
    if "sat" in ins.flags:
        x = floats.saturate(e, x)
    half = halves.from_float(e, x, to, mode)
    nan = e.const(half, 0x7FFF)
    if "satfinite" in ins.flags:
        largest = e.const(half, 0x7BFF if to == "f16" else 0x7F7F)
        size = e.b.and_(half, nan)
        infinite = e.b.icmp_unsigned("==", size, e.const(half, 0x7C00 if to == "f16" else 0x7F80))
        sign = e.b.and_(half, e.const(half, 0x8000))
        half = e.select(infinite, e.b.or_(largest, sign), half)
    if "relu" in ins.flags:
        negative = e.b.icmp_signed("<", half, e.const(half, 0))
        half = e.select(negative, e.const(half, 0), half)
    return half


def _tf32(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    """float32 with the mantissa rounded to 10 bits; .rna rounds ties away from zero."""
    bits = e.b.bitcast(x, like(x, I32))
    finite = e.b.fcmp_ordered("<", e.intrinsic("llvm.fabs", [x]), e.const(x, float("inf")))
    half = e.const(bits, 0x1000)
    if _mode(ins) == "rn":
        odd = e.b.and_(e.b.lshr(bits, e.const(bits, 13)), e.const(bits, 1))
        half = e.b.add(odd, e.const(bits, 0x0FFF))
    elif _mode(ins) == "rz":
        half = e.const(bits, 0)
    rounded = e.b.and_(e.b.add(bits, half), e.const(bits, 0xFFFFE000))
    return e.select(finite, rounded, bits)


def _between_floats(e: Emitter, ins: Instruction, x: ir.Value) -> ir.Value:
    to, source = ins.types[0], ins.types[-1]
    rounding = next((f for f in ins.flags if f in _TO_INTEGRAL), None)
    if to in ("f16", "bf16"):
        if source == "f64":
            return _half_register(e, halves.from_double(e, x, to), to)
        if source in ("f16", "bf16"):
            x = halves.to_float(e, x, source)
            if rounding:
                x = e.intrinsic(_TO_INTEGRAL[rounding], [x])
        return _half_register(e, _from_f32(e, ins, x, to), to)
    if source in ("f16", "bf16"):
        x = halves.to_float(e, x, source)
    (x,) = floats.inputs(e, ins, x) if source != "f64" else (x,)
    if rounding and source == to:
        x = e.intrinsic(_TO_INTEGRAL[rounding], [x])
    elif to == "f64" and source != "f64":
        x = e.b.fpext(x, like(x, DOUBLE))
    elif to == "f32" and source == "f64":
        x = floats.round_double(e, x, _mode(ins))
    return floats.finish(e, ins, x)


__all__ = ["I16", "cvt"]
