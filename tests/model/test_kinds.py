"""Kinds of blocks and warps: what is alike, how many of a block are of each, and what a launch of
blocks that differ counts and takes."""

from dataclasses import replace

import numpy as np
import pytest
from small_programs import function, profile

from tilewright.bench import profiling
from tilewright.bench.profiling import images_of, neighbours, profile_kernel
from tilewright.gpus import gpu
from tilewright.kernels import rung
from tilewright.launch import Launch
from tilewright.model.estimate import Estimate, estimates
from tilewright.model.kinds import merged, numbers_of, parts_of, profile_of
from tilewright.model.path import typical_path
from tilewright.model.profile import BlockKind, Profile, WarpKind
from tilewright.model.traffic import Hits
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda
from tilewright.toolchain.control import Control, control_codes
from tilewright.toolchain.sass_flow import SassFlow, flow

H200 = gpu("H200")
LAUNCH_S = 3.4e-6

LOOP = function(
    "S2R R0, SR_TID.X",  # block 1
    ".L_x_1:",
    "FFMA R1, R1, R2, R3",  # block 2
    "FFMA R1, R1, R2, R3",
    "@P0 BRA `(.L_x_1)",
    "@P1 BRA `(.L_x_2)",  # block 3
    "BAR.SYNC.DEFER_BLOCKING 0x0",  # block 4
    ".L_x_2:",
    "EXIT",  # block 5
)
GRAPH = flow(LOOP)
# Cycles from an instruction to the next: a trip has 4 + 4 + 5, what is outside 1, 1, 1 and 5.
CONTROL = {
    16 * i: Control(stall=stall, write_barrier=None, read_barrier=None, wait=0, reuse=0)
    for i, stall in enumerate([1, 4, 4, 5, 1, 1, 5])
}


def warps(count: int, trips: int, *, meets: bool = False) -> WarpKind:
    """Warps that take the loop so often, and come to the barrier or not."""
    there = count if meets else 0
    return WarpKind(
        count=count,
        executed=(0, count, count * trips, count, there, count),
        edges={
            (1, 2): count, (2, 2): count * (trips - 1), (2, 3): count,
            (3, 4): there, (3, 5): count - there, (4, 5): there,
        },
    )  # fmt: skip


def block(*kinds: WarpKind) -> BlockKind:
    return BlockKind(warps=kinds)


def trips(kind: BlockKind) -> list[float]:
    return [warp.executed[2] / warp.count for warp in kind.warps]


def test_blocks_whose_loops_differ_by_a_tenth_are_of_one_kind() -> None:
    found = merged([block(warps(8, 30)), block(warps(24, 32)), block(warps(8, 40))], GRAPH)
    assert [(kind.count, trips(kind)) for kind in found] == [(8, [40]), (32, [31.5])]


def test_blocks_that_come_to_another_barrier_are_not_alike_however_short_that_is() -> None:
    one, other = block(warps(8, 10_000)), block(warps(8, 10_000, meets=True))
    assert len(merged([one, other], GRAPH)) == 2
    # A stretch without one makes up 1 of 30 005 instructions here.
    rare = warps(8, 10_000)
    rare = WarpKind(count=8, executed=(*rare.executed[:5], 0), edges=rare.edges)
    assert len(merged([one, block(rare)], GRAPH)) == 1


