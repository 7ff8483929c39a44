"""How a register's 32 lanes relate: what the emulator knows of a value before it runs.

A warp is a vector, but most index arithmetic is not: an address is usually one number for the
whole warp plus a fixed step a lane. Finding that out when the kernel is compiled turns gathers
into plain vector loads and address arithmetic into scalar code. Three cases, from most to least
known (block dimensions are fixed at compile time, so anything computed from `%tid` is a table):

    Known     the value in every lane of every warp of the block: table[warp, lane]
    Affine    one unknown number for the warp plus a known offset a lane: s + offsets[lane]
    Varying   anything

`shape_of` is the transfer function of one instruction; `analyse` runs it to a fixed point over a
kernel. A value defined under a divergent branch, and seen outside its block, is Varying, because
lanes that did not run keep their old value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.folds import COMPARISONS, FOLDS, Numbers
from tilewright.toolchain.ptx.ir import Imm, Instruction, Mem, Operand, Pair, Reg, Special, Symbol

WARP = 32
Table: TypeAlias = "npt.NDArray[np.uint64]"
BITS = {"b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128, "pred": 1}
BITS |= {f"{kind}{bits}": bits for kind in "us" for bits in (8, 16, 32, 64)}
BITS |= {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32}
BITS |= {"u16x2": 32, "s16x2": 32, "f16x2": 32, "bf16x2": 32, "f32x2": 64}
BITS |= {"e4m3x2": 16, "e5m2x2": 16}


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Every lane of every warp is known: an unsigned `table` [warps, 32] of `bits`-wide values."""

    table: Table
    bits: int

    def same(self, other: Shape) -> bool:
        """Whether both say the same."""
        return (
            isinstance(other, Known)
            and self.bits == other.bits
            and np.array_equal(self.table, other.table)
        )

    def affine(self) -> Affine | None:
        """Return the same value as s + offsets, where every warp has the same offsets."""
        signed = _signed(self.table, self.bits)
        steps = signed - signed[:, :1]
        if (steps != steps[0]).any():
            return None
        maybe = int(np.bitwise_or.reduce(self.table[:, 0]))
        return Affine(tuple(int(s) for s in steps[0]), maybe)

    def resized(self, bits: int) -> Known:
        """Return the same value in another width: high bits dropped or zeros added."""
        return self if bits == self.bits else Known(_wrap(self.table, bits), bits)

    @property
    def uniform(self) -> bool:
        """Whether the lanes of each warp agree."""
        return bool((self.table == self.table[:, :1]).all())


@dataclass(frozen=True, slots=True)
class Affine:
    """s + offsets[lane], modulo the width. Bits of s outside `maybe` are known to be 0."""

    offsets: tuple[int, ...]
    maybe: int = -1

    def same(self, other: Shape) -> bool:
        """Whether both say the same."""
        return self == other

    @property
    def uniform(self) -> bool:
        """Whether the lanes of each warp agree."""
        return not any(self.offsets)


@dataclass(frozen=True, slots=True)
class Varying:
    """Nothing is known."""

    uniform = False

    def same(self, other: Shape) -> bool:
        """Whether both say the same."""
        return isinstance(other, Varying)


Shape: TypeAlias = Known | Affine | Varying
VARYING = Varying()
ZERO_OFFSETS = (0,) * WARP
UNIFORM = Affine(ZERO_OFFSETS)


def _signed(table: Table, bits: int) -> npt.NDArray[np.int64]:
    shift = np.uint64(64 - bits)
    return (table << shift).view(np.int64) >> shift.astype(np.int64)


def _wrap(values: npt.NDArray[np.int64] | Table, bits: int) -> Table:
    return values.astype(np.int64).view(np.uint64) & np.uint64((1 << bits) - 1)


def constant(value: int, bits: int, warps: int) -> Known:
    """Return the shape of one number in every lane."""
    return Known(np.full((warps, WARP), value & ((1 << bits) - 1), np.uint64), bits)


