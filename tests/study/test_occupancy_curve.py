"""Points of a curve: by NVIDIA's rules of occupancy, by ptxas, by hand; and what they say."""

import json
import re

import pytest

from study.curves import LESS, WIDE, curve_of, made
from tilewright.bench.explain import explain_rung
from tilewright.errors import LaunchError, UnsupportedError
from tilewright.gpus import gpu, occupancy
from tilewright.kernels import HISTORY, RUNGS, Tile, rung
from tilewright.problem import Problem
from tilewright.study.curve import Curve
from tilewright.study.occupancy import occupancy_curve, shared_to_add
from tilewright.toolchain import compile_cuda
from unit.occupancy_oracle import Case, Oracle, build_oracle

NARROW = Problem(m=1024, n=1024, k=16)
EVERY = (*RUNGS, *HISTORY)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return build_oracle(tmp_path_factory.mktemp("occupancy"))


def asked(curve: Curve, shared_less: int = 0) -> list[Case]:
    """What each point of a curve takes, as a question to NVIDIA's header."""
    tile = Tile.from_json(curve.tile)
    return [
        Case(
            limits=gpu(curve.gpu).limits,
            threads=tile.threads,
            registers=point.registers,
            static=0,
            dynamic=point.shared_bytes - shared_less,
            carveout=None,
        )
        for point in curve.ran
    ]


@pytest.mark.parametrize(
    ("name", "card", "problem"),
    [("05", "H200", WIDE), ("02", "A100", WIDE), ("volkov_2008", "RTX A6000", LESS)],
)
def test_nvidias_header_puts_as_many_blocks_on_an_sm(
    oracle: Oracle, name: str, card: str, problem: Problem
) -> None:
    curve = curve_of(name, card, problem)
    assert any(point.means == "shared" for point in curve.points)
    for point, verdict in zip(curve.ran, oracle(asked(curve)), strict=True):
        assert verdict.blocks == point.blocks
        assert point.warps == point.blocks * Tile.from_json(curve.tile).threads // 32
    # No byte more than needed is added: a unit less, and one more block fits.
    unit = gpu(card).limits.shared_unit
    for point, verdict in zip(curve.ran, oracle(asked(curve, shared_less=unit)), strict=True):
        if point.means == "shared":
            assert verdict.blocks > point.blocks


def test_added_shared_memory_by_hand() -> None:
    # H200: 228 KiB an SM, 1 KiB of it the driver's in every block, in steps of 128 bytes. Three
    # blocks fit where each takes at most 233472 / 3 = 77824 bytes, which is 608 steps; two blocks
    # are left when each takes a byte more: 77824 + 1 - 1024 - 8192 of a kernel with 8192.
    found = occupancy(gpu="H200", threads=128, registers=64, shared_bytes=8192)
    assert shared_to_add(gpu("H200"), found, 2) == 68609
    assert shared_to_add(gpu("H200"), found, found.active_blocks) == 0
    # RTX A6000: 100 KiB an SM. One block is left from 51200 + 1 - 1024 bytes on.
    found = occupancy(gpu="RTX A6000", threads=256, registers=32)
    assert shared_to_add(gpu("RTX A6000"), found, 1) == 50177


def test_registers_are_those_that_let_blocks_in() -> None:
    # 05: eight warps a block. Three blocks are six warps on each of four partitions with 16384
    # registers: 2730 a warp, 2560 in steps of 256, 80 a thread. Two blocks: 4096 a warp, 128.
    points = {point.blocks: point for point in curve_of("05").ran}
    assert points[2].means == "own"
    assert 80 < points[2].registers <= 128
    assert points[3].means == "registers"
    assert points[3].registers <= 80


def test_spills_are_those_that_ptxas_tells() -> None:
    curve = curve_of("05")
    for point in curve.ran:
        tile = Tile.from_json({**curve.tile, "min_blocks": point.min_blocks})
        each = rung("05")
        log = compile_cuda(
            each.source,
            each.expression(tile),
            arch="sm_90",
            options=["--ptxas-options=-v"],
            include_dirs=each.include_dirs,
        ).log
        frame = re.search(r"(\d+) bytes stack frame", log)
        used = re.search(r"Used (\d+) registers", log)
        assert frame, log
        assert used, log
        assert (point.spill_bytes, point.registers) == (int(frame[1]), int(used[1]))
    assert curve.own.spill_bytes == 0
    assert curve.ran[-1].spill_bytes > 0


