"""Blocks of a launch that count alike: one of each kind tells the counts of all.

What a block of a ladder kernel executes depends on how much of its tile lies inside C, and what
its accesses cost on where its rows begin within a 32-byte sector. Blocks that agree in both are of
one class: their counts are equal, which is checked on a second block of every class that has one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tilewright.kernels import Rung, Tile
from tilewright.problem import Problem

SECTOR_FLOATS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockClass:
    """`count` blocks that count alike; `first` and `last` are two of them (the same, if alone)."""

    count: int
    first: int
    last: int


def block_classes(rung: Rung, problem: Problem, tile: Tile) -> list[BlockClass]:
    """Sort the blocks of a launch into classes, the largest first.

    Operands are taken to begin at a multiple of 32 bytes.
    """
    columns, tile_rows, layers = rung.launch(problem, tile).grid
    by_row = [_row_key(problem, tile, i) for i in range(tile_rows * layers)]
    by_column = [_column_key(problem, tile, j) for j in range(columns)]
    rows, cols = Counter(by_row), Counter(by_column)
    classes = []
    for row, row_count in rows.items():
        for col, col_count in cols.items():
            first = by_row.index(row) * columns + by_column.index(col)
            last_row = len(by_row) - 1 - by_row[::-1].index(row)
            last_col = columns - 1 - by_column[::-1].index(col)
            classes.append(
                BlockClass(
                    count=row_count * col_count, first=first, last=last_row * columns + last_col
                )
            )
    return sorted(classes, key=lambda c: -c.count)


def _row_key(problem: Problem, tile: Tile, number: int) -> tuple[int, ...]:
    start = number * tile.bm
    inside = min(max(problem.m - start, 0), tile.bm)
    if not inside:
        return (0,)
    return inside, start * problem.lda % SECTOR_FLOATS, start * problem.ldc % SECTOR_FLOATS


def _column_key(problem: Problem, tile: Tile, number: int) -> tuple[int, ...]:
    start = number * tile.bn
    return min(problem.n - start, tile.bn), start % SECTOR_FLOATS
