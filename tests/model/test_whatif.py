"""What-ifs: changed inputs held against kernels that really are so, and against hand counts."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.bench.profiling import profile_kernel
from tilewright.bench.timing_model import launch_case
from tilewright.gpus import gpu, occupancy
from tilewright.launch import Argument, Launch, dim3
from tilewright.model.advice import Asked, advise
from tilewright.model.candidates import candidates
from tilewright.model.neighbours import runs_of_neighbours
from tilewright.model.roofline import roofline
from tilewright.model.summary import summarize
from tilewright.model.whatif import (
    COMPARING,
    Case,
    coalesced,
    dram_bytes,
    most_by_bandwidth,
    narrowed,
    prefetched,
    widened,
    without,
    without_barriers,
    without_conflicts,
)
from tilewright.toolchain import compile_cuda

H200 = gpu("H200")
N = 256


def case_of(code: str, args: list[Argument], *, grid: int | tuple[int, ...], block: int) -> Case:
    artifact = compile_cuda(code, "k")
    launch = Launch(grid=dim3(grid, "grid"), block=dim3(block, "block"))
    return launch_case(artifact, launch, args, profile_kernel(artifact, launch, args), H200)


def total(case: Case, space: str, what: str) -> int:
    accesses = (c.access for c in case.profile.counted if c.access is not None)
    return sum(getattr(a, what) for a in accesses if a.space == space)


def square() -> list[Argument]:
    return [np.zeros(N * N, np.float32), np.zeros(N * N, np.float32)]


TRANSPOSE = """__global__ void k(const float* in, float* out) {
  __shared__ float tile[32][32 + PAD];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (int s = 0; s < 32; s += 8) tile[y + s][x] = in[(blockIdx.y * 32 + y + s) * 256 + blockIdx.x * 32 + x];
  __syncthreads();
  for (int s = 0; s < 32; s += 8) out[(blockIdx.x * 32 + y + s) * 256 + blockIdx.y * 32 + x] = tile[x][y + s];
}"""  # noqa: E501


@pytest.fixture(scope="module")
def unpadded() -> Case:
    return case_of(TRANSPOSE.replace("PAD", "0"), square(), grid=(8, 8), block=256)


@pytest.fixture(scope="module")
def strided() -> Case:
    code = "__global__ void k(const float* x, float* y) {\n"
    code += "  int i = blockIdx.x * 256 + threadIdx.x;\n  y[i] = x[i % 256 * 256 + i / 256];\n}"
    return case_of(code, square(), grid=N, block=N)


def test_conflicts_gone_are_the_counts_and_the_time_of_the_padded_tile(unpadded: Case) -> None:
    padded = case_of(TRANSPOSE.replace("PAD", "1"), square(), grid=(8, 8), block=256)
    assert total(unpadded, "shared", "wavefronts") == 33 * N * N // 32
    mended = without_conflicts(unpadded)
    assert total(mended, "shared", "wavefronts") == total(padded, "shared", "wavefronts")
    assert mended.estimate().seconds == pytest.approx(padded.estimate().seconds, rel=0.05)
    assert mended.estimate().seconds < unpadded.estimate().seconds


def test_coalesced_accesses_take_the_sectors_of_their_bytes(strided: Case) -> None:
    assert total(strided, "global", "sectors") == (32 + 4) * N * N // 32
    mended = coalesced(strided)
    assert total(mended, "global", "sectors") == (4 + 4) * N * N // 32
    assert total(mended, "global", "requests") == total(strided, "global", "requests")
    assert mended.estimate().cycles < strided.estimate().cycles


def test_instructions_taken_out_leave_the_graph_whole(strided: Case) -> None:
    loads = {i for i, c in enumerate(strided.profile.counted) if c.instruction.opcode == "LDG"}
    less = without(strided, loads)
    assert len(less.profile.counted) == len(strided.profile.counted) - 1
    assert [c.instruction.opcode for c in less.profile.counted].count("LDG") == 0
    for block in less.flow.cfg.blocks:
        assert block.end <= len(less.profile.counted)
    assert len(less.hits.by_index) == len(strided.hits.by_index) - 1
    stores = [i for i, c in enumerate(less.profile.counted) if c.instruction.opcode == "STG"]
    assert set(less.hits.by_index) == set(stores)


def test_what_an_instruction_waited_for_the_next_waits_for(strided: Case) -> None:
    addresses = [c.instruction.address for c in strided.profile.counted]
    waits = [strided.control[address].wait for address in addresses]
    ends = {b.end - 1 for b in strided.flow.cfg.blocks}
    gone = next(i for i, w in enumerate(waits) if w & ~waits[i + 1] and i not in ends)
    less = without(strided, {gone})
    assert less.control[addresses[gone + 1]].wait == waits[gone] | waits[gone + 1]


def test_the_end_of_a_block_stays(strided: Case) -> None:
    ends = {b.end - 1 for b in strided.flow.cfg.blocks if b.end > b.start}
    assert without(strided, ends) is strided


def test_no_barrier_no_wait_for_it(unpadded: Case) -> None:
    assert unpadded.estimate().stalls["barrier"] > 0
    assert "barrier" not in without_barriers(unpadded).estimate().stalls


@pytest.mark.parametrize("barriers", [1, 2])
def test_two_buffers_are_advice_where_a_step_has_two_barriers(barriers: int) -> None:
    code = "__global__ void k(const float* x, float* y) {\n  __shared__ float t[256];\n"
    code += "  float s = 0;\n#pragma unroll 1\n  for (int i = 0; i < 8; ++i) {\n"
    code += "    t[threadIdx.x] = x[i * 256 + threadIdx.x];\n    __syncthreads();\n"
    code += "    s += t[threadIdx.x ^ 1];\n" + "    __syncthreads();\n" * (barriers - 1)
    code += "  }\n  __syncthreads();\n  y[threadIdx.x] = s;\n}"
    case = case_of(code, square(), grid=1, block=N)
    held = occupancy(gpu=H200, threads=N, registers=case.profile.registers)
    found = candidates(case.profile, summarize(case.profile), H200, held)
    (told,) = [each.text for each in found if each.kind == "barriers"]
    assert ("two buffers" in told) == (barriers == 2)


def test_data_that_is_there_leaves_no_traffic_but_stores(strided: Case) -> None:
    ready = prefetched(strided)
    assert dram_bytes(ready) <= 4 * N * N < dram_bytes(strided)
    assert ready.estimate().seconds < strided.estimate().seconds


def test_half_the_bytes(strided: Case) -> None:
    assert dram_bytes(narrowed(strided)) == dram_bytes(strided) / 2


@pytest.mark.parametrize(
    ("demand", "most"), [({"dram": 0.8, "l2": 0.2}, 1.25), ({}, float("inf")), ({"l2": 1.0}, 1.0)]
)
def test_what_the_bandwidth_leaves(demand: dict[str, float], most: float, strided: Case) -> None:
    assert most_by_bandwidth(replace(strided.estimate(), demand=demand)) == most


FOUR = """__global__ void k(const float* x, float* y) {
  const float* own = x + 4 * (blockIdx.x * 256 + threadIdx.x);
  y[blockIdx.x * 256 + threadIdx.x] = own[0] + own[1] + own[2] + own[3];
}"""


def test_four_neighbours_are_one_wide_access() -> None:
    args: list[Argument] = [np.zeros(4 * N * N, np.float32), np.zeros(N * N, np.float32)]
    case = case_of(FOUR, args, grid=N, block=N)
    (run,) = runs_of_neighbours(case.profile, case.flow)
    assert len(run) == 4
    wide = widened(case, [run])
    loads = [c.access for c in wide.profile.counted if c.instruction.opcode == "LDG"]
    (load,) = loads
    assert load is not None
    assert (load.size, load.requests, load.sectors) == (16, N * N // 32, 16 * N * N // 32)
    before, after = (sum(c.executed for c in each.profile.counted) for each in (case, wide))
    assert before - after == 3 * N * N // 32


def test_lanes_side_by_side_are_no_wide_access() -> None:
    code = FOUR.replace("4 * (blockIdx.x * 256 + threadIdx.x)", "blockIdx.x * 256 + threadIdx.x")
    args: list[Argument] = [np.zeros(4 * N * N, np.float32), np.zeros(N * N, np.float32)]
    case = case_of(code, args, grid=N, block=N)
    assert runs_of_neighbours(case.profile, case.flow) == []


def test_the_cause_of_the_waiting_comes_first(strided: Case) -> None:
    told, rough = strided.estimate(), strided.estimate(effort=COMPARING)
    profile = strided.profile
    held = occupancy(gpu=H200, threads=N, registers=profile.registers)
    asked = Asked(case=strided, estimate=told, rough=rough)
    found = advise(profile, summarize(profile), H200, held, asked=asked)
    assert 1 <= len(found) <= 3
    gains = [each.gain or 0 for each in found]
    assert gains == sorted(gains, reverse=True)
    best = next(each for each in found if each.kind == "coalescing")
    assert best.place == "kernel.cu:3"
    assert best.stall in told.stalls
    expected = rough.seconds / coalesced(strided).estimate(effort=COMPARING).seconds
    assert best.gain == pytest.approx(expected)


NAIVE = """__global__ void k(const float* in, float* out) {
  int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
  out[x * 256 + y] = in[y * 256 + x];
}"""


def test_stores_that_fill_a_sector_between_them_go_to_the_dram_once() -> None:
    case = case_of(NAIVE, square(), grid=(8, 32), block=256)
    assert total(case, "global", "sectors") == (4 + 32) * N * N // 32
    assert dram_bytes(case) == 8 * N * N


def test_no_unit_is_busy_for_longer_than_the_launch() -> None:
    size = 4096
    code = TRANSPOSE.replace("PAD", "1").replace("256", str(size))
    many: list[Argument] = [np.zeros(size * size, np.float32), np.zeros(size * size, np.float32)]
    artifact, launch = compile_cuda(code, "k"), Launch(grid=(128, 128, 1), block=(256, 1, 1))
    profile = profile_kernel(artifact, launch, many, sample=[0, 1, 4000])
    found = launch_case(artifact, launch, many, profile, H200).estimate()
    assert max(found.demand.values()) <= 1
    assert found.seconds > 8 * size * size / H200.dram_bytes_per_s  # the datasheet's


def test_roofline_by_hand() -> None:
    code = "__global__ void k(const float* x, float* y) {\n"
    code += "  int i = blockIdx.x * 256 + threadIdx.x;\n  y[i] = fmaf(x[i], 3.0f, 1.0f) * x[i];\n}"
    case = case_of(code, square(), grid=N, block=N)
    seconds = 1e-5
    found = roofline(case, seconds)
    assert found.flops == 3 * N * N
    assert found.dram_bytes == 8 * N * N  # every element of x read once, of y written once
    assert found.intensity == 3 / 8
    assert found.bound == "memory"
    assert found.roof_flops_per_s == 3 / 8 * H200.dram_bytes_per_s
    assert found.share == pytest.approx(8 * N * N / seconds / H200.dram_bytes_per_s)
