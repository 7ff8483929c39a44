"""The production kernels by name, and every variant that can compute a product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tilewright.errors import UnknownNameError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.gemv import GEMV
from tilewright.kernels.gemm.kernel import GemmKernel, Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.shallow import SHALLOW
from tilewright.kernels.gemm.skinny import SKINNY
from tilewright.kernels.gemm.tiled import TILED
from tilewright.kernels.gemm.tiny import TINY

GEMM_KERNELS: Mapping[str, GemmKernel] = MappingProxyType(
    {k.name: k for k in (TILED, SKINNY, GEMV, TINY, SHALLOW)}
)


def gemm_kernel(name: str) -> GemmKernel:
    """Return a production kernel by its name.

    Raises:
        UnknownNameError: no such kernel; suggests the nearest.
    """
    if name not in GEMM_KERNELS:
        raise UnknownNameError("kernel", name, GEMM_KERNELS)
    return GEMM_KERNELS[name]


def variants(operation: Operation, gpu: Gpu) -> Iterator[Variant]:
    """Yield every variant worth measuring for a product on a GPU, all of them legal.

    Kernels for one thin product at a time are not, where tiny takes many at a time: for 100 000
    products of 1x100 by 100x100, gemv took 2.2 ms and tiny 0.94 ms on an H200.
    """
    many = list(TINY.variants(operation, gpu))
    yield from many
    for kernel in (TILED, SHALLOW) if many else (TILED, SHALLOW, SKINNY, GEMV):
        yield from kernel.variants(operation, gpu)
