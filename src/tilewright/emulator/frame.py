"""Where a kernel's registers, variables and special values live while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Emitter,
    Value,
    bits_of,
    declared,
    mangled,
)
from tilewright.emulator.lanes import BITS, UNIFORM, WARP, Affine, Known, Shape, Table, constant
from tilewright.emulator.signature import lane_type
from tilewright.errors import UnsupportedError
from tilewright.launch import Launch
from tilewright.toolchain.ptx.ir import Function, Mem, Module, Operand, Pair, Symbol, Variable, Vec

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def grid_bits(blocks: int) -> int:
    """Bits that number `blocks` blocks, rounded up so that one build serves many grids."""
    return next(bits for bits in (8, 16, 31) if blocks <= 1 << bits)


class Layout:
    """Addresses of a kernel's variables, and what `%tid` and its kin are, for one launch shape."""

    def __init__(
        self, module: Module, function: Function, launch: Launch, given: bytes | None = None
    ) -> None:
        self.function = function
        self.given = given  # the parameters, where they are known
        self.launch = launch
        self._variables = _all_variables(module, function)
        self.warps = -(-launch.threads // WARP)
        self.symbols: dict[str, int] = {}
        self.spaces: dict[str, str] = {}
        self.static_shared = self._place("shared")
        self.shared_bytes = self.static_shared + launch.shared_bytes
        self.local_frame = self._place("local")
        self.params, self.param_bytes = self._parameters()
        self.globals = (*self.variables("global"), *self.variables("const"))
        for number, variable in enumerate(self.globals):
            self._name(variable, (state.FIRST_ARRAY + number) << state.SEGMENT_SHIFT)
        self._threads = self._thread_tables()
        frames = self.thread_numbers() * np.uint64(self.local_frame)
        self.local_window = Known(
            frames + np.uint64(state.LOCAL_SEGMENT << state.SEGMENT_SHIFT), 64
        )

    def variables(self, space: str) -> list[Variable]:
        """Return the kernel's variables in a state space, in order."""
        return [v for v in self._variables if v.space == space]

    def _name(self, variable: Variable, address: int) -> None:
        self.symbols[variable.name] = address
        self.spaces[variable.name] = variable.space

    def _place(self, space: str) -> int:
        used = 0
        dynamic = []
        for variable in self.variables(space):
            if variable.size_bytes == 0:
                dynamic.append(variable)
                continue
            used = _round_up(used, max(variable.align, 1))
            self._name(variable, used)
            used += variable.size_bytes
        if dynamic:
            used = _round_up(used, max(16, *(v.align for v in dynamic)))
        for variable in dynamic:
            self._name(variable, used)
        return _round_up(used, 16) if space == "local" else used

    def _parameters(self) -> tuple[dict[str, int], int]:
        places: dict[str, int] = {}
        used = 0
        for parameter in self.function.params:
            used = _round_up(used, max(parameter.align, 1))
            places[parameter.name] = used
            self._name(parameter, used)
            used += parameter.size_bytes
        return places, used

    def _thread_tables(self) -> dict[str, Table]:
        x, y, z = self.launch.block
        linear = self.thread_numbers()
        lane = linear % np.uint64(WARP)
        one = np.uint64(1)
        bit = one << lane
        return {
            "%tid.x": linear % np.uint64(x),
            "%tid.y": linear // np.uint64(x) % np.uint64(y),
            "%tid.z": linear // np.uint64(x * y) % np.uint64(z),
            "%laneid": lane,
            "%warpid": linear // np.uint64(WARP),
            "%lanemask_eq": bit,
            "%lanemask_lt": bit - one,
            "%lanemask_le": (bit << one) - one,
            "%lanemask_gt": np.uint64(0xFFFFFFFF) ^ ((bit << one) - one),
            "%lanemask_ge": np.uint64(0xFFFFFFFF) ^ (bit - one),
        }

    def thread_numbers(self) -> Table:
        """Return the number of each thread in its block, [warps, 32]."""
        return np.arange(self.warps * WARP, dtype=np.uint64).reshape(self.warps, WARP)

    def constant_special(self, name: str) -> int | None:
        """Return a special register that is one number everywhere in the launch."""
        block = dict(zip("xyz", self.launch.block, strict=True))
        if name.startswith("%ntid."):
            return block[name[-1]]
        return {
            "%nwarpid": self.warps,
            "%nsmid": 1,
            "%smid": 0,
            "%gridid": 0,
            "%dynamic_smem_size": self.launch.shared_bytes,
            "%total_smem_size": self.shared_bytes,
            "%aggr_smem_size": self.shared_bytes,
            "%cluster_nctarank": 1,
            "%cluster_ctarank": 0,
            **{f"%cluster_nctaid.{d}": 1 for d in "xyz"},
            **{f"%cluster_ctaid.{d}": 0 for d in "xyz"},
        }.get(name)

    def special_shape(self, name: str) -> Shape:
        """Return what is known of a special register."""
        if name in self._threads:
            return Known(self._threads[name], 32)
        number = self.constant_special(name)
        if number is not None:
            return constant(number, 32, self.warps)
        if name.startswith(("%ctaid.", "%clusterid.")):
            blocks = self.launch.grid["xyz".index(name[-1])]
            return Affine((0,) * WARP, (1 << grid_bits(blocks)) - 1)
        return UNIFORM

    def param_shape(self, start: int, kind: str) -> Known | None:
        """Return the integer of PTX type `kind` at a place of the parameters, where it is known."""
        bits = BITS[kind]
        if self.given is None or kind[0] not in "usb" or bits not in (32, 64):
            return None
        raw = self.given[start : start + bits // 8]
        return constant(int.from_bytes(raw, "little"), bits, self.warps)

    def symbol_shape(self, name: str) -> Shape:
        """Return the address of a variable, in its own state space."""
        if name not in self.symbols:
            raise UnsupportedError(f"the emulator has no address for {name!r}")
        return constant(self.symbols[name], 64, self.warps)


def _all_variables(module: Module, function: Function) -> list[Variable]:
    """Return the variables that a kernel names, or that their initial values point to."""
    declared = {v.name: v for v in (*module.variables.values(), *function.variables)}
    todo = [name for ins in function.body for o in ins.operands for name in symbols(o)]
    named: set[str] = set()
    while todo:
        name = todo.pop()
        if name in declared and name not in named:
            named.add(name)
            todo += [s.name for s in declared[name].relocations.values()]
    return [v for v in declared.values() if v.name in named]


def symbols(operand: Operand) -> list[str]:
    """Return the variables and labels that an operand names."""
    match operand:
        case Symbol(name):
            return [name]
        case Mem(base):
            return symbols(base)
        case Vec(items):
            return [name for item in items for name in symbols(item)]
        case Pair(first, second):
            return symbols(first) + symbols(second)
        case _:
            return []


def masked_store(
    e: Emitter, chunk: ir.Value, place: ir.Value, align: int, mask: ir.Value
) -> ir.Instruction:
    """Store the lanes of a chunk that `mask` has."""
    name = f"llvm.masked.store.{mangled(chunk.type)}.p0"
    types = [chunk.type, PTR, I32, mask.type]
    function = declared(e.module, name, ir.VoidType(), types)
    return e.b.call(function, [chunk, place, ir.Constant(I32, align), mask])


class Frame:
    """A kernel's layout plus the LLVM values that reach it: context and warp state."""

    def __init__(self, layout: Layout, shapes: Mapping[str, Shape]) -> None:
        self.layout = layout
        self.shapes = shapes
        self.types = {n: lane_type(k) for n, k in layout.function.registers.items()}
        self.context: ir.Value | None = None
        self.state: ir.Value | None = None
        self.slots: dict[str, int] = {}
        self._pointers: dict[int, ir.Value] = {}
        used = state.WARP_HEAD
        for name, lane in self.types.items():
            shape = shapes.get(name, UNIFORM)
            if isinstance(shape, Known):
                continue
            size = 8 if isinstance(shape, Affine) else max(4, WARP * bits_of(lane) // 8)
            used = _round_up(used, min(64, size))
            self.slots[name] = used
            used += size
        self.state_bytes = _round_up(used, 64)

    def enter_block(self) -> None:
        """Forget the pointers to slots: a block makes its own, one a slot."""
        self._pointers.clear()

    def _slot(self, e: Emitter, name: str, extra: int = 0) -> ir.Value:
        at = self.slots[name] + extra
        if at not in self._pointers:
            offset = ir.Constant(I64, at)
            self._pointers[at] = e.b.gep(self.state, [offset], source_etype=I8)
        return self._pointers[at]

    def load(self, e: Emitter, name: str) -> Value:
        """Return a register as its block-boundary shape keeps it."""
        lane, shape = self.types[name], self.shapes.get(name, UNIFORM)
        if isinstance(shape, Known):
            return e.retype(Value(ir.IntType(shape.bits), shape), lane)
        if isinstance(shape, Affine):
            stored = I8 if lane == I1 else lane
            scalar = e.b.load(self._slot(e, name), typ=stored)
            return Value(lane, shape, e.b.trunc(scalar, I1) if lane == I1 else scalar)
        if lane == I1:
            return e.varying(I1, e.mask_chunks(e.b.load(self._slot(e, name), typ=I32)))
        kind = ir.VectorType(lane, e.width)
        step = e.width * bits_of(lane) // 8
        return e.varying(
            lane,
            [
                e.b.load(self._slot(e, name, c * step), typ=kind, align=min(64, step))
                for c in range(e.chunks)
            ],
        )

    def store_scalar(self, e: Emitter, name: str, scalar: ir.Value) -> list[ir.Instruction]:
        """Save the scalar part of a register."""
        if scalar.type == I1:
            scalar = e.b.zext(scalar, I8)
        return [e.b.store(scalar, self._slot(e, name))]

    def store_chunks(
        self, e: Emitter, name: str, chunks: tuple[ir.Value, ...], mask: ir.Value | None = None
    ) -> list[ir.Instruction]:
        """Save a register, all lanes or those of `mask`; returns the stores, one a chunk."""
        if self.types[name] == I1:
            bits = e.mask_bits(chunks)
            if mask is not None:
                old = e.b.load(self._slot(e, name), typ=I32)
                bits = e.b.or_(e.b.and_(bits, mask), e.b.and_(old, e.b.not_(mask)))
            return [e.b.store(bits, self._slot(e, name))]
        step = e.width * bits_of(self.types[name]) // 8
        align = min(64, step)
        places = [self._slot(e, name, c * step) for c in range(e.chunks)]
        if mask is None:
            return [e.b.store(c, p, align=align) for c, p in zip(chunks, places, strict=True)]
        parts = zip(chunks, places, e.mask_chunks(mask), strict=True)
        return [masked_store(e, chunk, place, align, part) for chunk, place, part in parts]

    def special(self, block: BlockCode, name: str) -> Value:
        """Return a special register's value."""
        shape = self.layout.special_shape(name)
        if isinstance(shape, Known):
            return Value(I32, shape)
        e = block.e
        fields = {"%ctaid.": "ctaid", "%clusterid.": "ctaid", "%nctaid.": "grid"}
        fields["%nclusterid."] = "grid"
        for prefix, field in fields.items():
            if name.startswith(prefix):
                at = state.offset(field) + 4 * "xyz".index(name[-1])
                place = e.b.gep(self.context, [ir.Constant(I64, at)], source_etype=I8)
                return Value(I32, shape, e.b.load(place, typ=I32))
        if name in ("%clock", "%clock64", "%globaltimer", "%clock_hi", "%globaltimer_lo"):
            return self._clock(e, name)
        raise UnsupportedError(f"the emulator has no special register {name}")

    @staticmethod
    def _clock(e: Emitter, name: str) -> Value:
        now = e.b.call(declared(e.module, "llvm.readcyclecounter", I64, []), [])
        if name in ("%clock64", "%globaltimer"):
            return Value(I64, UNIFORM, now)
        if name == "%clock_hi":
            now = e.b.lshr(now, ir.Constant(I64, 32))
        return Value(I32, UNIFORM, e.b.trunc(now, I32))

    def symbol(self, name: str, offset: int, warps: int) -> Value:
        """Return the address of a variable plus `offset`."""
        shape = self.layout.symbol_shape(name)
        if not isinstance(shape, Known):
            raise AssertionError("a symbol has a known address")
        return Value(I64, constant(int(shape.table[0, 0]) + offset, 64, warps))
