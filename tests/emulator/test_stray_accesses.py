"""An access outside its memory ends the run with the array missed, the line and the thread."""

import numpy as np
import pytest
from faulting import HEAD, address_of_first, fault, launch

from tilewright.errors import OutOfBoundsError

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
