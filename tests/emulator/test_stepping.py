"""Every access of a block: its order between barriers, its lanes, where stored values come from."""

import numpy as np

from tilewright.emulator.rules import NOBODY
from tilewright.emulator.stepping import BlockSteps, origins, steps_of
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

TURN = """
extern "C" __global__ void turn(const float* in, float* out, int times)
{
  __shared__ float kept[64];
  const int t = threadIdx.x;
  for (int i = 0; i < times; ++i) {
    kept[63 - t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 48) out[i * 64 + t] = kept[t];
    __syncthreads();
  }
}
"""


def traced(times: int = 2) -> BlockSteps:
    artifact = compile_cuda(TURN, "turn", arch="sm_90")
    args = [np.zeros(256, np.float32), np.zeros(256, np.float32), np.int32(times)]
    return steps_of(artifact, Launch(grid=4, block=64), args, block=1)


def named(steps: BlockSteps, number: int) -> str:
    ins = steps.body[steps.pc[number]]
    return f"{ins.opcode}.{ins.space}"


def test_each_warp_counts_the_barriers_that_it_came_to() -> None:
    steps = traced()
    for warp in (0, 1):
        own = np.flatnonzero(steps.warp == warp).tolist()
        seen = [(int(steps.phase[n]), named(steps, n)) for n in own]
        assert seen == [
            (phase, name)
            for turn in (0, 2)
            for phase, name in (
                (turn, "ld.global"),
                (turn, "st.shared"),
                (turn + 1, "ld.shared"),
                (turn + 1, "st.global"),
            )
        ]


def test_offsets_count_from_the_array_or_from_shared_memory() -> None:
    steps = traced(1)
    loads = [n for n in range(len(steps.pc)) if named(steps, n) == "ld.global"]
    stores = [n for n in range(len(steps.pc)) if named(steps, n) == "st.shared"]
    assert [int(steps.space[n]) for n in loads + stores] == [1, 1, 0, 0]
    # Block 1 reads floats 64 on; the second warp those from 96; shared memory is filled backwards.
    assert steps.offsets[loads].tolist() == [
        [4 * (64 + 32 * warp + lane) for lane in range(32)] for warp in (0, 1)
    ]
    assert steps.offsets[stores].tolist() == [
        [4 * (63 - 32 * warp - lane) for lane in range(32)] for warp in (0, 1)
    ]


def test_lanes_that_take_no_part_have_no_offset() -> None:
    steps = traced(1)
    (last,) = [
        n
        for n in range(len(steps.pc))
        if named(steps, n) == "st.global" and int(steps.warp[n]) == 1
    ]
    assert (steps.offsets[last, :16] == 4 * np.arange(32, 48)).all()
    assert (steps.offsets[last, 16:] == NOBODY).all()
    assert int(steps.space[last]) == 2


def test_stored_values_are_followed_to_their_loads() -> None:
    body = traced(1).body
    found = {
        (body[store].space, *((body[load].space, place) for load, place in sources))
        for store, sources in origins(body).items()
    }
    assert found == {("shared", ("global", 0)), ("global", ("shared", 0))}
