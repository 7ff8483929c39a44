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
# Rows of a thread: with 4 columns each, 16 leave registers for 16 warps an SM.
_MOST_TM = 16
_MOST_STAGES = 4
_THREADS = (128, 256)
# (lanes along the long side, columns of a thread): with neighbours along it in memory, 64 bytes or
# more side by side; with neighbours along k, so many lanes along k.
_WIDTHS_ALONG = ((4, 4), (8, 4), (32, 4), (8, 8))
_WIDTHS_ACROSS = ((1, 4), (4, 4), (8, 4), (4, 8))


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
    return max(FLOAT_BYTES * tile.stages * tile.bk * rows, narrow.sums_bytes(tile))


def _launch(operation: Operation, variant: Variant) -> Launch:
    return narrow.launch(operation, variant, _shared_bytes(variant.tile))


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    o = operation
    few, many = sorted((o.m, o.n))
    if few > MOST_ROWS:
        return
    least = -(-few // _MOST_TM)
    heights = sorted({-(-few // (least * more)) for more in (1, 2)}, reverse=True)
    widths = _WIDTHS_ALONG if narrow.along(o) else _WIDTHS_ACROSS
    for tm, (side, tn), threads in product(heights, widths, _THREADS):
        if side * tn >= 2 * max(many, 4):
            continue
        steps = max(1, -(-o.k * side // (narrow.RUN * threads)))
        stages = min(steps, max(1, _MOST_STAGES * 4 // max(tm, tn)))
        tile = narrow.narrow_tile(
            o, few=tm, each=tn, side=side, threads=threads, stages=stages,
            registers=tm * tn + narrow.RUN * tn * stages + 44,
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
)