def affine(shape: Shape) -> Affine | None:
    """`shape` as s + offsets, if it is."""
    if isinstance(shape, Known):
        return shape.affine()
    return shape if isinstance(shape, Affine) else None


def join(a: Shape | None, b: Shape) -> Shape:
    """Return the most that is known of a value that is either `a` or `b`."""
    if a is None or a.same(b):
        return b
    left, right = affine(a), affine(b)
    if left is None or right is None or left.offsets != right.offsets:
        return VARYING
    return Affine(left.offsets, left.maybe | right.maybe)


def widen(old: Shape | None, new: Shape) -> Shape:
    """Give up on the bits above the lowest one once a loop keeps adding some."""
    if isinstance(old, Affine) and isinstance(new, Affine) and old.maybe != new.maybe:
        return Affine(new.offsets, -(new.maybe & -new.maybe) if new.maybe > 0 else -1)
    return new


# --- integer operations on tables -------------------------------------------------------------

_INTEGER = frozenset(f"{kind}{bits}" for kind in "usb" for bits in (8, 16, 32, 64))
# The suffixes that folds and rules know; any other (.sat, .hi, .rn, …) changes the operation.
_PLAIN = frozenset({"lo", "wide", "to"})


# What makes the result whatever the other operand is.
_DECIDED = {"and": np.zeros(1, np.uint64), "or": ~np.zeros(1, np.uint64)}
_BITWISE = frozenset({"and", "or", "xor", "not", "mov"})


def _fold(instruction: Instruction, shapes: Sequence[Shape]) -> Shape | None:
    """Compute an integer instruction on tables, exactly; None where that is not possible."""
    op, kind, flags = instruction.opcode, instruction.types[-1], instruction.flags
    tables = [s for s in shapes if isinstance(s, Known)]
    if op in _DECIDED:
        alone = (t for t in tables if (t.table == _wrap(_DECIDED[op], t.bits)).all())
        if (found := next(alone, None)) is not None:
            return found
    if len(tables) != len(shapes) or not _INTEGER.union(("pred",)).issuperset(instruction.types):
        return None
    if op == "setp" and len(flags) == 1:
        return _fold_compare(instruction, tables, kind)
    fold = FOLDS.get(op)
    if fold is None or not _PLAIN.issuperset(flags):
        return None
    if kind == "pred":
        bits = [_signed(t.table, t.bits) for t in tables]
        return Known(_wrap(fold(bits, "u8"), 1), 1)
    kinds = [kind] * len(tables)
    out = BITS[instruction.types[0]] * (2 if "wide" in flags else 1)
    if op in ("shl", "shr"):
        kinds[1] = "u32"
    elif op == "bfi":
        kinds[2:] = "u32", "u32"
    elif op == "mad" and "wide" in flags:
        kinds[2] = f"{kind[0]}{out}"
    args = [_as(t, k) for t, k in zip(tables, kinds, strict=True)]
    if kind[1:] == "64" and op not in _BITWISE and not all(_is_small(a, kind) for a in args):
        return None
    return Known(_wrap(fold(args, kind), out), out)


def _as(shape: Known, kind: str) -> Numbers:
    """Read a table as PTX type `kind`."""
    narrow = _wrap(shape.table, BITS[kind])
    return _signed(narrow, BITS[kind]) if kind[0] == "s" else narrow.view(np.int64)


def _is_small(numbers: Numbers, kind: str) -> bool:
    """Whether int64 holds these operands of 64-bit type `kind`, and all that is made of two."""
    low, high = int(numbers.min()), int(numbers.max())
    return max(abs(low), high) < 1 << 31 and (kind[0] == "s" or low >= 0)


def _fold_compare(instruction: Instruction, tables: Sequence[Known], kind: str) -> Shape | None:
    compare = COMPARISONS.get(instruction.flags[0])
    if compare is None or kind == "pred":
        return None
    a, b = (_as(t, kind) for t in tables)
    if kind[0] != "s":
        a, b = a.view(np.uint64), b.view(np.uint64)
    return Known(compare(a, b).astype(np.uint64), 1)


