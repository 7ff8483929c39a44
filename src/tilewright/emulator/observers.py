"""What is made of the events of a counting build: each observer reads batches of memory accesses.

An event is one executed memory instruction of one warp: block, pc, warp, the mask of active lanes
and their addresses. Batches are numpy structured arrays (`state.Event`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.counters import Counters
from tilewright.emulator import state
from tilewright.emulator.copy_rules import copy_sectors, copy_wavefronts
from tilewright.emulator.ops.accesses import access_bytes, is_copy
from tilewright.emulator.plan import Plan
from tilewright.emulator.rules import (
    LINE_BYTES,
    NOBODY,
    Addresses,
    Counts,
    sectors,
    wavefronts,
)
from tilewright.emulator.tally import ROOM, FixedTally
from tilewright.toolchain.ptx.ir import Instruction

__all__ = ["AccessCounter", "Batch", "Observer", "PatternCounter", "Space", "sectors", "wavefronts"]

LOADS = frozenset({"ld", "ldu"})
STORES = frozenset({"st"})
ATOMICS = frozenset({"atom", "red"})
_LINE = np.uint64(LINE_BYTES)
# Patterns of one instruction in a batch that are looked up one by one, and that are remembered.
_MOST_LOOKED_UP, _MOST_KNOWN = 128, 1 << 14


class Space(IntEnum):
    """Where an access counts; GENERIC until its address is known."""

    NONE = 0
    GLOBAL = 1
    SHARED = 2
    GENERIC = 3
    LOCAL = 4


_NAMED = (Space.GLOBAL, Space.SHARED, Space.LOCAL)
_Cost: TypeAlias = "Callable[[int, Space, Addresses], Counts]"
_SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "local": Space.LOCAL,
    None: Space.GENERIC,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order of one worker. The arrays are reused: copy what is kept."""

    events: npt.NDArray[np.void]
    rows: Addresses
    offsets: Mapping[int, tuple[int, ...]]

    def addresses(self, chosen: npt.NDArray[np.intp]) -> Addresses:
        """Return the addresses of all 32 lanes of some events, [len(chosen), 32]."""
        events = self.events[chosen]
        result = self.rows[np.maximum(events["row"], 0)]
        for pc in np.unique(events["pc"][events["row"] < 0]):
            fixed = (events["pc"] == pc) & (events["row"] < 0)
            steps = np.array(self.offsets[int(pc)], np.int64).view(np.uint64)
            result[fixed] = events["base"][fixed][:, None] + steps
        return np.asarray(result)


class Observer(Protocol):
    """Anything that wants to see memory accesses."""

    def observe(self, batch: Batch) -> None:
        """Take one batch."""


