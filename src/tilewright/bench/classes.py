"""Blocks of a launch that count alike: one of each kind tells the counts of all.

What a block of a ladder kernel executes depends on how much of its tile lies inside C, and what
its accesses cost on where its rows begin within a 32-byte sector. Blocks that agree in both are of
one class: their counts are equal, which is checked on a second block of every class that has one.

Blocks that stay and share the tiles (10_persistent) are all different, but most of what they do is
what a block a tile would. So such a launch is counted as one of a block a tile, in classes, plus
what sharing adds: the sums of cut tiles to memory and back, and the start of each part. Of that
every access is counted, exactly, and no other instruction.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tilewright.counters import Counters
from tilewright.kernels import Rung, Tile
from tilewright.kernels.sharing import exchanges, number_of, sharing, tile_at
from tilewright.kernels.tiles import VECTOR_FLOATS, WARP_THREADS
from tilewright.problem import Problem

SECTOR_FLOATS = 8
LINE_FLOATS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockClass:
    """`count` blocks that count alike; `first` and `last` are two of them (the same, if alone)."""

    count: int
    first: int
    last: int


def block_classes(rung: Rung, problem: Problem, tile: Tile) -> list[BlockClass]:
    """Sort the blocks of `rung.launch_of_tiles` into classes, the largest first.

    Operands are taken to begin at a multiple of 32 bytes, of 128 where cp.async copies them.
    """
    tile_rows, columns = _tiles(rung, problem, tile)
    by_row = [_row_key(problem, tile, i) for i in range(tile_rows)]
    by_column = [_column_key(problem, tile, j) for j in range(columns)]
    rows, cols = Counter(by_row), Counter(by_column)
    classes = []
    for row, row_count in rows.items():
        for col, col_count in cols.items():
            last_row = tile_rows - 1 - by_row[::-1].index(row)
            last_col = columns - 1 - by_column[::-1].index(col)
            first = block_of(rung, problem, tile, by_row.index(row), by_column.index(col))
            last = block_of(rung, problem, tile, last_row, last_col)
            classes.append(BlockClass(count=row_count * col_count, first=first, last=last))
    return sorted(classes, key=lambda c: -c.count)


def block_of(rung: Rung, problem: Problem, tile: Tile, row: int, column: int) -> int:
    """Return which block of `rung.launch_of_tiles` computes the tile at a row and a column."""
    rows, columns = _tiles(rung, problem, tile)
    return number_of(row, column, rows, columns) if tile.workers else row * columns + column


def place_of(rung: Rung, problem: Problem, tile: Tile, block: int) -> tuple[int, int]:
    """Return the row and the column of the tile that a block of `rung.launch_of_tiles` computes."""
    rows, columns = _tiles(rung, problem, tile)
    return tile_at(block, rows, columns) if tile.workers else divmod(block, columns)


def _tiles(rung: Rung, problem: Problem, tile: Tile) -> tuple[int, int]:
    """Return how many rows and columns of tiles a launch has, those past C's end too."""
    if tile.workers:
        return -(-problem.m // tile.bm), -(-problem.n // tile.bn)
    columns, tile_rows, layers = rung.launch(problem, tile).grid
    return tile_rows * layers, columns


def sharing_counters(problem: Problem, tile: Tile) -> Counters:
    """Return what blocks that share tiles count beyond a launch of a block a tile.

    Each part of a cut tile stores its sums and arrives; the last of a group reads those of all, and
    sets the group's count back. Each part but the first reads fragments of one k more.
    """
    if not tile.workers:
        return Counters()
    parts = [count for count in sharing(problem, tile).parts() if count > 1]
    groups = [members for count in parts for members in exchanges(count)]
    every, warps = sum(groups), tile.threads // WARP_THREADS
    moved = every * tile.bm * tile.bn // (WARP_THREADS * VECTOR_FLOATS)
    sectors = moved * WARP_THREADS * VECTOR_FLOATS // SECTOR_FLOATS
    cols = tile.wniter * tile.tn
    rows = tile.wm * tile.wn // WARP_THREADS // cols
    reads = warps * (rows + cols) // VECTOR_FLOATS * (sum(parts) - len(parts))
    return Counters(
        global_load_requests=moved,
        global_load_sectors=sectors,
        global_store_requests=moved + len(groups),
        global_store_sectors=sectors + len(groups),
        shared_load_requests=reads + warps * every,
        shared_load_wavefronts=2 * reads + warps * every,  # lanes in Z order: two for a read
        shared_store_requests=every,
        shared_store_wavefronts=every,
    )


def _row_key(problem: Problem, tile: Tile, number: int) -> tuple[int, ...]:
    start = number * tile.bm
    inside = min(max(problem.m - start, 0), tile.bm)
    if not inside:
        return (0,)
    return inside, start * problem.lda % SECTOR_FLOATS, start * problem.ldc % SECTOR_FLOATS


def _column_key(problem: Problem, tile: Tile, number: int) -> tuple[int, ...]:
    start = number * tile.bn
    return min(problem.n - start, tile.bn), start % (LINE_FLOATS if tile.stages else SECTOR_FLOATS)
