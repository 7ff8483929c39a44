"""Keeps the first accesses of global memory of every instruction and warp, for cache models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.emulator.engine import build_for, run
from tilewright.emulator.observers import LOADS, Batch, space_named
from tilewright.emulator.observers import Space as Kind
from tilewright.emulator.ops.accesses import access_bytes, is_copy
from tilewright.emulator.rules import NOBODY, SECTOR_BYTES
from tilewright.launch import Argument, Launch
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.ir import Instruction
from tilewright.trace import AccessTrace

# What each warp does first stands for the rest: enough turns of a loop to see what repeats.
MOST_TURNS = 32


def trace_accesses(
    artifact: Artifact,
    launch: Launch,
    args: Sequence[Argument],
    *,
    sample: Sequence[int],
    workers: int | None = None,
) -> AccessTrace:
    """Run some blocks and return their first accesses. Arrays in `args` are written in place.

    `workers` are the threads that run blocks; one runs them in their order.

    Raises: as `engine.run`.
    """
    program = build_for(artifact, launch, args)
    tracer = Tracer(program.plan.function.body)
    run(artifact, launch, args, sample=sample, observers=[tracer], workers=workers, program=program)
    return tracer.trace()


class Tracer:
    """An observer that keeps `MOST_TURNS` accesses of each instruction, block and warp."""

    def __init__(self, body: Sequence[Instruction]) -> None:
        self._lines = np.array([ins.ptx_line for ins in body], np.int64)
        self._sizes = np.array([access_bytes(i) if _counts(i) else 0 for i in body], np.int64)
        self._copies = np.array([is_copy(ins) for ins in body], bool)
        self._loads = np.array([ins.opcode in LOADS for ins in body], bool) | self._copies
        self._turns: dict[tuple[int, int, int], int] = {}
        self._kept: list[tuple[npt.NDArray[np.void], npt.NDArray[np.uint64]]] = []

    def observe(self, batch: Batch) -> None:
        """Take one batch."""
        events = batch.events
        kept = (self._sizes[events["pc"]] > 0) & (events["mask"] != 0)
        kept[np.flatnonzero(self._copies[events["pc"]])[1::2]] = False  # where copies go
        candidates = np.flatnonzero(kept)
        chosen = []
        keys = zip(
            events["block"][candidates].tolist(),
            events["pc"][candidates].tolist(),
            events["warp"][candidates].tolist(),
            strict=True,
        )
        for place, key in zip(candidates.tolist(), keys, strict=True):
            turn = self._turns.get(key, 0)
            if turn < MOST_TURNS:
                self._turns[key] = turn + 1
                chosen.append(place)
        if chosen:
            picked = np.array(chosen, np.intp)
            self._kept.append((events[picked].copy(), batch.addresses(picked).copy()))

    def trace(self) -> AccessTrace:
        """Return what was kept."""
        if not self._kept:
            return AccessTrace.empty()
        events = np.concatenate([kept[0] for kept in self._kept])
        rows = np.concatenate([kept[1] for kept in self._kept])
        lanes = np.arange(32, dtype=np.uint32)
        active = (events["mask"][:, None] >> lanes & 1).astype(bool) & (rows != NOBODY)
        pcs = events["pc"]
        return AccessTrace(
            block=events["block"].astype(np.int64),
            warp=events["warp"].astype(np.int64),
            line=self._lines[pcs],
            order=_order(events["block"], events["warp"]),
            load=self._loads[pcs],
            sectors=_sectors(rows, active, self._sizes[pcs]),
        )


def _counts(ins: Instruction) -> bool:
    """Whether an instruction may access global memory."""
    return is_copy(ins) or space_named(ins) in (Kind.GLOBAL, Kind.GENERIC)


def _order(blocks: npt.NDArray[np.int64], warps: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return the number of each event among those of its warp."""
    result = np.zeros(len(blocks), np.int64)
    seen: dict[tuple[int, int], int] = {}
    for place, key in enumerate(zip(blocks.tolist(), warps.tolist(), strict=True)):
        result[place] = seen.get(key, 0)
        seen[key] = int(result[place]) + 1
    return result


def _sectors(
    rows: npt.NDArray[np.uint64], active: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the distinct sectors of each row, the greatest first, then -1."""
    first = np.where(active, (rows // np.uint64(SECTOR_BYTES)).astype(np.int64), -1)
    end = rows + (sizes[:, None] - 1).astype(np.uint64)
    last = np.where(active, (end // np.uint64(SECTOR_BYTES)).astype(np.int64), -1)
    both = first if np.array_equal(first, last) else np.concatenate([first, last], axis=1)
    ordered = -np.sort(-both, axis=1)
    again = np.zeros(ordered.shape, bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    ordered[again] = -1
    return np.asarray(-np.sort(-ordered, axis=1))
