"""Whatever a kernel takes for an address, it never touches what is not its own."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.emulator import run
from tilewright.errors import OutOfBoundsError
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

ACCESSES = """
__global__ void load(const float* p, long long step, float* out) {
  out[threadIdx.x] = *(const float*)((const char*)p + threadIdx.x * step);
}
__global__ void store(const float* p, long long step, float* out) {
  *(float*)((char*)p + threadIdx.x * step) = 1.0f;
}
__global__ void vector(const float* p, long long step, float* out) {
  float4* q = (float4*)((char*)p + threadIdx.x * step);
  const float4 v = *q;
  q[threadIdx.x & 1] = v;
}
__global__ void uniform(const float* p, long long step, float* out) {
  out[threadIdx.x] = p[step] + p[step + 1] + p[-step];
}
__global__ void atomic(float* p, long long step, float* out) {
  out[threadIdx.x] = atomicAdd((float*)((char*)p + threadIdx.x * step), 1.0f);
}
__global__ void shared(const float* p, long long step, float* out) {
  __shared__ float tile[64];
  float* q = (float*)((char*)tile + (unsigned)(unsigned long long)p + threadIdx.x * (unsigned)step);
  *q = 1.0f;
  out[threadIdx.x] = *q;
}
__global__ void local(const float* p, long long step, float* out) {
  float mine[16];
  for (int i = 0; i < 16; ++i) mine[i] = out[i];
  mine[(long long)p] = 1.0f;
  out[threadIdx.x] = mine[threadIdx.x * step];
}
"""
CORNERS = [
    0,
    2**64 - 4,
    2**64 - 1,
    2**63,
    *(n << 40 for n in range(8)),
    *(1 << n for n in range(64)),
]
near_corners = st.builds(
    lambda corner, by: (corner + by) % 2**64, st.sampled_from(CORNERS), st.integers(-300, 300)
)
addresses = near_corners | st.integers(0, 2**64 - 1)
steps = st.integers(-64, 64) | addresses.map(lambda a: a - 2**63)


@pytest.mark.parametrize(
    "kernel", ["load", "store", "vector", "uniform", "atomic", "shared", "local"]
)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(address=addresses, step=steps)
@example(address=0, step=-4)  # lanes at both ends of the address space
@example(address=2**64 - 4, step=4)
def test_garbage_addresses_do_no_harm(kernel: str, address: int, step: int) -> None:
    whole = np.full(96, 3.0, np.float32)
    out = whole[32:64]
    artifact = compile_cuda(ACCESSES, kernel)
    with suppress(OutOfBoundsError):
        run(artifact, Launch(grid=1, block=32), [np.uint64(address), np.int64(step), out])
    assert (whole[:32] == 3).all()
    assert (whole[64:] == 3).all()
