"""Logic, shifts and bit fields (PTX ISA 9.7.1.14 to 9.7.1.22, 9.7.8 and 9.7.9.7)."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import I1, I32, Emitter, bits_of, element
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops.integers import narrow, signed, widen
from tilewright.emulator.ops.table import elementwise
from tilewright.toolchain.ptx.ir import Imm, Instruction


def _resized(e: Emitter, amount: ir.Value, bits: int) -> ir.Value:
    """Bring an unsigned amount, small enough, to `bits`."""
    return narrow(e, amount, bits) if bits < 32 else widen(e, amount, "u32", bits)


def _clamped(e: Emitter, amount: ir.Value, most: int) -> ir.Value:
    return e.intrinsic("llvm.umin", [amount, e.const(amount, most)])


def _low(e: Emitter, amount: ir.Value, mask: int) -> ir.Value:
    return e.b.and_(amount, e.const(amount, mask))


@elementwise("popc")
def popc(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Count ones."""
    return e.cast(e.intrinsic("llvm.ctpop", [a]), I32)


def _leading_zeros(e: Emitter, a: ir.Value) -> ir.Value:
    return e.intrinsic("llvm.ctlz", [a, ir.Constant(I1, 0)])


@elementwise("clz")
def clz(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Count leading zeros."""
    return e.cast(_leading_zeros(e, a), I32)


@elementwise("bfind")
def bfind(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """Find the highest bit that is not the sign's; -1 where there is none."""
    bits = BITS[ins.types[-1]]
    if signed(ins.types[-1]):
        a = e.select(e.b.icmp_signed("<", a, e.const(a, 0)), e.b.not_(a), a)
    zeros = e.cast(_leading_zeros(e, a), I32)
    none = e.b.icmp_unsigned("==", a, e.const(a, 0))
    place = zeros if "shiftamt" in ins.flags else e.b.sub(e.const(zeros, bits - 1), zeros)
    return e.select(none, e.const(zeros, -1), place)


@elementwise("brev")
def brev(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Reverse the bits."""
    return e.intrinsic("llvm.bitreverse", [a])


@elementwise("and", "or", "xor")
def logic(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Bitwise, on predicates too."""
    return {"and": e.b.and_, "or": e.b.or_, "xor": e.b.xor}[ins.opcode](a, b)


@elementwise("not")
def not_(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Invert each bit."""
    return e.b.xor(a, e.const(a, -1 if bits_of(element(a)) > 1 else 1))


@elementwise("cnot")
def cnot(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Give 1 where a is 0, else 0."""
    return e.b.zext(e.b.icmp_unsigned("==", a, e.const(a, 0)), a.type)


@elementwise("lop3")
def lop3(
    e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value, *_more: ir.Value
) -> ir.Value:
    """Any function of three bits, by its truth table (a = 0xF0, b = 0xCC, c = 0xAA)."""
    table = ins.operands[4]
    if not isinstance(table, Imm):
        raise AssertionError("lop3 without a constant table")
    total: ir.Value = e.const(a, 0)
    for row in range(8):
        if table.value >> row & 1:
            terms = [x if row >> bit & 1 else e.b.not_(x) for x, bit in ((a, 2), (b, 1), (c, 0))]
            total = e.b.or_(total, e.b.and_(e.b.and_(terms[0], terms[1]), terms[2]))
    return total


def lop3_truth(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
    """Give the second result of lop3: whether the first is not 0, joined with a predicate."""
    result = lop3(e, ins, *args)
    truth = e.b.icmp_unsigned("!=", result, e.const(result, 0))
    return (e.b.and_ if "and" in ins.flags else e.b.or_)(truth, args[-1])


@elementwise("shl")
def shl(e: Emitter, _ins: Instruction, a: ir.Value, amount: ir.Value) -> ir.Value:
    """Shift left; amounts past the width give 0."""
    bits = bits_of(element(a))
    small = e.b.icmp_unsigned("<", amount, e.const(amount, bits))
    by = _resized(e, _low(e, amount, bits - 1), bits)
    return e.select(small, e.b.shl(a, by), e.const(a, 0))


@elementwise("shr")
def shr(e: Emitter, ins: Instruction, a: ir.Value, amount: ir.Value) -> ir.Value:
    """Shift right, arithmetically for signed types; amounts past the width clamp."""
    bits = bits_of(element(a))
    if signed(ins.types[-1]):
        return e.b.ashr(a, _resized(e, _clamped(e, amount, bits - 1), bits))
    small = e.b.icmp_unsigned("<", amount, e.const(amount, bits))
    by = _resized(e, _low(e, amount, bits - 1), bits)
    return e.select(small, e.b.lshr(a, by), e.const(a, 0))


def _pair(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    low, high = widen(e, low, "u32", 64), widen(e, high, "u32", 64)
    return e.b.or_(e.b.shl(high, e.const(high, 32)), low)


@elementwise("shf")
def shf(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, amount: ir.Value) -> ir.Value:
    """Shift the pair b:a, and give its high (.l) or low (.r) half."""
    pair = _pair(e, a, b)
    by = _low(e, amount, 31) if "wrap" in ins.flags else _clamped(e, amount, 32)
    by = widen(e, by, "u32", 64)
    if "r" in ins.flags:
        return narrow(e, e.b.lshr(pair, by), 32)
    return narrow(e, e.b.lshr(e.b.shl(pair, by), e.const(pair, 32)), 32)


def _sized(e: Emitter, x: ir.Value, size: ir.Value, *, sign: bool) -> ir.Value:
    """Keep the low `size` bits of x, extended by their top bit or zeros; none give 0."""
    bits = bits_of(element(x))
    empty = e.b.icmp_unsigned("==", size, e.const(size, 0))
    spare = e.select(empty, e.const(x, 0), e.b.sub(e.const(x, bits), size))
    up = e.b.shl(x, spare)
    kept = e.b.ashr(up, spare) if sign else e.b.lshr(up, spare)
    return e.select(empty, e.const(x, 0), kept)


def _field(
    e: Emitter, position: ir.Value, length: ir.Value, bits: int
) -> tuple[ir.Value, ir.Value]:
    """Read the operands of bfe and bfi: their low bytes, clamped, in twice the width."""
    place, size = (_clamped(e, _low(e, x, 255), bits) for x in (position, length))
    return widen(e, place, "u32", 2 * bits), widen(e, size, "u32", 2 * bits)


@elementwise("bfe")
def bfe(
    e: Emitter, ins: Instruction, a: ir.Value, position: ir.Value, length: ir.Value
) -> ir.Value:
    """Extract a field, extended by its top bit for signed types."""
    sign, bits = signed(ins.types[-1]), bits_of(element(a))
    place, size = _field(e, position, length, bits)
    x = widen(e, a, ins.types[-1], 2 * bits)
    x = e.b.ashr(x, place) if sign else e.b.lshr(x, place)
    return narrow(e, _sized(e, x, size, sign=sign), bits)


@elementwise("bfi")
def bfi(
    e: Emitter, _ins: Instruction, a: ir.Value, b: ir.Value, position: ir.Value, length: ir.Value
) -> ir.Value:
    """Insert: b with a field replaced by a's low bits."""
    bits = bits_of(element(a))
    place, size = _field(e, position, length, bits)
    x, y = widen(e, a, "u", 2 * bits), widen(e, b, "u", 2 * bits)
    mask = e.b.shl(_ones(e, size), place)
    kept = e.b.and_(y, e.b.not_(mask))
    return narrow(e, e.b.or_(kept, e.b.and_(e.b.shl(x, place), mask)), bits)


def _ones(e: Emitter, size: ir.Value) -> ir.Value:
    one = e.const(size, 1)
    return e.b.sub(e.b.shl(one, size), one)


@elementwise("bmsk")
def bmsk(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Set b ones from place a up (clamping, or modulo 32 for .wrap)."""
    wrap = "wrap" in ins.flags
    place, size = (
        widen(e, _low(e, x, 31) if wrap else _clamped(e, x, 32), "u32", 64) for x in (a, b)
    )
    return narrow(e, e.b.shl(_ones(e, size), place), 32)


@elementwise("szext")
def szext(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Extend the low b bits of a (clamping b, or modulo 32 for .wrap)."""
    size = _low(e, b, 31) if "wrap" in ins.flags else _clamped(e, b, 32)
    return _sized(e, a, size, sign=signed(ins.types[-1]))


# The modes of prmt as selectors of its plain form, by the low two bits of the operand.
_MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


@elementwise("prmt")
def prmt(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Pick four bytes from the pair b:a, each optionally its own sign spread."""
    for mode in _MODES.keys() & set(ins.flags):
        row, c = _low(e, c, 3), e.const(c, _MODES[mode][0])
        for number, selector in enumerate(_MODES[mode][1:], 1):
            chosen = e.b.icmp_unsigned("==", row, e.const(row, number))
            c = e.select(chosen, e.const(c, selector), c)
    pair = _pair(e, a, b)
    total: ir.Value = e.const(a, 0)
    for byte in range(4):
        nibble = _low(e, e.b.lshr(c, e.const(c, 4 * byte)), 15)
        place = widen(e, e.b.shl(_low(e, nibble, 7), e.const(c, 3)), "u32", 64)
        picked = narrow(e, e.b.lshr(pair, place), 8)
        spread = e.b.ashr(picked, e.const(picked, 7))
        sign = e.b.icmp_unsigned("!=", _low(e, nibble, 8), e.const(c, 0))
        value = widen(e, e.select(sign, spread, picked), "u8", 32)
        total = e.b.or_(total, e.b.shl(value, e.const(value, 8 * byte)))
    return total


@elementwise("fns")
def fns(e: Emitter, _ins: Instruction, mask: ir.Value, base: ir.Value, n: ir.Value) -> ir.Value:
    """Find the n-th set bit from place `base` on (down for n < 0, there for 0); -1 where none."""
    zero = e.const(n, 0)
    up, there = e.b.icmp_signed(">", n, zero), e.b.icmp_signed("==", n, zero)
    wanted = e.select(there, e.const(n, 1), e.select(up, n, e.b.sub(zero, n)))
    found, seen = e.const(mask, -1), e.const(mask, 0)
    for step in range(32):
        delta = e.const(base, step)
        place = e.select(up, e.b.add(base, delta), e.b.sub(base, delta))
        inside = e.b.icmp_unsigned("<", place, e.const(place, 32))
        if step:
            inside = e.b.and_(inside, e.b.not_(there))
        bit = _low(e, e.b.lshr(mask, _low(e, place, 31)), 1)
        bit = e.select(inside, bit, e.const(bit, 0))
        seen = e.b.add(seen, bit)
        hit = e.b.and_(
            e.b.icmp_unsigned("==", seen, wanted), e.b.icmp_unsigned("!=", bit, e.const(bit, 0))
        )
        found = e.select(hit, place, found)
    return found
