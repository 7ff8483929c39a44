"""A production kernel for tests of what stands around the kernels: slow, and plainly right."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import tilewright.tuning.space  # noqa: F401 - modules that keep the kernels see the real ones
from tilewright.kernels.gemm import registry
from tilewright.kernels.gemm.kernel import GemmKernel, Variant, Workspace
from tilewright.kernels.tiles import Tile
from tilewright.launch import Launch

TILE = Tile(bm=8, bn=32)
VARIANT = Variant(kernel="plain", tile=TILE)


def _launch(operation, variant):
    grid = (-(-operation.n // TILE.bn), -(-operation.m // TILE.bm), min(operation.batch, 4))
    return Launch(grid=grid, block=(variant.tile.threads, 1, 1))


PLAIN = GemmKernel(
    name="plain",
    idea="a thread for each element",
    function="plain",
    file=str(Path(__file__).with_name("plain_gemm.cuh")),  # an absolute path replaces the folder
    check=lambda operation, variant: None,
    launch=_launch,
    workspace=lambda operation, variant: Workspace(arrivals_bytes=4),
    variants=lambda operation, gpu: iter([VARIANT]),
)


@contextmanager
def registered(kernel: GemmKernel = PLAIN) -> Iterator[Variant]:
    """Make `kernel` the only production kernel."""
    before = registry.GEMM_KERNELS
    registry.GEMM_KERNELS = {kernel.name: kernel}
    try:
        yield replace(VARIANT, kernel=kernel.name)
    finally:
        registry.GEMM_KERNELS = before
