"""The typical path of a warp: the rungs' own, cut loops, and loops that are left early."""

from collections import Counter
from itertools import pairwise

import pytest
from small_programs import function, profile

from tilewright.bench.profiling import profile_rung
from tilewright.gpus import gpu
from tilewright.kernels import RUNGS
from tilewright.model.path import typical_path
from tilewright.problem import Problem
from tilewright.toolchain import compile_cuda, disassemble
from tilewright.toolchain.sass_flow import flow

PROBLEM = Problem(m=1024, n=1024, k=1024, alpha=0.5, beta=0.5)
MANY = 10**6


@pytest.mark.parametrize("name", RUNGS)
def test_a_rungs_path_executes_what_its_warps_do(name: str) -> None:
    """At 1024 all warps of a rung take one way, so that the path is as long as each of them."""
    chosen, on = RUNGS[name], gpu("H200")
    found = profile_rung(chosen, PROBLEM, on)
    artifact = compile_cuda(
        chosen.source, chosen.expression(chosen.tile_for("H200")), arch="sm_90",
        include_dirs=chosen.include_dirs,
    )  # fmt: skip
    graph = flow(disassemble(artifact).functions[artifact.symbol])
    warps = found.launch.blocks * found.launch.threads // 32
    path = typical_path(found, graph, {}, MANY)
    assert len(path) == sum(counted.executed for counted in found.counted) / warps
    times = Counter(path)
    assert all(times[i] * warps == counted.executed for i, counted in enumerate(found.counted))
    starts = {loop.header: graph.cfg.blocks[loop.header].start for loop in graph.cfg.loops}
    turning = [loop for loop in graph.cfg.loops if times[starts[loop.header]] > 2]
    header = max(turning, key=lambda loop: (-loop.depth, len(loop.blocks))).header
    first = starts[header]
    cut = Counter(typical_path(found, graph, {header: 2}, MANY))
    assert cut[first] == 2 < times[first]


LOOP = function(
    "S2R R0, SR_TID.X",  # block 1: 0
    ".L_x_1:",
    "FADD R1, R1, R2",  # block 2: 1, 2
    "@P0 BRA `(.L_x_2)",
    "FADD R1, R1, R3",  # block 3: 3, 4
    "@P1 BRA `(.L_x_1)",
    ".L_x_2:",
    "EXIT",  # block 4: 5
)


def test_a_loop_of_ten_trips_has_ten_in_its_path() -> None:
    found = profile(LOOP, [1, 10, 10, 10, 10, 1])
    assert typical_path(found, flow(LOOP), {}, MANY) == [0, *[1, 2, 3, 4] * 10, 5]


def test_a_cut_loop_has_so_many_trips() -> None:
    found = profile(LOOP, [1, 10, 10, 10, 10, 1])
    assert typical_path(found, flow(LOOP), {2: 3}, MANY) == [0, *[1, 2, 3, 4] * 3, 5]
    assert len(typical_path(found, flow(LOOP), {2: 20}, MANY)) == 42  # no more than there are


def test_a_long_path_ends_with_the_block_that_makes_it_too_long() -> None:
    found = profile(LOOP, [1, 10, 10, 10, 10, 1])
    assert typical_path(found, flow(LOOP), {}, 6) == [0, 1, 2, 3, 4, 1, 2]


def test_a_loop_that_half_of_the_warps_leave_early() -> None:
    """Eight warps come in, four leave by the first exit; the header runs 40 times, 5 a warp."""
    edges = {(2, 4): 4, (2, 3): 36, (3, 2): 32, (3, 4): 4}
    found = profile(LOOP, [8, 40, 40, 36, 36, 8], edges, grid=8)
    path = typical_path(found, flow(LOOP), {}, MANY)
    assert path[0] == 0
    assert path[-1] == 5
    assert path.count(1) == 5
    cut = typical_path(found, flow(LOOP), {2: 2}, MANY)
    assert cut.count(1) == 2


def test_a_loop_that_warps_leave_by_an_exit_of_the_kernel() -> None:
    """Four warps come to the conditional EXIT eight times, and leave there at the second."""
    code = function(
        ".L_x_1:",
        "@P0 EXIT",  # block 1: 0
        "FADD R1, R1, R2",  # block 2: 1, 2
        "@P1 BRA `(.L_x_1)",
        "EXIT",  # block 3: 3
    )
    edges = {(1, 2): 4, (2, 1): 4, (2, 3): 0}
    found = profile(code, [8, 4, 4, 0], edges, grid=4)
    assert typical_path(found, flow(code), {}, MANY) == [0, 1, 2, 0]


def test_a_branch_goes_each_way_by_its_share() -> None:
    """A quarter of the trips take the longer way round."""
    code = function(
        ".L_x_1:",
        "@P0 BRA `(.L_x_2)",  # block 1: 0
        "FADD R1, R1, R2",  # block 2: 1
        ".L_x_2:",
        "@P1 BRA `(.L_x_1)",  # block 3: 2
        "EXIT",  # block 4: 3
    )
    edges = {(1, 3): 12, (1, 2): 4, (3, 1): 15, (3, 4): 1}
    path = typical_path(profile(code, [16, 4, 16, 1], edges), flow(code), {}, MANY)
    assert Counter(path) == {0: 16, 1: 4, 2: 16, 3: 1}
    apart = [i for i, n in enumerate(path) if n == 1]
    assert max(b - a for a, b in pairwise(apart)) <= 12  # spread evenly


def test_a_call_comes_back() -> None:
    code = function(
        "CALL.REL.NOINC `(fn)",  # 0
        "EXIT",
        "fn:",
        "FADD R1, R1, R2",  # 2
        "RET.REL.NODEC R2 `(k)",
    )
    assert typical_path(profile(code, [1, 1, 1, 1]), flow(code), {}, MANY) == [0, 2, 3, 1]
