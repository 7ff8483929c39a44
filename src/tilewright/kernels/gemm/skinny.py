"""The skinny kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm import narrow
from tilewright.kernels.gemm.kernel import GemmKernel, Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import FLOAT_BYTES, MAX_SHARED_BYTES, Tile
from tilewright.launch import Launch

# Where the small side is longer, other kernels read the larger operand less often.
MOST_ROWS = 128
# Rows of a thread: with 4 columns each, 16 leave registers for 12 warps an SM.
_MOST_TM = 16
# Too short to be cut into parts: blocks of fewer rows fill the SMs as well.
_SHORT = 512
# (lanes along the long side, columns of a thread, threads). With neighbours along it in memory, 64
# bytes or more side by side; with neighbours along k, as many along k.
_ALONG = ((4, 4, 128), (8, 4, 128), (8, 4, 256), (8, 8, 128), (32, 4, 128))
_NARROW = 40  # columns that a few lanes have exactly, whatever their number
_ACROSS = ((4, 4, 128), (4, 4, 256), (4, 8, 128), (8, 4, 128))


def _check(operation: Operation, variant: Variant) -> None:
    narrow.check_narrow(operation, variant)
    tile = variant.tile
    if (used := _shared_bytes(tile)) > MAX_SHARED_BYTES:
        raise TileError(
            f"{tile}: the {used} bytes of shared memory in which its warps add their sums are more "
            f"than {MAX_SHARED_BYTES}: make bm, bn or kparts smaller"
        )


def _shared_bytes(tile: Tile) -> int:
    rows = tile.bm if narrow.by_rows(tile) else tile.bn
    return FLOAT_BYTES * tile.stages * tile.bk * rows + narrow.sums_bytes(tile)


def _launch(operation: Operation, variant: Variant) -> Launch:
    return narrow.launch(operation, variant, _shared_bytes(variant.tile))


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    o = operation
    few, many = sorted((o.m, o.n))
    if not 1 < few <= MOST_ROWS:
        return
    least = -(-few // _MOST_TM)
    heights = {-(-few // least)}
    if o.k <= _SHORT:
        heights.add(-(-few // (least * 4)))
    widths = _ALONG if narrow.along(o) else _ACROSS
    if many <= _NARROW:
        widths = (*widths, (4, -(-many // 4), 128), (8, -(-many // 8), 128))
    for tm, (side, tn, threads) in product(sorted(heights, reverse=True), widths):
        if side * tn >= 2 * max(many, 4):
            continue
        steps = max(1, -(-o.k * side // (narrow.RUN * threads)))
        stages = min(steps, 2 if tn > 4 or tm > 8 else 3)
        tile = narrow.narrow_tile(
            o, few=tm, each=tn, side=side, threads=threads, stages=stages,
            registers=tm * tn + narrow.RUN * tn * stages + (44 if narrow.wide(o) else 68),
        )  # fmt: skip
        if tile is not None and _shared_bytes(tile) <= MAX_SHARED_BYTES:
            yield from narrow.with_splits("skinny", o, tile, gpu, _shared_bytes(tile))


SKINNY = GemmKernel(
    name="skinny",
    idea="few rows or columns: the larger operand streams past all SMs once",
    function="skinny",
    file="skinny.cuh",
    check=_check,
    launch=_launch,
    workspace=narrow.workspace,
    variants=_variants,
    most_splits=narrow.MOST_SPLITS,
    waves=narrow.waves,
)
