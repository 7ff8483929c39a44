"""Follows elements of A and B through a block: which of them every access moves, and its cost.

A store to shared memory writes what a load of the same thread gave, a copy what it read, and a
load from there gives what was written last. Nothing here knows a kernel's indices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.emulator.observers import LOADS, STORES, Space, copy_passes
from tilewright.emulator.ops.accesses import access_bytes
from tilewright.emulator.rules import (
    NOBODY,
    Addresses,
    fewest_sectors,
    fewest_wavefronts,
    sectors,
    wavefronts,
)
from tilewright.emulator.stepping import BlockSteps, origins
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.toolchain.ptx.ir import Instruction

Integers: TypeAlias = "npt.NDArray[np.int64]"
Operand: TypeAlias = Literal["A", "B", "C"]
# copy: global to shared memory, with or without registers between; read: shared memory to
# registers; direct: global memory to registers that are multiplied; store: C.
Kind: TypeAlias = Literal["copy", "read", "direct", "store"]

OPERANDS: tuple[Operand, ...] = ("A", "B", "C")
NONE = -1  # no element: of a lane that takes no part, or zeros


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Followed:
    """One access of one warp, and the elements it moves.

    Shapes: offsets, elements [32]: where each lane begins, in bytes from the array's start and as
    an element of its operand; `step` elements on for each further float.
    """

    ins: Instruction
    warp: int
    phase: int
    kind: Kind
    shared: bool
    operand: Operand
    offsets: Addresses
    elements: Integers
    step: int
    cost: int
    least: int


def follow(steps: BlockSteps, shared_bytes: int) -> Iterator[Followed]:
    """Yield the accesses of A, B and C, in order; what else a kernel stores is left out."""
    follower = _Follower(steps, shared_bytes)
    for number in range(len(steps.pc)):
        found = follower.take(number)
        if found is not None:
            yield found


class _Follower:
    """What shared memory holds, and what each load gave last."""

    def __init__(self, steps: BlockSteps, shared_bytes: int) -> None:
        self._steps = steps
        self._origins = origins(steps.body)
        self._staging = {pc for sources in self._origins.values() for pc, _ in sources}
        words = -(-shared_bytes // FLOAT_BYTES)
        self._holds = np.full(words, NONE, np.int64)  # the element
        self._whose = np.full(words, NONE, np.int64)  # and its operand's number
        # By the load's pc and the warp: the operand's number and the elements, [32, floats].
        self._loaded: dict[tuple[int, int], tuple[int, Integers]] = {}
        self._copied: tuple[int, Integers, Addresses] | None = None

    def take(self, number: int) -> Followed | None:
        """Follow one event."""
        s = self._steps
        pc, warp, space = int(s.pc[number]), int(s.warp[number]), int(s.space[number])
        ins, offsets = s.body[pc], s.offsets[number]
        if ins.opcode == "cp":
            return self._copy(number, ins, offsets)
        if ins.opcode not in LOADS | STORES:
            return None
        if space:
            return self._global(number, pc, warp, space - 1, offsets)
        return self._shared(number, pc, warp, offsets)

    def _global(
        self, number: int, pc: int, warp: int, operand: int, offsets: Addresses
    ) -> Followed | None:
        ins = self._steps.body[pc]
        load = ins.opcode in LOADS
        if operand >= len(OPERANDS) or load == (OPERANDS[operand] == "C"):
            return None  # what blocks tell each other, and C as it was
        elements = _elements(offsets, ins)
        if load:
            self._loaded[pc, warp] = (operand, elements)
        kind: Kind = "store" if not load else "copy" if pc in self._staging else "direct"
        return self._made(number, kind, operand, elements, offsets)

    def _shared(self, number: int, pc: int, warp: int, offsets: Addresses) -> Followed | None:
        ins = self._steps.body[pc]
        active = offsets != NOBODY
        words = _elements(offsets, ins)[active]
        elements = np.full((32, access_bytes(ins) // FLOAT_BYTES), NONE, np.int64)
        if ins.opcode in LOADS:
            elements[active] = self._holds[words]
            operand = int(self._whose[words].max(initial=NONE))
            return None if operand < 0 else self._made(number, "read", operand, elements, offsets)
        sources = self._origins.get(pc)
        if sources is None:
            return None
        for place, (load, value) in enumerate(sources):
            operand, given = self._loaded[load, warp]
            elements[active, place] = given[active, value]
        self._holds[words], self._whose[words] = elements[active], operand
        return self._made(number, "copy", operand, elements, offsets)

    def _copy(self, number: int, ins: Instruction, offsets: Addresses) -> Followed | None:
        elements = _elements(offsets, ins)
        if not self._steps.side[number]:
            operand = int(self._steps.space[number]) - 1
            self._copied = (operand, elements, offsets)
            if operand < 0:
                return None  # all lanes write zeros
            return self._made(number, "copy", operand, elements, offsets)
        if self._copied is None:
            raise AssertionError("the target of a copy comes after its source")
        operand, sources, read = self._copied
        active = offsets != NOBODY
        self._holds[elements[active]] = sources[active]
        self._whose[elements[active]] = operand
        if operand < 0:
            return None
        return self._made(number, "copy", operand, sources, offsets, read)

    def _made(
        self,
        number: int,
        kind: Kind,
        operand: int,
        elements: Integers,
        offsets: Addresses,
        read: Addresses | None = None,
    ) -> Followed:
        """Return an access; `read` are the sources of a copy whose targets `offsets` are."""
        s = self._steps
        ins = s.body[s.pc[number]]
        inside = elements[(elements >= 0).all(axis=1)]
        step = int(inside[0, 1] - inside[0, 0]) if inside.size and inside.shape[1] > 1 else 1
        shared = read is not None or not s.space[number]
        cost, least = _costs(ins, offsets, read, shared=shared)
        return Followed(
            ins=ins,
            warp=int(s.warp[number]),
            phase=int(s.phase[number]),
            kind=kind,
            shared=shared,
            operand=OPERANDS[operand],
            offsets=offsets,
            elements=elements[:, 0],
            step=step,
            cost=cost,
            least=least,
        )


def _elements(offsets: Addresses, ins: Instruction) -> Integers:
    """Return the floats that lanes touch, numbered from the array's start: [32, floats]."""
    first = np.where(offsets == NOBODY, NONE, (offsets // np.uint64(FLOAT_BYTES)).astype(np.int64))
    floats = np.arange(access_bytes(ins) // FLOAT_BYTES)
    return np.where(first[:, None] == NONE, NONE, first[:, None] + floats)


def _costs(
    ins: Instruction, offsets: Addresses, read: Addresses | None, *, shared: bool
) -> tuple[int, int]:
    """Return the sectors or wavefronts of an access, and the fewest for as many bytes."""
    row, size, load = offsets[None], access_bytes(ins), ins.opcode in LOADS
    if read is not None:
        both = np.concatenate([read, offsets])[None]
        passes = copy_passes(ins, Space.SHARED, both)
        return int(passes[0]), int(fewest_wavefronts(row, size, load=False)[0])
    if shared:
        passes = wavefronts(row, size, load=load)
        return int(passes[0]), int(fewest_wavefronts(row, size, load=load)[0])
    return int(sectors(row, size)[0]), int(fewest_sectors(row, size)[0])
