"""The tiled kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.candidates import (
    LEAST_STEPS,
    MOST_SPLITS,
    WAVES,
    suits,
    tiled_tiles,
    useful_splits,
    useful_workers,
)
from tilewright.kernels.gemm.kernel import GemmKernel, Variant, Workspace
from tilewright.kernels.gemm.operation import Access, Operation
from tilewright.kernels.sharing import Sharing
from tilewright.kernels.tiles import (
    FLOAT_BYTES,
    WARP_THREADS,
    Tile,
    TileUse,
    check,
    copies_fit,
)
from tilewright.launch import Launch

_READS = frozenset({"bk", "tm", "tn", "wm", "wn", "stages"})
STRETCH = 768  # of k, whose sums are added in shared memory (lib/stretches.cuh)
_BESIDE_PARTS = 4  # words behind a tile's parts of k (lib/shared_sums.cuh)
_USE = TileUse(reads=_READS, vector=True, whole_rows=False)


def _check_tile(tile: Tile) -> None:
    check(tile, _USE, "tiled")
    if tile.stages < 2:
        raise TileError(f"{tile}: tiled needs 2 stages or more, one to fill while one is read")


@functools.lru_cache(maxsize=4096)  # whoever chooses a tile for each product asks each time
def _check_copies(tile: Tile, access: Access) -> None:
    panels = (
        ("bm", tile.bm, access.a_along_k, access.a_vector),
        ("bn", tile.bn, not access.b_along_n, access.b_vector),
    )
    for name, width, along_k, vector in panels:
        lanes = _lanes_k(tile, access, width)
        at_once = copied_at_once(tile, width, vector)
        if not copies_fit(tile, width, along_k=along_k, vector=at_once, lanes_k=lanes):
            raise TileError(
                f"{tile}: its {tile.threads} threads cannot copy {name} = {width} by bk = "
                f"{tile.bk} with as many copies each: change {name}, bk, or the warps' tiles"
            )


def _check(operation: Operation, variant: Variant) -> None:
    tile = variant.tile
    _check_tile(tile)
    _check_copies(tile, operation.access)
    depth = -(-operation.k // tile.bk)
    if not 1 <= variant.splits <= max(depth, 1):
        raise TileError(
            f"splits = {variant.splits}: k = {operation.k} has {depth} tiles of bk = {tile.bk}, "
            f"so 1 to {max(depth, 1)} parts"
        )
    if variant.workers:
        if variant.splits > 1:
            raise TileError("splits and workers both cut k: leave one of them out")
        steps = _sharing(operation, variant).shared * depth
        if not variant.workers <= steps < 2**31:
            raise TileError(
                f"workers = {variant.workers}: the tiles to share have {steps} steps of bk = "
                f"{tile.bk}; each worker needs one, and 2^31 are too many to count"
            )


def _tiles(operation: Operation, tile: Tile) -> int:
    """Return the tiles of the whole batch."""
    return operation.batch * -(-operation.m // tile.bm) * -(-operation.n // tile.bn)


def _sharing(operation: Operation, variant: Variant) -> Sharing:
    """Return how the workers share the last tiles."""
    tile = variant.tile
    depth = -(-operation.k // tile.bk)
    return Sharing(tiles=_tiles(operation, tile), depth=depth, workers=variant.workers)


def _shared_bytes(operation: Operation, tile: Tile) -> int:
    """Return what `TileCopy` lays out: rows of an operand that is read along k are padded."""
    access = operation.access
    padded = (tile.bm, access.a_along_k), (tile.bn, not access.b_along_n)
    pad = sum(WARP_THREADS // _lanes_k(tile, access, width) for width, along_k in padded if along_k)
    return tile.shared_bytes + FLOAT_BYTES * tile.stages * tile.bk * pad


def copied_at_once(tile: Tile, width: int, vector: int) -> int:
    """Return how many of `vector` neighbours along a side a copy has: all, where that is even."""
    return vector if copies_fit(tile, width, along_k=False, vector=vector) else 1


def _lanes_k(tile: Tile, access: Access, width: int) -> int:
    """Return how many lanes copy neighbours along k: the fewest that share out all of `width`."""
    lanes = 4 if tile.tm * tile.tn < 128 or _both_along_k(access) else 8
    while width % (tile.threads // lanes) and 2 * lanes <= tile.threads:
        lanes *= 2
    return lanes


def _both_along_k(access: Access) -> bool:
    return access.a_along_k and not access.b_along_n


def _sums_bytes(operation: Operation, variant: Variant, gpu: Gpu) -> int:
    """Return what the sums of stretches take, where a block has more than one of them."""
    tile = variant.tile
    if _longest(operation, variant) * tile.bk <= STRETCH or not _keeps_sums(operation, tile, gpu):
        return 0
    return FLOAT_BYTES * tile.bm * tile.bn


def _keeps_sums(operation: Operation, tile: Tile, gpu: Gpu) -> bool:
    """Return whether the kernel cuts long sums, as tiled.cuh has it."""
    blocks, limits = max(tile.min_blocks, 1), gpu.limits
    used = FLOAT_BYTES * tile.bm * tile.bn + _shared_bytes(operation, tile)
    return (
        _cuts_sums(gpu)
        and blocks * (used + limits.shared_bytes_reserved) <= limits.shared_bytes
        and (blocks == 1 or not _both_along_k(operation.access))
    )


def _cuts_sums(gpu: Gpu) -> bool:
    major, _ = gpu.compute_capability
    return 9 <= major < 12


def _longest(operation: Operation, variant: Variant) -> int:
    """Return the most steps of k that a block adds up, or a few more."""
    depth = -(-operation.k // variant.tile.bk)
    if not variant.workers:
        return -(-depth // variant.splits)
    sharing = _sharing(operation, variant)
    if sharing.shared < sharing.tiles:
        return depth
    return min(depth, -(-sharing.tiles * depth // variant.workers))


def _access(operation: Operation) -> Access:
    """Return how A and B are read: along k by single floats, since the tile is transposed."""
    found = operation.access
    return replace(
        found,
        a_vector=1 if found.a_along_k else found.a_vector,
        b_vector=found.b_vector if found.b_along_n else 1,
    )


def _launch(operation: Operation, variant: Variant) -> Launch:
    tile = variant.tile
    blocks = _tiles(operation, tile)
    if variant.workers:
        blocks += variant.workers - _sharing(operation, variant).shared
    return Launch(
        grid=(blocks, variant.splits, 1),
        block=(tile.threads, 1, 1),
        shared_bytes=_shared_bytes(operation, tile),
    )


def _workspace(operation: Operation, variant: Variant) -> Workspace:
    tile = variant.tile
    slots, room = _tiles(operation, tile), variant.splits
    if variant.workers:
        sharing = _sharing(operation, variant)
        slots, room = sharing.shared, sharing.room
    if room == 1:
        return Workspace()
    return Workspace(
        partial_bytes=FLOAT_BYTES * slots * (room * tile.bm * tile.bn + _BESIDE_PARTS),
        arrivals_bytes=4 * slots,
    )


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    for tile in TILES:
        if (
            suits(tile, operation.m, operation.n)
            and _shared_bytes(operation, tile) <= gpu.limits.shared_bytes_per_block_max
        ):
            blocks, steps = _tiles(operation, tile), -(-operation.k // tile.bk)
            ways = [{"splits": splits} for splits in useful_splits(blocks, steps, gpu)]
            ways += [{"workers": workers} for workers in useful_workers(blocks, steps, tile, gpu)]
            for way in ways:
                variant = Variant(kernel="tiled", tile=tile, **way)
                if _is_legal(operation, variant) and _is_accurate(operation, variant, gpu):
                    yield variant


def _is_accurate(operation: Operation, variant: Variant, gpu: Gpu) -> bool:
    """Return whether no sum is longer than a stretch, where the GPU has tiles that see to it."""
    return _longest(operation, variant) <= _most_steps(operation, variant.tile, gpu)


def _most_steps(operation: Operation, tile: Tile, gpu: Gpu) -> float:
    """Return how many steps of k a block may add up, for sums as accurate as the GPU has them."""
    if not _cuts_sums(gpu) or _keeps_sums(operation, tile, gpu):
        return math.inf
    return STRETCH // tile.bk


def _is_legal(operation: Operation, variant: Variant) -> bool:
    try:
        _check(operation, variant)
    except TileError:
        return False
    return True


def _runs(tile: Tile) -> bool:
    try:
        _check_tile(tile)
    except TileError:
        return False
    return True


TILES: tuple[Tile, ...] = tuple(filter(_runs, tiled_tiles()))

TILED = GemmKernel(
    name="tiled",
    idea="tiles of A and B copied to shared memory some steps ahead",
    function="tiled",
    file="tiled.cuh",
    access=_access,
    check=_check,
    launch=_launch,
    workspace=_workspace,
    variants=_variants,
    most_splits=MOST_SPLITS,
    least_steps=LEAST_STEPS,
    waves=lambda tile: WAVES,
    most_steps=_most_steps,
    accurate=_is_accurate,
    shares=True,
    scheduled=True,
    sums_bytes=_sums_bytes,
)
