"""The events of a counting build: one record an executed memory instruction of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import I8, I32, I64, PTR, Value
from tilewright.emulator.lanes import WARP, affine
from tilewright.emulator.ops.accesses import lane_addresses, space_of, start_of

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator


def record(
    t: Translator, code: BlockCode, pc: int, base: Value, offset: int, active: ir.Value
) -> None:
    """Append an event to the worker's buffer; addresses that are anything go to a row of theirs."""
    b = code.b
    count = code.context("event_count", I64)
    at = b.mul(count, ir.Constant(I64, state.EVENT_BYTES))
    event = b.gep(code.context("events", PTR), [at], source_etype=I8)

    def put(name: str, value: ir.Value) -> None:
        place = ir.Constant(I64, state.event_offset(name))
        b.store(value, b.gep(event, [place], source_etype=I8))

    def advance(name: str, value: ir.Value) -> None:
        place = ir.Constant(I64, state.offset(name))
        b.store(b.add(value, ir.Constant(I64, 1)), b.gep(t.frame.context, [place], source_etype=I8))

    put("block", code.context("block", I64))
    put("pc", ir.Constant(I32, pc))
    put("warp", t.e.warp_index)
    put("mask", active)
    shape = affine(base.shape)
    if shape is not None and space_of(t.plan.function.body[pc]) != "local":
        t.offsets[pc] = shape.offsets
        put("row", ir.Constant(I32, -1))
        put("base", start_of(code, base, offset))
    else:
        number = code.context("row_count", I64)
        put("row", b.trunc(number, I32))
        rows = b.gep(
            code.context("event_rows", PTR), [number], source_etype=ir.ArrayType(I64, WARP)
        )
        for chunk_number, chunk in enumerate(lane_addresses(code, base, offset)):
            place = b.gep(rows, [ir.Constant(I64, chunk_number)], source_etype=chunk.type)
            b.store(chunk, place, align=8)
        advance("row_count", number)
    advance("event_count", count)
