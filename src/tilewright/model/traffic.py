"""How far each access of global memory goes: the L1, the L2 or the DRAM.

A small simulation of the L1 over the first accesses of one block, its warps in step, and an
estimate of what the blocks of the launch share with one another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.launch import Launch
from tilewright.model.profile import Profile
from tilewright.trace import AccessTrace

SECTOR_BYTES = 32
_LINE_SECTORS = 4
_LEAST_LINES = 8  # of the L1 that a block has to itself: assumed
# What of the L2 keeps the operands of a launch for its next blocks; the rest goes to what streams
# through. Assumed.
_L2_USABLE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Where one instruction's requests are served.

    `missing` is the share of its requests that fetch from the L2, `pending` of those that find
    their line on its way for another warp; `sectors` the 32-byte sectors that a request fetches
    (or stores); `dram` the share of those that come from the DRAM.
    """

    missing: float
    pending: float
    sectors: float
    dram: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The hits of all instructions by their index; what is not named fetches nothing."""

    by_index: Mapping[int, Hit] = field(default_factory=dict)

    def of(self, index: int) -> Hit:
        """Return the hits of one instruction."""
        return self.by_index.get(index, _NONE)


_NONE = Hit(missing=0.0, pending=0.0, sectors=0.0, dram=0.0)


@dataclass(slots=True)
class _Tally:
    """What the L1 did for one line of the PTX, and the sectors that it touched."""

    requests: int = 0
    missing: int = 0
    pending: int = 0
    fetched: int = 0
    stores: bool = False
    own: set[int] = field(default_factory=set)

    @property
    def merged(self) -> float:
        """What is left of stores once the L2 has joined those to one sector; 1 of loads."""
        return len(self.own) / self.fetched if self.stores and self.fetched else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Traces of one block and of the next along x and along y (None where there is none)."""

    trace: AccessTrace
    block: int
    along_x: int | None
    along_y: int | None


def line_hits(
    found: Neighbours, launch: Launch, *, l1_bytes: int, l2_bytes: int, resident: int
) -> dict[int, Hit]:
    """Return the hits by PTX line.

    Units: `l1_bytes` of L1 that one block has to itself; `resident` blocks run on the GPU at a
    time.
    """
    lines = max(l1_bytes // (_LINE_SECTORS * SECTOR_BYTES), _LEAST_LINES)
    tallies = _simulate(found.trace.of_block(found.block), lines)
    beside = {
        axis: _sectors_by_line(found.trace, block)
        for axis, block in (("x", found.along_x), ("y", found.along_y))
        if block is not None
    }
    shared = {
        line: {axis: _common(tally.own, other.get(line, set())) for axis, other in beside.items()}
        for line, tally in tallies.items()
    }
    grid_x, rows = launch.grid[0], launch.blocks // launch.grid[0]
    at_once = _at_once(launch.blocks, grid_x, resident)
    footprint = sum(
        SECTOR_BYTES * tally.fetched * launch.blocks * _distinct(shared[line], grid_x, rows)
        for line, tally in tallies.items()
    )
    whole = footprint < _L2_USABLE * l2_bytes
    across = (grid_x, rows) if whole else at_once
    return {
        line: Hit(
            missing=tally.missing / tally.requests,
            pending=tally.pending / tally.requests,
            sectors=tally.fetched / tally.missing if tally.missing else 0.0,
            dram=_distinct(shared[line], *across) * tally.merged,
        )
        for line, tally in tallies.items()
    }


def local_hits(profile: Profile, bytes_a_thread: int, l1_bytes: int) -> dict[int, Hit]:
    """Return the hits of local memory (spilled registers) by the index of the instruction.

    Loads hit as far as the L1 holds a block's local memory; stores go through to the L2.
    """
    footprint = max(bytes_a_thread * profile.launch.threads, 1)
    beyond = max(0.0, 1.0 - l1_bytes / footprint)
    found = {}
    for index, counted in enumerate(profile.counted):
        access = counted.access
        if access is None or access.space != "local" or not access.requests:
            continue
        load = access.way == "load"
        found[index] = Hit(
            missing=beyond if load else 1.0,
            pending=0.0,
            sectors=access.sectors / access.requests,
            dram=0.0,
        )
    return found


def _simulate(trace: AccessTrace, lines: int) -> dict[int, _Tally]:
    """Run the accesses through an L1 of so many lines, least recently used out first.

    Stores go through to the L2 and leave nothing behind.
    """
    cache: OrderedDict[int, int] = OrderedDict()
    fetched_at: dict[int, int] = {}
    tallies: dict[int, _Tally] = {}
    rows = zip(
        trace.line.tolist(), trace.order.tolist(), trace.load.tolist(), trace.sectors.tolist(),
        strict=True,
    )  # fmt: skip
    for line, order, load, sectors in rows:
        tally = tallies.setdefault(line, _Tally())
        tally.requests += 1
        fetched, pending = 0, False
        for sector in sectors:
            if sector < 0:
                break
            tally.own.add(sector)
            if not load:
                tally.stores = True
                fetched += 1
                continue
            tag, bit = sector // _LINE_SECTORS, 1 << sector % _LINE_SECTORS
            mask = cache.get(tag, 0)
            if mask & bit:
                pending |= fetched_at.get(sector, -2) >= order - 1
                cache.move_to_end(tag)
                continue
            fetched += 1
            cache[tag] = mask | bit
            cache.move_to_end(tag)
            fetched_at[sector] = order
            if len(cache) > lines:
                cache.popitem(last=False)
        tally.fetched += fetched
        tally.missing += fetched > 0
        tally.pending += pending and not fetched
    return tallies


def _sectors_by_line(trace: AccessTrace, block: int) -> dict[int, set[int]]:
    part = trace.of_block(block)
    found: dict[int, set[int]] = {}
    for line, sectors in zip(part.line.tolist(), part.sectors.tolist(), strict=True):
        found.setdefault(line, set()).update(s for s in sectors if s >= 0)
    return found


def _common(own: set[int], other: set[int]) -> float:
    """Return the share of a block's sectors that another touches too."""
    return len(own & other) / len(own) if own else 0.0


def _at_once(blocks: int, columns: int, resident: int) -> tuple[float, float]:
    """Return how many blocks of a row, and of a column, run at the same time: means over waves.

    Blocks start in their order, row after row, `resident` in a wave: what those of a wave share is
    fetched once for it, and a row that goes on in the next wave once more.
    """
    rows_begun = columns_begun = 0
    for first in range(0, blocks, resident):
        last = min(first + resident, blocks) - 1
        rows_begun += last // columns - first // columns + 1
        columns_begun += min(columns, last - first + 1)
    return blocks / rows_begun, blocks / columns_begun


def _distinct(shared: Mapping[str, float], across_x: float, across_y: float) -> float:
    """Return the share of what each of x by y blocks fetches that no other has fetched."""
    result = 1.0
    for axis, count in (("x", across_x), ("y", across_y)):
        common = shared.get(axis, 0.0)
        result *= common / count + (1 - common)
    return result
