"""The skinny kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.candidates import useful_splits
from tilewright.kernels.gemm.kernel import GemmKernel, Variant, Workspace
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import (
    FLOAT_BYTES,
    MAX_SHARED_BYTES,
    WARP_THREADS,
    Tile,
    TileUse,
    check,
)
from tilewright.launch import MAX_GRID, Launch

_USE = TileUse(reads=frozenset({"bk", "tm", "tn", "stages", "kparts"}), whole_rows=False)
_RUN = 4  # of k that a thread takes a step

# Where the small side is longer, other kernels read the larger operand less often.
MOST_ROWS = 128
# Rows of a thread: with 4 columns each, 16 leave registers for 16 warps an SM.
_MOST_TM = 16
_MOST_OUTPUTS = 128  # of a thread
_MOST_SPLITS = 128


def _check(operation: Operation, variant: Variant) -> None:
    tile, o = variant.tile, operation
    check(tile, _USE, "skinny")
    if tile.tm != tile.bm and tile.tn != tile.bn:
        raise TileError(
            f"{tile}: a thread of skinny has all rows of its block (tm = bm) or all columns "
            "(tn = bn): make one of them so"
        )
    if WARP_THREADS % _lanes(tile):
        raise TileError(
            f"{tile}: {_lanes(tile)} threads side by side do not divide the {WARP_THREADS} lanes "
            "of a warp: change tm or tn"
        )
    if tile.bk != _RUN * tile.kparts:
        raise TileError(
            f"{tile}: each of the kparts = {tile.kparts} threads takes {_RUN} of k a step: give "
            f"bk = {_RUN * tile.kparts}"
        )
    if tile.stages < 2:
        raise TileError(f"{tile}: skinny needs 2 stages or more, one to fill while one is read")
    if (used := _shared_bytes(tile)) > MAX_SHARED_BYTES:
        raise TileError(
            f"{tile}: the {used} bytes of shared memory in which its warps add their sums are more "
            f"than {MAX_SHARED_BYTES}: make bm, bn or kparts smaller"
        )
    steps = max(1, -(-o.k // tile.bk))
    if not 1 <= variant.splits <= steps:
        raise TileError(
            f"splits = {variant.splits}: k = {o.k} has {steps} steps of bk = {tile.bk}, so 1 to "
            f"{steps} parts"
        )
    if (reach := _reach(o, tile)) >= 2**31:
        raise TileError(
            f"{tile}: a step's elements of A or B lie up to {reach} apart, and skinny counts them "
            "in 32 bits: take tiled"
        )
    grid = _grid(o, variant)
    if any(size > most for size, most in zip(grid, MAX_GRID, strict=True)):
        raise TileError(f"{tile}: {grid} blocks are more than a grid of {MAX_GRID}: take tiled")


def _reach(operation: Operation, tile: Tile) -> int:
    """Return the largest distance between two elements of a step, in elements."""
    a, b = operation.a, operation.b
    return max(
        tile.bm * abs(a.row) + tile.bk * abs(a.col), tile.bk * abs(b.row) + tile.bn * abs(b.col)
    )


def _by_rows(tile: Tile) -> bool:
    """Whether a thread has all rows of its block (else: all columns)."""
    return tile.tm == tile.bm


def _lanes(tile: Tile) -> int:
    """Return the lanes of a warp that lie along the long side."""
    return tile.bn // tile.tn if _by_rows(tile) else tile.bm // tile.tm


def _shared_bytes(tile: Tile) -> int:
    return max(tile.shared_bytes, FLOAT_BYTES * tile.threads // WARP_THREADS * tile.bm * tile.bn)


def _grid(operation: Operation, variant: Variant) -> tuple[int, int, int]:
    tile = variant.tile
    rows, cols = -(-operation.m // tile.bm), -(-operation.n // tile.bn)
    short, long = (rows, cols) if _by_rows(tile) else (cols, rows)
    return long * operation.batch, short, variant.splits


def _launch(operation: Operation, variant: Variant) -> Launch:
    tile = variant.tile
    return Launch(
        grid=_grid(operation, variant),
        block=(tile.threads, 1, 1),
        shared_bytes=_shared_bytes(tile),
    )


def _workspace(operation: Operation, variant: Variant) -> Workspace:
    if variant.splits == 1:
        return Workspace()
    tile = variant.tile
    long, short, splits = _grid(operation, variant)
    sums = -(-tile.bm * tile.bn // tile.threads) * tile.threads  # of a block, whole for each thread
    return Workspace(
        partial_bytes=FLOAT_BYTES * long * short * splits * sums, arrivals_bytes=4 * long * short
    )


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    o = operation
    few, many = sorted((o.m, o.n))
    if few > MOST_ROWS:
        return
    by_rows = o.m <= o.n
    # The larger operand is read along its contiguous side by neighbouring lanes.
    along = o.access.b_along_n if by_rows else not o.access.a_along_k
    least = -(-few // _MOST_TM)
    heights = sorted({-(-few // (least * more)) for more in (1, 2, 4, 8)}, reverse=True)
    widths: tuple[tuple[int, int], ...] = _WIDTHS_ALONG if along else _WIDTHS_ACROSS
    if many <= max(lanes * each for lanes, each in widths):
        widths += tuple((lanes, -(-many // lanes)) for lanes in (1, 2, 4, 8))
    for tm, (lanes, tn), threads in product(heights, dict.fromkeys(widths), _THREADS):
        if tm * tn > _MOST_OUTPUTS or lanes * tn >= 2 * max(many, 4):
            continue
        small, large = {"bm": tm, "tm": tm}, {"bn": lanes * tn, "tn": tn}
        if not by_rows:
            small, large = {"bn": tm, "tn": tm}, {"bm": lanes * tn, "tm": tn}
        kparts, blocks = threads // lanes, _SM_REGISTERS // (threads * _registers(tm, tn))
        if not blocks:
            continue
        try:
            tile = Tile(
                **small, **large, bk=_RUN * kparts, kparts=kparts, min_blocks=blocks,
                stages=max(2, min(_MOST_STAGES, -(-o.k // (_RUN * kparts)) + 1)),
            )  # fmt: skip
        except TileError:
            continue
        for splits in _splits(o, tile, gpu):
            variant = Variant(kernel="skinny", tile=tile, splits=splits)
            try:
                _check(o, variant)
            except TileError:
                continue
            if _shared_bytes(tile) <= gpu.limits.shared_bytes_per_block_max:
                yield variant


def _registers(tm: int, tn: int) -> int:
    """Return about how many registers a thread needs: its sums, four of k of B, and the rest."""
    return tm * tn + _RUN * tn + 56


def _splits(operation: Operation, tile: Tile, gpu: Gpu) -> list[int]:
    """Return into how many parts to cut k."""
    long, short, _ = _grid(operation, Variant(kernel="skinny", tile=tile))
    steps = max(1, -(-operation.k // tile.bk))
    return useful_splits(long * short, steps, gpu, most=_MOST_SPLITS, least_steps=1)


_SM_REGISTERS = 65536  # of every architecture that is compiled for
_THREADS = (128, 256, 512)
_MOST_STAGES = 4
# (lanes along the long side, columns of a thread): with neighbours along it in memory, 64 bytes or
# more side by side; with neighbours along k, so many lanes along k.
_WIDTHS_ALONG = ((4, 4), (8, 4), (32, 4), (8, 8))
_WIDTHS_ACROSS = ((1, 4), (2, 4), (4, 4), (4, 8))

SKINNY = GemmKernel(
    name="skinny",
    idea="few rows or columns: the larger operand streams past all SMs once",
    function="skinny",
    file="skinny.cuh",
    check=_check,
    launch=_launch,
    workspace=_workspace,
    variants=_variants,
    most_splits=_MOST_SPLITS,
)
