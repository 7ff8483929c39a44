"""LLVM code for values with 32 lanes: scalars, constants, and chunks of native vectors.

A `Value` whose shape is Known or Affine is one scalar (or nothing but a table); a Varying one is
a tuple of chunks, each as many lanes as the host's vectors hold. Operations are written once, on
one LLVM value, and applied to the scalar or to each chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from llvmlite import ir

from tilewright.emulator.lanes import VARYING, WARP, Affine, Known, Shape, affine

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
I128 = ir.IntType(128)
HALF, FLOAT, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
_FLOAT_BITS = {ir.HalfType: 16, ir.FloatType: 32, ir.DoubleType: 64}
INTS = {1: I1, 8: I8, 16: I16, 32: I32, 64: I64, 128: I128}


@dataclass(frozen=True, slots=True)
class Value:
    """A register's content: `scalar` for Affine, `chunks` for Varying, neither for Known.

    `type` is the LLVM type of one lane.
    """

    type: ir.Type
    shape: Shape
    scalar: ir.Value | None = None
    chunks: tuple[ir.Value, ...] = ()


def lanes_of(value: ir.Value) -> int | None:
    """Lanes of an LLVM value; None for a scalar."""
    return value.type.count if isinstance(value.type, ir.VectorType) else None


def element(value: ir.Value) -> ir.Type:
    """Return the type of one lane."""
    return value.type.element if isinstance(value.type, ir.VectorType) else value.type


def like(value: ir.Value, lane: ir.Type) -> ir.Type:
    """Return the type with `value`'s lanes and the lane type `lane`."""
    count = lanes_of(value)
    return lane if count is None else ir.VectorType(lane, count)


def bits_of(lane: ir.Type) -> int:
    """Bits of a lane type."""
    if isinstance(lane, ir.IntType):
        return int(lane.width)
    return _FLOAT_BITS[type(lane)]


def integer_of(lane: ir.Type) -> ir.IntType:
    """Return the integer type as wide as `lane`."""
    return INTS[bits_of(lane)]


def declared(
    module: ir.Module, name: str, result: ir.Type, types: Sequence[ir.Type]
) -> ir.Function:
    """Return the function `name` of a module, declared where it is not there yet."""
    known = module.globals.get(name)
    return known or ir.Function(module, ir.FunctionType(result, list(types)), name)


def nothing(kind: ir.Type) -> ir.Constant:
    """Return a constant of which nothing is used: zero, which LLVM writes in one word."""
    zero = ir.Constant(kind, None)
    zero.constant = None  # llvmlite makes it a list of zeros, and prints each
    return zero


@lru_cache(maxsize=4096)
def integers(lane: ir.IntType, numbers: tuple[int, ...]) -> ir.Constant:
    """Return a vector of known integers. Few differ, and llvmlite takes long to print one."""
    return ir.Constant(ir.VectorType(lane, len(numbers)), list(numbers))