def test_the_rungs_own_point_is_what_explain_says() -> None:
    problem = Problem(m=1024, n=1024, k=128)
    told = explain_rung(rung("03"), problem, gpu("H200"), tries=0)
    own = occupancy_curve(rung("03"), problem, gpu("H200")).own
    assert told.estimate is not None
    assert own.predicted_gflops == pytest.approx(problem.flops / told.estimate.seconds / 1e9)
    assert own.modelled.stall == told.estimate.first_stall
    assert own.occupancy == told.occupancy.fraction
    assert own.modelled.busy == pytest.approx(
        max(*told.estimate.demand.values(), told.estimate.issue_active)
    )


@pytest.mark.parametrize("name", EVERY)
def test_every_kernel_has_a_curve(name: str) -> None:
    curve = occupancy_curve(rung(name), NARROW, gpu("H200"))
    warps = [point.warps for point in curve.points]
    assert warps == sorted(set(warps))
    assert curve.ran[0].blocks == 1
    assert curve.own.shared_bytes_added == 0
    assert [point.runs for point in curve.points] == [True] * len(curve.ran) + [False]
    assert curve.enough.warps <= curve.best.warps
    assert all(curve.provenance[name] for name in ("predicted_gflops", "registers", "occupancy"))
    assert Curve.from_json(json.loads(json.dumps(curve.to_json()))) == curve


def test_fewer_blocks_take_more_rounds_and_time() -> None:
    # 02 at 4096: 128 x 128 tiles for 108 SMs are 152 blocks on the busiest.
    one, two = curve_of("02", "A100").ran
    assert (one.modelled.waves, two.modelled.waves) == (152, 76)
    assert (one.means, one.limiter) == ("shared", "added")
    assert one.predicted_gflops < 0.9 * two.predicted_gflops


def test_what_cannot_run_says_the_limit() -> None:
    # 02: 1024 threads a block, 32 warps, two of them fill an SM of 64.
    last = curve_of("02", "A100").points[-1]
    assert (last.blocks, last.limiter) == (3, "warps")
    assert last.reason == "3 blocks would be 96 warps, and an SM holds 64"
    # 08 at 1024: 8 x 8 tiles of 128 x 128 for 132 SMs.
    alone = occupancy_curve(rung("08"), NARROW, gpu("H200"))
    assert [point.blocks for point in alone.ran] == [1]
    assert alone.points[-1].limiter == "grid"
    assert "64 blocks for 132 SMs" in alone.points[-1].reason
    # An SM of an A6000 holds 16 blocks, whatever they take.
    assert curve_of("volkov_2008", "RTX A6000", LESS).points[-1].reason == (
        "an SM holds 16 blocks, not 17"
    )


def test_what_spills_too_much_is_given_up() -> None:
    curve = curve_of("05")
    last, before = curve.points[-1], curve.ran[-1]
    assert before.predicted_gflops < curve.best.predicted_gflops / 2
    assert before.spill_bytes > 0
    assert (last.blocks, last.limiter) == (before.blocks + 1, "registers")
    assert "not tried" in last.reason


def test_shared_memory_beyond_the_limit_is_refused() -> None:
    each = rung("09")
    tile = Tile.from_json({**each.default.to_json(), "stages": 8})  # 8 x 8 x 392 floats: 98 KiB
    with pytest.raises(LaunchError, match=r"T4 has at most 65536 bytes a block") as refused:
        occupancy_curve(each, WIDE, gpu("T4"), tile=tile)
    assert "\n" not in str(refused.value)
    with pytest.raises(UnsupportedError, match="cannot be compiled"):
        occupancy_curve(each, WIDE, gpu("GTX 280"))


def test_enough_is_the_fewest_within_two_percent() -> None:
    curve = made(50, 98, 100, 99, own=2)
    assert (curve.best.blocks, curve.enough.blocks, curve.own.blocks) == (3, 2, 2)
    assert made(50, 97.9, 100).enough.blocks == 3
    # Measured rates decide where there are some.
    curve = made(50, 98, 100, measured=(99, 60, 100))
    assert (curve.best.blocks, curve.enough.blocks) == (3, 1)
    assert curve.to_json()["enough"] == {"share_of_best": 0.98, "blocks": 1}


def test_progress_is_told() -> None:
    told: list[tuple[int, int, str]] = []
    occupancy_curve(rung("03"), NARROW, gpu("H200"), watch=lambda *each: told.append(each))
    assert told == [(0, 2, "blocks an SM: 1"), (1, 2, "blocks an SM: 2"), (2, 2, "")]
