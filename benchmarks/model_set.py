"""The tiles that the time model is judged by, beside the rungs with their own tiles: 40 of them.

Drawn at random, with a fixed seed, from all legal tiles of each rung's space: no choice of ours.
Some are bad ones, and the model has to see that they are.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

from tilewright.errors import TileError
from tilewright.kernels import RUNGS, Rung, Tile

_SQUARES: Mapping[str, tuple[int, ...]] = {"bm": (16, 32), "bn": (16, 32), "bk": (8, 16, 32)}
_COLUMNS: Mapping[str, tuple[int, ...]] = {
    "bm": (32, 64, 128),
    "bn": (32, 64, 128),
    "bk": (8, 16, 32),
    "tm": (4, 8, 16),
}
_REGISTERS: Mapping[str, tuple[int, ...]] = {
    "bm": (64, 128, 256),
    "bn": (64, 128, 256),
    "bk": (8, 16, 32),
    "tm": (4, 8),
    "tn": (4, 8),
}
_VECTORS: Mapping[str, tuple[int, ...]] = {**_REGISTERS, "pad": (0, 4), "unroll": (0, 1, 4)}
_WARPS: Mapping[str, tuple[int, ...]] = {
    **_REGISTERS,
    "pad": (0, 4),
    "unroll": (1, 2),
    "wm": (32, 64),
    "wn": (32, 64),
    "wniter": (1, 2, 4),
}
SPACES: Mapping[str, tuple[Mapping[str, tuple[int, ...]], int]] = {
    "03_shared_tile": (_SQUARES, 4),
    "04_register_1d": (_COLUMNS, 8),
    "05_register_2d": (_REGISTERS, 8),
    "06_vectorized": (_VECTORS, 10),
    "08_warptiled": (_WARPS, 10),
}
# Outputs a thread at most: more do not fit its registers.
_MOST_OUTPUTS = 128
_SEED = 2026


def legal(rung: Rung, space: Mapping[str, tuple[int, ...]]) -> Iterator[Tile]:
    """Yield the tiles of a space that a kernel can run with."""
    for values in itertools.product(*space.values()):
        try:
            tile = Tile(**dict(zip(space, values, strict=True)))
            rung.check(tile)
        except TileError:
            continue
        if tile.bm * tile.bn <= _MOST_OUTPUTS * tile.threads and tile.threads >= 64:
            yield tile


def model_set() -> list[tuple[str, Tile]]:
    """Return the (rung, tile) pairs, always the same."""
    chosen = []
    for name, (space, count) in SPACES.items():
        rung = RUNGS[name]
        tiles = [t for t in legal(rung, space) if t not in (rung.default, rung.tile_for("H200"))]
        chosen += [(name, t) for t in random.Random(_SEED).sample(tiles, min(count, len(tiles)))]
    return chosen
