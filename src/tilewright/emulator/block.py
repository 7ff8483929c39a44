"""The code of one basic block: where its operands come from and where its results go.

Inside a block registers are SSA values; at its end those that are read later are saved to the
warp's state. `mask` is the set of lanes that run the block, as an i32.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import (
    DOUBLE,
    FLOAT,
    I1,
    I8,
    I16,
    I32,
    I64,
    Emitter,
    Value,
    bits_of,
    integer_of,
)
from tilewright.emulator.frame import Frame
from tilewright.emulator.lanes import (
    UNIFORM,
    VARYING,
    Affine,
    Known,
    affine,
    constant,
    extended,
    join,
)
from tilewright.emulator.order import by_result
from tilewright.emulator.plan import Plan
from tilewright.emulator.signature import lane_type
from tilewright.toolchain.ptx.ir import Imm, Instruction, Mem, Not, Operand, Reg, Special, Symbol

if TYPE_CHECKING:
    from tilewright.emulator.ops.events import Room
    from tilewright.emulator.ops.groups import Group

ALL = ir.Constant(I32, -1)


class BlockCode:
    """Code generation for block `number` of the plan."""

    def __init__(self, e: Emitter, plan: Plan, frame: Frame, number: int) -> None:
        self.e, self.b = e, e.b
        self.plan, self.frame, self.number = plan, frame, number
        self.block = plan.blocks[number]
        self.env: dict[str, Value] = {}
        self.written: dict[str, None] = {}
        self.divergent = plan.divergent[number]
        self.mask: ir.Value = ALL
        self.groups: dict[int, Group] = {}
        self.scratch_used = 0
        self.room: Room | None = None

    @property
    def always_full(self) -> bool:
        """Whether all 32 lanes run this block, as far as the plan can tell."""
        return self.plan.full and not self.divergent

    # --- reading -------------------------------------------------------------------------------

    def context(self, field: str, kind: ir.Type) -> ir.Value:
        """Load a field of the worker's context."""
        place = self.b.gep(
            self.frame.context, [ir.Constant(I64, state.offset(field))], source_etype=I8
        )
        return self.b.load(place, typ=kind)

    def register(self, name: str) -> Value:
        """Return the content of a register."""
        if name not in self.env:
            self.env[name] = self.frame.load(self.e, name)
        return self.env[name]

    def read(self, operand: Operand, kind: str) -> Value:
        """Return an operand as PTX type `kind`."""
        lane = lane_type(kind)
        if isinstance(operand, Not):
            value = self.read(operand.operand, "pred")
            return self._not(value)
        return self.e.retype(self._value(operand, bits_of(lane)), lane)

    def _not(self, value: Value) -> Value:
        if isinstance(value.shape, Known):
            return Value(I1, Known(value.shape.table ^ np.uint64(1), 1))
        if value.chunks:
            return self.e.varying(I1, self.e.map(self.b.not_, value.chunks))
        return Value(I1, value.shape, self.b.not_(self.e.scalar(value)))

    def _value(self, operand: Operand, bits: int) -> Value:
        match operand:
            case Reg(name):
                return self.register(name)
            case Imm(value, "int"):
                return Value(integer_of_bits(bits), constant(value, bits, self.e.warps))
            case Imm(value, kind):
                return _float_constant(value, kind)
            case Special(name):
                return self.frame.special(self, name)
            case Symbol(name, offset):
                return self.frame.symbol(name, offset, self.e.warps)
            case Mem(base, _):
                return self._value(base, bits)
            case _:
                raise AssertionError(f"not a source operand: {operand}")

    # --- writing -------------------------------------------------------------------------------

    def write(self, operand: Operand, value: Value, ins: Instruction, kind: str) -> None:
        """Assign a result of PTX type `kind`, under the instruction's guard."""
        if not isinstance(operand, Reg) or operand.name == "_":
            return
        name = operand.name
        lane = self.frame.types[name]
        if bits_of(lane) > bits_of(value.type) and kind[0] == "s":
            value = self._sign_extended(value, kind, lane)
        value = self.e.retype(value, lane)
        if ins.guard is not None:
            value = self._blend(self.guard(ins), value, self.register(name))
        self.env[name] = value
        self.written[name] = None

    def _sign_extended(self, value: Value, source: str, lane: ir.Type) -> Value:
        kind = integer_of(lane)
        if isinstance(value.shape, Known):
            return Value(kind, extended(value.shape, source, bits_of(lane)))
        if value.shape.uniform and not value.chunks:
            scalar = self.b.sext(self.e.scalar(value), kind)
            return Value(kind, UNIFORM, scalar)
        chunks = self.e.map(
            lambda c: self.b.sext(c, ir.VectorType(kind, self.e.width)), self.e.vector(value)
        )
        return self.e.varying(kind, chunks)

    def guard(self, ins: Instruction) -> Value:
        """Return the predicate an instruction runs under."""
        if ins.guard is None:
            raise AssertionError("no guard")
        value = self.register(ins.guard.reg.name)
        return self._not(value) if ins.guard.negated else value

    def _blend(self, guard: Value, new: Value, old: Value) -> Value:
        shape = join(old.shape, new.shape)
        if guard.shape.uniform and not guard.chunks and not isinstance(shape, type(VARYING)):
            if isinstance(shape, Known):
                return new
            scalar = self.e.select(self.e.scalar(guard), self.e.scalar(new), self.e.scalar(old))
            return Value(new.type, shape, scalar)
        chunks = self.e.map(
            self.e.select, self.e.vector(guard), self.e.vector(new), self.e.vector(old)
        )
        return self.e.varying(new.type, chunks)

    def active(self, ins: Instruction) -> ir.Value:
        """Return the lanes that execute `ins`: the block's, under its guard."""
        if ins.guard is None:
            return self.mask
        guard = self.guard(ins)
        if guard.shape.uniform and not guard.chunks:
            return self.b.select(self.e.scalar(guard), self.mask, ir.Constant(I32, 0))
        bits = self.e.mask_bits(self.e.vector(guard))
        return bits if self.mask is ALL else self.b.and_(bits, self.mask)

    def save(self) -> None:
        """Store the registers that later blocks read."""
        saves: list[list[ir.Instruction]] = []
        for name in self.written:
            if name in self.plan.live[self.number]:
                saves.append(self._save_one(name, self.env[name]))
        self.written.clear()
        # All first halves, then all second ones: half as many values are in use at a time.
        ordered = [part[c] for c in range(self.e.chunks) for part in saves if c < len(part)]
        by_result(self.b.block, ordered)

    def _save_one(self, name: str, value: Value) -> list[ir.Instruction]:
        shape = self.plan.shapes[name]
        if isinstance(shape, Known):
            return []
        if isinstance(shape, Affine):
            return self.frame.store_scalar(self.e, name, self._scalar_for(value, shape))
        mask = self.mask if self.divergent else None
        return self.frame.store_chunks(self.e, name, self.e.vector(value), mask)

    def _scalar_for(self, value: Value, shape: Affine) -> ir.Value:
        have = affine(value.shape)
        wide = (1 << bits_of(value.type)) - 1
        if have is None or any(
            (a - b) & wide for a, b in zip(have.offsets, shape.offsets, strict=True)
        ):
            raise AssertionError(f"{value.shape} does not fit {shape}")
        return self.e.scalar(value)


def integer_of_bits(bits: int) -> ir.IntType:
    """Return the integer type of a width."""
    return {1: I1, 8: I8, 16: I16, 32: I32, 64: I64}.get(bits) or ir.IntType(bits)


def _float_constant(bits: int, kind: str) -> Value:
    """Return a float immediate. Its shape is Affine: tables are for integers."""
    if kind == "f32":
        number = struct.unpack("<f", struct.pack("<I", bits))[0]
        lane, integer = FLOAT, I32
    else:
        number = struct.unpack("<d", struct.pack("<Q", bits))[0]
        lane, integer = DOUBLE, I64
    if number != number:  # keep a NaN's payload
        return Value(lane, UNIFORM, ir.Constant(integer, bits).bitcast(lane))
    return Value(lane, UNIFORM, ir.Constant(lane, number))
