"""Executions of accesses that are kept to be drawn: addresses and costs, by hand."""

import numpy as np

from tilewright.accesses import Width
from tilewright.emulator.samples import MOST, Sampled, sample_accesses
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

COLUMNS = """
extern "C" __global__ void columns(const float* in, float* out, int times)
{
  __shared__ float kept[1024];
  const int t = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < times; ++i) kept[(t * 4 + i) % 1024] = in[t * 32 + i];
  __syncthreads();
  if (t < 20) out[t] = kept[t];
}
"""


def sampled(times: int, widths: dict[int, list[Width]] | None = None) -> tuple[Sampled, ...]:
    artifact = compile_cuda(COLUMNS, "columns", arch="sm_90")
    args = [np.zeros(4096, np.float32), np.zeros(64, np.float32), np.int32(times)]
    launch = Launch(grid=1, block=64)
    return sample_accesses(artifact, launch, args, widths=widths or {}, block=0)


def test_each_access_has_its_array_addresses_and_cost() -> None:
    load, store, read, write = sampled(1)
    assert [(s.array, s.way, s.size) for s in (load, store, read, write)] == [
        (1, "load", 4),
        (0, "store", 4),
        (0, "load", 4),
        (2, "store", 4),
    ]
    assert [e.warp for e in load.executions] == [0, 1]
    assert load.executions[1].lanes == tuple(4 * 32 * t for t in range(32, 64))
    assert [(e.cost, e.least) for e in load.executions] == [(32, 4)] * 2  # a sector a lane
    assert [(e.cost, e.least) for e in store.executions] == [(4, 1)] * 2  # every fourth bank
    assert read.executions[0].lanes == (*(4 * t for t in range(20)), *[None] * 12)
    assert [(e.cost, e.least) for e in write.executions] == [(3, 3)]  # 80 bytes
    assert len({load.line, read.line}) == 2


def test_the_first_executions_of_a_loop_are_kept() -> None:
    load, *_ = sampled(50)
    assert len(load.executions) == MOST
    # 50 turns of one warp come before those of the other.
    assert [e.lanes[0] for e in load.executions] == [4 * turn for turn in range(MOST)]


def test_an_access_that_was_joined_has_the_width_of_the_machine() -> None:
    ptx_line = sampled(1)[0].ptx_line
    wide, *_ = sampled(8, {ptx_line: [Width(16)]})
    assert wide.size == 16
    # Of four turns the first alone is aligned: it stands for all.
    assert [e.lanes[0] for e in wide.executions[:2]] == [0, 16]
    assert wide.executions[0].cost == 32
    rest = sampled(1, {ptx_line: [Width(0)]})
    assert len(rest) == 3
