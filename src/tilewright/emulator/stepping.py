"""Every memory access of one block, in order and between its barriers, to step through.

Barriers order what the warps of a block do, and nothing else does: `phase` is the number of
barriers that a warp has come to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.emulator import state
from tilewright.emulator.engine import run
from tilewright.emulator.observers import ATOMICS, LOADS, STORES, Batch
from tilewright.emulator.ops.accesses import is_copy, results_of
from tilewright.emulator.plan import is_block_barrier
from tilewright.emulator.program import build
from tilewright.emulator.rules import NOBODY, Addresses
from tilewright.launch import Argument, Launch
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.ir import Instruction, Reg

Integers = npt.NDArray[np.int64]
_OFFSETS = np.uint64((1 << state.SEGMENT_SHIFT) - 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockSteps:
    """The accesses of global and shared memory of one block.

    Shapes: pc, warp, phase, side, space [n]; offsets [n, 32]: bytes from the start of the array
    or of shared memory, `NOBODY` where a lane takes no part. `side` is 1 for the second event of a
    copy, where its data goes; `space` is 0 for shared memory, or the number of an array among the
    arguments, from 1 on.
    """

    body: tuple[Instruction, ...]
    pc: Integers
    warp: Integers
    phase: Integers
    side: Integers
    space: Integers
    offsets: Addresses


def steps_of(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], *, block: int
) -> BlockSteps:
    """Run one block and return its accesses. Arrays in `args` are written in place.

    Raises: as `engine.run`.
    """
    program = build(artifact, launch, counting=True)
    recorder = _Recorder(program.plan.function.body)
    run(artifact, launch, args, sample=[block], observers=[recorder])
    return recorder.steps(state.FIRST_ARRAY + len(program.layout.globals))


class _Recorder:
    """An observer that keeps every access, and counts the barriers that each warp comes to."""

    def __init__(self, body: Sequence[Instruction]) -> None:
        self._body = tuple(body)
        kinds = LOADS | STORES | ATOMICS
        self._copies = np.array([is_copy(ins) for ins in body], bool)
        self._kept = self._copies | np.array(
            [ins.opcode in kinds and ins.space in ("global", "shared", None) for ins in body], bool
        )
        self._barriers = np.array([is_block_barrier(ins) for ins in body], bool)
        self._events: list[npt.NDArray[np.void]] = []
        self._rows: list[Addresses] = []

    def observe(self, batch: Batch) -> None:
        """Take one batch."""
        pcs = batch.events["pc"]
        chosen = np.flatnonzero(self._kept[pcs] | self._barriers[pcs])
        self._events.append(batch.events[chosen].copy())
        self._rows.append(batch.addresses(chosen).copy())

    def steps(self, first_array: int) -> BlockSteps:
        """Return what was kept."""
        events, rows = np.concatenate(self._events), np.concatenate(self._rows)
        pcs, warps = events["pc"].astype(np.int64), events["warp"].astype(np.int64)
        phase = np.zeros(len(pcs), np.int64)
        for warp in np.unique(warps):
            own = warps == warp
            phase[own] = np.cumsum(self._barriers[pcs[own]])
        side = np.zeros(len(pcs), np.int64)
        side[np.flatnonzero(self._copies[pcs])[1::2]] = 1  # a copy's two events follow each other
        lanes = np.arange(32, dtype=np.uint32)
        active = (events["mask"][:, None] >> lanes & 1).astype(bool)
        segments = np.where(active, rows >> np.uint64(state.SEGMENT_SHIFT), 0).max(axis=1)
        arrays = np.maximum(segments.astype(np.int64) - first_array + 1, 0)
        kept = self._kept[pcs]
        return BlockSteps(
            body=self._body,
            pc=pcs[kept],
            warp=warps[kept],
            phase=phase[kept],
            side=side[kept],
            space=arrays[kept],
            offsets=np.where(active, rows & _OFFSETS, NOBODY)[kept],
        )


def origins(body: Sequence[Instruction]) -> Mapping[int, tuple[tuple[int, int], ...]]:
    """Return where the values that stores write were loaded, by pc: (the load's pc, which value).

    Stores of anything that no one load gave are left out.
    """
    made: dict[str, tuple[int, int]] = {}
    for pc, ins in enumerate(body):
        if ins.opcode in LOADS and ins.space != "param":
            for place, result in enumerate(results_of(ins.operands[0])):
                if isinstance(result, Reg):
                    made[result.name] = (pc, place)
        elif ins.opcode == "mov" and len(ins.operands) == 2:
            target, source = ins.operands
            if isinstance(target, Reg) and isinstance(source, Reg) and source.name in made:
                made.setdefault(target.name, made[source.name])
    found = {}
    for pc, ins in enumerate(body):
        if ins.opcode in STORES:
            values = results_of(ins.operands[1])
            sources = [made.get(v.name) for v in values if isinstance(v, Reg)]
            if len(sources) == len(values) and None not in sources:
                found[pc] = tuple(s for s in sources if s is not None)
    return found
