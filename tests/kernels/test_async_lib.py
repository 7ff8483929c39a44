"""lib/async.cuh: copies with zeros behind, on GPUs with cp.async and on those without."""

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.kernels import rung
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

CODE = """#include "lib/async.cuh"
extern "C" __global__ void k(const char* x, const int* valid, char* y) {{
  __shared__ __align__(16) char tile[2][32 * {size}];
  const int t = threadIdx.x;
  copy_async<{size}>(&tile[0][t * {size}], x + t * {size}, valid[t]);
  commit_copies();
  copy_async<{size}>(&tile[1][t * {size}], x + t * {size});
  commit_copies();
  wait_copies<{pending}>();
  for (int i = 0; i < {size}; ++i) {{
    y[t * {size} + i] = tile[0][t * {size} + i];
    y[(t + 32) * {size} + i] = tile[1][t * {size} + i];
  }}
}}"""


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("pending", [0, 1])
def test_copies_arrive_in_their_groups(arch: str, size: int, pending: int) -> None:
    code = CODE.format(size=size, pending=pending)
    artifact = compile_cuda(code, "k", arch=arch, include_dirs=rung("01_naive").include_dirs)
    assert ("cp.async" in artifact.ptx) == (arch != "sm_75")
    x = np.random.default_rng(1).integers(1, 127, 32 * size, dtype=np.int8)
    valid = (np.arange(32) % (size + 1)).astype(np.int32)
    y = np.zeros((2, 32, size), np.int8)
    run(artifact, Launch(grid=1, block=32), [x, valid, y])
    whole = x.reshape(32, size)
    assert np.array_equal(y[0], np.where(np.arange(size) < valid[:, None], whole, 0))
    late = pending > 0 and arch != "sm_75"
    assert np.array_equal(y[1], np.full_like(whole, -1) if late else whole)
