"""Loads of neighbours along k: where their values go, and when there is room for them."""

import pytest

from tilewright.errors import UnsupportedError
from tilewright.kernels.gemm.build import compile_variant
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile
from tilewright.toolchain import compile_cuda
from tilewright.toolchain.schedule import schedule_main_loop
from tilewright.toolchain.schedule.code import read_code
from tilewright.toolchain.schedule.deep import deep_quads
from tilewright.toolchain.schedule.loop import Load
from toolchain.schedule.tiled_kernels import scheduled

ROWS = [
    [Load(index=10 * row + time, step=4 * time, register=8 * row, carried=not time, deep=True)
     for time in (0, 1)]
    for row in range(4)
]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "away"),
    [
        ([], [0, 8, 16, 24]),  # each row's own quad again
        ([100], [100, 0, 8, 16]),
        ([100, 104], [100, 104, 0, 8]),
    ],
)
def test_quads_move_on_by_as_many_places_as_there_are_second_ones(
    second: list[int], away: list[int]
) -> None:
    quads = deep_quads(ROWS, second)
    assert [quads[10 * row] for row in range(4)] == [0, 8, 16, 24]
    assert [quads[10 * row + 1] for row in range(4)] == away


def test_half_a_step_is_left_behind_the_last_load_of_a_turn() -> None:
    """The branch back waits for every load."""
    loop = read_code(scheduled("16x8", "nt").artifact).loop
    last = max(n for n, line in enumerate(loop) if line.ins.mnemonic == "LDS.128")
    assert sum(line.ins.opcode == "FFMA" for line in loop[last:]) >= 16 * 8 // 2


def test_an_odd_number_of_them_in_a_turn_is_refused() -> None:
    tile = Tile(bm=128, bn=128, bk=4, tm=8, tn=16, wm=32, wn=128, min_blocks=2, stages=4)
    operation = Operation.plain(256, 256, 256, layout="nt")
    artifact = compile_variant(operation, Variant(kernel="tiled", tile=tile), "sm_90")
    with pytest.raises(UnsupportedError, match=r"rows have \[1\] loads .* an even number"):
        schedule_main_loop(artifact)


SOURCE = r"""
extern "C" __global__ void k(float* d, int n) {
  __shared__ __align__(16) float s[4096];
  float acc[2] = {};
  for (int i = threadIdx.x; i < 4096; i += 32) s[i] = d[i];
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < n; i += 8) {
    const float4 x = *reinterpret_cast<float4*>(s + i), y = *reinterpret_cast<float4*>(s + i + 4);
    acc[0] = fmaf(x.x, y.x, acc[0]);
    acc[1] = fmaf(x.z, y.z, acc[1]);
    acc[0] = fmaf(x.y, y.y, acc[0]);
    acc[1] = fmaf(x.w, y.w, acc[1]);
  }
  d[threadIdx.x] = acc[0] + acc[1];
}
"""


def test_words_for_two_steps_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"used in steps \[0, 1\] of k: expected all in one"):
        schedule_main_loop(compile_cuda(SOURCE, "k"))
