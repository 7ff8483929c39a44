"""A run counted by line of the PTX, with the widths that the machine code gives its accesses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.accesses import AccessKey, AccessSums, PtxCounts, Width
from tilewright.accesses import Space as SpaceName
from tilewright.emulator.copy_rules import is_unread, lasting
from tilewright.emulator.engine import Progress, build_for, run
from tilewright.emulator.observers import (
    ATOMICS,
    LOADS,
    PatternCounter,
    Space,
    copy_passes,
    space_named,
)
from tilewright.emulator.ops.accesses import access_bytes
from tilewright.emulator.plan import Plan
from tilewright.emulator.rules import (
    NOBODY,
    SECTOR_BYTES,
    WAVEFRONT_BYTES,
    Addresses,
    Counts,
    fewest,
    fewest_sectors,
    fewest_wavefronts,
    global_wavefronts,
    interleaved,
    lane_wavefronts,
    lines,
    profiled_wavefronts,
    sectors,
    tags_somewhere,
    turns,
)
from tilewright.launch import Argument, Launch
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.ir import Instruction

_NAMES: Mapping[Space, SpaceName] = {
    Space.GLOBAL: "global",
    Space.SHARED: "shared",
    Space.LOCAL: "local",
}
_FIELDS = ("requests", "sectors", "lines", "wavefronts", "ideal")
_MOST_ROWS = 4096  # of kinds of warps that are kept apart in memory between merges
_MOST_KINDS = 64  # of blocks that are kept apart: any further ones are of the last kind


def count_lines(
    artifact: Artifact,
    launch: Launch,
    args: Sequence[Argument],
    *,
    widths: Mapping[int, Sequence[Width]],
    sample: Sequence[int] | None = None,
    enough: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> PtxCounts:
    """Run a kernel and count it by line of its PTX. Arrays in `args` are written in place.

    `widths` are those of the machine accesses that each PTX line became; a line without has its
    own. `sample` are the blocks to run; None runs all. After `enough` instructions of warps the
    rest of a sample is left out: it is run in growing parts, each spread over all of it. `workers`
    are the threads that run blocks; one runs them in their order.

    Raises: as `engine.run`.
    """
    program = build_for(artifact, launch, args)
    plan = program.plan
    counter = WidthCounter(plan.function.body, widths)
    warps = _Warps(plan, launch)
    blocks = 0
    for part in [sample] if sample is None or enough is None else growing(sample):
        blocks += run(
            artifact,
            launch,
            args,
            sample=part,
            observers=[counter],
            warps=warps.take,
            workers=workers,
            progress=progress,
            program=program,
        ).blocks
        if enough is not None and warps.executed() >= enough:
            break
    return warps.counts(counter.by_line(), blocks, counter.unsure)


def growing(sample: Sequence[int]) -> list[Sequence[int]]:
    """Return a sample in parts of about 1/8, 1/8, 1/4 and 1/2, each from all over it.

    The last block, which may be cut off by the edges of the data, is in the first part.
    """
    first = [*sample[:-1:8], *sample[-1:]]
    parts = [first, sample[4:-1:8], sample[2:-1:4], sample[1:-1:2]]
    return [part for part in parts if part]


class WidthCounter(PatternCounter):
    """All costs of loads, stores and atomics, for each width that a PTX access has in SASS."""

    def __init__(
        self, body: Sequence[Instruction], widths: Mapping[int, Sequence[Width]] | None = None
    ) -> None:
        super().__init__(body)
        self._widths = widths or {}
        self.unsure: set[int] = set()  # PTX lines of copies whose passes were not read

    def where(self, ins: Instruction) -> Space:
        """Return the space that the instruction names."""
        return space_named(ins)

    def widths(self, pc: int) -> Sequence[Width]:
        """Return the widths that an instruction is counted with."""
        ins = self.body[pc]
        return self._widths.get(ins.ptx_line) or (Width(access_bytes(ins)),)

    def cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the figures of `AccessSums` for each width in turn.

        An access that is joined over several turns of a loop begins where its addresses are
        multiples of its width: the other turns have none of it.
        """
        opcode = self.body[pc].opcode
        idle = rows == NOBODY
        parts = []
        for width in self.widths(pc):
            moved = np.where(idle, rows, rows + np.uint64(width.shift % 2**64))
            aligned = (idle | (moved % np.uint64(width.size) == 0)).all(axis=1).astype(np.int64)
            costs = _costs(moved, width, space, opcode)
            parts += [aligned, *(cost * aligned for cost in costs)]
        return np.stack(parts, axis=1)

    def copy_cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the same of one side of a copy, which ptxas never joins."""
        ins = self.body[pc]
        size = access_bytes(ins)
        sources, targets = np.split(rows, 2, axis=1)
        through_l1, passes = "cg" not in ins.flags, copy_passes(ins, space, rows)
        if is_unread(sources, targets, size, through_l1=through_l1).any():
            self.unsure.add(ins.ptx_line)
        moved = targets if through_l1 else lasting(targets)
        none, once = np.zeros(len(rows), np.int64), np.ones(len(rows), np.int64)
        if space is Space.SHARED:
            least = np.minimum(passes, fewest(moved, size, WAVEFRONT_BYTES))
            return np.stack([once, none, none, passes, least], axis=1)
        read = np.where(moved == NOBODY, NOBODY, sources)
        least = np.minimum(passes, fewest(read, size, SECTOR_BYTES))
        touched = lines(sources, size)
        return np.stack([once, passes, touched, tags_somewhere(sources, size), least], axis=1)

    def by_line(self) -> dict[AccessKey, AccessSums]:
        """Return the sums by PTX line, space and width; copies of an inlined line together."""
        result: dict[AccessKey, AccessSums] = {}
        for (pc, space), sums in self.sums().items():
            costs = sums[1:].reshape(-1, len(_FIELDS)).tolist()
            for width, cost in zip(self.widths(pc), costs, strict=True):
                key = (self.body[pc].ptx_line, _NAMES[space], width)
                each = AccessSums(**dict(zip(_FIELDS, cost, strict=True)))
                result[key] = result.get(key, AccessSums()).plus(each)
        return result


def _costs(rows: Addresses, width: Width, space: Space, opcode: str) -> list[Counts]:
    """Sectors, lines, wavefronts and the ideal of accesses of one width."""
    if space is Space.SHARED:
        return _shared_costs(rows, width, opcode)
    size = width.size
    if space is Space.LOCAL:
        rows, size = interleaved(rows, size)
        words = np.split(rows, rows.shape[1] // 32, axis=1)
        passes = np.asarray(sum(profiled_wavefronts(word, size, load=False) for word in words))
        return [sectors(rows, size), lines(rows, size), passes, fewest_sectors(rows, size)]
    parts = list(turns(rows)) if opcode in ATOMICS else [rows]
    touched = np.asarray(sum(sectors(part, size) for part in parts))
    passes = np.asarray(sum(global_wavefronts(part, size) for part in parts))
    return [touched, lines(rows, size), passes, fewest_sectors(rows, size)]


def _shared_costs(rows: Addresses, width: Width, opcode: str) -> list[Counts]:
    """Return the same of shared memory, which has neither sectors nor lines."""
    none, size = np.zeros(len(rows), np.int64), width.size
    if opcode in ATOMICS and not width.counting:
        passes = lane_wavefronts(rows, size)
        return [none, none, passes, np.minimum(passes, fewest(rows, size, WAVEFRONT_BYTES))]
    load = opcode in LOADS
    passes = profiled_wavefronts(rows, size, load=load)
    return [none, none, passes, fewest_wavefronts(rows, size, load=load)]


class _Warps:
    """Collects what warps executed: one row where they did the same, in blocks that did."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        self.plan = plan
        warps = -(-launch.threads // 32)
        self._lanes = np.full(warps, 32, np.int64)
        self._lanes[-1] = launch.threads - 32 * (warps - 1)
        self._rows: npt.NDArray[np.int64] = np.zeros((0, 2 + 3 * len(plan.blocks)), np.int64)
        self._weights: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._waiting: list[npt.NDArray[np.int64]] = []
        self._count = 0
        self._kinds: dict[bytes, int] = {}  # by what all warps of a block executed together

    def take(self, counts: npt.NDArray[np.int64]) -> None:
        """Add the warps of one block, [warps, PTX blocks, (times, threads, partings)]."""
        kind = self._kinds.setdefault(
            counts.sum(axis=0).tobytes(), min(len(self._kinds), _MOST_KINDS - 1)
        )
        kinds = np.full(len(counts), kind, np.int64)
        rows = np.column_stack([kinds, self._lanes, counts.reshape(len(counts), -1)])
        self._waiting.append(rows)
        self._count += len(counts)
        if self._count >= _MOST_ROWS:
            self._merge()

    def executed(self) -> int:
        """Return the instructions that all warps have executed."""
        self._merge()
        times = self._rows[:, 2::3].T @ self._weights
        return int(times @ np.array([b.end - b.start for b in self.plan.blocks], np.int64))

    def _merge(self) -> None:
        rows = np.concatenate([self._rows, *self._waiting])
        ones = np.ones(len(rows) - len(self._rows), np.int64)
        weights = np.concatenate([self._weights, ones])
        self._rows, inverse = np.unique(rows, axis=0, return_inverse=True)
        self._weights = np.zeros(len(self._rows), np.int64)
        np.add.at(self._weights, inverse.reshape(-1), weights)
        self._waiting, self._count = [], 0

    def counts(
        self, accesses: Mapping[AccessKey, AccessSums], blocks: int, unsure: Collection[int]
    ) -> PtxCounts:
        """Return what was collected, by line of the PTX."""
        self._merge()
        body = self.plan.function.body
        places: dict[int, list[int]] = {}
        for number, block in enumerate(self.plan.blocks):
            for line in {ins.ptx_line for ins in body[block.start : block.end]}:
                places.setdefault(line, []).append(number)
        found = sorted(places)
        by_block = self._rows[:, 2:].reshape(len(self._rows), -1, 3)
        sums = np.stack([by_block[:, places[line], :2].sum(axis=1) for line in found], axis=1)
        parted = np.zeros(sums.shape[:2], np.int64)
        for number in np.flatnonzero(by_block[:, :, 2].any(axis=0)).tolist():
            branch = body[self.plan.blocks[number].end - 1]
            parted[:, found.index(branch.ptx_line)] += by_block[:, number, 2]
        return PtxCounts(
            lines=np.array(found, np.int64),
            weights=self._weights,
            kind=self._rows[:, 0],
            lanes=self._rows[:, 1],
            executed=sums[:, :, 0],
            threads=sums[:, :, 1],
            accesses=accesses,
            blocks=blocks,
            parted=parted,
            unsure=frozenset(unsure),
        )
