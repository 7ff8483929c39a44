"""The kernels: CUDA C++ templates, their tiles, and the rungs of the ladder."""

from tilewright.kernels.proof import Proof, prove
from tilewright.kernels.registry import HISTORY, PUBLISHED_CUBLAS_GFLOPS, RUNGS, rung
from tilewright.kernels.rungs import Claims, Rung
from tilewright.kernels.tiles import Tile
from tilewright.kernels.tuned import TunedTile

__all__ = [
    "HISTORY",
    "PUBLISHED_CUBLAS_GFLOPS",
    "RUNGS",
    "Claims",
    "Proof",
    "Rung",
    "Tile",
    "TunedTile",
    "prove",
    "rung",
]
