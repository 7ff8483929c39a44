"""The trace of a run's accesses: which sectors, in which order, of which blocks."""

import numpy as np

from tilewright.emulator.tracing import MOST_TURNS, trace_accesses
from tilewright.launch import Launch
from tilewright.toolchain import Artifact, compile_cuda
from tilewright.trace import AccessTrace

COPY = """
extern "C" __global__ void copy(const float* in, float* out, int turns, int stride)
{
  __shared__ float kept[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  kept[threadIdx.x] = 1;
  __syncthreads();
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
    if (threadIdx.x % 32 < 16) out[i + turn * stride] = in[i + turn * stride] + kept[threadIdx.x];
  }
}
"""


def compiled() -> Artifact:
    return compile_cuda(COPY, "copy", arch="sm_90")


def traced(turns: int, *, sample: list[int], stride: int = 128) -> tuple[AccessTrace, int]:
    """The trace of two blocks of 64 threads, and the sector in which the input begins."""
    source = np.zeros(64 * 1024, np.float32)
    args = [source, np.zeros_like(source), np.int32(turns), np.int32(stride)]
    trace = trace_accesses(compiled(), Launch(grid=2, block=64), args, sample=sample)
    first = trace.of_block(sample[0])
    loads = first.sectors[first.load]
    return trace, int(loads[loads >= 0].min())


def test_the_sectors_of_each_access_the_greatest_first() -> None:
    """16 lanes read 64 bytes: two sectors; a warp's 32 floats are four further on."""
    trace, base = traced(2, sample=[0])
    loads = trace.of_block(0).sectors[trace.of_block(0).load]
    expected = [[1, 0], [5, 4], [17, 16], [21, 20]]  # warps 0 and 1, then the next turn's 512 bytes
    assert (loads[:, :2] - base).tolist() == expected
    assert (loads[:, 2:] == -1).all()


def test_warps_go_side_by_side_and_each_in_its_order() -> None:
    trace, _ = traced(3, sample=[0])
    one = trace.of_block(0)
    assert one.order.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert one.warp.tolist() == [0, 1] * 6
    assert one.load.tolist() == [True, True, False, False] * 3
    assert len(set(one.line[one.load])) == len(set(one.line[~one.load])) == 1


def test_the_blocks_of_the_sample_alone() -> None:
    trace, _ = traced(1, sample=[1])
    assert set(trace.block) == {1}
    both, base = traced(1, sample=[0, 1])
    assert len(both.of_block(0).block) == len(both.of_block(1).block) == 4
    other = both.of_block(1)
    assert other.sectors[other.load][0, :2].tolist() == [base + 9, base + 8]  # 64 floats further


def test_of_a_long_loop_the_first_turns_are_kept() -> None:
    trace, _ = traced(MOST_TURNS + 5, sample=[0])
    assert trace.load.sum() == 2 * MOST_TURNS
    assert len(trace.block) == 4 * MOST_TURNS


def test_a_run_without_global_accesses_has_an_empty_trace() -> None:
    args = [np.zeros(1, np.float32), np.zeros(1, np.float32), np.int32(0), np.int32(0)]
    trace = trace_accesses(compiled(), Launch(grid=1, block=32), args, sample=[0])
    assert len(trace.block) == 0
    assert trace.sectors.shape == (0, 1)
    assert len(trace.of_block(0).block) == 0
