"""What is made of the events of a counting build: each observer reads batches of memory accesses.

An event is one executed memory instruction of one warp: block, pc, warp, the mask of active lanes
and their addresses. Batches are numpy structured arrays (`state.Event`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.counters import Counters
from tilewright.emulator import state
from tilewright.emulator.lanes import BITS
from tilewright.emulator.plan import Plan
from tilewright.toolchain.ptx.ir import Instruction

Addresses: TypeAlias = "npt.NDArray[np.uint64]"
_LOADS = frozenset({"ld", "ldu"})
_STORES = frozenset({"st"})
_NOBODY = np.uint64(1) << np.uint64(63)  # the address of a lane that does not take part
_LAST = np.uint64(2**64 - 1)
_LINE = np.uint64(128)


class Space(IntEnum):
    """Where an access counts; GENERIC until its address is known."""

    NONE = 0
    GLOBAL = 1
    SHARED = 2
    GENERIC = 3


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


class AccessCounter:
    """Requests and passes of loads and stores, by instruction and state space.

    A pass is a sector of global or a wavefront of shared memory. Generic accesses count where
    their first active lane's address lies; atomics are neither loads nor stores, as in the
    profiler. What an access costs depends on its addresses modulo 128 bytes alone, so that each
    distinct pattern is worked out once.
    """

    def __init__(self, body: Sequence[Instruction]) -> None:
        self.body = body
        self.requests: dict[tuple[int, Space], int] = {}
        self.passes: dict[tuple[int, Space], int] = {}
        self._known: dict[int, int] = {}
        self._spaces = np.array([_space_of(ins) for ins in body], np.uint64)

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
            pc, space = key >> 2, Space(key & 3)
            chosen = free[keys == key]
            rows, counts = _distinct(_relative(batch, chosen))
            self._add(pc, space, len(chosen), int((self._cost(pc, space, rows) * counts).sum()))

    def _keys(self, pcs: npt.NDArray[np.int32], addresses: Addresses) -> Addresses:
        """Instruction and state space of accesses, as one number."""
        spaces = self._spaces[pcs]
        generic = spaces == Space.GENERIC
        spaces[generic] = _generic_space(addresses[generic])
        return (pcs.astype(np.uint64) << np.uint64(2)) | spaces

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
            pc, space = key >> 41, Space(key >> 39 & 3)
            if key not in self._known:
                row = _relative(batch, chosen[first : first + 1])
                self._known[key] = int(self._cost(pc, space, row)[0])
            self._add(pc, space, count, count * self._known[key])

    def _add(self, pc: int, space: Space, requests: int, passes: int) -> None:
        key = (pc, space)
        self.requests[key] = self.requests.get(key, 0) + requests
        self.passes[key] = self.passes.get(key, 0) + passes

    def _cost(self, pc: int, space: Space, rows: Addresses) -> npt.NDArray[np.int64]:
        ins = self.body[pc]
        size = BITS[ins.types[-1]] // 8 * ins.vector
        if space is Space.SHARED:
            return wavefronts(rows, size, load=ins.opcode in _LOADS)
        return sectors(rows, size)


def _space_of(ins: Instruction) -> Space:
    """Return where an instruction's accesses count."""
    if ins.opcode not in _LOADS | _STORES:
        return Space.NONE
    spaces = {"global": Space.GLOBAL, "shared": Space.SHARED, None: Space.GENERIC}
    return spaces.get(ins.space, Space.NONE)


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
    """Addresses from the line of each event's first active lane on; _NOBODY for idle lanes."""
    addresses = batch.addresses(chosen)
    active = _active(batch.events["mask"][chosen])
    first = _first_active(batch, chosen)
    # Half of the range is room for lanes that lie below the first.
    origin = first - first % _LINE - (np.uint64(1) << np.uint64(62))
    return np.where(active, addresses - origin[:, None], _NOBODY)


