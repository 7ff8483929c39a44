"""What is made of the events of a counting build: each observer reads batches of memory accesses.

An event is one executed memory instruction of one warp: block, pc, warp, the mask of active lanes
and their addresses. Batches are numpy structured arrays (`state.Event`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tilewright.counters import Counters
from tilewright.emulator import state
from tilewright.emulator.lanes import BITS
from tilewright.emulator.plan import Plan
from tilewright.emulator.rules import LINE_BYTES, NOBODY, Addresses, Counts, sectors, wavefronts
from tilewright.toolchain.ptx.ir import Instruction

__all__ = ["AccessCounter", "Batch", "Observer", "PatternCounter", "Space", "sectors", "wavefronts"]

LOADS = frozenset({"ld", "ldu"})
STORES = frozenset({"st"})
ATOMICS = frozenset({"atom", "red"})
_LINE = np.uint64(LINE_BYTES)


class Space(IntEnum):
    """Where an access counts; GENERIC until its address is known."""

    NONE = 0
    GLOBAL = 1
    SHARED = 2
    GENERIC = 3
    LOCAL = 4


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
    where their first active lane's address lies. `sums` holds the requests, then the sums of
    `cost`, which a subclass gives; `where` says in which space an instruction is counted.
    """

    def __init__(self, body: Sequence[Instruction]) -> None:
        self.body = body
        self.sums: dict[tuple[int, Space], Counts] = {}
        self._known: dict[int, Counts] = {}
        self._spaces = np.array([self.where(ins) for ins in body], np.uint64)

    def where(self, ins: Instruction) -> Space:
        """Return where an instruction's accesses count."""
        raise NotImplementedError

    def cost(self, pc: int, space: Space, rows: Addresses) -> Counts:
        """Return the costs of accesses with the addresses `rows`, [len(rows), costs]."""
        raise NotImplementedError

    def observe(self, batch: Batch) -> None:
        """Count a batch."""
        events = batch.events
        counted = (events["mask"] != 0) & (self._spaces[events["pc"]] != Space.NONE)
        fixed = np.flatnonzero(counted & (events["row"] < 0))
        if fixed.size:
            self._fixed(batch, fixed)
        free = np.flatnonzero(counted & (events["row"] >= 0))
        if not free.size:
            return
        keys = self._keys(events["pc"][free], _first_active(batch, free))
        for key in np.unique(keys).tolist():
            pc, space = key >> 3, Space(key & 7)
            if space is not Space.NONE:
                rows, counts = _distinct(_relative(batch, free[keys == key]))
                costs = self.cost(pc, space, rows)
                self._add(pc, space, int(counts.sum()), counts @ costs)

    def _keys(self, pcs: npt.NDArray[np.int32], addresses: Addresses) -> Addresses:
        """Instruction and state space of accesses, as one number."""
        spaces = self._spaces[pcs]
        generic = spaces == Space.GENERIC
        spaces[generic] = _generic_space(addresses[generic])
        return (pcs.astype(np.uint64) << np.uint64(3)) | spaces

    def _fixed(self, batch: Batch, chosen: npt.NDArray[np.intp]) -> None:
        """Events whose addresses are a base plus known offsets."""
        events = batch.events[chosen]
        keys = (
            (self._keys(events["pc"], events["base"]) << np.uint64(39))
            | (events["mask"].astype(np.uint64) << np.uint64(7))
            | (events["base"] % _LINE)
        )
        distinct, index, counts = np.unique(keys, return_index=True, return_counts=True)
        for key, first, count in zip(distinct.tolist(), index, counts.tolist(), strict=True):
            pc, space = key >> 42, Space(key >> 39 & 7)
            if space is Space.NONE:
                continue
            if key not in self._known:
                row = _relative(batch, chosen[first : first + 1])
                self._known[key] = self.cost(pc, space, row)[0]
            self._add(pc, space, count, count * self._known[key])

    def _add(self, pc: int, space: Space, requests: int, costs: Counts) -> None:
        sums = np.array([requests, *costs.tolist()], np.int64)
        known = self.sums.get((pc, space))
        self.sums[pc, space] = sums if known is None else known + sums


class AccessCounter(PatternCounter):
    """Requests and passes of loads and stores with the widths that the PTX gives them.

    A pass is a sector of global or a wavefront of shared memory. Atomics are neither loads nor
    stores, as in the profiler.
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


def access_bytes(ins: Instruction) -> int:
    """Bytes that one lane of an access moves."""
    return BITS[ins.types[-1]] // 8 * ins.vector


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


def _first_active(batch: Batch, chosen: npt.NDArray[np.intp]) -> Addresses:
    """Return the address of each event's first active lane."""
    active = _active(batch.events["mask"][chosen])
    rows = batch.addresses(chosen)
    return np.take_along_axis(rows, active.argmax(axis=1)[:, None], axis=1)[:, 0]


def _active(masks: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Return masks as booleans, [len(masks), 32]."""
    return np.asarray((masks[:, None] >> np.arange(32, dtype=np.uint32)) & 1 == 1)


def _relative(batch: Batch, chosen: npt.NDArray[np.intp]) -> Addresses:
    """Addresses from the line of each event's first active lane on; NOBODY for idle lanes."""
    addresses = batch.addresses(chosen)
    active = _active(batch.events["mask"][chosen])
    first = _first_active(batch, chosen)
    # Half of the range is room for lanes that lie below the first.
    origin = first - first % _LINE - (np.uint64(1) << np.uint64(62))
    return np.where(active, addresses - origin[:, None], NOBODY)


def _distinct(rows: Addresses) -> tuple[Addresses, Counts]:
    """Return the distinct rows and how often each occurs, by a 64-bit sum of each."""
    odd = np.uint64(1)
    weights = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | odd
    with np.errstate(over="ignore"):
        keys = (rows * weights).sum(axis=1, dtype=np.uint64)
    _, index, inverse, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    if not np.array_equal(rows[index][inverse], rows):  # two rows share a sum: compare them whole
        return np.unique(rows, axis=0, return_counts=True)
    return rows[index], counts


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
    for (pc, space), (requests, passes) in counter.sums.items():
        way = "load" if body[pc].opcode in LOADS else "store"
        if space is Space.SHARED:
            sums[f"shared_{way}_requests"] += int(requests)
            sums[f"shared_{way}_wavefronts"] += int(passes)
        elif space is Space.GLOBAL:
            sums[f"global_{way}_requests"] += int(requests)
            sums[f"global_{way}_sectors"] += int(passes)
    return sums
