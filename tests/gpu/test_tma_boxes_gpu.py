"""Where TMA puts a box in shared memory, on a real GPU: every element where `tma_box` says."""

import ctypes

import numpy as np
import pytest

from tilewright.device import DeviceInfo, probe
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.launch import Launch
from tilewright.layouts.instructions import tma_box
from tilewright.toolchain import compile_cuda

pytestmark = pytest.mark.gpu

WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32}
TYPES = {8: "UINT8", 16: "UINT16", 32: "UINT32"}
SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}

# One thread has the box at (0, 0) loaded; then all copy the tile out as it lies.
SOURCE = """
extern "C" __global__ void load(const void* map, unsigned* out, int bytes)
{
  __shared__ alignas(1024) unsigned tile[8192];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
  const unsigned to = (unsigned)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.proxy.async;" :: "r"(bar) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %2}], [%3];"
                 :: "r"(to), "l"(map), "r"(0), "r"(bar) : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (!done) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;"
                 " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
  }
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
}
"""


def encoded(address: int, array: np.ndarray, box: tuple[int, int], span: int) -> np.ndarray:
    """The driver's own descriptor of a row-major matrix and a box of it."""
    from cuda.bindings import driver

    rows, columns = array.shape
    bits = array.itemsize * 8
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    status, found = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{TYPES[bits]}"),
        2,
        address,
        [wide(columns), wide(rows)],
        [wide(array.strides[0])],
        [narrow(side) for side in box],
        [narrow(1), narrow(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{SWIZZLES[span]}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return np.frombuffer(ctypes.string_at(found.getPtr(), 128), np.uint8).copy()


@pytest.mark.parametrize(
    ("box", "bits", "span"),
    [
        ((64, 8), 16, 0),
        ((16, 16), 16, 32),
        ((32, 16), 16, 64),
        ((64, 32), 16, 128),
        ((32, 24), 32, 128),
        ((128, 8), 8, 128),
    ],
)
def test_a_box_lies_in_shared_memory_as_the_layout_says(
    box: tuple[int, int], bits: int, span: int
) -> None:
    info = probe()
    assert isinstance(info, DeviceInfo), info
    if info.compute_capability < (9, 0):
        pytest.skip("TMA begins with sm_90")
    size = box[0] * box[1]
    matrix = np.arange(box[1] * box[0], dtype=np.uint64).reshape(box[1], box[0])
    matrix = (matrix * 7919 % (1 << min(bits, 16))).astype(WORDS[bits])
    found = np.zeros(size, WORDS[bits])
    session = open_session(0)
    session.enter()
    kernel = session.load(compile_cuda(SOURCE, "load", arch=info.arch))
    with Arena(session) as arena:
        at = arena.upload(matrix)
        described = arena.upload(encoded(at, matrix, box, span))
        out = arena.allocate(found.nbytes)
        values = [np.uint64(described), np.uint64(out), np.int32(found.nbytes)]
        kernel.bind(Launch(grid=1, block=128), values)()
        arena.read(found, out)
    layout = tma_box(box, bits, span)
    where = np.array([[layout((c, r)) for c in range(box[0])] for r in range(box[1])])
    np.testing.assert_array_equal(found[where], matrix)
    if span:  # a plain tile would not do
        assert not np.array_equal(found, matrix.ravel())
