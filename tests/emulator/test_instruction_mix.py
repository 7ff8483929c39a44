"""Instructions by warp, thread and opcode beside hand derivation, in branches and loops."""

import numpy as np
import pytest
from counting import count

from tilewright.counters import Counters


def test_a_kernel_that_does_nothing_counts_its_return_alone() -> None:
    c = count('extern "C" __global__ void k() {}', [], grid=3, block=40)
    # Three blocks of a whole warp and one of eight lanes.
    assert c == Counters(warp_instructions=6, thread_instructions=120, opcodes={"ret": 6})
    assert c.sectors_per_request is None


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
