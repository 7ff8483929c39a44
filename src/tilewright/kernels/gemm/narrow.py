"""What the kernels for few rows or columns share: the host's side of `lib/narrow.cuh`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.candidates import SM_REGISTERS
from tilewright.kernels.gemm.kernel import Variant, Workspace
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import VECTOR_FLOATS, WARP_THREADS, Tile, TileUse, check
from tilewright.launch import MAX_GRID, Launch

_USE = TileUse(reads=frozenset({"bk", "tm", "tn", "stages", "kparts"}), whole_rows=False)
RUN = 4  # of k that a thread takes a step
MOST_SPLITS = 132
_SUM_BYTES = 8  # of a double, which sums are where double is fast (lib/long_sum.cuh)
_SHORT = 8  # steps along k


def check_narrow(operation: Operation, variant: Variant) -> None:
    """Accept a variant that `lib/narrow.cuh` can compute an operation with.

    Raises:
        TileError: with the rule that it breaks, and a remedy.
    """
    tile, o = variant.tile, operation
    check(tile, _USE, variant.kernel)
    if tile.tm != tile.bm and tile.tn != tile.bn:
        raise TileError(
            f"{tile}: a thread of {variant.kernel} has all rows of its block (tm = bm) or all "
            "columns (tn = bn): make one of them so"
        )
    if WARP_THREADS % lanes(tile):
        raise TileError(
            f"{tile}: {lanes(tile)} threads side by side do not divide the {WARP_THREADS} lanes "
            "of a warp: change tm or tn"
        )
    if tile.bk != RUN * tile.kparts:
        raise TileError(
            f"{tile}: each of the kparts = {tile.kparts} threads takes {RUN} of k a step: give "
            f"bk = {RUN * tile.kparts}"
        )
    if tile.stages < 1:
        raise TileError(f"{tile}: {variant.kernel} needs 1 stage or more: the steps under way")
    steps = max(1, -(-o.k // tile.bk))
    if not 1 <= variant.splits <= steps:
        raise TileError(
            f"splits = {variant.splits}: k = {o.k} has {steps} steps of bk = {tile.bk}, so 1 to "
            f"{steps} parts"
        )
    if (reach := _reach(o, tile)) >= 2**31:
        raise TileError(
            f"{tile}: a step's elements of A or B lie up to {reach} apart, and {variant.kernel} "
            "counts them in 32 bits: take tiled"
        )
    size = grid(o, variant)
    if any(blocks > most for blocks, most in zip(size, MAX_GRID, strict=True)):
        raise TileError(f"{tile}: {size} blocks are more than a grid of {MAX_GRID}: take tiled")


def _reach(operation: Operation, tile: Tile) -> int:
    """Return the largest distance between two elements of a step, in elements."""
    a, b = operation.a, operation.b
    return max(
        tile.bm * abs(a.row) + tile.bk * abs(a.col), tile.bk * abs(b.row) + tile.bn * abs(b.col)
    )


def by_rows(tile: Tile) -> bool:
    """Whether a thread has all rows of its block (else: all columns)."""
    return tile.tm == tile.bm


def lanes(tile: Tile) -> int:
    """Return the lanes of a warp that lie along the long side."""
    return tile.bn // tile.tn if by_rows(tile) else tile.bm // tile.tm


def sums_bytes(tile: Tile) -> int:
    """Return the shared memory in which the threads of a block add their sums."""
    return _SUM_BYTES * max(tile.threads // WARP_THREADS * tile.bm * tile.bn, tile.threads)


def grid(operation: Operation, variant: Variant) -> tuple[int, int, int]:
    """Return the blocks along the long side and the batch, along the short side, along k."""
    tile = variant.tile
    rows, cols = -(-operation.m // tile.bm), -(-operation.n // tile.bn)
    short, long = (rows, cols) if by_rows(tile) else (cols, rows)
    return long * operation.batch, short, variant.splits


def launch(operation: Operation, variant: Variant, shared_bytes: int) -> Launch:
    """Return the launch of a variant with so much shared memory."""
    block = (variant.tile.threads, 1, 1)
    return Launch(grid=grid(operation, variant), block=block, shared_bytes=shared_bytes)


def workspace(operation: Operation, variant: Variant) -> Workspace:
    """Return where the parts of k meet."""
    if variant.splits == 1:
        return Workspace()
    tile = variant.tile
    long, short, splits = grid(operation, variant)
    sums = tile.bm * tile.bn
    if 2 * sums > tile.threads:
        sums = -(-sums // tile.threads) * tile.threads  # whole for each thread
    return Workspace(
        partial_bytes=_SUM_BYTES * long * short * splits * sums,
        arrivals_bytes=4 * long * short * splits,
    )


def tall(operation: Operation) -> bool:
    """Whether the columns are the few."""
    return operation.n < operation.m


def along(operation: Operation) -> bool:
    """Whether the larger operand has its neighbours along the long side (else: along k)."""
    access = operation.access
    return not access.a_along_k if tall(operation) else access.b_along_n


def wide(operation: Operation) -> bool:
    """Whether four floats an instruction may be read of both, of the smaller operand along k."""
    access = operation.access
    along_k = not access.b_along_n if tall(operation) else access.a_along_k
    return along_k and access.a_vector == access.b_vector == VECTOR_FLOATS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How a warp reads both operands, as `Shares` of lib/narrow.cuh has it.

    B is the larger one here, A the other. Whether B has its neighbours along the long side, and
    which of both are read by four floats an instruction.
    """

    b_along: bool
    a_quads: bool
    b_quads: bool


