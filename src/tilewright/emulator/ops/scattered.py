"""Accesses at addresses that are anything, as one LLVM function for each kind of access.

    tw_load_<space>_<type>x<n>(context, addresses, mask, warp, pc) -> {ok, values…}
    tw_store_<space>_<type>x<n>(context, addresses, values…, mask, warp, pc) -> ok

Each checks all lanes at once: for shared and local memory against the window, for the rest that
they fall in one array. Then it gathers or scatters. Where the check fails the runtime goes lane by
lane and finds the fault, or that all is well (the lanes address several arrays).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Emitter,
    bits_of,
    declared,
    mangled,
    nothing,
)
from tilewright.emulator.lanes import WARP
from tilewright.emulator.runtime import SPACES

if TYPE_CHECKING:
    from tilewright.emulator.translate import Translator

Chunks = Sequence[ir.Value]
Field = Callable[[str, ir.Type], ir.Value]  # loads a field of the context


@dataclass(frozen=True, slots=True)
class Access:
    """A kind of access: `vector` elements of `lane` in each lane, in one state space."""

    space: str
    lane: ir.Type
    vector: int

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return bits_of(self.lane) // 8

    def name(self, way: str) -> str:
        """Return the LLVM function's name."""
        return f"tw_{way}_{self.space}_{mangled(self.lane)}x{self.vector}"


def load(t: Translator, access: Access, addresses: Chunks, mask: ir.Value, pc: int) -> list[Chunks]:
    """Emit a load; returns the chunks of each vector element."""
    answer = _call(t, access, "load", [t.e.joined(addresses)], mask, pc)
    return [t.e.divided(t.b.extract_value(answer, 1 + i)) for i in range(access.vector)]


def store(
    t: Translator,
    access: Access,
    addresses: Chunks,
    values: Sequence[Chunks],
    mask: ir.Value,
    pc: int,
) -> None:
    """Emit a store of each vector element's chunks."""
    _call(t, access, "store", [t.e.joined(v) for v in (addresses, *values)], mask, pc)


