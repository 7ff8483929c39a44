"""The tiled kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.candidates import (
    LEAST_STEPS,
    MOST_SPLITS,
    SM_REGISTERS,
    registers_in_rows,
    suits,
    tiled_tiles,
    useful_splits,
    useful_workers,
    waves_of,
)
from tilewright.kernels.gemm.kernel import (
    GemmKernel,
    Variant,
    Workspace,
    longest,
    sharing,
    tiles_of,
)
from tilewright.kernels.gemm.operation import Access, Operation
from tilewright.kernels.tiles import (
    FLOAT_BYTES,
    VECTOR_FLOATS,
    WARP_THREADS,
    Tile,
    TileUse,
    check,
    copies_fit,
)
from tilewright.launch import Launch

STRETCH = 528  # of k, whose sums are added in shared memory (lib/stretches.cuh)
# Where one operand alone lies along k, threads with so many outputs gain nothing from rows: nn at
# 4096³ on an H200, 54.3 TFLOP/s transposed and 53.6 in rows (2026-11-30).
_MANY_OUTPUTS = 128
_MOST_ROWS = 8  # of a thread, four registers each
_BESIDE_PARTS = 4  # words behind a tile's parts of k (lib/shared_sums.cuh)
_USE = TileUse(
    reads=frozenset({"bk", "tm", "tn", "wm", "wn", "stages"}), vector=True, whole_rows=False
)


def _check_tile(tile: Tile) -> None:
    check(tile, _USE, "tiled")
    if tile.stages < 2:
        raise TileError(f"{tile}: tiled needs 2 stages or more, one to fill while one is read")


@functools.lru_cache(maxsize=4096)  # whoever chooses a tile for each product asks each time
def _check_read(tile: Tile, access: Access) -> None:
    _check_tile(tile)
    access = _read(tile, access)
    panels = (
        ("bm", tile.bm, access.a_along_k, access.a_vector),
        ("bn", tile.bn, not access.b_along_n, access.b_vector),
    )
    for name, width, along_k, vector in panels:
        lanes = _lanes_k(tile, access, width)
        in_rows = along_k and vector == VECTOR_FLOATS  # which is done only where they fit
        if not in_rows and not copies_fit(
            tile, width, along_k=along_k, vector=vector, lanes_k=lanes
        ):
            raise TileError(
                f"{tile}: its {tile.threads} threads cannot copy {name} = {width} by bk = "
                f"{tile.bk} with as many copies each: change {name}, bk, or the warps' tiles"
            )


def _check(operation: Operation, variant: Variant) -> None:
    tile = variant.tile
    _check_read(tile, operation.access)
    depth = -(-operation.k // tile.bk)
    if not 1 <= variant.splits <= max(depth, 1):
        raise TileError(
            f"splits = {variant.splits}: k = {operation.k} has {depth} tiles of bk = {tile.bk}, "
            f"so 1 to {max(depth, 1)} parts"
        )
    if variant.workers:
        if variant.splits > 1:
            raise TileError("splits and workers both cut k: leave one of them out")
        steps = sharing(operation, variant).shared * depth
        if not variant.workers <= steps < 2**31:
            raise TileError(
                f"workers = {variant.workers}: the tiles to share have {steps} steps of bk = "
                f"{tile.bk}; each worker needs one, and 2^31 are too many to count"
            )


def _shared_bytes(operation: Operation, tile: Tile) -> int:
    """Return what `TileCopy` and `RowCopy` lay out: an operand that lies along k is padded."""
    access = _access(operation, tile)
    panels = (
        (tile.bm, access.a_along_k, access.a_vector),
        (tile.bn, not access.b_along_n, access.b_vector),
    )
    pads = (
        width
        if vector == VECTOR_FLOATS
        else tile.bk * WARP_THREADS // _lanes_k(tile, access, width)
        for width, along_k, vector in panels
        if along_k
    )
    return tile.shared_bytes + FLOAT_BYTES * tile.stages * sum(pads)


def _lanes_k(tile: Tile, access: Access, width: int) -> int:
    """Return how many lanes copy neighbours along k: the fewest that share out all of `width`."""
    lanes = 4 if tile.tm * tile.tn < 128 or _both_along_k(access) else 8
    while width % (tile.threads // lanes) and 2 * lanes <= tile.threads:
        lanes *= 2
    return lanes


def _both_along_k(access: Access) -> bool:
    return access.a_along_k and not access.b_along_n


def _both_transposed(access: Access) -> bool:
    """Return whether both operands are read along k, by single floats."""
    return _both_along_k(access) and access.a_vector == access.b_vector == 1


def _sums_bytes(operation: Operation, variant: Variant, gpu: Gpu) -> int:
    """Return what the sums of stretches take, where a block has more than one of them."""
    tile = variant.tile
    if longest(operation, variant) * tile.bk <= STRETCH or not _keeps_sums(operation, tile, gpu):
        return 0
    return FLOAT_BYTES * tile.bm * tile.bn


def _keeps_sums(operation: Operation, tile: Tile, gpu: Gpu) -> bool:
    """Return whether the kernel cuts long sums, as tiled.cuh has it."""
    blocks, limits = max(tile.min_blocks, 1), gpu.limits
    used = FLOAT_BYTES * tile.bm * tile.bn + _shared_bytes(operation, tile)
    return (
        _cuts_sums(gpu)
        and blocks * (used + limits.shared_bytes_reserved) <= limits.shared_bytes
        and (blocks == 1 or not _both_transposed(_access(operation, tile)))
    )


def _cuts_sums(gpu: Gpu) -> bool:
    major, _ = gpu.compute_capability
    return 9 <= major < 12


def _access(operation: Operation, tile: Tile) -> Access:
    """Return how a tile reads A and B."""
    return _read(tile, operation.access)


@functools.lru_cache(maxsize=4096)
def _read(tile: Tile, access: Access) -> Access:
    """Return how a tile reads A and B: what lies along k by vectors where it stays in rows.

    Then fragments are quads of k (lib/row_copy.cuh), for which registers suffice once: of two
    operands it is the one of which more is copied. Else what lies along k is read by single floats,
    and transposed on its way.
    """
    a = access.a_along_k and access.a_vector == VECTOR_FLOATS and _fits_in_rows(tile, tile.bm)
    b = not access.b_along_n and access.b_vector == VECTOR_FLOATS and _fits_in_rows(tile, tile.bn)
    a, b = a and tile.tm <= _MOST_ROWS, b and tile.tn <= _MOST_ROWS
    if tile.tm * tile.tn >= _MANY_OUTPUTS and not _both_along_k(access):
        a = b = False
    elif a and b:
        a, b = tile.bm > tile.bn, tile.bm <= tile.bn
    return replace(
        access,
        a_vector=_copied_at_once(tile, tile.bm, access.a_vector, along_k=access.a_along_k, rows=a),
        b_vector=_copied_at_once(
            tile, tile.bn, access.b_vector, along_k=not access.b_along_n, rows=b
        ),
    )


def _copied_at_once(
    tile: Tile, width: int, vector: Literal[1, 4], *, along_k: bool, rows: bool
) -> Literal[1, 4]:
    """Return how many floats a copy has: fewer than neighbours where shares would be uneven."""
    if along_k:
        return vector if rows else 1
    return vector if copies_fit(tile, width, along_k=False, vector=vector) else 1


def _fits_in_rows(tile: Tile, width: int) -> bool:
    """Return whether the block can copy an operand in rows, and has registers for its fragments."""
    span, rest = divmod(VECTOR_FLOATS * tile.threads, tile.bk)
    evenly = rest == 0 and span % VECTOR_FLOATS == 0 and width % span == 0
    most = SM_REGISTERS // (tile.threads * max(tile.min_blocks, 1))
    return evenly and registers_in_rows(tile) <= most


def _launch(operation: Operation, variant: Variant) -> Launch:
    tile = variant.tile
    blocks = tiles_of(operation, tile)
    if variant.workers:
        blocks += variant.workers - sharing(operation, variant).shared
    return Launch(
        grid=(blocks, variant.splits, 1),
        block=(tile.threads, 1, 1),
        shared_bytes=_shared_bytes(operation, tile),
    )


def _workspace(operation: Operation, variant: Variant) -> Workspace:
    tile = variant.tile
    slots, room = tiles_of(operation, tile), variant.splits
    if variant.workers:
        shared = sharing(operation, variant)
        slots, room = shared.shared, shared.room
    if room == 1:
        return Workspace()
    return Workspace(
        partial_bytes=FLOAT_BYTES * slots * (room * tile.bm * tile.bn + _BESIDE_PARTS),
        arrivals_bytes=4 * slots,
    )


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    for whole in _whole(operation, gpu):
        tile = whole.tile
        blocks, steps = tiles_of(operation, tile), -(-operation.k // tile.bk)
        splits = useful_splits(blocks, steps, tile, gpu)
        ways = [replace(whole, splits=s) for s in splits]
        ways += [replace(whole, workers=w) for w in useful_workers(blocks, steps, tile, gpu)]
        for variant in ways:
            if TILED.can_run(operation, variant) and TILED.accurate(operation, variant, gpu):
                yield variant


def _only_cut(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    return (v for v in _whole(operation, gpu) if not TILED.accurate(operation, v, gpu))


def _whole(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    """Yield every tile that can run, with k whole, accurate or not."""
    for tile in TILES:
        variant = Variant(kernel="tiled", tile=tile)
        fits = _shared_bytes(operation, tile) <= gpu.limits.shared_bytes_per_block_max
        if suits(tile, operation.m, operation.n) and fits and TILED.can_run(operation, variant):
            yield variant


def _most_steps(operation: Operation, tile: Tile, gpu: Gpu) -> float:
    """Return how many steps of k a block may add up, for sums as accurate as the GPU has them."""
    if not _cuts_sums(gpu) or _keeps_sums(operation, tile, gpu):
        return math.inf
    return STRETCH // tile.bk


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
    waves=waves_of,
    most_steps=_most_steps,
    only_cut=_only_cut,
    shares=True,
    scheduled=True,
    sums_bytes=_sums_bytes,
)
