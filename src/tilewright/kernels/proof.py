"""The proof of a rung's tiles: what its layouts say, checked for every thread and element.

Right: each output has one owner, each staged element is written once and by the thread that loaded
it, each thread reads what its outputs need, vectors are aligned, arrays fit. Cost: sectors of
global requests, wavefronts of shared ones, beside the fewest there could be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.counters import Counters
from tilewright.kernels.rungs import Claims, Rung
from tilewright.kernels.tile_layouts import Access, Operand, RungLayouts, Space, Way, layouts_of
from tilewright.kernels.tiles import FLOAT_BYTES, WARP_THREADS, Tile
from tilewright.layouts import Layout, is_injective
from tilewright.layouts.banks import (
    LANES,
    copy_sectors,
    copy_wavefronts,
    least_sectors,
    least_wavefronts,
    sectors,
    wavefronts,
)

Integers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What an access costs a block, in a step of the main loop; a store to C, once.

    Units: `requests` of warps; `pieces` are sectors in global memory and wavefronts in shared;
    `least` the pieces of as many bytes side by side, without bank conflicts.
    """

    access: Access
    requests: int
    pieces: int
    least: int

    @property
    def per_request(self) -> float:
        """Sectors or wavefronts a request."""
        return self.pieces / self.requests

    @property
    def ideal(self) -> bool:
        """Whether it is coalesced, or free of bank conflicts."""
        return self.pieces == self.least

    def __str__(self) -> str:
        what = "sectors" if self.access.space == "global" else "wavefronts"
        return (
            f"{self.access}: {self.per_request:g} {what} a request, at least "
            f"{self.least / self.requests:g}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was proved of a rung's tile. `broken` has a sentence for each property that fails."""

    layouts: RungLayouts
    costs: tuple[Cost, ...]
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the tile is computed right."""
        return not self.broken

    def total(self, space: Space, way: Way) -> tuple[int, int]:
        """Return (requests, sectors or wavefronts) of a block's accesses of a kind in a step."""
        found = [c for c in self.costs if (c.access.space, c.access.way) == (space, way)]
        return sum(c.requests for c in found), sum(c.pieces for c in found)

    def counters(self, *, blocks: int, steps: int) -> Counters:
        """Return the memory counters of a launch of `blocks` whole blocks with `steps` each."""
        times = blocks * steps
        loads, stores = self.total("global", "load"), self.total("global", "store")
        reads, writes = self.total("shared", "load"), self.total("shared", "store")
        # Fragments that are read one k ahead are read once more a block.
        tile, depth = self.layouts.tile, self.layouts.depth
        read = blocks * (steps + Fraction(1, depth)) if tile.stages else times
        return Counters(
            global_load_requests=times * loads[0],
            global_load_sectors=times * loads[1],
            global_store_requests=blocks * stores[0],
            global_store_sectors=blocks * stores[1],
            shared_load_requests=int(read * reads[0]),
            shared_load_wavefronts=int(read * reads[1]),
            shared_store_requests=times * writes[0],
            shared_store_wavefronts=times * writes[1],
        )

    @property
    def claims(self) -> Claims:
        """What a header may claim of the tile, in the terms of the registry."""
        tile, depth = self.layouts.tile, self.layouts.depth
        requests, found = self.total("global", "load")
        writes, passes = self.total("shared", "store")
        return Claims(
            load_sectors_per_request=found / requests,
            load_requests_per_warp_fma=requests * WARP_THREADS / (tile.bm * tile.bn * depth),
            store_sectors_per_output=self.total("global", "store")[1] / (tile.bm * tile.bn),
            shared_store_wavefronts_per_request=passes / writes if writes else None,
        )

    def __str__(self) -> str:
        head = f"{self.layouts.rung} with {self.layouts.tile}: "
        head += "; ".join(self.broken) if self.broken else "each output owned once, staged once"
        return "\n  ".join([head, *map(str, self.costs)])


def prove(rung: Rung, tile: Tile | None = None) -> Proof:
    """Prove a rung's tile, its default without one.

    It holds for blocks that cross no edge, with rows of A, B and C at multiples of 32 bytes, of 128
    in 09 and 10; in 10 for tiles that no blocks share.

    >>> from tilewright.kernels import rung
    >>> print(prove(rung("03")))
    03_shared_tile with Tile(bm=32, bn=32, bk=32): each output owned once, staged once
      global load of A, 1 wide: 4 sectors a request, at least 4
      shared store of A, 1 wide: 1 wavefronts a request, at least 1
      global load of B, 1 wide: 4 sectors a request, at least 4
      shared store of B, 1 wide: 1 wavefronts a request, at least 1
      shared load of A, 1 wide: 1 wavefronts a request, at least 1
      shared load of B, 1 wide: 1 wavefronts a request, at least 1
      global store of C, 1 wide: 4 sectors a request, at least 4

    Raises:
        TileError: the kernel cannot run with the tile.
        UnsupportedError: a kernel without described layouts.
    """
    return examine(layouts_of(rung, rung.default if tile is None else tile))


def examine(layouts: RungLayouts) -> Proof:
    """Prove layouts, or say what about them is wrong."""
    return Proof(
        layouts=layouts,
        costs=tuple(map(_cost, layouts.accesses)),
        broken=tuple(_wrong(layouts)),
    )


def _cost(access: Access) -> Cost:
    rows = _places(access)[:, :, 0].reshape(-1, LANES) * FLOAT_BYTES
    size = access.vector * FLOAT_BYTES
    if access.other is not None:
        pieces, least = _cost_of_copy(access, access.other, rows, size)
    elif access.space == "global":
        pieces, least = sectors(rows, size), least_sectors(rows, size)
    else:
        load = access.way == "load"
        pieces = wavefronts(rows, size, load=load)
        least = least_wavefronts(rows, size, load=load)
    return Cost(access=access, requests=len(rows), pieces=int(pieces.sum()), least=int(least.sum()))


def _cost_of_copy(
    access: Access, other: Layout, rows: Integers, size: int
) -> tuple[Integers, Integers]:
    """Return the cost of one side of cp.async, and the least."""
    beside = _places(replace(access, memory=other))
    others = beside[:, :, 0].reshape(-1, LANES) * FLOAT_BYTES
    if access.space == "global":
        return copy_sectors(rows, others, size), least_sectors(rows, size)
    return copy_wavefronts(others, rows, size), least_wavefronts(rows, size, load=False)


def _wrong(layouts: RungLayouts) -> Iterator[str]:
    tile = layouts.tile
    yield from _not_once("C's tile", "owned", layouts.owner, tile.bm, tile.bn)
    for access in layouts.accesses:
        if access.way == "store":
            yield from _not_once(f"{access}: the tile", "written", access.map, *_sides(access))
            if not is_injective(access.memory):
                yield f"{access}: two elements of the tile share a place in {access.memory}"
        yield from _misaligned(access)
    yield from _not_passed_on(layouts)
    yield from _not_needed(layouts)
    yield from _too_large(layouts)


def _not_once(what: str, done: str, owners: Layout, rows: int, cols: int) -> Iterator[str]:
    counts = np.bincount(owners.indices(), minlength=rows * cols)
    inside = np.arange(len(counts)) < rows * cols
    if len(bad := np.flatnonzero(counts != inside)):
        col, row = divmod(int(bad[0]), rows)
        yield (
            f"{what} ({rows} x {cols}) has element ({row}, {col}) {done} {counts[bad[0]]} times, "
            f"by {owners}"
        )


def _misaligned(access: Access) -> Iterator[str]:
    places, width = _places(access), access.vector
    if (places[:, :, 0] % width).any():
        yield f"{access}: addresses {access.addresses} are not all multiples of {width} elements"
    if (places != places[:, :, :1] + np.arange(width)).any():
        yield f"{access}: the elements of a vector of {access.addresses} are no neighbours"


def _not_passed_on(layouts: RungLayouts) -> Iterator[str]:
    """Each thread stores to shared memory what it loaded, where it will be read."""
    for access in layouts.accesses:
        if (access.space, access.way) != ("shared", "store"):
            continue
        loaded = layouts.of(access.operand, "global", "load")
        if loaded is None or not np.array_equal(_elements(loaded.map), _elements(access.map)):
            yield f"{access}: a thread stores another element than it loaded"
        read = layouts.of(access.operand, "shared", "load")
        if read is not None and read.memory != access.memory:
            yield f"{access}: the tile lies as {access.memory}, and is read as {read.memory}"


def _not_needed(layouts: RungLayouts) -> Iterator[str]:
    """Each thread reads, for every k of a step, the rows and the columns of its outputs."""
    tile, k = layouts.tile, np.arange(layouts.depth)
    owned = _elements(layouts.owner)
    operands: tuple[tuple[Operand, Integers, int, int], ...] = (
        ("A", owned % tile.bm, 1, tile.bm),
        ("B", owned // tile.bm, layouts.depth, 1),
    )
    for operand, outputs, along, along_k in operands:
        staged = layouts.of(operand, "shared", "store") is not None
        space: Space = "shared" if staged else "global"
        access = layouts.of(operand, space, "load")
        if access is None:
            yield f"{operand} is not read from {space} memory"
            continue
        for thread, (mine, read) in enumerate(zip(outputs, _elements(access.map), strict=True)):
            needed = (np.unique(mine)[:, None] * along + k * along_k).ravel()
            if not np.array_equal(np.sort(needed), read):
                yield f"{access}: thread {thread} reads other elements than its outputs need"
                break


def _too_large(layouts: RungLayouts) -> Iterator[str]:
    arrays = [layouts.of(operand, "shared", "store") for operand in ("A", "B")]
    extent = sum(FLOAT_BYTES * access.memory.cosize for access in arrays if access)
    room = layouts.tile.shared_bytes // max(layouts.tile.stages, 1)
    if extent > room:
        yield f"the staged tiles reach over {extent} bytes of {room}"


def _sides(access: Access) -> tuple[int, int]:
    rows, cols = access.memory
    return rows.size, cols.size


def _places(access: Access) -> Integers:
    """Return the places of an access, [turns, threads, vector]."""
    threads, turns, vector = access.map
    flat = np.array(access.addresses.indices(), np.int64)
    return np.moveaxis(flat.reshape(vector.size, turns.size, threads.size), 0, 2)


def _elements(layout: Layout) -> Integers:
    """Return the elements of each thread in ascending order, [threads, values]."""
    return np.sort(np.array(layout.indices(), np.int64).reshape(-1, layout[0].size).T, axis=1)
