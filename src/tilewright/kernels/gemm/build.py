"""A production kernel compiled for an operation."""

from __future__ import annotations

from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.settings import read_settings
from tilewright.toolchain import Artifact, compile_cuda
from tilewright.toolchain.schedule import Compiled, compile_scheduled


def compile_variant(operation: Operation, variant: Variant, arch: str) -> Artifact:
    """Return a variant compiled for an operation: the same code for all that are read alike.

    Raises:
        TileError: the kernel cannot run so.
        CompileError: it does not compile for the architecture.
    """
    kernel = gemm_kernel(variant.kernel)
    expression = kernel.expression(operation, variant)
    return compile_cuda(kernel.source, expression, arch=arch, include_dirs=kernel.include_dirs)


def compile_for_gpu(operation: Operation, variant: Variant, arch: str) -> Compiled:
    """Return a variant as a GPU is to run it: its main loop scheduled anew, if proved right.

    Raises:
        TileError: the kernel cannot run so.
        CompileError: it does not compile for the architecture.
    """
    kernel = gemm_kernel(variant.kernel)
    if not (kernel.scheduled and read_settings().schedule):
        return Compiled(artifact=compile_variant(operation, variant, arch), refused="")
    expression = kernel.expression(operation, variant)
    return compile_scheduled(kernel.source, expression, arch=arch, include_dirs=kernel.include_dirs)
