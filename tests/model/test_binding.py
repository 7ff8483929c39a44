"""Counts of machine instructions, derived by hand: loops, predicates, joined loads, slow paths."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tilewright.bench.profiling import profile_kernel, profile_rung
from tilewright.errors import LaunchError
from tilewright.gpus import gpu
from tilewright.kernels import Tile
from tilewright.kernels.registry import rung
from tilewright.launch import Argument, Launch
from tilewright.model.profile import AccessCounts, Counted, Profile
from tilewright.problem import Problem
from tilewright.toolchain import compile_cuda


def profile(
    code: str,
    args: list[Argument],
    *,
    grid: int = 1,
    block: int = 32,
    options: tuple[str, ...] = (),
    sample: list[int] | None = None,
) -> Profile:
    artifact = compile_cuda(f'extern "C" {code}', "k", options=options)
    return profile_kernel(artifact, Launch(grid=grid, block=block), args, sample=sample)


def of(found: Profile, *opcodes: str) -> Iterator[Counted]:
    return (each for each in found.counted if each.instruction.opcode in opcodes)


def executed(found: Profile, *opcodes: str) -> int:
    return sum(each.executed for each in of(found, *opcodes))


def threads(found: Profile, *opcodes: str) -> int:
    return sum(each.threads for each in of(found, *opcodes))


SUM = """__global__ void k(const float* x, float* y, int n) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum = fmaf(x[i * 32 + threadIdx.x], 0.5f, sum);
  y[threadIdx.x] = sum;
}"""


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 7, 16, 61])
def test_copies_of_an_unrolled_loop_make_all_of_its_turns(turns: int) -> None:
    found = profile(SUM, [np.zeros(64 * 32, np.float32), np.zeros(32, np.float32), np.int32(turns)])
    assert (executed(found, "FFMA"), threads(found, "FFMA")) == (turns, 32 * turns)
    assert executed(found, "LDG") == turns
    assert executed(found, "STG") == 1
    loads = [each.access for each in of(found, "LDG") if each.access is not None]
    assert (sum(a.requests for a in loads), sum(a.sectors for a in loads)) == (turns, 4 * turns)
    for loop in found.loops:
        inside = [
            found.counted[i] for i in loop.body if found.counted[i].instruction.opcode == "FFMA"
        ]
        assert {each.executed for each in inside} == {loop.trips}
        assert loop.entries == min(loop.trips, 1)
    assert not any("agree" in gap or "never" in gap for gap in found.gaps)


def test_every_instruction_of_a_whole_warp_is_executed_once() -> None:
    found = profile(
        "__global__ void k(float* x) { x[threadIdx.x] *= 2.0f; }",
        [np.zeros(96, np.float32)],
        block=96,
    )
    assert {each.executed for each in found.counted} == {3}
    assert {each.threads for each in found.counted} == {96}
    assert found.provenance == {"executed": "exact", "global": "exact", "shared": "exact"}
    assert not found.gaps


def test_an_early_exit_ends_whole_warps_alone() -> None:
    code = """__global__ void k(float* x, int n) {
      const int i = blockIdx.x * 128 + threadIdx.x;
      if (i >= n) return;
      x[i] = 1.0f;
    }"""
    found = profile(code, [np.zeros(200, np.float32), np.int32(200)], grid=2, block=128)
    (store,) = of(found, "STG")
    # 200 threads: six warps, and a quarter of the seventh; the eighth leaves.
    assert (store.executed, store.threads) == (7, 200)
    assert store.access == AccessCounts(
        space="global", way="store", size=4, requests=7, sectors=25, lines=7, wavefronts=7, ideal=25
    )
    exits = [each for each in of(found, "EXIT") if each.instruction.predicate is not None]
    assert [(each.executed, each.threads) for each in exits] == [(8, 56)]


def test_predicated_instructions_are_executed_by_every_warp() -> None:
    code = """__global__ void k(float* x) {
      __shared__ float s[64];
      if (threadIdx.x < 40) s[threadIdx.x] = x[0];
      __syncthreads();
      x[threadIdx.x] = s[threadIdx.x % 40];
    }"""
    found = profile(code, [np.zeros(128, np.float32)], block=128)
    (store,) = of(found, "STS")
    assert store.threads == 40
    assert store.access is not None
    assert (store.access.requests, store.access.wavefronts) == (2, 2)
    if store.instruction.predicate is not None:
        assert store.executed == 4


def test_joined_loads_count_as_the_hardware_makes_them() -> None:
    code = """__global__ void k(const float* x, float* y) {
      __shared__ float a[32][4];
      __shared__ float b[4][32];
      a[threadIdx.x][0] = x[threadIdx.x];
      b[0][threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      const float* row = a[threadIdx.x / 8];
      float sum = 0.0f;
      for (int i = 0; i < 4; ++i) sum = fmaf(row[i], b[i][threadIdx.x], sum);
      y[threadIdx.x] = sum;
    }"""
    found = profile(code, [np.zeros(32, np.float32), np.zeros(32, np.float32)])
    loads = [each.access for each in of(found, "LDS") if each.access is not None]
    assert sorted((a.size, a.requests) for a in loads) == [(4, 1)] * 4 + [(16, 1)]
    # Four rows of 16 bytes, each read by eight lanes: lanes pair up, so two passes of half a warp.
    assert sorted((a.size, a.wavefronts) for a in loads) == [(4, 1)] * 4 + [(16, 2)]
    # Rows are 16 bytes apart: their first words lie in every fourth bank, four lanes in one.
    assert sorted(a.access.wavefronts for a in of(found, "STS") if a.access) == [1, 4]
    assert found.provenance["shared"] == "exact"


def test_warps_of_different_trip_counts_are_solved_apart() -> None:
    code = """__global__ void k(const int* trips, float* y) {
      const int n = trips[threadIdx.x / 32];
      float sum = y[threadIdx.x];
      for (int i = 0; i < n; ++i) sum = fmaf(sum, 0.5f, 1.0f);
      y[threadIdx.x] = sum;
    }"""
    trips = np.array([0, 1, 5, 1000, 3, 64, 7, 2], np.int32)
    found = profile(code, [trips, np.zeros(256, np.float32)], block=256)
    assert executed(found, "FFMA") == trips.sum()
    assert threads(found, "FFMA") == 32 * trips.sum()
    widest = max(found.loops, key=lambda loop: len(loop.body))
    copies = sum(found.counted[i].instruction.opcode == "FFMA" for i in widest.body)
    if copies > 1:  # 3 and fewer go through the remainder alone
        assert widest.trips >= sum(n // copies for n in trips.tolist()) - len(trips)
        assert widest.trips <= sum(n // copies for n in trips.tolist())


def test_the_slow_path_of_a_division_is_taken_not_to_run() -> None:
    code = "__global__ void k(float* x) { x[threadIdx.x] = 3.0f / x[threadIdx.x]; }"
    found = profile(code, [np.ones(32, np.float32)])
    calls = list(of(found, "CALL"))
    assert calls
    assert all(each.executed == 0 for each in calls)
    assert executed(found, "STG") == 1
    assert found.provenance["executed"] == "derived"
    assert any("slow path" in gap for gap in found.gaps)


def test_functions_that_are_not_inlined_are_counted_at_their_calls() -> None:
    code = """__device__ __noinline__ float twice(float x) { return x * x + 1.0f; }
    extern "C" __global__ void k(float* x) {
      float y = twice(x[threadIdx.x]);
      x[threadIdx.x] = twice(y);
    }"""
    artifact = compile_cuda(code, "k")
    found = profile_kernel(artifact, Launch(grid=3, block=64), [np.ones(64, np.float32)])
    # Six warps, two calls each; the return is of the function.
    assert executed(found, "CALL") == 12
    assert executed(found, "RET") == 12
    assert (executed(found, "FFMA"), threads(found, "FFMA")) == (12, 384)
    assert executed(found, "STG") == 6


def test_a_kernel_of_loops_calls_exits_and_divisions_is_counted() -> None:
    code = """__device__ __noinline__ float smooth(float x, int turns) {
#pragma unroll 1
      while (turns > 0) { x += 1.0f; --turns; }
      return x;
    }
    extern "C" __global__ void k(float* x, const int* turns, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i >= n) return;
      float sum = x[i];
      int left = turns[i];
      while (left != 0) {
        if (left == 5) return;
        sum = smooth(sum, left);
        --left;
      }
      x[i] = sum / x[i + n];
    }"""
    # Warps that call 3 times, never, once (and return at 5), and up to 3 times; 16 lanes of the
    # last are past the end.
    turns = np.array([3] * 32 + [0] * 32 + [6] * 32 + [0, 1, 2, 3] * 4, np.int32)
    n = len(turns)
    found = profile_kernel(
        compile_cuda(code, "k"),
        Launch(grid=2, block=64),
        [np.ones(2 * n, np.float32), turns, np.int32(n)],
    )
    assert executed(found, "CALL") == executed(found, "RET") == 3 + 0 + 1 + 3
    # A call with n left adds n times: 3 + 2 + 1, 6, and 3 + 2 + 1 of ever fewer lanes.
    assert executed(found, "FADD") == 6 + 6 + 6
    assert threads(found, "FADD") == 32 * 6 + 32 * 6 + 4 * (0 + 1 + 3 + 6)
    assert (executed(found, "MUFU"), threads(found, "MUFU")) == (3, 32 + 32 + 16)
    assert (executed(found, "STG"), threads(found, "STG")) == (3, 32 + 32 + 16)
    loads = [each.access for each in of(found, "LDG") if each.access is not None]
    assert sum(a.requests for a in loads) == 4 + 4 + 3  # x[i], turns[i], x[i + n]
    assert not any("agree" in gap or "never" in gap for gap in found.gaps)


def test_copies_of_a_loop_run_no_more_often_than_their_lines() -> None:
    # Sixteen, eight and four turns at once, the last under a predicate: of four turns only those.
    code = """__device__ __noinline__ float smooth(float x, int turns) {
      while (turns > 0) { x = fmaf(x, 0.5f, 1.0f); --turns; }
      return x;
    }
    extern "C" __global__ void k(float* x, int n) { x[threadIdx.x] = smooth(x[threadIdx.x], n); }"""
    artifact = compile_cuda(code, "k")
    found = profile_kernel(
        artifact, Launch(grid=1, block=64), [np.ones(64, np.float32), np.int32(4)]
    )
    assert sum(each.executed for each in of(found, "FFMA")) == 2 * 4
    assert threads(found, "FFMA") == 64 * 4


def test_lanes_run_a_bsync_once_for_each_way_that_they_come_by() -> None:
    code = """__global__ void k(float* x, const int* turns) {
      float sum = x[threadIdx.x];
#pragma unroll 1
      for (int i = turns[threadIdx.x]; i > 0; --i) sum += 1.0f;
      x[threadIdx.x] = sum;
    }"""
    # One warp leaves the loop together, one by fours: after 0, 1, .. 7 turns.
    turns = np.repeat(np.arange(8), 4).astype(np.int32)
    both = np.concatenate([np.full(32, 5, np.int32), turns])
    found = profile(code, [np.zeros(64, np.float32), both], block=64)
    (sync,) = of(found, "BSYNC")
    assert (sync.executed, executed(found, "FADD"), executed(found, "STG")) == (1 + 8, 5 + 7, 2)
    assert sync.threads == 64
    assert found.provenance["executed"] == "exact"


def test_spilled_registers_are_local_accesses_of_whole_warps() -> None:
    chosen = rung("05")
    tile = replace(chosen.default, min_blocks=4)  # 64 accumulators in 64 registers
    artifact = compile_cuda(
        chosen.source, chosen.expression(tile), include_dirs=chosen.include_dirs
    )
    problem = Problem(m=128, n=128, k=8)
    args = chosen.arguments(
        problem, *(np.zeros(s, np.float32) for s in ((128, 8), (8, 128), (128, 128)))
    )
    found = profile_kernel(artifact, chosen.launch(problem, tile), args)
    spills = [each for each in of(found, "STL") if each.executed]
    assert spills
    assert found.spill_bytes > 0
    for each in spills:
        assert each.access is not None
        assert each.access.requests == each.executed
        assert each.access.sectors == each.executed * each.access.size  # 32 lanes of `size` bytes


def test_a_sample_stands_for_all_blocks_and_says_so() -> None:
    code = "__global__ void k(float* x) { x[blockIdx.x * 32 + threadIdx.x] = 1.0f; }"
    x = np.zeros(7 * 32, np.float32)
    whole = profile(code, [x], grid=7)
    part = profile(code, [x], grid=7, sample=[0, 3])
    assert part.blocks_run == 2
    assert [each.executed for each in part.counted] == [each.executed for each in whole.counted]
    assert [each.access for each in part.counted] == [each.access for each in whole.counted]
    assert set(part.provenance.values()) == {"derived"}
    assert part.gaps == ("2 of 7 blocks ran: the others are taken to be alike",)


def test_no_sample_is_refused() -> None:
    with pytest.raises(LaunchError, match="at least one block"):
        profile(SUM, [np.zeros(32, np.float32)] * 2 + [np.int32(1)], sample=[])


@pytest.mark.parametrize("name", ["01", "04", "06"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (70, 131, 19)])
def test_a_rung_multiplies_as_often_as_it_must(name: str, shape: tuple[int, int, int]) -> None:
    chosen, h200 = rung(name), gpu("H200")
    m, n, k = shape
    problem = Problem(m=m, n=n, k=k, alpha=0.5, beta=0.5)
    found = profile_rung(chosen, problem, h200)
    expected = chosen.ffma_thread_instructions(problem, chosen.tile_for("H200"))
    assert threads(found, "FFMA") == expected
    assert found.provenance["global"] == "exact"
    assert not any("agree" in gap or "never" in gap for gap in found.gaps)


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("03", Tile(bm=16, bn=16, bk=16)),  # two tiles in one block of the PTX
        ("04", Tile(bm=128, bn=128, bk=8, tm=16)),
        ("05", Tile(bm=128, bn=256, bk=16, tm=8, tn=8)),
        ("06", Tile(bm=128, bn=64, bk=32, tm=4, tn=4, unroll=1)),
        # Nearly 200 loads of saved registers, with the lines of all kinds of loads.
        ("08", Tile(bm=256, bn=256, bk=16, tm=4, tn=4, wm=64, wn=32, wniter=4, unroll=2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_tile_multiplies_as_often_as_it_must(name: str, tile: Tile) -> None:
    chosen = rung(name)
    problem = Problem(m=512, n=512, k=256, alpha=0.5, beta=0.5)
    found = profile_rung(chosen, problem, gpu("H200"), tile)
    assert threads(found, "FFMA") == chosen.ffma_thread_instructions(problem, tile)
    assert not found.gaps
