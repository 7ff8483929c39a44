"""The tiles that proofs are run for: every one registered or tuned, and other legal ones."""

from tilewright.kernels import HISTORY, RUNGS, Tile
from tilewright.kernels.tuned import tuned_tiles

# (rung, tile), each once.
TILES = tuple(
    dict.fromkeys(
        [
            *((each.name, each.default) for each in (*RUNGS.values(), *HISTORY.values())),
            *((choice.rung, choice.tile) for choice in tuned_tiles().values()),
        ]
    )
)

# Sides that are no powers of two, rows shorter than a warp, several sub-tiles of a warp both ways.
OTHER_TILES = (
    ("01_naive", Tile(bm=16, bn=48)),
    ("02_coalesced", Tile(bm=48, bn=16)),
    ("03_shared_tile", Tile(bm=32, bn=16, bk=32)),
    ("04_register_1d", Tile(bm=96, bn=32, bk=12, tm=8)),
    ("05_register_2d", Tile(bm=64, bn=32, bk=16, tm=4, tn=2, unroll=4)),
    ("06_vectorized", Tile(bm=64, bn=64, bk=16, tm=4, tn=4)),
    ("06_vectorized", Tile(bm=96, bn=96, bk=24, tm=12, tn=4, pad=8)),
    (
        "08_warptiled",
        Tile(bm=128, bn=64, bk=8, tm=4, tn=4, pad=4, wm=64, wn=32, wniter=2),
    ),
    ("08_warptiled", Tile(bm=192, bn=48, bk=24, tm=4, tn=4, pad=4, wm=64, wn=48, wniter=3)),
    ("09_pipelined", Tile(bm=64, bn=64, bk=8, tm=4, tn=4, pad=8, wm=32, wn=32, stages=2)),
    ("09_pipelined", Tile(bm=96, bn=96, bk=8, tm=8, tn=4, pad=8, wm=96, wn=32, stages=3)),
    (
        "10_persistent",
        Tile(bm=64, bn=64, bk=8, tm=4, tn=4, pad=8, wm=64, wn=16, stages=2, workers=3),
    ),
    ("both_shared_2008", Tile(bm=16, bn=32, bk=16, tm=4)),
    ("volkov_2008", Tile(bm=24, bn=32, bk=16, tm=6, pad=2)),
    ("volkov_2008", Tile(bm=32, bn=32, bk=8, tm=16)),
)
