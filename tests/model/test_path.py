"""The typical path of a warp: the rungs' own, cut loops, and loops that are left early."""

from collections import Counter
from itertools import pairwise

import pytest
from small_programs import function, profile

from tilewright.bench.profiling import profile_rung
from tilewright.gpus import gpu
from tilewright.kernels import RUNGS
from tilewright.model.kinds import profile_of
from tilewright.model.path import typical_path
from tilewright.model.profile import Profile
from tilewright.problem import Problem
from tilewright.toolchain import compile_cuda, disassemble
from tilewright.toolchain.sass_flow import SassFlow, flow

PROBLEM = Problem(m=1024, n=1024, k=1024, alpha=0.5, beta=0.5)
MANY = 10**6


def of_rung(name: str) -> tuple[Profile, SassFlow]:
    chosen = RUNGS[name]
    found = profile_rung(chosen, PROBLEM, gpu("H200"))
    artifact = compile_cuda(
        chosen.source, chosen.expression(chosen.tile_for("H200")), arch="sm_90",
        include_dirs=chosen.include_dirs,
    )  # fmt: skip
    return found, flow(disassemble(artifact).functions[artifact.symbol])


@pytest.mark.parametrize("name", [name for name in RUNGS if name != "10_persistent"])
def test_a_rungs_path_executes_what_its_warps_do(name: str) -> None:
    """At 1024 all warps of a rung take one way, so that the path is as long as each of them."""
    found, graph = of_rung(name)
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


# A loop with a longer way round.
TWO_WAYS = (
    ".L_x_1:",
    "@P0 BRA `(.L_x_2)",  # block 1: 0
    "FADD R1, R1, R2",  # block 2: 1
    ".L_x_2:",
    "@P1 BRA `(.L_x_1)",  # block 3: 2
    "EXIT",  # block 4: 3
)


def test_where_blocks_share_tiles_each_kind_of_warp_has_a_path() -> None:
    """Of 132 blocks 32 add the parts of a tile; in each the first warp asks whether it is last."""
    found, graph = of_rung("10_persistent")
    assert sum(kind.count for kind in found.kinds) == 132 * 8
    adding = 0
    for kind in found.kinds:
        paths = []
        for warp in kind.warps:
            path = typical_path(profile_of(warp, found, graph), graph, {}, MANY)
            each = sum(
                n * (block.end - block.start)
                for n, block in zip(warp.executed, graph.cfg.blocks, strict=True)
            ) / warp.count  # fmt: skip
            assert len(path) == pytest.approx(each, abs=1200)  # a step has 1115
            paths.append(Counter(found.counted[i].instruction.opcode for i in path))
        assert {each["BAR"] for each in paths} == {paths[0]["BAR"]}
        first = [each["ATOMG"] for each in paths]
        assert [warp.count for warp in kind.warps] == [kind.count // 8, kind.count * 7 // 8]
        assert first[0] >= 1
        assert first[1] == 0
        if paths[1]["LDG"] > 64:  # whoever adds reads 32 quads of each part, and as many of C
            adding += kind.count // 8
    assert adding == 32


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
    code = function(*TWO_WAYS)
    edges = {(1, 3): 12, (1, 2): 4, (3, 1): 15, (3, 4): 1}
    path = typical_path(profile(code, [16, 4, 16, 1], edges), flow(code), {}, MANY)
    assert Counter(path) == {0: 16, 1: 4, 2: 16, 3: 1}
    apart = [i for i, n in enumerate(path) if n == 1]
    assert max(b - a for a, b in pairwise(apart)) <= 12  # spread evenly


def test_lanes_that_part_are_on_the_way_of_their_warp() -> None:
    """Both ways are taken each time: what some lanes do alone lies on the way to where all meet."""
    code = function(*TWO_WAYS)
    edges = {(1, 3): 8, (1, 2): 8, (2, 3): 8, (3, 1): 7, (3, 4): 1}
    path = typical_path(profile(code, [8, 8, 8, 1], edges), flow(code), {}, MANY)
    assert path == [0, 1, 2] * 8 + [3]
    # Of eight times, in six the lanes part and in two all of them jump.
    edges |= {(1, 2): 6, (2, 3): 6}
    path = typical_path(profile(code, [8, 6, 8, 1], edges), flow(code), {}, MANY)
    assert Counter(path) == {0: 8, 1: 6, 2: 8, 3: 1}


def test_a_call_comes_back() -> None:
    code = function(
        "CALL.REL.NOINC `(fn)",  # 0
        "EXIT",
        "fn:",
        "FADD R1, R1, R2",  # 2
        "RET.REL.NODEC R2 `(k)",
    )
    assert typical_path(profile(code, [1, 1, 1, 1]), flow(code), {}, MANY) == [0, 2, 3, 1]
