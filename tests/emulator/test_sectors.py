"""Requests and sectors of global memory beside hand derivation.

A request is one warp-wide load or store, a sector 32 bytes. Each has a case of zero, one worked
out, and the worst.
"""

import numpy as np
import pytest
from counting import banks, count, memory

COPY = """extern "C" __global__ void k(const {t}* x, {t}* y, int step, int shift, int n) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i * step + shift] = x[i * step + shift];
}}"""


@pytest.mark.parametrize(
    ("kind", "step", "shift", "expected"),
    [
        ("float", 1, 0, 4),  # 128 bytes in a row
        ("float", 0, 0, 1),  # one address for all
        ("float", 2, 0, 8),  # every second word of 256 bytes
        ("float", 8, 0, 32),  # a sector a lane: the worst of four bytes
        ("float", 1024, 0, 32),
        ("float", 1, 1, 5),  # 128 bytes that straddle five sectors
        ("float", 1, 7, 5),
        ("float", 1, 8, 4),  # a sector further on
        ("char", 1, 0, 1),
        ("char", 1, 1, 2),
        ("short", 1, 0, 2),
        ("double", 1, 0, 8),
        ("double", 1, 1, 9),
        ("float4", 1, 0, 16),
        ("float4", 1, 1, 17),
        ("float4", 2, 0, 32),
    ],
)
def test_sectors_of_a_whole_warp(kind: str, step: int, shift: int, expected: int) -> None:
    x, y = np.zeros(1 << 17, np.uint8), np.zeros(1 << 17, np.uint8)
    args = [x, y, np.int32(step), np.int32(shift), np.int32(32)]
    assert memory(COPY.format(t=kind), args) == (1, expected, 1, expected)


@pytest.mark.parametrize(
    ("n", "requests", "touched"),
    [(0, 0, 0), (1, 1, 1), (8, 1, 1), (9, 1, 2), (20, 1, 3), (32, 1, 4), (33, 2, 5), (96, 3, 12)],
)
def test_idle_lanes_touch_nothing(n: int, requests: int, touched: int) -> None:
    x, y = np.zeros(96, np.float32), np.zeros(96, np.float32)
    args = [x, y, np.int32(1), np.int32(0), np.int32(n)]
    found = memory(COPY.format(t="float"), args, block=96)
    assert found == (requests, touched, requests, touched)


def test_a_misaligned_view_stays_misaligned() -> None:
    x, y = np.zeros(40, np.float32)[3:], np.zeros(32, np.float32)
    args = [x, y, np.int32(1), np.int32(0), np.int32(32)]
    assert memory(COPY.format(t="float"), args) == (1, 5, 1, 4)


def test_addresses_that_are_anything() -> None:
    code = """extern "C" __global__ void k(const int* at, float* y) {
      y[at[threadIdx.x]] = 1.0f;
    }"""
    at = np.array([0, 1, 9, 17, 4095] + [3] * 27, np.int32)  # sectors 0, 1, 2 and 511
    assert memory(code, [at, np.zeros(4096, np.float32)]) == (1, 4, 1, 4)


def test_atomics_local_memory_and_constants_are_neither_loads_nor_stores() -> None:
    code = """__constant__ int table[32] = {1, 2, 3};
    extern "C" __global__ void k(int* x, int n) {
      __shared__ int sum;
      int mine[8];
      for (int i = 0; i < 8; ++i) mine[i] = i * n;
      atomicAdd(&x[threadIdx.x], mine[n] + table[threadIdx.x]);
      atomicAdd(&sum, n);
    }"""
    x = np.zeros(32, np.int32)
    assert memory(code, [x, np.int32(3)]) == (0, 0, 0, 0)
    assert banks(code, [x, np.int32(3)]) == (0, 0, 0, 0)


def test_generic_accesses_count_where_their_address_lies() -> None:
    code = """__device__ __noinline__ void put(float* p, float v) { p[threadIdx.x] = v; }
    __device__ __noinline__ float get(const float* p) { return p[2 * threadIdx.x]; }
    extern "C" __global__ void k(float* x) {
      __shared__ float tile[64];
      put(tile, 1.0f);
      put(tile + 32, 2.0f);
      __syncthreads();
      put(x, get(tile) + get(x));
    }"""
    x = np.zeros(64, np.float32)
    assert memory(code, [x]) == (1, 8, 1, 4)
    assert banks(code, [x]) == (1, 2, 2, 2)


def test_a_sample_counts_its_blocks() -> None:
    x, y = np.zeros(500, np.float32), np.zeros(500, np.float32)
    args = [x, y, np.int32(1), np.int32(0), np.int32(500)]
    code, shape = COPY.format(t="float"), {"grid": 8, "block": 64}
    parts = [count(code, args, **shape, sample=[b]) for b in range(8)]
    assert parts[0].global_load_sectors == 8
    assert parts[7].global_load_sectors == 7  # 52 floats are left: 4 + 3 sectors
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total == count(code, args, **shape)
