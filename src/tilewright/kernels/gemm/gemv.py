"""The gemv kernel: which tiles it runs with, how it is launched, what is worth measuring."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.gpus import Gpu
from tilewright.kernels.gemm import narrow
from tilewright.kernels.gemm.candidates import SM_REGISTERS
from tilewright.kernels.gemm.kernel import GemmKernel, Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.launch import Launch

# Rows of which a thread can hold its part of A for some steps.
MOST_ROWS = 4
# (lanes along the long side, columns of a thread, threads, steps under way). With neighbours along
# the long side, 64 bytes or more side by side; with neighbours along k, all lanes along k. 8 to 16
# loads of 128 bits under way in each thread, so 64 to 128 KB an SM.
_ALONG = ((4, 4, 256, 4), (4, 4, 512, 4), (8, 4, 256, 4), (8, 4, 512, 2), (32, 4, 256, 4))
_ACROSS = (
    (1, 1, 128, 8), (1, 1, 512, 4), (1, 2, 64, 8), (1, 2, 128, 5), (1, 4, 64, 4), (1, 4, 128, 4),
    (1, 4, 256, 3),
)  # fmt: skip


def _launch(operation: Operation, variant: Variant) -> Launch:
    return narrow.launch(operation, variant, narrow.sums_bytes(variant.tile))


def _variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    o = operation
    few, many = sorted((o.m, o.n))
    if few > MOST_ROWS:
        return
    along = narrow.along(o) and many >= _ALONG[0][0] * _ALONG[0][1]
    for side, each, threads, most in _ALONG if along else _ACROSS:
        if each > many:
            continue
        steps = max(1, -(-o.k * side // (narrow.RUN * threads)))
        stages = min(most, steps)
        while stages > 1 and threads * _registers(few, each, stages) > SM_REGISTERS:
            stages -= 1
        tile = narrow.narrow_tile(
            o, few=few, each=each, side=side, threads=threads, stages=stages,
            registers=_registers(few, each, stages),
        )  # fmt: skip
        if tile is not None:
            yield from narrow.with_splits("gemv", o, tile, gpu, narrow.sums_bytes(tile))


def _registers(rows: int, columns: int, stages: int) -> int:
    """Return about how many registers a thread needs: its sums, what is under way, the rest."""
    return rows * columns + narrow.RUN * stages * (rows + columns) + 36


GEMV = GemmKernel(
    name="gemv",
    idea="very few rows or columns: both operands straight into registers, far ahead",
    function="gemv",
    file="gemv.cuh",
    check=narrow.check_narrow,
    launch=_launch,
    workspace=narrow.workspace,
    variants=_variants,
    most_splits=narrow.MOST_SPLITS,
    waves=narrow.waves,
)
