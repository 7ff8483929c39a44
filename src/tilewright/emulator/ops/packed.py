"""Packed registers, two values in one: an instruction on them is the scalar one on each half."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from llvmlite import ir

from tilewright.emulator.codegen import INTS, Emitter, bits_of, element, integer_of, like
from tilewright.emulator.signature import lane_type
from tilewright.toolchain.ptx.ir import Instruction

Operation: TypeAlias = Callable[..., ir.Value]


def unpack(e: Emitter, pair: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Split a packed register into the integers in its low and high half."""
    width = bits_of(element(pair)) // 2
    part = like(pair, INTS[width])
    high = e.b.lshr(pair, e.const(pair, width))
    return e.b.trunc(pair, part), e.b.trunc(high, part)


def pack(e: Emitter, low: ir.Value, high: ir.Value) -> ir.Value:
    """Join two values of any type into one packed register."""
    low, high = (e.cast(part, integer_of(element(part))) for part in (low, high))
    width = bits_of(element(low))
    whole = like(low, INTS[2 * width])
    up = e.b.shl(e.b.zext(high, whole), e.const_of(whole, width))
    return e.b.or_(e.b.zext(low, whole), up)


def scalar_form(ins: Instruction) -> Instruction:
    """Return the instruction that a packed one does to each half (add.f16x2: add.f16)."""
    return replace(ins, types=tuple(kind.removesuffix("x2") for kind in ins.types))


def on_halves(operation: Operation) -> Operation:
    """Make the code of a packed instruction from that of its scalar form."""

    def both(e: Emitter, ins: Instruction, *args: ir.Value) -> ir.Value:
        one = scalar_form(ins)
        lane = lane_type(one.types[-1])
        columns = zip(*(unpack(e, a) for a in args), strict=True)
        low, high = (operation(e, one, *(e.cast(x, lane) for x in part)) for part in columns)
        return pack(e, low, high)

    return both


__all__ = ["on_halves", "pack", "scalar_form", "unpack"]
