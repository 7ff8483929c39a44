"""Arithmetic moved before the barrier that it stands behind, where it needs nothing from there.

A loop whose fragments come to registers a step ahead ends with a step behind the barrier for the
next tile. At a barrier a warp's accumulators go to memory: with all steps of a turn before it they
go once a turn, not twice, and `order` keeps each in a register for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.emulator.plan import is_wait
from tilewright.toolchain.ptx.cfg import basic_blocks
from tilewright.toolchain.ptx.instructions import defs_uses
from tilewright.toolchain.ptx.ir import Function, Instruction


def arithmetic_ahead(function: Function) -> Function:
    """Return `function` with its multiply-adds as early as the barriers of their blocks allow."""
    waits = [pc for pc, ins in enumerate(function.body) if is_wait(ins)]
    if not waits:
        return function
    body = list(function.body)
    for block in basic_blocks(function).blocks:
        if any(block.start <= pc < block.end for pc in waits):
            body[block.start : block.end] = _ordered(body[block.start : block.end])
    return replace(function, body=tuple(body))


def _ordered(code: Sequence[Instruction]) -> list[Instruction]:
    """Return a block's instructions, what can be before its waits moved there."""
    result: list[Instruction] = []
    place: int | None = None  # of the waits that came last, one after another
    read: set[str] = set()  # by what stays behind that place
    written: set[str] = set()
    waits = False  # nothing but waits stays behind it so far
    for ins in code:
        defs, uses = defs_uses(ins)
        if is_wait(ins):
            if not waits:
                place, waits = len(result), True
                read.clear()
                written.clear()
        elif place is not None and _moves(ins) and written.isdisjoint((*defs, *uses)):
            if read.isdisjoint(defs):
                result.insert(place, ins)
                place += 1
                continue
            waits = False
        else:
            waits = False
        result.append(ins)
        read.update(uses)
        written.update(defs)
    return result


def _moves(ins: Instruction) -> bool:
    """Whether an instruction leaves fewer values to keep where it is done before a barrier."""
    return ins.opcode == "fma" and ins.guard is None
