"""The events of a counting build: one record an executed memory instruction or barrier of a warp.

A block asks once for room for all its events, then writes each where its instruction stands, and
counts them when all are written: a fault leaves none that is half made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import I8, I32, I64, PTR, Value
from tilewright.emulator.lanes import WARP, affine
from tilewright.emulator.ops.accesses import (
    is_copy,
    lane_addresses,
    space_of,
    start_of,
)
from tilewright.emulator.plan import is_block_barrier
from tilewright.toolchain.ptx.ir import Instruction

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

_RECORDED = frozenset({"ld", "ldu", "st", "atom", "red"})
_EVENT = ir.ArrayType(I8, state.EVENT_BYTES)


@dataclass(slots=True)
class Room:
    """Where a block of code writes its events: the first one's place, and how many are written.

    `block` is the block of the grid.
    """

    place: ir.Value
    block: ir.Value
    written: int = 0


def make_room(t: Translator, code: BlockCode) -> int:
    """Make room for all events of a block at its start; return how many it needs."""
    body = t.plan.function.body[code.block.start : code.block.end]
    events = sum(_events(ins) for ins in body)
    if events:
        function = t.external("tw_room", PTR, [PTR, I64])
        place = code.b.call(function, [t.frame.context, ir.Constant(I64, events)])
        code.room = Room(place, code.context("block", I64))
    return events


def _events(ins: Instruction) -> int:
    """Return how many events an instruction makes: a copy is a load and a store."""
    if ins.opcode == "cp":
        return 2 if is_copy(ins) else 1
    if is_block_barrier(ins):
        return 1
    return int(ins.opcode in _RECORDED and ins.space != "param")


def record(
    t: Translator, code: BlockCode, pc: int, base: Value, offset: int, active: ir.Value
) -> None:
    """Write an event; addresses that are anything go to a row of theirs."""
    shape = affine(base.shape)
    if shape is None or space_of(t.plan.function.body[pc]) == "local":
        record_row(t, code, pc, t.e.joined(lane_addresses(code, base, offset)), active)
        return
    t.offsets[pc] = shape.offsets
    start = start_of(code, base, offset)
    place, block = _next(code)
    head = [block, ir.Constant(I32, pc), t.e.warp_index, active]
    _write(code.b, place, [*head, ir.Constant(I32, -1), start])


def record_row(
    t: Translator, code: BlockCode, pc: int, addresses: ir.Value, active: ir.Value
) -> None:
    """Write an event with the addresses of all 32 lanes."""
    place, block = _next(code)
    args = [t.frame.context, place, block, ir.Constant(I32, pc), t.e.warp_index, active, addresses]
    code.b.call(_row_function(t), args)


def record_wait(t: Translator, code: BlockCode, pc: int, keep: ir.Value, active: ir.Value) -> None:
    """Write the event of a wait, or of a group of copies' end: `keep` in the place of base."""
    place, block = _next(code)
    t.offsets[pc] = (0,) * WARP
    head = [block, ir.Constant(I32, pc), t.e.warp_index, active, ir.Constant(I32, -1)]
    _write(code.b, place, [*head, code.b.sext(keep, I64)])


def record_barrier(t: Translator, code: BlockCode, pc: int) -> None:
    """Write the event of a warp that comes to a barrier of its block, and count it."""
    record_wait(t, code, pc, ir.Constant(I32, 0), code.mask)
    commit(t, code)


def _next(code: BlockCode) -> tuple[ir.Value, ir.Value]:
    """Return the place of the next event, and the block of the grid."""
    room = code.room
    if room is None:
        raise AssertionError("no room for events")
    at = ir.Constant(I64, room.written)
    room.written += 1
    return code.b.gep(room.place, [at], source_etype=_EVENT), room.block


def _write(b: ir.IRBuilder, event: ir.Value, values: Sequence[ir.Value]) -> None:
    """Write the fields of an event, in their order."""
    for (name, _), value in zip(state.Event._fields_, values, strict=True):
        at = ir.Constant(I64, state.event_offset(name))
        b.store(value, b.gep(event, [at], source_etype=I8))


def _row_function(t: Translator) -> ir.Function:
    """Return the function that writes an event whose addresses go to the next row."""
    known = t.module.globals.get("tw_row")
    if known is not None:
        return known
    types = [PTR, PTR, I64, I32, I32, I32, ir.VectorType(I64, WARP)]
    function = ir.Function(t.module, ir.FunctionType(ir.VoidType(), types), "tw_row")
    function.linkage = "internal"
    function.attributes.add("noinline")
    context, event, block, pc, warp, mask, addresses = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    at = ir.Constant(I64, state.offset("event_rows"))
    rows = b.load(b.gep(context, [at], source_etype=I8), typ=PTR)
    row = _advance(b, context, "row_count", 1)
    b.store(addresses, b.gep(rows, [row], source_etype=addresses.type), align=8)
    _write(b, event, [block, pc, warp, mask, b.trunc(row, I32), ir.Constant(I64, 0)])
    b.ret_void()
    return function


def commit(t: Translator, code: BlockCode) -> None:
    """Count the events of a block, which are all written, unless that was done."""
    if code.room is not None:
        _advance(code.b, t.frame.context, "event_count", code.room.written)
        code.room = None


def _advance(b: ir.IRBuilder, context: ir.Value, name: str, amount: int) -> ir.Value:
    """Add to a field of the context; return what it was."""
    place = b.gep(context, [ir.Constant(I64, state.offset(name))], source_etype=I8)
    old = b.load(place, typ=I64)
    b.store(b.add(old, ir.Constant(I64, amount)), place)
    return old
