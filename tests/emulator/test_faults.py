"""Traps, instructions that are not there, and errors that have to stop several workers."""

import time

import numpy as np
import pytest
from faulting import HEAD, fault, launch

from tilewright.emulator import run
from tilewright.emulator.observers import Batch
from tilewright.errors import OutOfBoundsError, TrapError, UnsupportedError
from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx

# --- traps and what is not there ----------------------------------------------------------------


def test_a_trap() -> None:
    code = (
        HEAD
        + """(int* x, int n) {
      if (x[threadIdx.y * blockDim.x + threadIdx.x] == n)
        __trap();  // HERE
    }"""
    )
    x = np.arange(64, dtype=np.int32)
    error = fault(TrapError, code, [x, np.int32(45)], block=(8, 8))
    assert error.site.thread == (5, 5, 0)
    assert "trapped" in str(error)
    launch(code, [x, np.int32(64)], block=(8, 8))


def test_a_failed_assertion() -> None:
    code = (
        HEAD
        + """(int* x) {
      assert(x[threadIdx.x] < 20);  // HERE
      x[threadIdx.x] += 1;
    }"""
    )
    error = fault(TrapError, code, [np.arange(32, dtype=np.int32)])
    assert error.site.thread == (20, 0, 0)
    assert "assertion failed" in str(error)


@pytest.mark.parametrize(
    ("statement", "named", "arch"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;");', r"wgmma\.fence\.sync\.aligned:", "sm_90a"),
        (
            'asm volatile("cp.async.bulk.commit_group;");',
            r"cp\.async\.bulk\.commit_group:",
            "sm_90",
        ),
        (
            'asm volatile("{ .reg .b32 d<4>; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 '
            '{%0,%0,%0,%0}, {%0,%0,%0,%0}, {%0,%0}, {%0,%0,%0,%0}; }" : "+r"(n));',
            r"mma\.sync\.aligned\.m16n8k8\S+:",
            "sm_90",
        ),
    ],
)
def test_an_instruction_that_the_emulator_lacks(statement: str, named: str, arch: str) -> None:
    code = f"{HEAD}(int n, int* x) {{\n {statement}  // HERE\n x[0] = n;\n}}"
    with pytest.raises(UnsupportedError, match=rf"does not execute {named}.*kernel\.cu:2"):
        launch(code, [np.int32(0), np.zeros(1, np.int32)], arch=arch)


def test_an_instruction_that_nobody_knows() -> None:
    ptx = """.version 8.0
    .target sm_90
    .address_size 64
    .visible .entry k() {
      .reg .b32 %r<2>;
      mov.b32 %r0, 1;
      frobnicate.b32 %r1, %r0;
      ret;
    }"""
    with pytest.raises(UnsupportedError, match=r"frobnicate\.b32:.*PTX line 7"):
        run(artifact_from_ptx(ptx, "k"), Launch(grid=1, block=1), [])


# --- several workers ---------------------------------------------------------------------------


def test_one_workers_fault_stops_the_others() -> None:
    code = (
        HEAD
        + """(volatile int* x, int n) {
      if (blockIdx.x > 0) x[n] = 1;  // HERE
      else while (x[0] == 0);
    }"""
    )
    started = time.perf_counter()
    args = [np.zeros(1, np.int32), np.int32(1)]
    error = fault(OutOfBoundsError, code, args, grid=32, workers=2, step_limit=10**10)
    assert error.site.block[0] > 0
    assert time.perf_counter() - started < 5  # the step limit alone takes far longer


def test_an_observers_exception_ends_the_run() -> None:
    class Picky:
        def observe(self, batch: Batch) -> None:
            raise KeyError("seen enough")

    code = HEAD + "(int* x) { x[threadIdx.x] = 1; }"
    with pytest.raises(KeyError, match="seen enough"):
        launch(code, [np.zeros(32, np.int32)], grid=1000, observers=[Picky()], workers=2)
