"""What blocks of one grid do together: counters, flags, fences, and large shared memory."""

import numpy as np
import pytest

import tilewright
from tilewright.emulator import run
from tilewright.emulator.ops.groups import group_loads
from tilewright.errors import LaunchError
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda
from tilewright.toolchain.ptx.cfg import basic_blocks
from tilewright.toolchain.ptx.parser import parse

HEAD = """
__device__ int peek(const int* p) {
  int value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value)
               : "l"(__cvta_generic_to_global(p)) : "memory");
  return value;
}
__device__ void put(int* p, int value) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;"
               :: "l"(__cvta_generic_to_global(p)), "r"(value) : "memory");
}
__device__ void bump(int* p, int value) {
  asm volatile("red.release.gpu.global.add.s32 [%0], %1;"
               :: "l"(__cvta_generic_to_global(p)), "r"(value) : "memory");
}
extern "C" __global__ void k"""

# Split-K of a dot product: the block that arrives last adds the parts up, in their order.
LAST = """(const float* x, float* part, unsigned* count, float* out, int n) {
  __shared__ float sums[64];
  __shared__ bool last;
  const int t = threadIdx.x;
  float sum = 0.0f;
  for (int i = blockIdx.x * 64 + t; i < n; i += gridDim.x * 64) sum += x[i];
  sums[t] = sum;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    __syncthreads();
  }
  if (t == 0) {
    part[blockIdx.x] = sums[0];
    __threadfence();
    last = ARRIVE == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    __threadfence();
    float total = 0.0f;
    for (int b = 0; b < gridDim.x; ++b) total += static_cast<volatile float*>(part)[b];
    *out = total;
    RESET
  }
}"""


@pytest.mark.parametrize(
    ("arrive", "reset"),
    [("atomicAdd(count, 1u)", "*count = 0;"), ("atomicInc(count, gridDim.x - 1)", "")],
)
def test_the_last_block_to_arrive_sums_in_a_fixed_order(arrive: str, reset: str) -> None:
    x = np.random.default_rng(3).standard_normal(40_000).astype(np.float32)
    code = HEAD + LAST.replace("ARRIVE", arrive).replace("RESET", reset)
    artifact = compile_cuda(code, "k", arch="sm_90")
    found = set()
    for workers in (1, 2, 4, 4):
        part, out = np.full(200, np.nan, np.float32), np.zeros(1, np.float32)
        count = np.zeros(1, np.uint32)
        args = [x, part, count, out, np.int32(x.size)]
        run(artifact, Launch(grid=200, block=64), args, workers=workers)
        expected = np.float32(0.0)
        for each in part:
            expected = np.float32(expected + each)
        assert out[0] == expected
        assert count[0] == 0
        found.add(float(out[0]))
    assert len(found) == 1
    exact = x.astype(np.float64)
    assert abs(found.pop() - exact.sum()) <= np.abs(exact).sum() * 210 * 2.0**-24


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    ("wait", "signal"),
    [
        ("while (!peek(flag + b - 1));", "put(flag + b, 1);"),
        ("while (!static_cast<volatile int*>(flag)[b - 1]);", "bump(flag + b, 1);"),
        ("while (!atomicAdd(flag + b - 1, 0)) __nanosleep(20);", "atomicExch(flag + b, 1);"),
    ],
)
def test_a_block_may_wait_for_the_one_before(wait: str, signal: str, workers: int) -> None:
    code = f"""{HEAD}(int* flag, int* data) {{
      const int b = blockIdx.x, t = threadIdx.x;
      if (t == 0 && b > 0) {{ {wait} }}
      __syncthreads();
      data[(b + 1) * 64 + t] = data[b * 64 + t] + 1;
      __syncthreads();
      if (t == 0) {{ __threadfence(); {signal} }}
    }}"""
    artifact = compile_cuda(code, "k", arch="sm_90")
    flag, data = np.zeros(150, np.int32), np.zeros((151, 64), np.int32)
    run(artifact, Launch(grid=150, block=64), [flag, data], workers=workers)
    assert np.array_equal(data, np.broadcast_to(np.arange(151)[:, None], data.shape))


@pytest.mark.parametrize(
    ("between", "groups"), [("", 1), ("fence.acq_rel.gpu;", 2), ("membar.gl;", 2)]
)
@pytest.mark.parametrize(
    ("load", "alone"), [("ld", False), ("ld.volatile", True), ("ld.acquire.gpu", True)]
)
def test_loads_that_look_again_are_made_again(
    load: str, alone: bool, between: str, groups: int
) -> None:
    ptx = f""".version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 p) {{
      .reg .b64 %rd<2>;
      .reg .b32 %r<3>;
      ld.param.u64 %rd1, [p];
      {load}.global.b32 %r1, [%rd1];
      {between}
      {load}.global.b32 %r2, [%rd1];
      ret;
    }}"""
    function = parse(ptx).functions["k"]
    (block,) = basic_blocks(function).blocks
    found = group_loads(function.body, block)
    assert len({id(group) for group in found.values()}) == (2 if alone else groups)


LARGE = """extern "C" __global__ void k(const int* x, int* y, int n) {
  extern __shared__ int tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = tile[n - 1 - i];
}"""


@pytest.mark.parametrize(("gpu", "most"), [("H200", 232_448), ("A100", 166_912), ("T4", 65_536)])
def test_dynamic_shared_memory_up_to_what_the_gpu_gives_a_block(gpu: str, most: int) -> None:
    """Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability."""
    n = most // 4
    x, y = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    args = [x, y, np.int32(n)]
    tilewright.emulate(LARGE, "k", grid=1, block=256, args=args, gpu=gpu, shared_bytes=most)
    assert np.array_equal(y, x[::-1])
    with pytest.raises(LaunchError, match=f"{most} bytes of shared memory a block"):
        tilewright.emulate(LARGE, "k", grid=1, block=256, args=args, gpu=gpu, shared_bytes=most + 4)


def test_dynamic_shared_memory_is_counted_once_in_the_occupancy() -> None:
    words = 15_000
    args = [np.zeros(words, np.int32), np.zeros(words, np.int32), np.int32(words)]
    told = tilewright.explain(
        LARGE, "k", grid=1, block=256, args=args, gpu="H200", shared_bytes=4 * words
    )
    assert told.occupancy.active_blocks == 3  # of 60 000 + 1024 bytes, in 233 472
    assert told.occupancy.dynamic_shared_bytes == 4 * words
