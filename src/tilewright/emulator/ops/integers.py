"""Integer arithmetic, selection and comparison (PTX ISA 9.7.1, 9.7.6 and 9.7.9.3)."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import I8, I16, INTS, Emitter, bits_of, element, like
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops.table import elementwise
from tilewright.toolchain.ptx.ir import Instruction


def signed(kind: str) -> bool:
    """Whether PTX type `kind` is a signed integer."""
    return kind[0] == "s"


def widen(e: Emitter, x: ir.Value, kind: str, bits: int) -> ir.Value:
    """Extend x, of type `kind`, to `bits`, by its sign if it has one."""
    to = like(x, INTS[bits])
    if bits_of(element(x)) == bits:
        return x
    return e.b.sext(x, to) if signed(kind) else e.b.zext(x, to)


def narrow(e: Emitter, x: ir.Value, bits: int) -> ir.Value:
    """Drop x's high bits."""
    return x if bits_of(element(x)) == bits else e.b.trunc(x, like(x, INTS[bits]))


def minimum(e: Emitter, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the smaller of two integers."""
    return e.intrinsic("llvm.smin" if signed(kind) else "llvm.umin", [a, b])


def maximum(e: Emitter, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the larger of two integers."""
    return e.intrinsic("llvm.smax" if signed(kind) else "llvm.umax", [a, b])


@elementwise("add", "sub", family="integer")
def add_sub(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Add or subtract, saturating for .sat."""
    if "sat" in ins.flags:
        return e.intrinsic(f"llvm.s{ins.opcode}.sat", [a, b])
    return e.b.add(a, b) if ins.opcode == "add" else e.b.sub(a, b)


def _product(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    kind = ins.types[-1]
    bits = BITS[kind]
    if "wide" in ins.flags or "hi" in ins.flags:
        full = e.b.mul(widen(e, a, kind, 2 * bits), widen(e, b, kind, 2 * bits))
        if "wide" in ins.flags:
            return full
        return narrow(e, e.b.lshr(full, e.const(full, bits)), bits)
    return e.b.mul(a, b)


@elementwise("mul", family="integer")
def mul(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Multiply: the low, high or whole product."""
    return _product(e, ins, a, b)


def _plus(e: Emitter, ins: Instruction, product: ir.Value, c: ir.Value) -> ir.Value:
    if "sat" in ins.flags:
        return e.intrinsic("llvm.sadd.sat", [product, c])
    return e.b.add(product, c)


@elementwise("mad", family="integer")
def mad(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Multiply (low, high or whole product) and add c."""
    return _plus(e, ins, _product(e, ins, a, b), c)


def _product24(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Multiply the low 24 bits: the low 32 bits of the product, or for .hi bits 16 to 47."""
    kind = ins.types[-1]
    low = []
    for x in (a, b):
        up = e.b.shl(x, e.const(x, 8))
        cut = e.b.ashr(up, e.const(x, 8)) if signed(kind) else e.b.lshr(up, e.const(x, 8))
        low.append(widen(e, cut, kind, 64))
    full = e.b.mul(*low)
    return narrow(e, e.b.lshr(full, e.const(full, 16 if "hi" in ins.flags else 0)), 32)


@elementwise("mul24")
def mul24(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Multiply 24-bit numbers."""
    return _product24(e, ins, a, b)


@elementwise("mad24")
def mad24(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Multiply 24-bit numbers and add c."""
    return _plus(e, ins, _product24(e, ins, a, b), c)


@elementwise("sad")
def sad(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Add the distance of a and b to c."""
    kind = ins.types[-1]
    return e.b.add(e.b.sub(maximum(e, kind, a, b), minimum(e, kind, a, b)), c)


@elementwise("div", "rem", family="integer")
def div_rem(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Quotient or remainder, rounding to zero. Of a division by zero both are all ones.

    Source: the ISA leaves that open; measured on an H200 for all types.
    """
    kind = ins.types[-1]
    zero = e.b.icmp_unsigned("==", b, e.const(b, 0))
    unsafe = zero
    if signed(kind):
        least = e.const(a, 1 << (BITS[kind] - 1))
        overflow = e.b.and_(
            e.b.icmp_unsigned("==", a, least), e.b.icmp_unsigned("==", b, e.const(b, -1))
        )
        unsafe = e.b.or_(zero, overflow)
    divisor = e.select(unsafe, e.const(b, 1), b)
    operations = {
        "div": (e.b.udiv, e.b.sdiv),
        "rem": (e.b.urem, e.b.srem),
    }
    result = operations[ins.opcode][signed(kind)](a, divisor)
    return e.select(zero, e.const(a, -1), result)


@elementwise("abs", family="integer")
def abs_(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Clear the sign; the least number stays itself."""
    return e.select(e.b.icmp_signed("<", a, e.const(a, 0)), e.b.sub(e.const(a, 0), a), a)


@elementwise("neg", family="integer")
def neg(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Negate."""
    return e.b.sub(e.const(a, 0), a)


@elementwise("min", "max", family="integer")
def min_max(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Pick the smaller or larger; for .relu nothing below 0."""
    kind = ins.types[-1]
    result = (minimum if ins.opcode == "min" else maximum)(e, kind, a, b)
    return maximum(e, kind, result, e.const(result, 0)) if "relu" in ins.flags else result


@elementwise("dp4a", "dp2a")
def dot(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Add to c the dot product of four bytes (dp2a: two halves of a with two bytes of b)."""
    total = c
    four = ins.opcode == "dp4a"
    first = 2 if not four and "hi" in ins.flags else 0
    for i in range(4 if four else 2):
        x = _field(e, a, ins.types[0], (8, I8) if four else (16, I16), i)
        y = _field(e, b, ins.types[1], (8, I8), i + first)
        total = e.b.add(total, e.b.mul(x, y))
    return total


def _field(e: Emitter, x: ir.Value, kind: str, size: tuple[int, ir.IntType], i: int) -> ir.Value:
    part = e.b.trunc(e.b.lshr(x, e.const(x, size[0] * i)), like(x, size[1]))
    return widen(e, part, kind, 32)


_SIGNED_ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED_ORDER = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def compare(e: Emitter, relation: str, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Compare integers of type `kind`."""
    if relation in ("eq", "ne"):
        return e.b.icmp_unsigned("==" if relation == "eq" else "!=", a, b)
    if relation in _UNSIGNED_ORDER:
        return e.b.icmp_unsigned(_UNSIGNED_ORDER[relation], a, b)
    order = e.b.icmp_signed if signed(kind) else e.b.icmp_unsigned
    return order(_SIGNED_ORDER[relation], a, b)


@elementwise("selp")
def selp(e: Emitter, _ins: Instruction, a: ir.Value, b: ir.Value, p: ir.Value) -> ir.Value:
    """Select a where p, else b."""
    return e.select(p, a, b)


@elementwise("slct")
def slct(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Select a where c >= 0, else b. A NaN is not; -0, and a subnormal under .ftz, are."""
    if ins.types[-1] != "f32":
        return e.select(e.b.icmp_signed(">=", c, e.const(c, 0)), a, b)
    least = -(2.0**-126) if "ftz" in ins.flags else 0.0
    return e.select(e.b.fcmp_ordered(">" if least else ">=", c, e.const(c, least)), a, b)


@elementwise("mov")
def mov(_e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Copy."""
    return a