class PatternCounter:
    """Costs of accesses, by instruction and state space, each distinct pattern worked out once.

    What an access costs depends on its addresses modulo 128 bytes alone. Generic accesses count
    where their first active lane's address lies. `cost`, which a subclass gives, is of one access;
    `where` says in which space an instruction is counted.
    """

    def __init__(self, body: Sequence[Instruction]) -> None:
        self.body = body
        self._sums: dict[tuple[int, Space], Counts] = {}
        self._fixed: FixedTally | None = None
        self._known: dict[tuple[int, Space, bytes], Counts] = {}
        self._spaces = np.array([self.where(ins) for ins in body], np.uint64)
        self._copies = np.array([is_copy(ins) for ins in body], bool)

    def where(self, ins: Instruction) -> Space:
        """Return where an instruction's accesses count."""
        raise NotImplementedError

    def cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the costs of accesses with the addresses `rows`, [len(rows), costs]."""
        raise NotImplementedError

    def copy_cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the costs of one side of cp.async; `rows` are 32 sources, then 32 targets."""
        raise NotImplementedError

    def observe(self, batch: Batch) -> None:
        """Count a batch."""
        if self._fixed is None:
            named = np.flatnonzero(np.isin(self._spaces, _NAMED)).tolist()
            self._fixed = FixedTally(batch.offsets, named, len(self.body))
        self._copied(batch)
        rest = self._fixed.take(batch.events)
        pcs = batch.events["pc"][rest]
        counted = (batch.events["mask"][rest] != 0) & (self._spaces[pcs] != Space.NONE)
        if counted.any():
            self._count(batch, rest[counted])

    def sums(self) -> dict[tuple[int, Space], Counts]:
        """Return the requests, then the sums of `cost`, by instruction and space."""
        found = dict(self._sums)
        if self._fixed is not None:
            for pc, rows, counts in self._fixed.patterns():
                space = Space(int(self._spaces[pc]))
                _add(found, pc, space, counts, self.cost(pc, space, rows))
        return found

    def _count(self, batch: Batch, chosen: npt.NDArray[np.intp]) -> None:
        """Count events whose addresses are looked at lane by lane."""
        rows, first = _relative(batch, chosen)
        pcs = batch.events["pc"][chosen]
        spaces = self._spaces[pcs]
        generic = spaces == Space.GENERIC
        spaces[generic] = _generic_space(first[generic])
        keys = (pcs.astype(np.uint64) << np.uint64(3)) | spaces
        for key in np.unique(keys).tolist():
            pc, space = key >> 3, Space(key & 7)
            if space is not Space.NONE:
                distinct, counts = _distinct(rows[keys == key])
                costs = self._costs(self.cost, pc, space, distinct)
                _add(self._sums, pc, space, counts, costs)

    def _costs(self, cost: _Cost, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the `cost` of each row, looked up where it is known."""
        if len(rows) > _MOST_LOOKED_UP:
            return cost(pc, space, rows)
        names = [(pc, space, row.tobytes()) for row in rows]
        new = [n for n, name in enumerate(names) if name not in self._known]
        if new:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
                new = list(range(len(rows)))
            costs = cost(pc, space, rows[new])
            self._known.update((names[n], found) for n, found in zip(new, costs, strict=True))
        return np.stack([self._known[name] for name in names])

    def _copied(self, batch: Batch) -> None:
        """Events of copies: those of the source and the target follow each other."""
        events = batch.events
        chosen = np.flatnonzero(self._copies[events["pc"]])
        sources, targets = chosen[::2], chosen[1::2]
        ran = events["mask"][targets] != 0
        for pc in np.unique(events["pc"][targets[ran]]).tolist():
            these = ran & (events["pc"][targets] == pc)
            sides = [_relative(batch, side[these])[0] for side in (sources, targets)]
            rows, counts = _distinct(np.concatenate(sides, axis=1))
            read = counts * (rows[:, :32] != NOBODY).any(axis=1)
            for space, times in ((Space.GLOBAL, read), (Space.SHARED, counts)):
                costs = self._costs(self.copy_cost, pc, space, rows)
                _add(self._sums, pc, space, times, costs)


def _add(
    sums: dict[tuple[int, Space], Counts], pc: int, space: Space, counts: Counts, costs: Counts
) -> None:
    """Add so many accesses of each cost, [patterns, costs]."""
    found = np.array([counts.sum(), *(counts @ costs)], np.int64)
    sums[pc, space] = sums[pc, space] + found if (pc, space) in sums else found


class AccessCounter(PatternCounter):
    """Requests and passes of loads and stores with the widths that the PTX gives them.

    A pass is a sector of global or a wavefront of shared memory. Atomics are neither loads nor
    stores, as in the profiler; cp.async is a load of global and a store of shared memory.
    """

    def where(self, ins: Instruction) -> Space:
        """Return the space of a load or store; local memory is not counted."""
        space = _SPACES.get(ins.space, Space.NONE)
        counted = ins.opcode in LOADS | STORES and space is not Space.LOCAL
        return space if counted else Space.NONE

    def cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the passes."""
        ins = self.body[pc]
        size = access_bytes(ins)
        if space is Space.SHARED:
            return wavefronts(rows, size, load=ins.opcode in LOADS)[:, None]
        return sectors(rows, size)[:, None]

    def copy_cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the passes."""
        return copy_passes(self.body[pc], space, rows)[:, None]


def copy_passes(ins: Instruction, space: Space, rows: Addresses) -> Counts:
    """Sectors, or wavefronts, of one side of cp.async; `rows` are 32 sources, then 32 targets."""
    sources, targets = np.split(rows, 2, axis=1)
    through_l1, size = "cg" not in ins.flags, access_bytes(ins)
    count = copy_wavefronts if space is Space.SHARED else copy_sectors
    return count(sources, targets, size, through_l1=through_l1)


def space_named(ins: Instruction) -> Space:
    """Return the space that a memory instruction names; NONE for one that is not counted."""
    if ins.opcode not in LOADS | STORES | ATOMICS:
        return Space.NONE
    return _SPACES.get(ins.space, Space.NONE)


def _generic_space(addresses: Addresses) -> Addresses:
    segments = addresses >> np.uint64(state.SEGMENT_SHIFT)
    result = np.full(len(addresses), Space.NONE, np.uint64)
    result[segments >= state.FIRST_ARRAY] = Space.GLOBAL
    result[segments == state.SHARED_SEGMENT] = Space.SHARED
    return result


def _active(masks: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return masks as booleans, [len(masks), 32]."""
    return np.asarray((masks[:, None] >> np.arange(32, dtype=np.uint32)) & 1 == 1)


def _relative(batch: Batch, chosen: npt.NDArray[np.intp]) -> tuple[Addresses, Addresses]:
    """Addresses from the line of each event's first active lane on; NOBODY for idle lanes.

    The second are the addresses of those first lanes.
    """
    addresses = batch.addresses(chosen)
    active = _active(batch.events["mask"][chosen])
    first = np.take_along_axis(addresses, active.argmax(axis=1)[:, None], axis=1)
    origin = first - first % _LINE - np.uint64(ROOM)
    return np.where(active, addresses - origin, NOBODY), first[:, 0]


def _distinct(rows: Addresses) -> tuple[Addresses, Counts]:
    """Return the distinct rows and how often each occurs, by a 64-bit sum of each."""
    with np.errstate(over="ignore"):
        keys = (rows * _weights(rows.shape[1])).sum(axis=1, dtype=np.uint64)
    _, index, inverse, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    if not np.array_equal(rows[index][inverse], rows):  # two rows share a sum: compare them whole
        return np.unique(rows, axis=0, return_counts=True)
    return rows[index], counts


@cache
def _weights(count: int) -> Addresses:
    """Return odd numbers at random, always the same."""
    return np.random.default_rng(0).integers(1, 2**63, count, dtype=np.uint64) | np.uint64(1)


def standard_observers(plan: Plan) -> list[Observer]:
    """Return the observers behind `Counters`."""
    return [AccessCounter(plan.function.body)]


def total(plan: Plan, executions: npt.NDArray[np.int64], observers: Sequence[Observer]) -> Counters:
    """All counts of a run."""
    counter = next(o for o in observers if isinstance(o, AccessCounter))
    warps = threads = ffma = 0
    mix: dict[str, int] = {}
    for block, (times, active, _) in zip(plan.blocks, executions.tolist(), strict=True):
        for ins in plan.function.body[block.start : block.end]:
            name = ".".join((ins.opcode, *ins.types[:1]))
            mix[name] = mix.get(name, 0) + times
            warps += times
            threads += active
            if ins.opcode in ("fma", "mad") and ins.types[-1:] == ("f32",):
                ffma += active
    sums = _by_space(plan.function.body, counter)
    return Counters(
        warp_instructions=warps,
        thread_instructions=threads,
        ffma_thread_instructions=ffma,
        opcodes={n: c for n, c in sorted(mix.items()) if c},
        **sums,
    )


def _by_space(body: Sequence[Instruction], counter: AccessCounter) -> Mapping[str, int]:
    sums = dict.fromkeys(
        (
            "global_load_requests",
            "global_load_sectors",
            "global_store_requests",
            "global_store_sectors",
            "shared_load_requests",
            "shared_load_wavefronts",
            "shared_store_requests",
            "shared_store_wavefronts",
        ),
        0,
    )
    for (pc, space), (requests, passes) in counter.sums().items():
        reads = body[pc].opcode in LOADS or (body[pc].opcode == "cp" and space is Space.GLOBAL)
        way = "load" if reads else "store"
        if space is Space.SHARED:
            sums[f"shared_{way}_requests"] += int(requests)
            sums[f"shared_{way}_wavefronts"] += int(passes)
        elif space is Space.GLOBAL:
            sums[f"global_{way}_requests"] += int(requests)
            sums[f"global_{way}_sectors"] += int(passes)
    return sums
