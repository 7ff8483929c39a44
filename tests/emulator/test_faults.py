"""What goes wrong in a kernel ends the run with the line, the block, the thread and the address."""

import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.emulator import run
from tilewright.emulator.observers import Batch
from tilewright.errors import (
    BarrierError,
    EmulationError,
    LimitError,
    OutOfBoundsError,
    TrapError,
    UnsupportedError,
)
from tilewright.launch import Argument, Launch
from tilewright.toolchain import artifact_from_ptx, compile_cuda

HEAD = 'extern "C" __global__ void k'


def launch(
    code: str,
    args: Sequence[Argument],
    grid: object = 1,
    block: object = 32,
    shared_bytes: int = 0,
    arch: str = "sm_90",
    **rest: object,
) -> None:
    shape = Launch(grid=grid, block=block, shared_bytes=shared_bytes)
    run(compile_cuda(code, "k", arch=arch), shape, args, workers=rest.pop("workers", 1), **rest)


def line_of(code: str) -> int:
    """The line that is marked `// HERE`."""
    return next(n for n, text in enumerate(code.splitlines(), 1) if "// HERE" in text)


def fault(kind: type[EmulationError], code: str, *args: object, **rest: object) -> EmulationError:
    """Launch, and return the error of this kind at the marked line."""
    with pytest.raises(kind) as caught:
        launch(code, *args, **rest)
    assert type(caught.value) is kind
    assert caught.value.site.kernel == "k"
    assert caught.value.site.source_file == "kernel.cu"
    assert caught.value.site.source_line == line_of(code)
    return caught.value


def address_of_first() -> int:
    """The address that a kernel gets for its first argument."""
    out = np.zeros(1, np.uint64)
    launch(
        HEAD + "(void* x, unsigned long long* out) { *out = (unsigned long long)x; }",
        [np.zeros(64, np.float32), out],
        block=1,
    )
    return int(out[0])


# --- global memory ----------------------------------------------------------------------------

STORE = (
    HEAD
    + """(float* x, int n) {
  const int t = threadIdx.y * blockDim.x + threadIdx.x;
  const int b = blockIdx.y * gridDim.x + blockIdx.x;
  x[b * 32 + t + n] = 1.0f;  // HERE
}"""
)


def test_a_store_past_the_end() -> None:
    x = np.zeros(100, np.float32)
    error = fault(OutOfBoundsError, STORE, [x, np.int32(0)], grid=(2, 2), block=(8, 4))
    assert error.site.block == (1, 1, 0)
    assert error.site.thread == (4, 0, 0)
    assert error.address == address_of_first() + 400
    assert "store of 4 bytes" in str(error)
    assert "0 bytes past the end of argument 0 (float32 array of shape (100,))" in str(error)
    assert "st.global" in error.site.instruction
    assert x.all()  # what came before the fault is done


def test_a_load_before_the_start() -> None:
    code = (
        HEAD
        + """(const float* x, float* y, int n) {
      y[threadIdx.x] = 1.0f
          + x[(int)threadIdx.x - n];  // HERE
    }"""
    )
    x, y = np.zeros((4, 8), np.float32), np.zeros(32, np.float32)
    error = fault(OutOfBoundsError, code, [x, y, np.int32(3)])
    assert error.site.thread == (0, 0, 0)
    assert error.address == address_of_first() - 12
    assert "load of 4 bytes" in str(error)
    assert "12 bytes before the start of argument 0 (float32 array of shape (4, 8))" in str(error)


def test_the_array_that_is_named_is_the_one_that_was_missed() -> None:
    code = (
        HEAD
        + """(float* x, short* y, int n) {
      x[threadIdx.x] = y[threadIdx.x * n];  // HERE
    }"""
    )
    x, y = np.zeros(32, np.float32), np.zeros((3, 5), np.int16)
    error = fault(OutOfBoundsError, code, [x, y, np.int32(8)])
    assert error.site.thread == (2, 0, 0)
    assert "2 bytes past the end of argument 1 (int16 array of shape (3, 5))" in str(error)
    assert "which has 30 bytes" in str(error)


