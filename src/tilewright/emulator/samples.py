"""The addresses of some executions of every memory access, with what each costs: to be drawn.

The widths are those of the machine code, as in `counting`, so that what a drawn request takes is
what the profiler counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.accesses import Width
from tilewright.emulator import state
from tilewright.emulator.counting import WidthCounter
from tilewright.emulator.engine import build_for, run
from tilewright.emulator.observers import ATOMICS, LOADS, Batch, Space
from tilewright.emulator.ops.accesses import is_copy
from tilewright.emulator.rules import NOBODY, Addresses
from tilewright.launch import Argument, Launch
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.ir import Instruction

MOST = 8  # executions of an access that are kept
_OFFSETS = np.uint64((1 << state.SEGMENT_SHIFT) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One warp's execution of an access: where each lane begins, and what it takes.

    Units: `lanes` are bytes from the start of the array, or of shared memory, None for a lane that
    takes no part; `cost` and `least` sectors of global, or wavefronts of shared memory.
    """

    warp: int
    lanes: tuple[int | None, ...]
    cost: int
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """An access of one source line, `size` bytes a lane, with some of its executions.

    `array` is 0 for shared memory, or the number of an array among the arguments, from 1 on;
    `file` is None where the PTX does not say of what line of the source it is.
    """

    file: str | None
    line: int
    ptx_line: int
    text: str
    array: int
    way: str
    size: int
    executions: tuple[Execution, ...]


def sample_accesses(
    artifact: Artifact,
    launch: Launch,
    args: Sequence[Argument],
    *,
    widths: Mapping[int, Sequence[Width]],
    block: int,
) -> tuple[Sampled, ...]:
    """Run one block and return its accesses of global and shared memory, in the order of the PTX.

    cp.async is left out. Arrays in `args` are
    written in place.

    Raises: as `engine.run`.
    """
    program = build_for(artifact, launch, args)
    sampler = _Sampler(program.plan.function.body, widths)
    run(artifact, launch, args, sample=[block], observers=[sampler], program=program)
    return sampler.found(state.FIRST_ARRAY + len(program.layout.globals))


class _Sampler:
    """An observer that keeps the first executions of each instruction."""

    def __init__(self, body: Sequence[Instruction], widths: Mapping[int, Sequence[Width]]) -> None:
        self._body = body
        self._counter = WidthCounter(body, widths)
        self._named = np.array(
            [self._counter.where(ins) is not Space.NONE and not is_copy(ins) for ins in body], bool
        )
        self._kept: dict[int, list[tuple[int, Addresses]]] = {}

    def observe(self, batch: Batch) -> None:
        """Take one batch."""
        pcs = batch.events["pc"]
        wanted = self._named & np.array(
            [len(self._kept.get(pc, ())) < MOST for pc in range(len(self._body))], bool
        )
        chosen = np.flatnonzero(wanted[pcs] & (batch.events["mask"] != 0))
        firsts = [
            place for pc in np.unique(pcs[chosen]) for place in chosen[pcs[chosen] == pc][:MOST]
        ]
        picked = np.array(sorted(firsts), np.intp)
        if not len(picked):
            return
        lanes = np.arange(32, dtype=np.uint32)
        active = (batch.events["mask"][picked][:, None] >> lanes & 1).astype(bool)
        rows = np.where(active, batch.addresses(picked), NOBODY)
        for event, row in zip(batch.events[picked], rows, strict=True):
            kept = self._kept.setdefault(int(event["pc"]), [])
            if len(kept) < MOST:
                kept.append((int(event["warp"]), row))

    def found(self, first_array: int) -> tuple[Sampled, ...]:
        """Return what was kept; accesses of one line and array that cost alike are one."""
        groups: dict[object, list[tuple[int, Width, int, list[Execution]]]] = {}
        for pc in sorted(self._kept):
            ins = self._body[pc]
            place = (ins.location.file, ins.location.line) if ins.location else pc
            array = _array(self._kept[pc][0][1], first_array)
            for width in self._counter.widths(pc):
                executions = self._executions(pc, width) if width.size else []
                if array is not None and executions:
                    first = executions[0]
                    key = (place, array, ins.opcode, width.size, first.cost, first.least)
                    groups.setdefault(key, []).append((pc, width, array, executions))
        return tuple(map(self._sampled, groups.values()))

    def _sampled(self, members: Sequence[tuple[int, Width, int, list[Execution]]]) -> Sampled:
        pc, width, array, _ = members[0]
        ins = self._body[pc]
        every = [each for *_, executions in members for each in executions]
        return Sampled(
            file=ins.location.file if ins.location else None,
            line=ins.location.line if ins.location else 0,
            ptx_line=ins.ptx_line,
            text=ins.text,
            array=array,
            way="load" if ins.opcode in LOADS else "atomic" if ins.opcode in ATOMICS else "store",
            size=width.size,
            executions=tuple(every[:MOST]),
        )

    def _executions(self, pc: int, width: Width) -> list[Execution]:
        """Return executions of a PTX instruction as the machine access of one width."""
        kept = self._kept[pc]
        rows = np.stack([row for _, row in kept])
        space = Space.SHARED if _segment(rows[0]) < state.FIRST_ARRAY else Space.GLOBAL
        place = 5 * self._counter.widths(pc).index(width)
        costs = self._counter.cost(pc, space, rows)[:, place : place + 5].tolist()
        moved = np.where(rows == NOBODY, rows, rows + np.uint64(width.shift % 2**64))
        return [
            Execution(
                warp=warp,
                lanes=_lanes(row),
                cost=waves if space is Space.SHARED else sectors,
                least=least,
            )
            for (warp, _), row, (aligned, sectors, _, waves, least) in zip(
                kept, moved, costs, strict=True
            )
            if aligned
        ]


def _segment(row: Addresses) -> int:
    return int(row[row != NOBODY][0]) >> state.SEGMENT_SHIFT


def _array(row: Addresses, first_array: int) -> int | None:
    """Return the number of the array that a row lies in; None for local memory and constants."""
    segment = _segment(row)
    if segment >= state.FIRST_ARRAY:
        return max(segment - first_array + 1, 1)
    return 0 if segment in (0, state.SHARED_SEGMENT) else None


def _lanes(row: npt.NDArray[np.uint64]) -> tuple[int | None, ...]:
    offsets = (row & _OFFSETS).tolist()
    idle = (row == NOBODY).tolist()
    return tuple(None if none else at for at, none in zip(offsets, idle, strict=True))
