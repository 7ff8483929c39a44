"""The shallow kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import GemmKernel, Variant, tiles_of
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile, TileUse, check
from tilewright.launch import Launch

SLICE = 32  # of k: what lib/slice.cuh keeps together
MOST_STAGES = 4  # whose copies the kernel can wait for one by one
_USE = TileUse(
    reads=frozenset({"bk", "tm", "tn", "wm", "wn", "stages"}), vector=True, whole_rows=False
)


def _check(operation: Operation, variant: Variant) -> None:
    tile, o = variant.tile, operation
    check(tile, _USE, "shallow")
    if tile.bk != SLICE or not 1 <= tile.stages <= MOST_STAGES:
        raise TileError(
            f"{tile}: shallow has slices of bk = {SLICE}, one a stage: give 1 to {MOST_STAGES} "
            "stages of them"
        )
    if not 1 <= o.k <= tile.bk * tile.stages:
        raise TileError(
            f"k = {o.k}: shallow has all of k in shared memory, with {tile} from 1 to "
            f"{tile.bk * tile.stages}: give more stages, or take tiled"
        )
    if variant.splits != 1 or variant.workers:
        raise TileError(f"{variant}: a block of shallow sums all of k: leave splits 1, workers 0")
    access = o.access
    for name, width, along_k, vector in (
        ("bm", tile.bm, access.a_along_k, access.a_vector),
        ("bn", tile.bn, not access.b_along_n, access.b_vector),
    ):
        if not _copies_evenly(tile.threads, width, along_k=along_k, vector=vector):
            raise TileError(
                f"{tile}: its {tile.threads} threads cannot copy {name} = {width} by bk = "
                f"{tile.bk} with as many copies each: change {name} or the warps' tiles"
            )


def _copies_evenly(threads: int, width: int, *, along_k: bool, vector: int) -> bool:
    """Return whether `Slice` of lib/slice.cuh can copy a slice so wide."""
    length, lines = (SLICE, width) if along_k else (width, SLICE)
    span, rest = divmod(threads, length // vector)
    return rest == 0 and span > 0 and lines % span == 0


def _launch(operation: Operation, variant: Variant) -> Launch:
    tile = variant.tile
    return Launch(
        grid=(tiles_of(operation, tile), 1, 1),
        block=(tile.threads, 1, 1),
        shared_bytes=tile.shared_bytes,
    )


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    o = operation
    for tile in TILES:
        if tile.bm >= 2 * o.m or tile.bn >= 2 * o.n:
            continue  # most of its outputs would be nobody's
        stages = max(-(-o.k // SLICE), 1)
        if stages > MOST_STAGES:
            continue
        variant = Variant(kernel="shallow", tile=replace(tile, stages=stages))
        fits = variant.tile.shared_bytes <= gpu.limits.shared_bytes_per_block_max
        if fits and SHALLOW.can_run(o, variant):
            yield variant


# (bm, bn), (tm, tn), lanes of a warp along m and n, blocks that an SM has registers for. On an H200
# (2026-11-30) each was the fastest of twelve for some of 16 products, in nn and nt: the first for
# 100 000 x 64 x 64 and batches of 64 x 64, then for short batches of 30 000 rows and less, for 32
# columns, for batches of 32 x 32, for 128 columns, for k = 128.
TILES: tuple[Tile, ...] = tuple(
    Tile(bm=bm, bn=bn, bk=SLICE, tm=tm, tn=tn, wm=down * tm, wn=across * tn, stages=1, min_blocks=n)
    for (bm, bn), (tm, tn), (down, across), n in (
        ((64, 64), (4, 8), (4, 8), 4),
        ((32, 64), (4, 8), (4, 8), 8),
        ((64, 32), (4, 8), (8, 4), 8),
        ((32, 32), (4, 4), (4, 8), 12),
        ((128, 64), (8, 8), (4, 8), 4),
        ((64, 64), (8, 8), (4, 8), 6),
    )
)

SHALLOW = GemmKernel(
    name="shallow",
    idea="short k: all of it in shared memory, every copy on its way before the first multiply-add",
    function="shallow",
    file="shallow.cuh",
    check=_check,
    launch=_launch,
    variants=_variants,
)
