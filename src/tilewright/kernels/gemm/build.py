"""A production kernel compiled for an operation."""

from __future__ import annotations

from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.toolchain import compile_cuda
from tilewright.toolchain.artifact import Artifact


def compile_variant(operation: Operation, variant: Variant, arch: str) -> Artifact:
    """Return a variant compiled for an operation: the same code for all that are read alike.

    Raises:
        TileError: the kernel cannot run so.
        CompileError: it does not compile for the architecture.
    """
    kernel = gemm_kernel(variant.kernel)
    expression = kernel.expression(operation, variant)
    return compile_cuda(kernel.source, expression, arch=arch, include_dirs=kernel.include_dirs)