@pytest.mark.parametrize(("pointer", "first"), [(0, 0), (2**64 - 4, 2**64 - 4), (0x1234, 0x1234)])
def test_a_pointer_to_nothing(pointer: int, first: int) -> None:
    code = HEAD + "(float* x) {\n x[threadIdx.x] = 1.0f;  // HERE\n}"
    error = fault(OutOfBoundsError, code, [np.uint64(pointer)])
    assert error.site.thread == (0, 0, 0)
    assert error.address == first
    assert "it belongs to no array (an uninitialised or null pointer?)" in str(error)


VECTOR = (
    HEAD
    + """(float* x, int n) {
  const float4 v = *(const float4*)(x + 4 * threadIdx.x + n);  // HERE
  x[threadIdx.x] = v.x + v.y + v.z + v.w;
}"""
)


def test_a_misaligned_vector_load() -> None:
    error = fault(OutOfBoundsError, VECTOR, [np.zeros(200, np.float32), np.int32(1)])
    assert error.site.thread == (0, 0, 0)
    assert error.address == address_of_first() + 4
    assert "misaligned load" in str(error)
    assert "an access of 16 bytes needs an address that is a multiple of 16" in str(error)


def test_a_vector_load_that_begins_inside_and_ends_outside() -> None:
    error = fault(OutOfBoundsError, VECTOR, [np.zeros(47, np.float32), np.int32(0)])
    assert error.site.thread == (11, 0, 0)
    assert error.address == address_of_first() + 176
    assert "load of 16 bytes" in str(error)
    assert "its last 4 bytes are past the end of argument 0" in str(error)


def test_a_vector_load_from_a_computed_place_that_ends_outside() -> None:
    code = (
        HEAD
        + """(const float* x, const int* at, float* y) {
      const float4 v = *(const float4*)(x + 4 * at[threadIdx.x]);  // HERE
      y[threadIdx.x] = v.x + v.w;
    }"""
    )
    x, y = np.ones(47, np.float32), np.zeros(32, np.float32)
    at = np.arange(32, dtype=np.int32)[::-1] % 11
    launch(code, [x, at, y])
    at[20:22] = 11, 12
    error = fault(OutOfBoundsError, code, [x, at, y])
    assert error.site.thread == (20, 0, 0)
    assert error.address == address_of_first() + 176
    assert "load of 16 bytes" in str(error)
    assert "its last 4 bytes are past the end of argument 0" in str(error)


@pytest.mark.parametrize(
    ("declared", "space"), [("__constant__", "const"), ("__device__", "global")]
)
def test_a_variable_of_the_module(declared: str, space: str) -> None:
    code = f"""{declared} float table[5] = {{1, 2, 3, 4, 5}};
    {HEAD}(float* x, int n) {{
      x[threadIdx.x] = table[threadIdx.x + n];  // HERE
    }}"""
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.float32), np.int32(2)])
    assert error.site.thread == (3, 0, 0)
    assert f"0 bytes past the end of variable table in {space} memory" in str(error)


def test_an_atomic() -> None:
    code = HEAD + "(int* x, int n) {\n atomicAdd(x + threadIdx.x * n, 1);  // HERE\n}"
    x = np.zeros(32, np.int32)
    error = fault(OutOfBoundsError, code, [x, np.int32(4)])
    assert error.site.thread == (8, 0, 0)
    assert "atomic of 4 bytes" in str(error)
    assert x.tolist() == [1, 0, 0, 0] * 8


def test_only_active_lanes_are_checked() -> None:
    code = (
        HEAD
        + """(float* x, int n) {
      if (threadIdx.x < n) x[threadIdx.x * threadIdx.x] = 1.0f;  // HERE
    }"""
    )
    x = np.zeros(30, np.float32)
    launch(code, [x, np.int32(6)])
    assert np.flatnonzero(x).tolist() == [0, 1, 4, 9, 16, 25]
    assert fault(OutOfBoundsError, code, [x, np.int32(7)]).site.thread == (6, 0, 0)


