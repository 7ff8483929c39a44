"""How blocks that stay share the tiles of C, as lib/work.cuh and lib/splits.cuh have it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.kernels.tiles import Tile
from tilewright.problem import Problem

BAND = 8  # rows of tiles that are taken column after column
FLAT_PARTS = 8  # of a tile that one block adds


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """`tiles` of `depth` steps along k each, for `workers` blocks.

    All but the first `shared` tiles are dealt whole; of those the workers have as many steps each,
    end to end, so that some tiles are cut.
    """

    tiles: int
    depth: int
    workers: int

    @property
    def shared(self) -> int:
        """Tiles that are shared: what does not make whole rounds, and one round more."""
        return self.tiles - (max(self.tiles // self.workers, 1) - 1) * self.workers

    @property
    def room(self) -> int:
        """Parts that a tile can be cut into, at most, as the workspace has room for."""
        return (self.depth - 1) // (self.shared * self.depth // self.workers) + 2

    def parts(self) -> Iterator[int]:
        """Yield of each shared tile into how many parts it is cut."""
        each, longer = divmod(self.shared * self.depth, self.workers)

        def worker(step: int) -> int:
            before = longer * (each + 1)
            return step // (each + 1) if step < before else longer + (step - before) // each

        for tile in range(self.shared):
            yield worker((tile + 1) * self.depth - 1) - worker(tile * self.depth) + 1


def exchanges(parts: int) -> Iterator[int]:
    """Yield the sizes of the groups in which so many parts of a tile are added (lib/splits.cuh).

    Each of a group stores its sums, and the last of it adds all; more than eight parts are in
    groups of about their square root, whose sums are parts again.
    """
    most = parts if parts <= FLAT_PARTS else max(3, math.isqrt(parts - 1) + 1)
    while parts > 1:
        groups = -(-parts // most)
        yield from (min(most, parts - group * most) for group in range(groups))
        parts = groups


def sharing(problem: Problem, tile: Tile) -> Sharing:
    """Return how `tile.workers` blocks share a product, or as many as it has steps, if fewer."""
    tiles = -(-problem.m // tile.bm) * -(-problem.n // tile.bn)
    depth = max(-(-problem.k // tile.bk), 1)  # without k there is one step, of zeros
    return Sharing(tiles=tiles, depth=depth, workers=min(tile.workers, tiles * depth))


def number_of(row: int, column: int, rows: int, columns: int) -> int:
    """Return when a tile is taken, of `rows` x `columns` tiles."""
    first = row // BAND * BAND
    return first * columns + column * min(BAND, rows - first) + row - first


def tile_at(number: int, rows: int, columns: int) -> tuple[int, int]:
    """Return the row and the column of the tile that is taken as the `number`th."""
    first = number // (BAND * columns) * BAND
    column, row = divmod(number - first * columns, min(BAND, rows - first))
    return first + row, column
