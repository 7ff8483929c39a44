"""The tiny kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import GemmKernel, Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import (
    FLOAT_BYTES,
    MAX_SHARED_BYTES,
    VECTOR_FLOATS,
    Tile,
    TileUse,
    check,
)
from tilewright.launch import MAX_BLOCK, Launch

_USE = TileUse(reads=frozenset({"tm", "tn"}))
# Of a thread whose registers hold its sums twice, and so sums of few products each (tiny.cuh).
_FEW_OUTPUTS = 4
_LONGEST = 128  # of k, for other threads


def _check(operation: Operation, variant: Variant) -> None:
    tile, o = variant.tile, operation
    check(tile, _USE, "tiny")
    if variant.splits != 1:
        raise TileError(f"splits = {variant.splits}: tiny sums all of k in one block: leave it 1")
    across, down = _threads(o, tile)
    if across * down > tile.threads:
        raise TileError(
            f"{tile} has {tile.threads} threads, and a product of {o.m} x {o.n} needs {down} x "
            f"{across}: make bm or bn larger"
        )
    if not o.k:
        raise TileError("k = 0: tiny stages A and B, which are empty: take skinny")
    if _shared_bytes(o, 1) > MAX_SHARED_BYTES:
        raise TileError(
            f"a product of {o.m} x {o.n} x {o.k} needs {_shared_bytes(o, 1)} bytes of shared "
            f"memory, more than {MAX_SHARED_BYTES}: take skinny or tiled"
        )


def _threads(operation: Operation, tile: Tile) -> tuple[int, int]:
    """Return the threads of a product side by side and one below the other."""
    return -(-operation.n // tile.tn), -(-operation.m // tile.tm)


def _shared_bytes(operation: Operation, products: int) -> int:
    o, access = operation, operation.access
    along_a = _pitch_along_k(o.k, access.a_vector) if access.a_along_k else o.k
    along_b = o.k if access.b_along_n else _pitch_along_k(o.k, access.b_vector)
    floats = (-(-products * size // 4) * 4 for size in (o.m * along_a, along_b * o.n))
    return FLOAT_BYTES * sum(floats)


def _pitch_along_k(k: int, vector: int) -> int:
    """Return the floats from one line along k to the next: quads, if it has any, an odd number."""
    return (k // VECTOR_FLOATS | 1) * VECTOR_FLOATS if vector == VECTOR_FLOATS else k


def _products(operation: Operation, tile: Tile) -> int:
    """Return how many products a block takes: as many as its threads and shared memory allow.

    A multiple of 4 where it is more, so that each block's slab of a packed batch begins aligned.
    """
    across, down = _threads(operation, tile)
    most = min(
        tile.threads // (across * down),
        MAX_BLOCK[2],
        operation.batch,
        MAX_SHARED_BYTES // _shared_bytes(operation, 1),
    )
    return most - most % 4 if most > 4 else most


def _launch(operation: Operation, variant: Variant) -> Launch:
    products = _products(operation, variant.tile)
    return Launch(
        grid=(-(-operation.batch // products), 1, 1),
        block=(*_threads(operation, variant.tile), products),
        shared_bytes=_shared_bytes(operation, products),
    )


def _most_steps(operation: Operation, tile: Tile, gpu: Gpu) -> float:
    """Return how much of k a thread may add up."""
    return math.inf if tile.tm * tile.tn <= _FEW_OUTPUTS else _LONGEST


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    if operation.batch * operation.m * operation.n * operation.k == 0 or operation.batch == 1:
        return
    launches = set()
    for tile in TILES:
        if tile.tm > operation.m or tile.tn > operation.n:
            continue
        variant = Variant(kernel="tiny", tile=tile)
        if not (TINY.can_run(operation, variant) and TINY.accurate(operation, variant, gpu)):
            continue
        launch = _launch(operation, variant)
        if launch.shared_bytes > gpu.limits.shared_bytes_per_block_max:
            continue
        if (launch.block, tile.tm, tile.tn) not in launches:
            launches.add((launch.block, tile.tm, tile.tn))
            yield variant


# 64 to 512 threads, with 1 to 32 outputs each.
TILES: tuple[Tile, ...] = tuple(
    Tile(bm=rows * tm, bn=cols * tn, tm=tm, tn=tn)
    for tm, tn in ((1, 1), (1, 2), (2, 2), (4, 2), (4, 4), (8, 4))
    for rows, cols in ((8, 8), (8, 16), (16, 16), (16, 32))
)

TINY = GemmKernel(
    name="tiny",
    idea="many small products: several a block, each whole in shared memory",
    function="tiny",
    file="tiny.cuh",
    check=_check,
    launch=_launch,
    variants=_variants,
    most_steps=_most_steps,
)