def test_a_struct_parameter_indexed_outside() -> None:
    code = f"""struct Table {{ int v[8]; }};
    {HEAD}(const __grid_constant__ Table table, int n, int* x) {{
      const int value = table.v[n];  // HERE
      __syncthreads();
      x[threadIdx.x] = value;
    }}"""
    table = np.zeros((), np.dtype([("v", "i4", 8)]))[()]
    x = np.ones(32, np.int32)
    launch(code, [table, np.int32(7), x])
    assert not x.any()
    error = fault(OutOfBoundsError, code, [table, np.int32(1 << 20), x])
    assert "past the end of the kernel's parameters" in str(error)


# --- shared and local memory --------------------------------------------------------------------


def test_static_shared_memory() -> None:
    code = (
        HEAD
        + """(float* x, int n) {
      __shared__ float tile[8][8];
      tile[threadIdx.x / 8][threadIdx.x % 8 + n] = x[threadIdx.x];  // HERE
      __syncthreads();
      x[threadIdx.x] = tile[threadIdx.x / 8][7];
    }"""
    )
    error = fault(OutOfBoundsError, code, [np.zeros(64, np.float32), np.int32(8)], block=64)
    assert error.site.thread == (56, 0, 0)
    assert error.address == 256
    assert "byte 256 of shared memory, of which the block has 256 bytes (tile 0 to 255)" in str(
        error
    )


def test_dynamic_shared_memory() -> None:
    code = (
        HEAD
        + """(float* x, int n) {
      extern __shared__ float buffer[];
      buffer[threadIdx.x * n] = 1.0f;  // HERE
      __syncthreads();
      x[threadIdx.x] = buffer[0];
    }"""
    )
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.float32), np.int32(8)], shared_bytes=200)
    assert error.site.thread == (7, 0, 0)
    assert "byte 224 of shared memory, of which the block has 200 bytes" in str(error)
    assert "buffer 0 to 199" in str(error)


def test_shared_memory_before_its_start() -> None:
    code = (
        HEAD
        + """(float* x, int n) {
      __shared__ float tile[32];
      tile[threadIdx.x] = 1.0f;
      __syncthreads();
      x[threadIdx.x] = tile[(int)threadIdx.x - n];  // HERE
    }"""
    )
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.float32), np.int32(1)])
    assert error.site.thread == (0, 0, 0)
    assert "byte -4 of shared memory" in str(error)


def test_shared_memory_by_a_generic_pointer() -> None:
    code = f"""__device__ __noinline__ void put(float* p, int n) {{
      p[n] = 2.0f;  // HERE
    }}
    {HEAD}(float* x, int n) {{
      __shared__ float tile[16];
      put(tile, threadIdx.x + n);
      __syncthreads();
      x[threadIdx.x] = tile[threadIdx.x];
    }}"""
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.float32), np.int32(0)])
    assert error.site.thread == (16, 0, 0)
    assert "byte 64 of shared memory, of which the block has 64 bytes" in str(error)


def test_local_memory() -> None:
    code = (
        HEAD
        + """(int* x, int n) {
      int mine[10];
      for (int i = 0; i < 10; ++i) mine[i] = x[i];
      x[threadIdx.x] = mine[threadIdx.x + n];  // HERE
    }"""
    )
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.int32), np.int32(4)])
    assert error.site.thread[0] in (6, 8)  # 40 bytes; the frame is a multiple of 16
    assert "of local memory, of which a thread has" in str(error)


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
        ('asm volatile("cp.async.commit_group;");', r"cp\.async\.commit_group:", "sm_90"),
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


# --- several workers, and no harm ---------------------------------------------------------------


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