class Emitter:
    """An LLVM builder that knows lanes, and the warp index of the code being built."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder, warps: int, width: int) -> None:
        self.module = module
        self.b = builder
        self.warps = warps
        self.width = width
        self.warp_index: ir.Value | None = None
        self._tables: dict[tuple[bytes, str], ir.GlobalVariable] = {}

    @property
    def chunks(self) -> int:
        """Chunks that make a warp."""
        return WARP // self.width

    def joined(self, chunks: Sequence[ir.Value]) -> ir.Value:
        """All 32 lanes as one vector."""
        parts = list(chunks)
        while len(parts) > 1:
            count = 2 * parts[0].type.count
            mask = integers(I32, tuple(range(count)))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.b.shuffle_vector(x, y, mask) for x, y in pairs]
        return parts[0]

    def divided(self, whole: ir.Value) -> tuple[ir.Value, ...]:
        """Return a vector of 32 lanes as chunks."""
        if self.chunks == 1:
            return (whole,)
        return tuple(
            self.b.shuffle_vector(whole, nothing(whole.type), integers(I32, tuple(part)))
            for part in self.parts(range(WARP))
        )

    # --- constants --------------------------------------------------------------------------

    def const(self, value: ir.Value, number: int | float) -> ir.Constant:
        """Return `number` in every lane, with `value`'s type."""
        return self.const_of(value.type, number)

    @staticmethod
    def const_of(kind: ir.Type, number: int | float) -> ir.Constant:
        """Return `number` in every lane of `kind`."""
        if not isinstance(kind, ir.VectorType):
            return ir.Constant(kind, number)
        if isinstance(kind.element, ir.IntType):
            return integers(kind.element, (number,) * kind.count)
        return ir.Constant(kind, [number] * kind.count)

    def _table(self, rows: Sequence[ir.Constant], key: tuple[bytes, str]) -> ir.GlobalVariable:
        if key not in self._tables:
            kind = ir.ArrayType(rows[0].type, len(rows))
            name = self.module.get_unique_name("table")
            variable = ir.GlobalVariable(self.module, kind, name)
            variable.initializer = ir.Constant(kind, list(rows))
            variable.global_constant = True
            variable.linkage = "internal"
            variable.align = 64
            self._tables[key] = variable
        return self._tables[key]

    def _lookup(self, rows: Sequence[ir.Constant], key: tuple[bytes, str]) -> ir.Value:
        table = self._table(rows, key)
        zero = ir.Constant(I32, 0)
        place = self.b.gep(table, [zero, self.warp_index], source_etype=table.value_type)
        return self.b.load(place, typ=rows[0].type)

    # --- values -----------------------------------------------------------------------------

    def scalar(self, value: Value) -> ir.Value:
        """Return the scalar part: the value of a uniform one, s of an Affine one."""
        if value.scalar is not None:
            return value.scalar
        if not isinstance(value.shape, Known):
            raise AssertionError(f"no scalar part in {value.shape}")
        column = value.shape.table[:, 0]
        lane = integer_of(value.type)
        if (column == column[0]).all():
            number: ir.Value = ir.Constant(lane, int(column[0]))
        else:
            rows = [ir.Constant(lane, int(x)) for x in column]
            number = self._lookup(rows, (column.tobytes(), str(lane)))
        return self.cast(number, value.type)

    def vector(self, value: Value) -> tuple[ir.Value, ...]:
        """Return the value as chunks."""
        if value.chunks:
            return value.chunks
        if isinstance(value.shape, Known) and (shape := value.shape.affine()) is None:
            return self._known_chunks(value)
        shape = affine(value.shape)
        if shape is None:
            raise AssertionError("a varying value without chunks")
        scalar = self.scalar(value)
        if shape.uniform:
            return (self.splat(scalar),) * self.chunks
        splat = self.splat(self.cast(scalar, integer_of(value.type)))
        steps = [
            integers(splat.type.element, tuple(self._wrapped(o, splat) for o in part))
            for part in self.parts(shape.offsets)
        ]
        return tuple(self.cast(self.b.add(splat, step), value.type) for step in steps)

    @staticmethod
    def _wrapped(number: int, value: ir.Value) -> int:
        return number & ((1 << bits_of(element(value))) - 1)

    def _known_chunks(self, value: Value) -> tuple[ir.Value, ...]:
        if not isinstance(value.shape, Known):
            raise AssertionError("not a table")
        table, lane = value.shape.table, integer_of(value.type)
        kind = ir.VectorType(lane, self.width)
        chunks = []
        for c in range(self.chunks):
            part = np.ascontiguousarray(table[:, c * self.width : (c + 1) * self.width])
            rows = [ir.Constant(kind, [int(x) for x in row]) for row in part]
            same = (part == part[0]).all()
            chunk = rows[0] if same else self._lookup(rows, (part.tobytes(), str(kind)))
            chunks.append(self.cast(chunk, value.type))
        return tuple(chunks)

    def parts(self, items: Sequence[int]) -> list[Sequence[int]]:
        """Split 32 per-lane numbers by chunk."""
        return [items[c * self.width : (c + 1) * self.width] for c in range(self.chunks)]

    def splat(self, scalar: ir.Value) -> ir.Value:
        """One chunk with `scalar` in every lane."""
        kind = ir.VectorType(scalar.type, self.width)
        if isinstance(scalar, ir.Constant):
            return self.const_of(kind, scalar.constant)
        one = self.b.insert_element(nothing(kind), scalar, ir.Constant(I32, 0))
        return self.b.shuffle_vector(one, nothing(kind), integers(I32, (0,) * self.width))

    def cast(self, value: ir.Value, lane: ir.Type) -> ir.Value:
        """Reinterpret the bits of each lane; integers change width by dropping or zero-filling."""
        have, want = bits_of(element(value)), bits_of(lane)
        if element(value) == lane:
            return value
        if have != want:
            value = self.cast(value, integer_of(element(value)))
            kind = like(value, INTS[want])
            value = self.b.trunc(value, kind) if have > want else self.b.zext(value, kind)
        return self.b.bitcast(value, like(value, lane))

    def retype(self, value: Value, lane: ir.Type) -> Value:
        """`cast` on every part of a value."""
        if value.type == lane:
            return value
        shape = value.shape
        if isinstance(shape, Known):
            shape = shape.resized(bits_of(lane))
        elif (
            isinstance(shape, Affine) and not shape.uniform and bits_of(lane) > bits_of(value.type)
        ):
            return self.varying(lane, tuple(self.cast(c, lane) for c in self.vector(value)))
        scalar = None if value.scalar is None else self.cast(value.scalar, lane)
        return Value(lane, shape, scalar, self.map(lambda c: self.cast(c, lane), value.chunks))

    @staticmethod
    def varying(lane: ir.Type, chunks: Sequence[ir.Value]) -> Value:
        """Make a Varying value."""
        return Value(lane, VARYING, None, tuple(chunks))

    @staticmethod
    def map(
        operation: Callable[..., ir.Value], *columns: Sequence[ir.Value]
    ) -> tuple[ir.Value, ...]:
        """Apply `operation` chunk by chunk; chunks with the same operands are computed once."""
        done: dict[tuple[int, ...], ir.Value] = {}
        result = []
        for row in zip(*columns, strict=True):
            key = tuple(id(v) for v in row)
            if key not in done:
                done[key] = operation(*row)
            result.append(done[key])
        return tuple(result)

    # --- operations on one LLVM value, scalar or chunk -----------------------------------------

    def intrinsic(
        self, name: str, args: Sequence[ir.Value], kind: ir.Type | None = None
    ) -> ir.Value:
        """Call `name` overloaded on the first argument's type (returning `kind` or the same)."""
        full = f"{name}.{mangled(args[0].type)}"
        types = [a.type for a in args]
        return self.b.call(declared(self.module, full, kind or types[0], types), list(args))

    def select(self, mask: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """`yes` where `mask`, else `no`."""
        return self.b.select(mask, yes, no)

    def mask_bits(self, chunks: Sequence[ir.Value]) -> ir.Value:
        """Return a predicate's chunks as one i32, bit l for lane l."""
        total: ir.Value | None = None
        for c, chunk in enumerate(chunks):
            bits = self.b.bitcast(chunk, ir.IntType(self.width))
            bits = bits if self.width == WARP else self.b.zext(bits, I32)
            if c:
                bits = self.b.shl(bits, ir.Constant(I32, c * self.width))
            total = bits if total is None else self.b.or_(total, bits)
        if total is None:
            raise AssertionError("no chunks")
        return total

    def mask_chunks(self, bits: ir.Value) -> tuple[ir.Value, ...]:
        """One i32 as the chunks of a predicate."""
        chunks = []
        for c in range(self.chunks):
            part = self.b.lshr(bits, ir.Constant(I32, c * self.width)) if c else bits
            if self.width < WARP:
                part = self.b.trunc(part, ir.IntType(self.width))
            chunks.append(self.b.bitcast(part, ir.VectorType(I1, self.width)))
        return tuple(chunks)


def mangled(kind: ir.Type) -> str:
    """LLVM's name for a type in an overloaded intrinsic."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{mangled(kind.element)}"
    if isinstance(kind, ir.IntType):
        return f"i{kind.width}"
    if isinstance(kind, ir.PointerType):
        return "p0"
    return {HALF: "f16", FLOAT: "f32", DOUBLE: "f64"}[kind]
