"""A kernel that never ends, and a barrier that not all threads reach, are errors of their own."""

import numpy as np
from faulting import HEAD, fault, launch

from tilewright.errors import BarrierError, LimitError

# --- kernels that never end ---------------------------------------------------------------------


def test_an_endless_loop() -> None:
    code = (
        HEAD
        + """(float* x) {
      if (threadIdx.x != 5) return;
      while (true) {
        *(volatile float*)x = 1.0f;  // HERE
      }
    }"""
    )
    error = fault(
        LimitError, code, [np.zeros(1, np.float32)], grid=4, sample=[2], step_limit=100_000
    )
    assert error.site.block == (2, 0, 0)
    assert error.site.thread == (5, 0, 0)
    assert "never ends" in str(error)


def test_a_spin_on_another_blocks_flag() -> None:
    code = (
        HEAD
        + """(volatile int* flag) {
      if (blockIdx.x == 0) {
        while (*flag == 0);  // HERE
      } else {
        *flag = 1;
      }
    }"""
    )
    error = fault(LimitError, code, [np.zeros(1, np.int32)], grid=2, step_limit=100_000)
    assert error.site.block == (0, 0, 0)


def test_a_long_loop_is_no_endless_one() -> None:
    code = HEAD + "(int* x, int n) { for (int i = 0; i < n; ++i) *(volatile int*)x = i; }"
    x = np.zeros(1, np.int32)
    launch(code, [x, np.int32(50_000)], block=1, step_limit=100_000)
    assert x[0] == 49_999


# --- barriers -----------------------------------------------------------------------------------


def test_a_barrier_in_a_divergent_branch() -> None:
    code = (
        HEAD
        + """(int* x) {
      if (threadIdx.x % 2) {
        __syncthreads();  // HERE
        x[threadIdx.x] = 1;
      } else {
        x[threadIdx.x] = 2;
      }
      x[0] = 3;
    }"""
    )
    error = fault(BarrierError, code, [np.zeros(64, np.int32)], block=64)
    assert error.site.thread in ((0, 0, 0), (1, 0, 0))


def test_a_barrier_that_some_warps_never_reach() -> None:
    code = (
        HEAD
        + """(int* x, int n) {
      if (threadIdx.x >= n) return;
      x[threadIdx.x] = 1;
      __syncthreads();  // HERE
      x[threadIdx.x] = x[n - 1 - threadIdx.x];
    }"""
    )
    error = fault(BarrierError, code, [np.zeros(128, np.int32), np.int32(64)], grid=3, block=128)
    assert error.site.block == (0, 0, 0)
    assert error.site.thread == (0, 0, 0)
    assert "barrier 0" in str(error)
    assert "of warps 0 to 3, returned: 2-3" in str(error)


def test_a_barrier_that_some_lanes_never_reach() -> None:
    code = (
        HEAD
        + """(int* x, int n) {
      if (threadIdx.x >= n) return;
      x[threadIdx.x] = 1;
      __syncthreads();  // HERE
      x[threadIdx.x] = x[n - 1 - threadIdx.x];
    }"""
    )
    error = fault(BarrierError, code, [np.zeros(64, np.int32), np.int32(41)], block=64)
    assert error.site.thread == (41, 0, 0)
    assert "this thread has returned" in str(error)
    launch(code, [np.zeros(64, np.int32), np.int32(64)], block=41)  # a partial warp, all of it


def test_named_barriers_with_too_few_warps() -> None:
    code = (
        HEAD
        + """(int* x) {
      asm volatile("bar.sync 3, 96;");  // HERE
      x[threadIdx.x] = 1;
    }"""
    )
    error = fault(BarrierError, code, [np.zeros(64, np.int32)], block=64)
    assert "barrier 3" in str(error)
    launch(code, [np.zeros(96, np.int32)], block=96)


def test_a_shuffle_with_lanes_missing() -> None:
    code = (
        HEAD
        + """(int* x) {
      if (threadIdx.x < 12) {
        x[threadIdx.x] = __shfl_sync(0xffffffff, x[threadIdx.x], 0);  // HERE
      } else {
        x[threadIdx.x] = 7;
      }
      x[0] = 1;
    }"""
    )
    error = fault(BarrierError, code, [np.zeros(32, np.int32)])
    assert error.site.thread == (0, 0, 0)
    assert "lanes 0-11 of the warp wait here" in str(error)
    assert "shfl.sync" in error.site.instruction


def test_a_shuffle_of_the_lanes_that_are_left() -> None:
    code = (
        HEAD
        + """(int* x, int n) {
      if (threadIdx.x >= n) return;
      x[threadIdx.x] = __shfl_sync(0xffffffff, x[threadIdx.x], 3);
    }"""
    )
    x = np.arange(32, dtype=np.int32)
    launch(code, [x, np.int32(20)])
    assert x.tolist() == [3] * 20 + list(range(20, 32))