def test_no_more_than_six_kinds_are_kept() -> None:
    many = [block(warps(8, 100 * 2**n // 64)) for n in range(12)]
    found = merged(many, GRAPH)
    assert 2 <= len(found) <= 6
    assert sum(kind.count for kind in found) == 12 * 8
    assert sum(kind.warps[0].executed[2] for kind in found) == sum(
        kind.warps[0].executed[2] for kind in many
    )


def test_a_blocks_warps_are_shared_out_by_their_kinds() -> None:
    kind = block(warps(13, 5, meets=True), warps(91, 5))
    assert numbers_of(kind, 8) == (1, 7)
    assert numbers_of(block(warps(1, 5), warps(30, 6), warps(33, 7)), 4) == (0, 2, 2)
    assert numbers_of(block(warps(8, 5)), 8) == (8,)


def test_a_part_of_the_blocks_executes_what_only_some_kinds_do() -> None:
    kinds = [block(warps(8, 5, meets=True), warps(24, 5)), block(warps(96, 5))]
    assert parts_of(kinds, GRAPH) == [1, 1, 1, 1, 1, 0.25, 1]


def launched(*kinds: BlockKind, grid: int, block: int = 32) -> Profile:
    whole = [sum(w.executed[n] for k in kinds for w in k.warps) for n in range(6)]
    found = profile(
        LOOP, [whole[number] for number in GRAPH.block_of], grid=grid, block=block
    )  # fmt: skip
    return replace(found, kinds=kinds)


def timed(found: Profile) -> Estimate:
    return estimates(found, GRAPH, CONTROL, H200, Hits(), (1.0,))[0]


def test_a_launch_takes_as_long_as_its_longest_blocks() -> None:
    """130 blocks of ten trips and two of a thousand: nobody else helps those."""
    found = timed(launched(block(warps(2, 1000)), block(warps(130, 10)), grid=132))
    assert found.cycles == pytest.approx(13 * 1000 + 7, abs=26)
    # Each SM issues three instructions a trip; the mean has 130 short ones and two long ones.
    issued = (130 * (30 + 3) + 2 * (3000 + 3)) / 132
    assert found.issue_active == pytest.approx(issued / found.cycles / 4, rel=0.02)


def test_where_blocks_go_one_after_the_other_a_typical_one_stands_for_all() -> None:
    full = 132 * 32  # as many as fit at once of one warp each
    kinds = block(warps(full, 20)), block(warps(full, 60))
    assert timed(launched(*kinds, grid=2 * full)).waves == 2.0
    alike = timed(launched(block(warps(2 * full, 40)), grid=2 * full))
    assert timed(launched(*kinds, grid=2 * full)).cycles == pytest.approx(alike.cycles)


def test_warps_of_a_block_go_their_own_ways() -> None:
    """One of four warps goes on for 500 trips; the barrier behind lets the others wait for it."""
    kind = block(warps(132, 500, meets=True), warps(3 * 132, 20, meets=True))
    found = timed(launched(kind, grid=132, block=128))
    assert found.cycles == pytest.approx(13 * 500 + 13, abs=40)
    waited = 3 * 13 * 480
    assert found.stalls["barrier"] == pytest.approx(
        waited / (3 * 3 * 20 + 3 * 500 + 4 * 4), rel=0.03
    )


def test_warps_that_would_wait_for_ever_take_the_typical_way() -> None:
    """One of two warps waits at a barrier to which the other never comes: each takes 250 trips."""
    code = function(
        "@P1 BRA `(.L_x_2)",  # block 1
        "BAR.SYNC.DEFER_BLOCKING 0x0",  # block 2
        ".L_x_2:",
        "FFMA R1, R1, R2, R3",  # block 3
        "@P0 BRA `(.L_x_2)",
        "EXIT",  # block 4
    )
    graph = flow(code)
    several = [
        WarpKind(
            count=132,
            executed=(0, 132, 132 * meets, 132 * trips, 132),
            edges={(1, 2): 132 * meets, (1, 3): 132 - 132 * meets, (2, 3): 132 * meets,
                   (3, 3): 132 * (trips - 1), (3, 4): 132},
        )
        for meets, trips in ((1, 490), (0, 10))
    ]  # fmt: skip
    whole = [sum(warp.executed[n] for warp in several) for n in graph.block_of]
    edges = {edge: sum(w.edges[edge] for w in several) for edge in several[0].edges}
    found = profile(code, whole, edges, grid=132, block=64)
    found = replace(found, kinds=(BlockKind(warps=tuple(several)),))
    (told,) = estimates(found, graph, CONTROL, H200, Hits(), (1.0,))
    assert told.cycles == pytest.approx((4 + 4) * 250, rel=0.3)


def test_neighbours_are_taken_from_the_middle() -> None:
    assert neighbours(Launch(grid=132, block=32), 4) == [64, 65, 66, 67]
    assert neighbours(Launch(grid=(3, 3), block=32), 8) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert neighbours(Launch(grid=4, block=32), 4) is None


@pytest.mark.parametrize(
    ("flops", "grid", "ran"), [(2**25, 64, 64), (5 * 2**19, 64, 5), (3 * 2**19, 2, 1)]
)
def test_blocks_that_share_tiles_are_run_as_long_as_they_are_enough(
    monkeypatch: pytest.MonkeyPatch, flops: int, grid: int, ran: int
) -> None:
    """Of 2^25 operations each of 64 blocks has 2^19; with three the tiles are counted instead."""
    monkeypatch.setattr(profiling, "_SHARING_FLOPS", flops)
    problem = Problem(m=256, n=256, k=256, alpha=0.5, beta=0.5)
    found = profiling.profile_rung(rung("10_persistent"), problem, H200)
    assert (found.launch.grid, found.blocks_run) == ((grid, 1, 1), ran)
    assert any("as if each tile had one" in gap for gap in found.gaps) == (grid == 2)
    fma = sum(each.threads for each in found.counted if each.instruction.opcode == "FFMA")
    assert fma == 256**3 + (256**2 if ran != 5 else 0)  # of five neighbours none ends a tile


DIFFERENT = """extern "C" __global__ void k(float* x, unsigned* count) {
  float sum = x[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < (blockIdx.x < 6 ? 20 : 60); ++i) sum = fmaf(sum, 0.5f, 1.0f);
  x[blockIdx.x * 64 + threadIdx.x] = sum;
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(count, 1u);
  }
}"""


def test_a_run_tells_what_blocks_and_warps_differ_in() -> None:
    """Six blocks of 20 trips, two of 60; in each the first of two warps counts."""
    artifact = compile_cuda(DIFFERENT, "k")
    args = [np.zeros(512, np.float32), np.zeros(1, np.uint32)]
    found = profile_kernel(artifact, Launch(grid=8, block=64), args)
    code = [each.instruction.opcode for each in found.counted]

    def times(warp: WarpKind, opcode: str) -> float:
        graph = flow_of(artifact)
        return sum(
            warp.executed[graph.block_of[i]] for i, each in enumerate(code) if each == opcode
        ) / warp.count  # fmt: skip

    assert sum(times(w, "FFMA") * w.count for k in found.kinds for w in k.warps) == sum(
        each.executed for each in found.counted if each.instruction.opcode == "FFMA"
    )
    told = [
        [(warp.count, times(warp, "FFMA"), times(warp, "ATOMG") + times(warp, "REDG"))
         for warp in kind.warps]
        for kind in found.kinds
    ]  # fmt: skip
    assert [sorted(kind) for kind in told] == [
        [(2, 60, 0), (2, 60, 1)],
        [(6, 20, 0), (6, 20, 1)],
    ]
    # What only lane 0 does is on its warp's way, although the other lanes pass it over.
    (first,) = (w for w in found.kinds[0].warps if times(w, "MEMBAR"))
    path = typical_path(profile_of(first, found, flow_of(artifact)), flow_of(artifact), {}, 10**6)
    assert [code[i] for i in path].count("MEMBAR") == 1


QUEUE = """extern "C" __global__ void k(float* x, unsigned* next, int tiles) {
  __shared__ unsigned tile;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(next, 1u);
    __syncthreads();
    if (tile >= tiles) return;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < 40; ++i) sum = fmaf(sum, 0.5f, 1.0f);
    x[tile * 64 + threadIdx.x] = sum;
  }
}"""


@pytest.mark.parametrize("workers", [1, None])
def test_blocks_that_take_tiles_from_a_queue_are_all_alike(workers: int | None) -> None:
    """The emulator's first block takes all 64 tiles, a GPU's take eight each."""
    artifact = compile_cuda(QUEUE, "k")
    args = [np.zeros(64 * 64, np.float32), np.zeros(1, np.uint32), np.int32(64)]
    found = profile_kernel(artifact, Launch(grid=8, block=64), args, workers=workers)
    assert found.kinds == ()
    control = control_codes(artifact)
    (told,) = estimates(found, flow_of(artifact), control, H200, Hits(), (1.0,))
    alone = profile_kernel(
        artifact, Launch(grid=1, block=64), [args[0], np.zeros(1, np.uint32), np.int32(8)]
    )
    (one,) = estimates(alone, flow_of(artifact), control, H200, Hits(), (1.0,))
    assert told.cycles == pytest.approx(one.cycles, rel=0.15)


def flow_of(artifact: Artifact) -> SassFlow:
    return images_of(artifact).flow