def _call(
    t: Translator, access: Access, way: str, values: Chunks, mask: ir.Value, pc: int
) -> ir.Value:
    """Call the function, made where it is not there yet; go to the fault exit if it failed."""
    name = access.name(way)
    function = t.module.globals.get(name)
    if function is None:
        elements = [ir.VectorType(access.lane, WARP)] * (access.vector if way == "load" else 0)
        types = [PTR, *(v.type for v in values), I32, I32, I32]
        kind = ir.FunctionType(ir.LiteralStructType([I1, *elements]), types)
        function = ir.Function(t.module, kind, name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        {"load": _build_load, "store": _build_store}[way](_Body(t, function, access))
    pc_value = ir.Constant(I32, pc)
    answer = t.b.call(function, [t.frame.context, *values, mask, t.e.warp_index, pc_value])
    good = t.function.append_basic_block()
    t.b.cbranch(t.b.extract_value(answer, 0), good, t.faulted)
    t.b.position_at_end(good)
    return answer


class _Body:
    """The inside of one such function."""

    def __init__(self, t: Translator, function: ir.Function, access: Access) -> None:
        self.t, self.function, self.access = t, function, access
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.e = Emitter(t.module, self.b, t.e.warps, WARP)
        self.context, *values, self.mask, self.warp, self.pc = function.args
        self.addresses = values[: self.e.chunks]
        self.values = values[self.e.chunks :]
        self.masks = self.e.mask_chunks(self.mask)

    def field(self, name: str, kind: ir.Type) -> ir.Value:
        """Return a field of the context."""
        at = ir.Constant(I64, state.offset(name))
        return self.b.load(self.b.gep(self.context, [at], source_etype=I8), typ=kind)

    def pointers(self) -> tuple[tuple[ir.Value, ...], ir.Value]:
        """Host pointers (as i64 chunks) and whether all may be used."""
        if self.access.space in ("shared", "local"):
            return self._windowed()
        bytes_ = self.access.size * self.access.vector
        return in_one_segment(self.b, self.e, self.field, self.addresses, self.masks, bytes_)

    def _windowed(self) -> tuple[tuple[ir.Value, ...], ir.Value]:
        b, e, layout = self.b, self.e, self.t.frame.layout
        shared = self.access.space == "shared"
        window = layout.shared_bytes if shared else layout.local_frame
        bytes_ = self.access.size * self.access.vector
        safe = _or_else(e, self.masks, self.addresses, 0)

        def bad(c: ir.Value) -> ir.Value:
            outside = b.icmp_unsigned(">", c, e.const(c, max(window - bytes_, 0)))
            odd = b.icmp_unsigned("!=", b.and_(c, e.const(c, bytes_ - 1)), e.const(c, 0))
            return b.or_(outside, odd)

        fits = window >= bytes_
        none = b.icmp_unsigned("==", e.mask_bits(e.map(bad, safe)), ir.Constant(I32, 0))
        ok = none if fits else ir.Constant(I1, 0)
        if shared:
            start = e.splat(self.field("shared", I64))
            return e.map(lambda c: b.add(c, start), safe), ok
        first = b.mul(b.zext(self.warp, I64), ir.Constant(I64, WARP * window))
        start = e.splat(b.add(self.field("local", I64), first))
        kind = ir.VectorType(I64, e.width)
        frames = [ir.Constant(kind, [n * window for n in part]) for part in e.parts(range(WARP))]
        return e.map(lambda c, f: b.add(b.add(c, f), start), safe, frames), ok

    def buffer(self, chunks: Chunks) -> ir.Value:
        """32 lanes in stack memory."""
        place = self.room(chunks[0].type.element)
        for number, chunk in enumerate(chunks):
            at = self.b.gep(place, [ir.Constant(I64, number)], source_etype=chunk.type)
            self.b.store(chunk, at, align=8)
        return place

    def room(self, lane: ir.Type) -> ir.Value:
        """Stack memory for 32 lanes."""
        place = self.b.alloca(ir.ArrayType(lane, WARP))
        return self.b.inttoptr(self.b.ptrtoint(place, I64), PTR)  # llvmlite types the pointer

    def lane_by_lane(
        self, way: str, addresses: ir.Value, values: ir.Value, number: int
    ) -> ir.Value:
        """Let the runtime access one vector element; returns whether all went well."""
        size = self.access.size
        types = [PTR, I32, PTR, PTR, I64, I64, I64, I32, I32, I32]
        function = self.t.external(f"tw_{way}", I1, types)
        align = size * self.access.vector if number == 0 else size
        numbers = [ir.Constant(I64, n) for n in (number * size, size, align)]
        space = ir.Constant(I32, SPACES[self.access.space])
        return self.b.call(
            function,
            [self.context, space, addresses, values, *numbers, self.mask, self.warp, self.pc],
        )


def in_one_segment(
    b: ir.IRBuilder, e: Emitter, field: Field, addresses: Chunks, masks: Chunks, size: int
) -> tuple[tuple[ir.Value, ...], ir.Value]:
    """Host pointers (as i64 chunks), and whether `size` bytes at each lie in one array, aligned."""
    lowest = _reduced(e, "umin", _or_else(e, masks, addresses, -1))
    highest = _reduced(e, "umax", _or_else(e, masks, addresses, 0))
    bits = _reduced(e, "or", _or_else(e, masks, addresses, 0))
    host, first, length, low = segment_of(b, field, lowest)
    # No sum that could wrap: lanes may hold any addresses, far apart.
    span, room = b.sub(highest, lowest), b.sub(length, ir.Constant(I64, size))
    fits = b.icmp_unsigned(">=", length, ir.Constant(I64, size))
    fits = b.and_(fits, b.icmp_unsigned("<=", span, room))
    inside = b.icmp_unsigned("<=", b.sub(low, first), b.sub(room, span))
    odd = b.and_(bits, ir.Constant(I64, size - 1))
    even = b.icmp_unsigned("==", odd, ir.Constant(I64, 0))
    delta = e.splat(b.sub(b.add(host, low), lowest))
    return e.map(lambda c: b.add(c, delta), addresses), b.and_(b.and_(fits, inside), even)


def _or_else(e: Emitter, masks: Chunks, chunks: Chunks, other: int) -> tuple[ir.Value, ...]:
    """Return the chunks, with `other` in place of idle lanes."""
    return e.map(lambda m, c: e.select(m, c, e.const(c, other)), masks, chunks)


def _reduced(e: Emitter, name: str, chunks: Chunks) -> ir.Value:
    total = chunks[0]
    for chunk in chunks[1:]:
        total = (
            e.b.or_(total, chunk) if name == "or" else e.intrinsic(f"llvm.{name}", [total, chunk])
        )
    return e.intrinsic(f"llvm.vector.reduce.{name}", [total], I64)


def segment_of(b: ir.IRBuilder, field: Field, address: ir.Value) -> tuple[ir.Value, ...]:
    """Return the array that a generic address falls in: host, first, size, and the offset."""
    high = b.lshr(address, ir.Constant(I64, state.SEGMENT_SHIFT))
    exists = b.icmp_unsigned("<", high, field("segment_count", I64))
    number = b.select(exists, high, ir.Constant(I64, 0))
    entry = b.gep(field("segments", PTR), [number], source_etype=ir.ArrayType(I64, 3))
    parts = [
        b.load(b.gep(entry, [ir.Constant(I64, i)], source_etype=I64), typ=I64) for i in range(3)
    ]
    return (*parts, b.and_(address, ir.Constant(I64, (1 << state.SEGMENT_SHIFT) - 1)))


def _build_load(body: _Body) -> None:
    b, e, access = body.b, body.e, body.access
    vector = ir.VectorType(access.lane, e.width)
    result = body.function.function_type.return_type
    pointers, ok = body.pointers()
    fast, slow = (body.function.append_basic_block(n) for n in ("fast", "slow"))
    b.cbranch(ok, fast, slow)
    b.position_at_end(fast)
    chunks = [
        chunk
        for number in range(access.vector)
        for chunk in gather(e, access.lane, pointers, number * access.size, body.masks)
    ]
    b.ret(_packed(b, result, ir.Constant(I1, 1), chunks))
    b.position_at_end(slow)
    addresses = body.buffer(body.addresses)
    good: ir.Value = ir.Constant(I1, 1)
    chunks = []
    for number in range(access.vector):
        values = body.room(access.lane)
        good = b.and_(good, body.lane_by_lane("load", addresses, values, number))
        chunks += [
            b.load(b.gep(values, [ir.Constant(I64, c)], source_etype=vector), typ=vector, align=8)
            for c in range(e.chunks)
        ]
    b.ret(_packed(b, result, good, chunks))


def _packed(b: ir.IRBuilder, kind: ir.Type, ok: ir.Value, chunks: Chunks) -> ir.Value:
    total = b.insert_value(nothing(kind), ok, 0)
    for number, chunk in enumerate(chunks):
        total = b.insert_value(total, chunk, 1 + number)
    return total


def _build_store(body: _Body) -> None:
    b, e, access = body.b, body.e, body.access
    elements = [body.values[i : i + e.chunks] for i in range(0, len(body.values), e.chunks)]
    pointers, ok = body.pointers()
    fast, slow = (body.function.append_basic_block(n) for n in ("fast", "slow"))
    b.cbranch(ok, fast, slow)
    result = body.function.function_type.return_type
    b.position_at_end(fast)
    for number, chunks in enumerate(elements):
        scatter(e, chunks, pointers, number * access.size, body.masks)
    b.ret(_packed(b, result, ir.Constant(I1, 1), ()))
    b.position_at_end(slow)
    addresses = body.buffer(body.addresses)
    good: ir.Value = ir.Constant(I1, 1)
    for number, chunks in enumerate(elements):
        good = b.and_(good, body.lane_by_lane("store", addresses, body.buffer(chunks), number))
    b.ret(_packed(b, result, good, ()))


def gather(
    e: Emitter, lane: ir.Type, pointers: Chunks, offset: int, masks: Chunks
) -> tuple[ir.Value, ...]:
    """Load from each active lane's pointer (i64) plus offset."""
    kind, where = ir.VectorType(lane, e.width), ir.VectorType(PTR, e.width)
    name = f"llvm.masked.gather.{mangled(kind)}.{mangled(where)}"
    types = [where, I32, ir.VectorType(I1, e.width), kind]
    function = declared(e.module, name, kind, types)
    align = ir.Constant(I32, bits_of(lane) // 8)

    def one(pointer: ir.Value, mask: ir.Value) -> ir.Value:
        moved = e.b.add(pointer, e.const(pointer, offset)) if offset else pointer
        args = [e.b.inttoptr(moved, where), align, mask, nothing(kind)]
        return e.b.call(function, args)

    return e.map(one, pointers, masks)


def scatter(e: Emitter, chunks: Chunks, pointers: Chunks, offset: int, masks: Chunks) -> None:
    """Store to each active lane's pointer (i64) plus offset; where they meet the last lane wins."""
    kind, where = chunks[0].type, ir.VectorType(PTR, e.width)
    name = f"llvm.masked.scatter.{mangled(kind)}.{mangled(where)}"
    types = [kind, where, I32, ir.VectorType(I1, e.width)]
    function = declared(e.module, name, ir.VoidType(), types)
    align = ir.Constant(I32, bits_of(kind.element) // 8)
    for chunk, pointer, mask in zip(chunks, pointers, masks, strict=True):
        moved = e.b.add(pointer, e.const(pointer, offset)) if offset else pointer
        e.b.call(function, [chunk, e.b.inttoptr(moved, where), align, mask])