# --- rules for s + offsets ----------------------------------------------------------------------


def _sum_maybe(a: int, b: int) -> int:
    if a < 0 or b < 0:
        low = min(_low_bit(a), _low_bit(b))
        return -low if low else 0
    if not a & b:
        return a | b
    low = min(_low_bit(a), _low_bit(b))
    return ((1 << (a + b).bit_length()) - 1) & -low


def _low_bit(mask: int) -> int:
    return mask & -mask if mask else 1 << 64


def _fits(shape: Affine, kind: str) -> bool:
    """Whether s + offset stays inside type `kind` in every lane, so that widening is exact."""
    if shape.uniform:
        return True
    limit = 1 << (BITS[kind] - (1 if kind[0] == "s" else 0))
    low, high = min(shape.offsets), max(shape.offsets)
    return shape.maybe >= 0 and low >= 0 and shape.maybe + high < limit


def single(shape: Shape) -> int | None:
    """Return the value, where every lane of every warp has the same known one."""
    if isinstance(shape, Known) and (shape.table == shape.table[0, 0]).all():
        return int(shape.table[0, 0])
    return None


def _scaled(shape: Affine, factor: int) -> Affine:
    offsets = tuple(o * factor for o in shape.offsets)
    low = _low_bit(shape.maybe) * _low_bit(factor)
    if shape.maybe < 0 or factor < 0:
        return Affine(offsets, -low)
    return Affine(offsets, ((1 << (shape.maybe * factor).bit_length()) - 1) & -low)


def _product(a: Shape, b: Shape, kind: str, *, wide: bool) -> Affine | None:
    """s·c + offsets·c for a known c, or the product of two uniform values."""
    bits = BITS[kind]
    for one, other in ((a, b), (b, a)):
        factor, rest = single(other), affine(one)
        if factor is None or rest is None:
            continue
        if kind[0] == "s" and factor >> (bits - 1):
            factor -= 1 << bits
        if wide and kind[0] == "s" and rest.maybe >> (bits - 1):
            rest = Affine(rest.offsets, -_low_bit(rest.maybe))  # s may be negative
        return _scaled(rest, factor)
    return UNIFORM if a.uniform and b.uniform else None


def _add(a: Affine | None, b: Affine | None, sign: int = 1) -> Affine | None:
    if a is None or b is None:
        return None
    offsets = tuple(x + sign * y for x, y in zip(a.offsets, b.offsets, strict=True))
    if sign < 0 and b.maybe:
        return Affine(offsets, -min(_low_bit(a.maybe), _low_bit(b.maybe)))
    return Affine(offsets, _sum_maybe(a.maybe, b.maybe))


def _disjoint(a: Affine, b: Affine) -> bool:
    """Whether no bit can be set in both, so that `or` is `add`."""
    masks = []
    for shape in (a, b):
        offsets = 0
        for o in shape.offsets:
            offsets |= o
        if shape.maybe < 0 or min(shape.offsets) < 0 or shape.maybe & offsets:
            return False
        masks.append(shape.maybe | offsets)
    return not masks[0] & masks[1]


def _affine_rule(instruction: Instruction, shapes: Sequence[Shape]) -> Shape | None:
    """Apply the rules under which the operation on s alone is right, offsets known."""
    op, kind = instruction.opcode, instruction.types[-1]
    if kind not in _INTEGER or not _PLAIN.issuperset(instruction.flags):
        return None
    wide, bits = "wide" in instruction.flags, BITS[kind]
    if op in ("mov", "cvta"):
        return affine(shapes[0])
    if op == "cvt":
        return _convert(instruction, affine(shapes[0]))
    if op in ("add", "sub"):
        return _add(affine(shapes[0]), affine(shapes[1]), 1 if op == "add" else -1)
    if op == "or":
        a, b = affine(shapes[0]), affine(shapes[1])
        return _add(a, b) if a and b and _disjoint(a, b) else None
    if op == "shl":
        a, count = affine(shapes[0]), single(shapes[1])
        return _scaled(a, 1 << count) if a and count is not None and count < bits else None
    if op in ("mul", "mad"):
        if wide and not all((a := affine(s)) and _fits(a, kind) for s in shapes[:2]):
            return None
        product = _product(shapes[0], shapes[1], kind, wide=wide)
        return product if op == "mul" else _add(product, affine(shapes[2]))
    return None


