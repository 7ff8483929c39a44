"""Wavefronts of shared memory: beside hand derivation, NVIDIA's profiler, and a plain count.

A wavefront is one pass of a request through the 32 banks, four bytes wide each.
"""

import numpy as np
import pytest
from counting import banks
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.emulator.observers import sectors, wavefronts

IDLE = 2**63  # how the functions below spell a lane that does not take part
LANES = np.arange(32)

STRIDE = """extern "C" __global__ void k(float* out, int step, int n) {
  __shared__ float tile[1024];
  for (int i = threadIdx.x; i < 1024; i += 32) tile[i] = i;
  __syncthreads();
  float sum = 0.0f;
  if (threadIdx.x < n) {
    tile[threadIdx.x * step] = 2.0f;
    __syncwarp(__activemask());
    sum = tile[threadIdx.x * step];
  }
  out[threadIdx.x] = sum;
}"""


@pytest.mark.parametrize(
    ("step", "n", "ways"),
    [
        (0, 32, 1),  # one word for all
        (1, 32, 1),
        (2, 32, 2),
        (3, 32, 1),
        (4, 32, 4),
        (8, 32, 8),
        (16, 32, 16),
        (31, 32, 1),
        (32, 32, 32),  # one bank for all
        (32, 1, 1),
        (32, 7, 7),
        (16, 7, 4),
        (1, 0, 0),
    ],
)
def test_conflicts_of_four_byte_accesses(step: int, n: int, ways: int) -> None:
    args = [np.zeros(32, np.float32), np.int32(step), np.int32(n)]
    requests = 1 if n else 0
    assert banks(STRIDE, args) == (requests, ways, 32 + requests, 32 + ways)


WIDE = """extern "C" __global__ void k(const int* at, float* out) {{
  __shared__ {t} tile[256];
  for (int i = 0; i < 8; ++i) ((volatile {t}*)tile)[i * 32 + threadIdx.x].x = 0.0f;
  __syncthreads();
  const {t} v = tile[at[threadIdx.x]];
  out[threadIdx.x] = v.x + v.y;
}}"""

SPREAD = LANES & 1 | LANES >> 2 << 1  # equal on t ^ 2, else in a row
QUADS = LANES & 3 | LANES >> 3 << 2  # equal on t ^ 4


@pytest.mark.parametrize(
    ("kind", "at", "expected"),
    [
        ("float2", LANES, 2),  # 256 bytes: two halves of the warp
        ("float2", LANES * 0, 1),  # uniform
        ("float2", LANES // 2, 1),  # pairs t ^ 1: 128 bytes in all
        ("float2", SPREAD, 1),
        ("float2", QUADS, 2),
        ("float2", LANES * 2, 4),  # two ways in each half
        ("float2", LANES // 2 * 2, 2),
        ("float4", LANES, 4),  # 512 bytes: four quarters
        ("float4", LANES * 0, 2),  # uniform: 2 wavefronts, as measured
        ("float4", LANES // 2, 2),
        ("float4", SPREAD, 2),
        ("float4", QUADS, 4),  # repeats on t ^ 4 alone do not help, as measured
        ("float4", LANES % 8, 4),
        ("float4", LANES * 2, 8),
        ("float4", LANES * 8, 32),  # every lane in the same four banks
        ("float4", LANES // 2 * 8, 16),
    ],
)
def test_wide_loads_go_in_phases_and_merge_pairs(kind: str, at: np.ndarray, expected: int) -> None:
    requests, passes, *_ = banks(WIDE.format(t=kind), [at.astype(np.int32), np.zeros(32, "f4")])
    assert (requests, passes) == (1, expected)


def test_the_wavefronts_that_a_profiler_saw_on_an_h200() -> None:
    """Loads of 16 bytes in float32 kernels, wavefronts an instruction by ncu on sm_90."""
    a, b, after = (p * 16 for p in (LANES // 2, QUADS, SPREAD))
    found = wavefronts(np.array([a, a, b, b, b, b], np.uint64), 16)
    assert found.mean() == pytest.approx(3.33, abs=0.005)  # 8 x 16 outputs a thread, rows of lanes
    assert wavefronts(np.array([a, after], np.uint64), 16).mean() == 2.0  # lanes in Z order
    # A shared-memory tile of 32: 32 loads of a row and 8 uniform loads of 16 bytes.
    row, uniform = np.array([LANES * 4], np.uint64), np.zeros((1, 32), np.uint64)
    assert 32 * wavefronts(row, 4)[0] + 8 * wavefronts(uniform, 16)[0] == 32 + 8 * 2


def test_stores_are_not_merged() -> None:
    rows = np.array([LANES * 0, LANES // 2 * 16], np.uint64)
    assert wavefronts(rows, 16, load=False).tolist() == [4, 4]
    assert wavefronts(rows, 8, load=False).tolist() == [2, 2]
    code = """extern "C" __global__ void k(float4 v) {
      __shared__ float4 tile[32];
      ((volatile float*)tile)[0] = 1.0f;
      asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::
                   "r"((unsigned)__cvta_generic_to_shared(tile + threadIdx.x)), "f"(v.x));
    }"""
    vector = np.zeros((), np.dtype([("x", "f4", 4)]))[()]
    assert banks(code, [vector]) == (0, 0, 2, 1 + 4)


def test_idle_lanes_agree_with_any() -> None:
    row = LANES // 2 * 16
    half = np.where(LANES % 2 == 0, row, IDLE)
    apart = np.where(LANES < 4, LANES * 16, IDLE)
    rows = np.array([half, apart, [IDLE] * 32], np.uint64)
    assert wavefronts(rows, 16).tolist() == [2, 1, 0]


def _plain_wavefronts(row: list[int], size: int) -> int:
    """The rule word by word, without pairs."""
    phases = max(size // 4, 1)
    total = 0
    for start in range(0, 32, 32 // phases):
        words = {
            a // 4 + w
            for a in row[start : start + 32 // phases]
            if a != IDLE
            for w in range(max(size // 4, 1))
        }
        total += max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0)
    return total


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    size=st.sampled_from([1, 2, 4, 8, 16]),
    row=st.lists(st.integers(0, 300) | st.just(-1), min_size=32, max_size=32),
)
def test_any_pattern_equals_counting_one_by_one(size: int, row: list[int]) -> None:
    addresses = [IDLE if a < 0 else a * size for a in row]
    rows = np.array([addresses], np.uint64)
    touched = {(a + byte) // 32 for a in addresses if a != IDLE for byte in (0, size - 1)}
    assert sectors(rows, size)[0] == len(touched)
    assert wavefronts(rows, size, load=False)[0] == _plain_wavefronts(addresses, size)
    merged = wavefronts(rows, size)[0]
    pairs = [
        all(IDLE in (x := (addresses[t], addresses[t ^ by])) or x[0] == x[1] for t in range(32))
        for by in (1, 2)
    ]
    if size <= 4 or not any(pairs):
        assert merged == wavefronts(rows, size, load=False)[0]
    else:
        assert merged <= wavefronts(rows, size, load=False)[0]
