"""Integer, logic and comparison instructions (PTX ISA 9.7.1, 9.7.2, 9.7.6 to 9.7.8)."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import I1, I8, I16, I32, I64, INTS, Emitter, bits_of, element, like
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops.table import elementwise
from tilewright.toolchain.ptx.ir import Imm, Instruction


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
    """The smaller of two integers."""
    return e.intrinsic("llvm.smin" if signed(kind) else "llvm.umin", [a, b])


def maximum(e: Emitter, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger of two integers."""
    return e.intrinsic("llvm.smax" if signed(kind) else "llvm.umax", [a, b])


def clamp_shift(e: Emitter, x: ir.Value, amount: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The amount in x's type, and whether it is under the width. PTX shifts clamp."""
    bits = bits_of(element(x))
    small = e.b.icmp_unsigned("<", amount, e.const(amount, bits))
    wide = bits_of(element(amount))
    resized = amount if wide == bits else (
        narrow(e, amount, bits) if bits < wide else widen(e, amount, "u32", bits)
    )
    return resized, small


@elementwise("add", "sub", family="integer")
def add_sub(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """a + b or a - b, saturating for .sat."""
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
    """The low, high or whole product."""
    return _product(e, ins, a, b)


@elementwise("mad", family="integer")
def mad(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """The low, high or whole product, plus c."""
    product = _product(e, ins, a, b)
    if "sat" in ins.flags:
        return e.intrinsic("llvm.sadd.sat", [product, c])
    return e.b.add(product, c)


def _product24(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
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
    """The product of the low 24 bits: its low 32 bits, or for .hi bits 16 to 47."""
    return _product24(e, ins, a, b)


@elementwise("mad24")
def mad24(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """The product of the low 24 bits, plus c."""
    product = _product24(e, ins, a, b)
    if "sat" in ins.flags:
        return e.intrinsic("llvm.sadd.sat", [product, c])
    return e.b.add(product, c)


@elementwise("sad")
def sad(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """|a - b| + c."""
    kind = ins.types[-1]
    return e.b.add(e.b.sub(maximum(e, kind, a, b), minimum(e, kind, a, b)), c)


@elementwise("div", "rem", family="integer")
def div_rem(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Quotient or remainder, rounding to zero. Division by zero gives all ones, as GPUs do."""
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
    if ins.opcode == "div":
        quotient = e.b.sdiv(a, divisor) if signed(kind) else e.b.udiv(a, divisor)
        return e.select(zero, e.const(a, -1), quotient)
    rest = e.b.srem(a, divisor) if signed(kind) else e.b.urem(a, divisor)
    return e.select(zero, a, rest)


@elementwise("abs", family="integer")
def abs_(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """|a|; the least number stays itself."""
    return e.select(e.b.icmp_signed("<", a, e.const(a, 0)), e.b.sub(e.const(a, 0), a), a)


@elementwise("neg", family="integer")
def neg(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """-a."""
    return e.b.sub(e.const(a, 0), a)


@elementwise("min", family="integer")
def min_(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """The smaller."""
    return minimum(e, ins.types[-1], a, b)


@elementwise("max", family="integer")
def max_(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger."""
    return maximum(e, ins.types[-1], a, b)


@elementwise("popc")
def popc(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """The number of ones."""
    return e.cast(e.intrinsic("llvm.ctpop", [a]), I32)


def _leading_zeros(e: Emitter, a: ir.Value) -> ir.Value:
    function = f"llvm.ctlz.{_name(a)}"
    known = e.module.globals.get(function)
    if known is None:
        known = ir.Function(e.module, ir.FunctionType(a.type, [a.type, I1]), function)
    return e.b.call(known, [a, ir.Constant(I1, 0)])


def _name(a: ir.Value) -> str:
    lane = f"i{bits_of(element(a))}"
    return f"v{a.type.count}{lane}" if isinstance(a.type, ir.VectorType) else lane


@elementwise("clz")
def clz(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """The number of leading zeros."""
    return e.cast(_leading_zeros(e, a), I32)


@elementwise("bfind")
def bfind(e: Emitter, ins: Instruction, a: ir.Value) -> ir.Value:
    """The place of the highest bit that is not the sign's; -1 where there is none."""
    bits = BITS[ins.types[-1]]
    if signed(ins.types[-1]):
        a = e.select(e.b.icmp_signed("<", a, e.const(a, 0)), e.b.not_(a), a)
    zeros = e.cast(_leading_zeros(e, a), I32)
    none = e.b.icmp_unsigned("==", a, e.const(a, 0))
    place = zeros if "shiftamt" in ins.flags else e.b.sub(e.const(zeros, bits - 1), zeros)
    return e.select(none, e.const(zeros, -1), place)


@elementwise("brev")
def brev(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """The bits in reverse."""
    return e.intrinsic("llvm.bitreverse", [a])


@elementwise("and", "or", "xor")
def logic(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Bitwise logic, on predicates too."""
    return {"and": e.b.and_, "or": e.b.or_, "xor": e.b.xor}[ins.opcode](a, b)


@elementwise("not")
def not_(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """Each bit inverted."""
    return e.b.xor(a, e.const(a, -1 if bits_of(element(a)) > 1 else 1))


@elementwise("cnot")
def cnot(e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """1 where a is 0, else 0."""
    return e.b.zext(e.b.icmp_unsigned("==", a, e.const(a, 0)), a.type)


@elementwise("lop3")
def lop3(
    e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value, _table: ir.Value
) -> ir.Value:
    """Any function of three bits, by its truth table (a = 0xF0, b = 0xCC, c = 0xAA)."""
    table = ins.operands[-1]
    if not isinstance(table, Imm):
        raise AssertionError("lop3 without a constant table")
    total: ir.Value = e.const(a, 0)
    for row in range(8):
        if table.value >> row & 1:
            terms = [x if row >> bit & 1 else e.b.not_(x) for x, bit in ((a, 2), (b, 1), (c, 0))]
            total = e.b.or_(total, e.b.and_(e.b.and_(terms[0], terms[1]), terms[2]))
    return total


@elementwise("shl")
def shl(e: Emitter, _ins: Instruction, a: ir.Value, amount: ir.Value) -> ir.Value:
    """a shifted left; amounts past the width give 0."""
    by, small = clamp_shift(e, a, amount)
    return e.select(small, e.b.shl(a, e.select(small, by, e.const(by, 0))), e.const(a, 0))


@elementwise("shr")
def shr(e: Emitter, ins: Instruction, a: ir.Value, amount: ir.Value) -> ir.Value:
    """a shifted right, arithmetically for signed types; amounts past the width clamp."""
    by, small = clamp_shift(e, a, amount)
    if signed(ins.types[-1]):
        last = e.const(by, bits_of(element(a)) - 1)
        return e.b.ashr(a, e.select(small, by, last))
    return e.select(small, e.b.lshr(a, e.select(small, by, e.const(by, 0))), e.const(a, 0))


@elementwise("shf")
def shf(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, amount: ir.Value) -> ir.Value:
    """A funnel shift of the pair b:a."""
    if "wrap" in ins.flags:
        by = e.b.and_(amount, e.const(amount, 31))
    else:
        by = e.intrinsic("llvm.umin", [amount, e.const(amount, 32)])
    low, high = widen(e, a, "u32", 64), widen(e, b, "u32", 64)
    pair = e.b.or_(e.b.shl(high, e.const(high, 32)), low)
    wide = widen(e, by, "u32", 64)
    if "r" in ins.flags:
        return narrow(e, e.b.lshr(pair, wide), 32)
    return narrow(e, e.b.lshr(e.b.shl(pair, wide), e.const(pair, 32)), 32)


@elementwise("bfe")
def bfe(
    e: Emitter, ins: Instruction, a: ir.Value, position: ir.Value, length: ir.Value
) -> ir.Value:
    """A field of a, extended by its top bit for signed types."""
    kind, bits = ins.types[-1], bits_of(element(a))
    pos, size = (e.b.and_(x, e.const(x, 255)) for x in (position, length))
    x = widen(e, a, kind, 128 if bits == 64 else 64)
    full = bits_of(element(x))
    pos, size = (widen(e, e.intrinsic("llvm.umin", [v, e.const(v, bits)]), "u32", full)
                 for v in (pos, size))
    field = e.b.ashr(x, pos) if signed(kind) else e.b.lshr(x, pos)
    spare = e.b.sub(e.const(x, full), size)
    empty = e.b.icmp_unsigned("==", size, e.const(size, 0))
    spare = e.select(empty, e.const(x, 0), spare)
    up = e.b.shl(field, spare)
    field = e.b.ashr(up, spare) if signed(kind) else e.b.lshr(up, spare)
    return narrow(e, e.select(empty, e.const(x, 0), field), bits)


@elementwise("bfi")
def bfi(
    e: Emitter, _ins: Instruction, a: ir.Value, b: ir.Value, position: ir.Value, length: ir.Value
) -> ir.Value:
    """b with a field replaced by a's low bits."""
    bits = bits_of(element(a))
    full = 128 if bits == 64 else 64
    pos, size = (
        widen(e, e.intrinsic("llvm.umin", [e.b.and_(x, e.const(x, 255)), e.const(x, bits)]),
              "u32", full)
        for x in (position, length)
    )
    x, y = widen(e, a, "u", full), widen(e, b, "u", full)
    ones = e.b.sub(e.b.shl(e.const(x, 1), size), e.const(x, 1))
    mask = e.b.shl(ones, pos)
    kept = e.b.and_(y, e.b.not_(mask))
    return narrow(e, e.b.or_(kept, e.b.and_(e.b.shl(x, pos), mask)), bits)


@elementwise("bmsk")
def bmsk(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """b ones from place a up (clamping, or modulo 32 for .wrap)."""
    if "wrap" in ins.flags:
        pos, size = (e.b.and_(x, e.const(x, 31)) for x in (a, b))
    else:
        pos, size = (e.intrinsic("llvm.umin", [x, e.const(x, 32)]) for x in (a, b))
    pos, size = widen(e, pos, "u32", 64), widen(e, size, "u32", 64)
    ones = e.b.sub(e.b.shl(e.const(size, 1), size), e.const(size, 1))
    return narrow(e, e.b.shl(ones, pos), 32)


@elementwise("prmt")
def prmt(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Four bytes picked from the pair b:a, each optionally its own sign spread."""
    if any(f in ins.flags for f in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")):
        from tilewright.emulator.ops.table import unsupported

        raise unsupported(ins, "this mode of prmt")
    low, high = widen(e, a, "u32", 64), widen(e, b, "u32", 64)
    pair = e.b.or_(e.b.shl(high, e.const(high, 32)), low)
    total: ir.Value = e.const(a, 0)
    for byte in range(4):
        nibble = e.b.and_(e.b.lshr(c, e.const(c, 4 * byte)), e.const(c, 15))
        place = widen(e, e.b.shl(e.b.and_(nibble, e.const(c, 7)), e.const(c, 3)), "u32", 64)
        picked = narrow(e, narrow(e, e.b.lshr(pair, place), 8), 8)
        spread = e.b.ashr(picked, e.const(picked, 7))
        sign = e.b.icmp_unsigned("!=", e.b.and_(nibble, e.const(c, 8)), e.const(c, 0))
        value = widen(e, e.select(sign, spread, picked), "u8", 32)
        total = e.b.or_(total, e.b.shl(value, e.const(value, 8 * byte)))
    return total


@elementwise("szext")
def szext(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """The low b bits of a, extended by sign or zeros."""
    size = e.b.and_(b, e.const(b, 31)) if "wrap" in ins.flags else e.intrinsic(
        "llvm.umin", [b, e.const(b, 32)]
    )
    x, wide = widen(e, a, "u32", 64), widen(e, size, "u32", 64)
    spare = e.b.sub(e.const(x, 64), wide)
    empty = e.b.icmp_unsigned("==", wide, e.const(wide, 0))
    spare = e.select(empty, e.const(x, 0), spare)
    up = e.b.shl(x, spare)
    down = e.b.ashr(up, spare) if signed(ins.types[-1]) else e.b.lshr(up, spare)
    return narrow(e, e.select(empty, e.const(x, 0), down), 32)


@elementwise("dp4a", "dp2a")
def dot(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """c plus the dot product of four bytes (dp2a: two halves of a with two bytes of b)."""
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
    """a `relation` b on integers of type `kind`."""
    if relation in ("eq", "ne"):
        return e.b.icmp_unsigned("==" if relation == "eq" else "!=", a, b)
    if relation in _UNSIGNED_ORDER:
        return e.b.icmp_unsigned(_UNSIGNED_ORDER[relation], a, b)
    order = e.b.icmp_signed if signed(kind) else e.b.icmp_unsigned
    return order(_SIGNED_ORDER[relation], a, b)


@elementwise("selp")
def selp(e: Emitter, _ins: Instruction, a: ir.Value, b: ir.Value, p: ir.Value) -> ir.Value:
    """A where p, else b."""
    return e.select(p, a, b)


@elementwise("slct")
def slct(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """A where c >= 0, else b."""
    if ins.types[-1] == "f32":
        return e.select(e.b.fcmp_ordered(">=", c, e.const(c, 0.0)), a, b)
    return e.select(e.b.icmp_signed(">=", c, e.const(c, 0)), a, b)


@elementwise("mov")
def mov(_e: Emitter, _ins: Instruction, a: ir.Value) -> ir.Value:
    """A copy."""
    return a


@elementwise("fns")
def fns(e: Emitter, _ins: Instruction, mask: ir.Value, base: ir.Value, n: ir.Value) -> ir.Value:
    """The place of the n-th set bit of mask from `base` on (down for n < 0); -1 where none."""
    found: ir.Value = e.const(mask, -1)
    zero = e.const(n, 0)
    up = e.b.icmp_signed(">=", n, zero)
    wanted = e.select(e.b.icmp_signed("==", n, zero), e.const(n, 1),
                      e.select(up, n, e.b.sub(zero, n)))
    exact = e.b.icmp_signed("==", n, zero)
    seen: ir.Value = e.const(mask, 0)
    for step in range(32):
        delta = e.const(base, step)
        place = e.select(up, e.b.add(base, delta), e.b.sub(base, delta))
        inside = e.b.icmp_unsigned("<", place, e.const(place, 32))
        safe = e.b.and_(place, e.const(place, 31))
        bit = e.b.and_(e.b.lshr(mask, safe), e.const(mask, 1))
        bit = e.select(inside, bit, e.const(mask, 0))
        if step:
            bit = e.select(exact, e.const(mask, 0), bit)
        seen = e.b.add(seen, bit)
        hit = e.b.and_(
            e.b.icmp_unsigned("==", seen, wanted), e.b.icmp_unsigned("!=", bit, e.const(bit, 0))
        )
        found = e.select(hit, place, found)
    return found


__all__ = ["I64", "compare", "narrow", "signed", "widen"]