def _convert(instruction: Instruction, shape: Affine | None) -> Affine | None:
    to, source = instruction.types
    if shape is None or to not in _INTEGER:
        return None
    if BITS[to] <= BITS[source]:
        return Affine(shape.offsets, shape.maybe & ((1 << BITS[to]) - 1))
    return _extend(shape, source) if _fits(shape, source) else None


def _extend(shape: Affine, kind: str) -> Affine:
    """Put s + offsets, which fits `kind`, in a wider register."""
    if shape.maybe >> (BITS[kind] - 1) and kind[0] == "s":
        return Affine(shape.offsets, -_low_bit(shape.maybe))  # s may be negative
    return Affine(shape.offsets, shape.maybe & ((1 << BITS[kind]) - 1))


def extended(shape: Shape, kind: str, bits: int) -> Shape:
    """Return what is known of a result of type `kind` once it fills a register of `bits`.

    Only cvt and ld write registers wider than their type: by its sign, or with zeros.
    """
    if kind not in _INTEGER or BITS[kind] >= bits:
        return shape
    if isinstance(shape, Known):
        return Known(_wrap(_as(shape, kind), bits), bits)
    if isinstance(shape, Affine) and shape.uniform:
        return _extend(shape, kind)
    return VARYING


# --- one instruction ------------------------------------------------------------------------------

# Their result differs from lane to lane, or from one execution to the next, whatever goes in.
_LANE_DEPENDENT = frozenset({"shfl", "match", "atom", "elect", "activemask"})
# Warp-wide reductions: lanes of different member masks may get different results.
_REDUCTIONS = frozenset({"vote", "redux"})
# They add a carry that may differ between lanes.
_CARRIED = frozenset({"addc", "subc", "madc"})


def shape_of(instruction: Instruction, operands: Sequence[Shape]) -> Shape:
    """Return what is known of an instruction's results, from what is of its source operands.

    Where the answer is Affine, the instruction applied to the scalar parts gives the scalar part
    of the result.
    """
    if instruction.opcode in _LANE_DEPENDENT | _REDUCTIONS | _CARRIED:
        return VARYING
    two_results = bool(instruction.operands) and isinstance(instruction.operands[0], Pair)
    if instruction.types and instruction.opcode not in ("ld", "ldu") and not two_results:
        known = _fold(instruction, operands) if operands else None
        if known is not None:
            return known
        rule = _affine_rule(instruction, operands) if operands else None
        if rule is not None:
            return rule
    return UNIFORM if all(s.uniform for s in operands) else VARYING


@dataclass(frozen=True, slots=True)
class Source:
    """Where an instruction's operands get their shapes: `reg` by name, `special` by name."""

    warps: int
    special: Callable[[str], Shape]
    symbol: Callable[[str], Shape]
    local_window: Known  # the generic address where each thread's local memory begins
    param: Callable[[int, str], Known | None]  # what stands at a place of the parameters, as a type

    def shape(self, operand: Operand, bits: int, env: Mapping[str, Shape]) -> Shape:
        """Return the shape of one source operand, seen as `bits` wide."""
        if isinstance(operand, Reg):
            return env.get(operand.name, UNIFORM)
        if isinstance(operand, Imm):
            value = operand.value
            return constant(
                value, bits if operand.kind == "int" else int(operand.kind[1:]), self.warps
            )
        if isinstance(operand, Special):
            return self.special(operand.name)
        if isinstance(operand, Symbol):
            return self.symbol(operand.name)
        if isinstance(operand, Mem):
            return self.shape(operand.base, 64, env)
        return VARYING
