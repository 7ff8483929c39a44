"""What is made of the events of a counting build: each observer reads batches of memory accesses.

An event is one executed memory instruction of one warp: block, pc, warp, the mask of active lanes
and their addresses. Batches are numpy structured arrays (`state.Event`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_NOBODY = np.uint64(1) << np.uint64(63)  # the address of a lane that does not take part
_LAST = np.uint64(2**64 - 1)
_LINE = np.uint64(128)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order of one worker. The arrays are reused: copy what is kept."""

    events: npt.NDArray[np.void]
    rows: Addresses
    offsets: Mapping[int, tuple[int, ...]]

    def addresses(self, chosen: npt.NDArray[np.intp]) -> Addresses:
        """The addresses of all 32 lanes of some events, [len(chosen), 32]."""
        events = self.events[chosen]
        result = self.rows[np.maximum(events["row"], 0)]
        for pc in np.unique(events["pc"][events["row"] < 0]):
            fixed = (events["pc"] == pc) & (events["row"] < 0)
            steps = np.array(self.offsets[int(pc)], np.int64).view(np.uint64)
            result[fixed] = events["base"][fixed][:, None] + steps
        return result


class Observer(Protocol):
    """Anything that wants to see memory accesses."""

    def observe(self, batch: Batch) -> None:
        """Take one batch."""


def space_of_address(address: int) -> str:
    """The state space of a generic address."""
    segment = address >> state.SEGMENT_SHIFT
    return {state.SHARED_SEGMENT: "shared", state.LOCAL_SEGMENT: "local"}.get(segment, "global")


class AccessCounter:
    """Requests, and sectors or wavefronts ("passes"), by instruction.

    What an access costs depends on its addresses modulo 128 bytes alone, so that each distinct
    pattern is worked out once.
    """

    def __init__(self, body: Sequence[Instruction]) -> None:
        self.body = body
        self.requests: dict[int, int] = {}
        self.passes: dict[int, int] = {}
        self._known: dict[int, int] = {}

    def observe(self, batch: Batch) -> None:
        """Count a batch."""
        events = batch.events
        active = events["mask"] != 0
        fixed = np.flatnonzero(active & (events["row"] < 0))
        if fixed.size:
            self._fixed(batch, fixed)
        free = np.flatnonzero(active & (events["row"] >= 0))
        pcs = events["pc"][free]
        for pc in np.unique(pcs):
            chosen = free[pcs == pc]
            rows, counts = _distinct(_relative(batch, chosen))
            self._add(int(pc), len(chosen), int((self._cost(int(pc), rows) * counts).sum()))

    def _fixed(self, batch: Batch, chosen: npt.NDArray[np.intp]) -> None:
        """Events whose addresses are a base plus known offsets."""
        events = batch.events[chosen]
        keys = (
            (events["pc"].astype(np.uint64) << np.uint64(39))
            | (events["mask"].astype(np.uint64) << np.uint64(7))
            | (events["base"] % _LINE)
        )
        distinct, index, counts = np.unique(keys, return_index=True, return_counts=True)
        for key, first, count in zip(distinct.tolist(), index, counts.tolist(), strict=True):
            pc = key >> 39
            if key not in self._known:
                row = _relative(batch, chosen[first : first + 1])
                self._known[key] = int(self._cost(pc, row)[0])
            self._add(pc, count, count * self._known[key])

    def _add(self, pc: int, requests: int, passes: int) -> None:
        self.requests[pc] = self.requests.get(pc, 0) + requests
        self.passes[pc] = self.passes.get(pc, 0) + passes

    def _cost(self, pc: int, rows: Addresses) -> npt.NDArray[np.int64]:
        ins = self.body[pc]
        size = BITS[ins.types[-1]] // 8 * ins.vector
        return wavefronts(rows, size) if ins.space == "shared" else sectors(rows, size)


def _relative(batch: Batch, chosen: npt.NDArray[np.intp]) -> Addresses:
    """Addresses from the line of each event's first active lane on; _NOBODY for idle lanes."""
    addresses = batch.addresses(chosen)
    masks = batch.events["mask"][chosen]
    active = (masks[:, None] >> np.arange(32, dtype=np.uint32)) & 1 == 1
    first = addresses[np.arange(len(addresses)), active.argmax(axis=1)]
    # Half of the range is room for lanes that lie below the first.
    origin = first - first % _LINE - (np.uint64(1) << np.uint64(62))
    return np.where(active, addresses - origin[:, None], _NOBODY)


def _distinct(
    rows: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """The distinct rows and how often each occurs; rows are compared by a 64-bit sum."""
    weights = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
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
    return 1 + fresh.sum(axis=1) - (ordered[:, -1] == _LAST)


def wavefronts(rows: npt.NDArray[np.uint64], size: int) -> npt.NDArray[np.int64]:
    """Passes through the 32 banks: by half warps for 8-byte accesses, quarters for 16.

    Lanes that read the same word share it. Where all lanes agree with their neighbour (t^1) or all
    with t^2, a wide access takes half the passes (measured on sm_90).
    """
    if size <= 4:
        return _conflicts(rows, 1)
    parts = 2 if size == 8 else 4
    whole = sum(
        _conflicts(rows[:, i * 32 // parts : (i + 1) * 32 // parts], size // 4)
        for i in range(parts)
    )
    return np.asarray(whole)


def _conflicts(rows: npt.NDArray[np.uint64], words: int) -> npt.NDArray[np.int64]:
    """The most distinct words that fall in one bank, row by row."""
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
    return counts.max(axis=1)


def standard_observers(plan: Plan) -> list[Observer]:
    """The observers behind `Counters`."""
    return [AccessCounter(plan.function.body)]


def total(
    plan: Plan, executions: npt.NDArray[np.int64], observers: Sequence[Observer]
) -> Counters:
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
    for pc, requests in counter.requests.items():
        ins = body[pc]
        way = "load" if ins.opcode in _LOADS else "store"
        if ins.space == "shared":
            sums[f"shared_{way}_requests"] += requests
            sums[f"shared_{way}_wavefronts"] += counter.passes[pc]
        elif ins.space in ("global", None):
            sums[f"global_{way}_requests"] += requests
            sums[f"global_{way}_sectors"] += counter.passes[pc]
    return sums
