"""What a compile with -G leaves behind in NVRTC."""

import pytest

from tilewright.errors import CompileError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.kernels.tiles import Tile
from tilewright.toolchain import compile_cuda
from tilewright.toolchain.apart import run_apart

DOUBLE = "__global__ void k(float* x) { x[threadIdx.x] *= 2; }"


def test_a_compile_for_a_debugger_leaves_later_ones_as_they_were() -> None:
    kernel = gemm_kernel("tiled")
    tile = Tile(bm=32, bn=64, bk=16, tm=4, tn=4, wm=16, wn=32, min_blocks=5, stages=4)
    name = kernel.expression(Operation.plain(64, 64, 64), Variant(kernel="tiled", tile=tile))
    found = []
    for _ in range(2):
        made = compile_cuda(kernel.source, name, include_dirs=kernel.include_dirs, cache=None)
        found.append(made.cubin)
        debugged = compile_cuda(DOUBLE, "k", options=["-G"], cache=None)
        assert ".debug" in debugged.ptx
    assert found[0] == found[1]


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(CompileError, match=r"process of its own failed: .*unexpected keyword"):
        run_apart(nothing=1)
