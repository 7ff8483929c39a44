"""Kernels of the tiled GEMM, compiled once, and their machine code."""

from functools import cache

from tilewright.kernels.gemm.build import compile_variant
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile
from tilewright.toolchain import Artifact
from tilewright.toolchain.schedule import Scheduled, schedule_main_loop

TILES = {
    "8x8": Tile(bm=128, bn=128, bk=8, tm=8, tn=8, wm=32, wn=64, min_blocks=2, stages=4),
    "8x16": Tile(bm=128, bn=256, bk=8, tm=8, tn=16, wm=32, wn=128, stages=4),
    "16x8": Tile(bm=128, bn=256, bk=8, tm=16, tn=8, wm=64, wn=64, min_blocks=1, stages=4),
    "4x8": Tile(bm=64, bn=128, bk=16, tm=4, tn=8, wm=16, wn=64, stages=3),
    "4x4": Tile(bm=64, bn=64, bk=16, tm=4, tn=4, wm=16, wn=32, min_blocks=2, stages=4),
}


def compiled(name: str, layout: str = "nn") -> Artifact:
    return _compiled(name, layout)


@cache
def _compiled(name: str, layout: str) -> Artifact:
    operation = Operation.plain(1024, 1024, 1024, layout=layout)
    variant = Variant(kernel="tiled", tile=TILES[name], splits=1)
    return compile_variant(operation, variant, "sm_90")


@cache
def scheduled(name: str, layout: str = "nn") -> Scheduled:
    return schedule_main_loop(compiled(name, layout))