def reads(operation: Operation, tile: Tile) -> Reads:
    """Return how the operands are read."""
    x, rows = operation.access, by_rows(tile)
    a_along_k, a_vector = (x.a_along_k, x.a_vector) if rows else (not x.b_along_n, x.b_vector)
    b_along, b_vector = (x.b_along_n, x.b_vector) if rows else (not x.a_along_k, x.a_vector)
    each = tile.tn if rows else tile.tm
    b_columns = b_along and b_vector == VECTOR_FLOATS and each % VECTOR_FLOATS == 0
    b_depth = not b_along and b_vector == VECTOR_FLOATS
    a_depth = a_along_k and a_vector == VECTOR_FLOATS
    return Reads(
        b_along=b_along, a_quads=a_depth and (b_depth or b_along), b_quads=b_columns or b_depth
    )


def narrow_tile(
    operation: Operation,
    *,
    few: int,
    each: int,
    side: int,
    threads: int,
    stages: int,
    registers: int,
) -> Tile | None:
    """Return the tile of `few` rows and `side` lanes with `each` columns, or None if there is none.

    Where the columns are the few it is the other way round. `registers` is about what a thread
    needs.
    """
    kparts = threads // side
    blocks = SM_REGISTERS // (threads * registers)
    if not blocks:
        return None
    try:
        tile = Tile(
            bm=few, tm=few, bn=side * each, tn=each, kparts=kparts, bk=RUN * kparts, stages=stages,
            min_blocks=blocks,
        )  # fmt: skip
        if tall(operation):
            tile = replace(tile, bm=tile.bn, tm=tile.tn, bn=few, tn=few)
    except TileError:
        return None
    return tile


def waves(tile: Tile) -> tuple[int, ...]:
    """Return how many blocks for each SM a split of k aims at: one, or all it has room for."""
    return tuple(sorted({1, tile.min_blocks}))


def with_splits(
    kernel: str, operation: Operation, tile: Tile, gpu: Gpu, shared_bytes: int
) -> Iterator[Variant]:
    """Yield a tile's variants: k in as many parts as give each SM a block, or all it has room for.

    A short k is worth keeping whole as well.
    """
    if shared_bytes > gpu.limits.shared_bytes_per_block_max:
        return
    long, short, _ = grid(operation, Variant(kernel=kernel, tile=tile))
    steps = max(1, -(-operation.k // tile.bk))
    found = {1} if steps <= _SHORT else set()
    for wave in waves(tile):
        splits = max(1, min(MOST_SPLITS, steps, wave * gpu.sm_count // (long * short)))
        found.add(-(-steps // -(-steps // splits)))  # no part is without steps
    for splits in sorted(found):
        variant = Variant(kernel=kernel, tile=tile, splits=splits)
        try:
            check_narrow(operation, variant)
        except TileError:
            continue
        yield variant
