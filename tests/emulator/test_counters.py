"""Counters beside hand derivation: for each a case of zero, one worked out, and the worst.

A request is one warp-wide load or store, a sector 32 bytes of global memory, a wavefront a pass
through the 32 banks of shared memory, four bytes wide each.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright.counters import Counters
from tilewright.emulator.observers import sectors, wavefronts
from tilewright.launch import Argument

IDLE = 2**63  # how the functions below spell a lane that does not take part
LANES = np.arange(32)


def count(code: str, args: list[Argument], **launch: object) -> Counters:
    shape = {"grid": 1, "block": 32} | launch
    run = tilewright.emulate(code, "k", args=args, **shape)
    assert run.counters is not None
    return run.counters


def memory(code: str, args: list[Argument], **launch: object) -> tuple[int, ...]:
    """(load requests, load sectors, store requests, store sectors) of global memory."""
    c = count(code, args, **launch)
    return (
        c.global_load_requests,
        c.global_load_sectors,
        c.global_store_requests,
        c.global_store_sectors,
    )


def banks(code: str, args: list[Argument], **launch: object) -> tuple[int, ...]:
    """(load requests, load wavefronts, store requests, store wavefronts) of shared memory."""
    c = count(code, args, **launch)
    return (
        c.shared_load_requests,
        c.shared_load_wavefronts,
        c.shared_store_requests,
        c.shared_store_wavefronts,
    )


# --- nothing ------------------------------------------------------------------------------------


def test_a_kernel_that_does_nothing_counts_its_return_alone() -> None:
    c = count('extern "C" __global__ void k() {}', [], grid=3, block=40)
    # Three blocks of a whole warp and one of eight lanes.
    assert c == Counters(warp_instructions=6, thread_instructions=120, opcodes={"ret": 6})
    assert c.sectors_per_request is None


# --- global memory ------------------------------------------------------------------------------

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


# --- shared memory --------------------------------------------------------------------------------

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


# --- instructions -------------------------------------------------------------------------------

FMA = """extern "C" __global__ void k(float* x, int n, int times) {
  float sum = x[threadIdx.x];
  if (threadIdx.x < n) {
#pragma unroll 1
    for (int i = 0; i < times; ++i) sum = fmaf(sum, 0.5f, 1.0f);
  }
  x[threadIdx.x] = sum;
}"""


@pytest.mark.parametrize(
    ("block", "n", "times", "expected"),
    [
        (32, 32, 0, 0),
        (32, 0, 5, 0),
        (32, 32, 1, 32),
        (40, 40, 3, 120),  # a warp of 8 lanes counts 8
        (64, 35, 4, 140),
        (1024, 1, 100, 100),
    ],
)
def test_ffma_counts_active_threads(block: int, n: int, times: int, expected: int) -> None:
    args = [np.zeros(1024, np.float32), np.int32(n), np.int32(times)]
    assert count(FMA, args, block=block).ffma_thread_instructions == expected
    assert count(FMA, args, block=block, grid=3).ffma_thread_instructions == 3 * expected


def test_multiplications_and_doubles_are_no_ffma() -> None:
    code = """extern "C" __global__ void k(double* x, float* y) {
      x[threadIdx.x] = fma(x[threadIdx.x], 2.0, 1.0);
      y[threadIdx.x] = __fmul_rn(y[threadIdx.x], 3.0f) ;
    }"""
    assert count(code, [np.zeros(32), np.zeros(32, "f4")]).ffma_thread_instructions == 0


DIVERGING = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u32 n) {
  .reg .pred %p<1>;
  .reg .b32 %r<4>;
  mov.u32 %r0, %tid.x;
  ld.param.u32 %r1, [n];
  setp.lt.u32 %p0, %r0, %r1;
  @%p0 bra FEW;
  add.s32 %r2, %r0, 1;
  bra.uni MEET;
FEW:
  mul.lo.s32 %r2, %r0, 3;
MEET:
  shl.b32 %r3, %r2, 1;
  ret;
}"""


@pytest.mark.parametrize("n", [0, 5, 31, 32, 37, 64])
def test_both_sides_of_a_branch_count_where_lanes_take_them(n: int) -> None:
    c = count(DIVERGING, [np.uint32(n)], block=64)
    few = [min(max(n - 32 * warp, 0), 32) for warp in range(2)]
    warps = sum(6 + 2 * (f < 32) + (f > 0) for f in few)
    threads = sum(6 * 32 + 2 * (32 - f) + f for f in few)
    assert (c.warp_instructions, c.thread_instructions) == (warps, threads)
    assert c.opcodes == {
        "mov.u32": 2,
        "ld.u32": 2,
        "setp.u32": 2,
        "shl.b32": 2,
        "ret": 2,
        "bra": 2 + sum(f < 32 for f in few),
        **({"add.s32": sum(f < 32 for f in few)} if min(few) < 32 else {}),
        **({"mul.s32": sum(f > 0 for f in few)} if n else {}),
    }


EARLY = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x) {
  .reg .pred %p<1>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  mov.u32 %r0, %tid.x;
  setp.ge.u32 %p0, %r0, 12;
  @%p0 bra AWAY;
  shfl.sync.idx.b32 %r1, %r0, 3, 31, 0xffffffff;
  bra.uni STORE;
AWAY:
  mov.u32 %r1, 7;
  @%p0 bra DONE;
STORE:
  ld.param.u64 %rd0, [x];
  mad.wide.u32 %rd1, %r0, 4, %rd0;
  st.global.u32 [%rd1], %r1;
DONE:
  ret;
}"""


def test_waiting_for_lanes_that_return_counts_once() -> None:
    x = np.zeros(32, np.int32)
    c = count(EARLY, [x])
    assert x.tolist() == [3] * 12 + [0] * 20
    assert c.opcodes["shfl.b32"] == 1
    # 3 before the branch for all; 5 more and the return for 12 lanes; 2 and the return for 20.
    assert c.thread_instructions == 3 * 32 + 6 * 12 + 3 * 20
    assert c.opcodes["ret"] == 2  # once by the lanes that leave early, once by the others


@pytest.mark.parametrize("times", [0, 1, 10])
def test_a_loop_counts_its_trips(times: int) -> None:
    args = [np.zeros(32, np.float32), np.int32(32), np.int32(times)]
    base, more = (
        count(FMA, [*args[:2], np.int32(n)]).opcodes.get("fma.f32", 0) for n in (times, times + 1)
    )
    assert (base, more) == (times, times + 1)