def _distinct(
    rows: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
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


def sectors(rows: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.int64]:
    """Distinct 32-byte sectors that each row's active lanes touch."""
    idle = rows == _NOBODY
    first = np.where(idle, _LAST, rows >> np.uint64(5))
    last = np.where(idle, first, (rows + np.uint64(size - 1)) >> np.uint64(5))
    touched = first if np.array_equal(first, last) else np.concatenate([first, last], axis=1)
    ordered = np.sort(touched, axis=1)
    fresh = ordered[:, 1:] != ordered[:, :-1]
    return np.asarray(1 + fresh.sum(axis=1) - (ordered[:, -1] == _LAST))


def wavefronts(
    rows: npt.NDArray[np.uint64], size: int, *, load: bool = True
) -> npt.NDArray[np.int64]:
    """Count the passes of each row's active lanes through the 32 banks of shared memory.

    A pass serves one word in each bank, to any number of lanes: 128 bytes. An access of 4 bytes a
    lane goes as a whole warp, one of 8 bytes by half warps, one of 16 by quarters; each such phase
    takes as many passes as the fullest bank has different words.

    Pairs: a wide load in which every active lane has the address of its neighbour t^1, or every
    one that of t^2 (a warp-uniform load is both), goes in half as many phases of twice the lanes.

    Source: phases and pairs are NVIDIA's, given for compute capability 7.x (developer forum,
    thread 77228). Measured on one H200 (sm_90) with ncu: 16-byte loads take 2 passes where uniform
    or equal on t^1 or t^2, 4 where equal on t^4. Not measured: pairs in 8-byte loads, pairs that
    hold in one half of the warp only or with idle lanes (here: no merging, and idle lanes agree
    with any), and other architectures. Stores are not merged.
    """
    phases = max(size // 4, 1)
    plain = _phased(rows, size, phases)
    if phases == 1 or not load:
        return plain
    paired = _agree(rows, 1) | _agree(rows, 2)
    return np.where(paired, _phased(rows, size, phases // 2), plain) if paired.any() else plain


def _phased(rows: npt.NDArray[np.uint64], size: int, phases: int) -> npt.NDArray[np.int64]:
    """Count passes where the warp goes in `phases` equal parts, one after the other."""
    parts = np.split(rows, phases, axis=1)
    return np.asarray(sum(_conflicts(part, max(size // 4, 1)) for part in parts))


def _agree(rows: npt.NDArray[np.uint64], step: int) -> npt.NDArray[np.bool_]:
    """Whether all active lanes t of a row have the address of t ^ step, where that is active."""
    partner = rows[:, np.arange(32) ^ step]
    same = (rows == partner) | (rows == _NOBODY) | (partner == _NOBODY)
    return np.asarray(same.all(axis=1))


def _conflicts(rows: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.int64]:
    """Count the most distinct words that fall in one bank, row by row."""
    idle = rows == _NOBODY
    start = rows >> np.uint64(2)
    each = [np.where(idle, _LAST, start + np.uint64(w)) for w in range(words)]
    word = np.sort(np.concatenate(each, axis=1), axis=1)
    fresh = np.ones(word.shape, bool)
    fresh[:, 1:] = word[:, 1:] != word[:, :-1]
    fresh &= word != _LAST
    bank = (word % np.uint64(32)).astype(np.int64)
    counts = np.zeros((len(rows), 32), np.int64)
    row = np.broadcast_to(np.arange(len(rows))[:, None], word.shape)
    np.add.at(counts, (row[fresh], bank[fresh]), 1)
    return np.asarray(counts.max(axis=1))


def standard_observers(plan: Plan) -> list[Observer]:
    """Return the observers behind `Counters`."""
    return [AccessCounter(plan.function.body)]


def total(plan: Plan, executions: npt.NDArray[np.int64], observers: Sequence[Observer]) -> Counters:
    """All counts of a run."""
    counter = next(o for o in observers if isinstance(o, AccessCounter))
    warps = threads = ffma = 0
    mix: dict[str, int] = {}
    for block, (times, active) in zip(plan.blocks, executions.tolist(), strict=True):
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
    for (pc, space), requests in counter.requests.items():
        way = "load" if body[pc].opcode in _LOADS else "store"
        if space is Space.SHARED:
            sums[f"shared_{way}_requests"] += requests
            sums[f"shared_{way}_wavefronts"] += counter.passes[pc, space]
        elif space is Space.GLOBAL:
            sums[f"global_{way}_requests"] += requests
            sums[f"global_{way}_sectors"] += counter.passes[pc, space]
    return sums
