"""Loads, stores and atomics.

Every access is checked before it is made. What is known of the address decides how:

* s + offsets (an Affine base): one scalar check of the range that all lanes touch; loads become
  plain vector loads and constant shuffles, shared by the loads of a block that have a base in
  common (`groups`).
* anything else: a check of all lanes' addresses at once, then a gather or scatter.

Where a check fails, the runtime goes lane by lane: it finds the fault, or that the offending lane
was not active, or that the lanes address several arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.block import ALL
from tilewright.emulator.codegen import I1, I32, I64, PTR, Value, bits_of
from tilewright.emulator.frame import masked_store
from tilewright.emulator.lanes import UNIFORM, WARP, Affine, Known, affine
from tilewright.emulator.ops import scattered
from tilewright.emulator.ops.accesses import (
    SPAN_LIMIT,
    address_of,
    alignment,
    base_value,
    lane_addresses,
    results_of,
    space_of,
    span_check,
    span_of,
    start_of,
)
from tilewright.emulator.ops.events import record
from tilewright.emulator.ops.groups import load_affine
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.runtime import SPACES
from tilewright.emulator.signature import lane_type
from tilewright.toolchain.ptx.ir import Instruction, Mem

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator


# --- loads ----------------------------------------------------------------------------------------


def load(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """ld, in every state space."""
    at = address_of(ins)
    base = base_value(code, at)
    if ins.space == "param":
        if isinstance(base.shape, Known) and base.shape.uniform:
            _load_param(t, code, ins, base, at.offset)
            return
        # An indexed parameter is checked as any memory is, by its generic address.
        at = Mem(at.base, at.offset + (state.PARAM_SEGMENT << state.SEGMENT_SHIFT))
    active = code.active(ins)
    if t.counting and ins.space != "param":
        record(t, code, pc, base, at.offset, active)
    space = "generic" if ins.space == "param" else space_of(ins)
    shape = affine(base.shape)
    if shape is not None and pc in code.groups and span_of(shape) <= SPAN_LIMIT:
        values = load_affine(t, code, pc, ins, base, active)
    else:
        lane = lane_type(ins.types[-1])
        access = scattered.Access(space, lane, ins.vector)
        loaded = scattered.load(t, access, lane_addresses(code, base, at.offset), active, pc)
        values = [code.e.varying(lane, chunks) for chunks in loaded]
    kind = ins.types[-1]
    for operand, value in zip(results_of(ins.operands[0]), values, strict=True):
        code.write(operand, value, ins, kind)
    if "acquire" in ins.flags:
        code.b.fence("acquire")


def _load_param(t: Translator, code: BlockCode, ins: Instruction, base: Value, offset: int) -> None:
    """Load a parameter from a place that is known."""
    lane = lane_type(ins.types[-1])
    size = bits_of(lane) // 8
    start = int(code.e.scalar(base).constant) + offset
    if not 0 <= start <= t.frame.layout.param_bytes - size * ins.vector:
        raise unsupported(ins, "an access outside the kernel's parameters")
    known = t.frame.layout.param_shape(start, ins.types[-1]) if ins.vector == 1 else None
    if known is not None:
        code.write(ins.operands[0], Value(lane, known), ins, ins.types[-1])
        return
    address = code.b.add(code.context("params", I64), ir.Constant(I64, start))
    for number, operand in enumerate(results_of(ins.operands[0])):
        place = code.b.add(address, ir.Constant(I64, number * size))
        scalar = code.b.load(code.b.inttoptr(place, PTR), typ=lane, align=size)
        code.write(operand, Value(lane, UNIFORM, scalar), ins, ins.types[-1])


# --- stores ---------------------------------------------------------------------------------------


def store(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """st, in every state space."""
    at = address_of(ins)
    base = base_value(code, at)
    active = code.active(ins)
    if t.counting:
        record(t, code, pc, base, at.offset, active)
    values = [code.read(o, ins.types[-1]) for o in results_of(ins.operands[1])]
    chunks = [code.e.vector(v) for v in values]
    if "release" in ins.flags:
        code.b.fence("release")
    if _plain(code, ins, base):
        _store_affine(t, code, pc, ins, base, active, chunks)
    else:
        kind = scattered.Access(space_of(ins), lane_type(ins.types[-1]), ins.vector)
        scattered.store(t, kind, lane_addresses(code, base, at.offset), chunks, active, pc)


def _plain(code: BlockCode, ins: Instruction, base: Value) -> bool:
    """Whether a store is worth code of its own: known offsets, and not on a path for edges."""
    shape = affine(base.shape)
    return (
        shape is not None
        and ins.space != "local"
        and not code.divergent
        and span_of(shape) <= SPAN_LIMIT
    )


def _store_affine(
    t: Translator,
    code: BlockCode,
    pc: int,
    ins: Instruction,
    base: Value,
    active: ir.Value,
    chunks: list[tuple[ir.Value, ...]],
) -> None:
    b, e, offset = code.b, code.e, address_of(ins).offset
    space, shape = space_of(ins), affine(base.shape)
    if shape is None:
        raise AssertionError("not affine")
    lane = lane_type(ins.types[-1])
    size = bits_of(lane) // 8
    low = min(shape.offsets) + offset
    start = start_of(code, base, low)
    ok, first = span_check(t, code, space, start, span_of(shape) + size * ins.vector)
    places = [(o + offset - low, size * ins.vector) for o in set(shape.offsets)]
    aligned = alignment(code, start, shape, places)
    ok = b.and_(ok, aligned) if aligned is not None else ok
    fast, slow, after = (t.function.append_basic_block() for _ in range(3))
    b.cbranch(ok, fast, slow)
    b.position_at_end(fast)
    if _is_contiguous(shape, size) and ins.vector == 1:
        _store_contiguous(code, first, chunks[0], active)
    else:
        kind = ir.VectorType(I64, e.width)
        steps = e.parts([o + offset - low for o in shape.offsets])
        pointers = tuple(b.add(e.splat(first), ir.Constant(kind, part)) for part in steps)
        bits = e.const_of(ir.VectorType(I1, e.width), 1)
        masks = [bits] * e.chunks if active is ALL else e.mask_chunks(active)
        for number, part in enumerate(chunks):
            scattered.scatter(e, part, pointers, number * size, masks)
    b.branch(after)
    b.position_at_end(slow)
    scattered.store(
        t,
        scattered.Access(space, lane, ins.vector),
        lane_addresses(code, base, offset),
        chunks,
        active,
        pc,
    )
    b.branch(after)
    b.position_at_end(after)


def _is_contiguous(shape: Affine, size: int) -> bool:
    return shape.offsets == tuple(shape.offsets[0] + size * lane for lane in range(WARP))


def _store_contiguous(
    code: BlockCode, first: ir.Value, chunks: Sequence[ir.Value], active: ir.Value
) -> None:
    b, e = code.b, code.e
    kind = chunks[0].type
    size = bits_of(kind.element) // 8
    masks = None if active is ALL else e.mask_chunks(active)
    for number, chunk in enumerate(chunks):
        at = b.inttoptr(b.add(first, ir.Constant(I64, number * e.width * size)), PTR)
        if masks is None:
            b.store(chunk, at, align=size)
            continue
        masked_store(e, chunk, at, size, masks[number])


def _buffer(t: Translator, code: BlockCode, chunks: Sequence[ir.Value]) -> ir.Value:
    """Store 32 lanes to stack memory, for the runtime to read."""
    buffer = t.stack(chunks[0].type.element)
    for number, chunk in enumerate(chunks):
        at = code.b.gep(buffer, [ir.Constant(I64, number)], source_etype=chunk.type)
        code.b.store(chunk, at, align=8)
    return buffer


# --- atomics --------------------------------------------------------------------------------------


def atomic(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit atom and red: lane by lane, each a host atomic, so that all workers agree."""
    from tilewright.emulator.ops.atomics import atomic_function

    if ins.vector > 1:
        raise unsupported(ins, "a vector atomic")
    at = address_of(ins)
    base = base_value(code, at)
    active = code.active(ins)
    if t.counting:
        record(t, code, pc, base, at.offset, active)
    first = 1 if ins.opcode == "red" else 2
    kind = ins.types[-1]
    lane = lane_type(kind)
    data = [_buffer(t, code, code.e.vector(code.read(o, kind))) for o in ins.operands[first:]]
    if len(data) == 1:
        data.append(data[0])
    addresses = _buffer(t, code, lane_addresses(code, base, at.offset))
    old = t.stack(lane)
    args = [
        t.frame.context,
        ir.Constant(I32, SPACES[space_of(ins)]),
        addresses,
        *data,
        old,
        active,
        t.e.warp_index,
        ir.Constant(I32, pc),
    ]
    good = t.function.append_basic_block()
    code.b.cbranch(code.b.call(atomic_function(t, ins), args), good, t.faulted)
    code.b.position_at_end(good)
    if ins.opcode == "red":
        return
    vector = ir.VectorType(lane, code.e.width)
    chunks = [
        code.b.load(
            code.b.gep(old, [ir.Constant(I64, c)], source_etype=vector), typ=vector, align=8
        )
        for c in range(code.e.chunks)
    ]
    code.write(ins.operands[0], code.e.varying(lane, chunks), ins, kind)
