"""The model of 2008's multiprocessors: by hand, beside a simulation, and beside the published."""

import random
from dataclasses import replace

import pytest

from tilewright.errors import UnknownNameError
from tilewright.gpus import gpu
from tilewright.study.loops_2008 import LoopMix
from tilewright.study.speed_2008 import (
    OLD_GPUS,
    OldKernel,
    Turn,
    old_gpu,
    old_point,
    turn_of,
    turns_a_cycle,
)
from tilewright.study.volkov import (
    OTHER,
    PUBLISHED_CURVE,
    PUBLISHED_GFLOPS,
    PUBLISHED_GPU,
    PUBLISHED_OCCUPANCY,
    PUBLISHED_RANGE,
    THEIRS,
    design,
)

MIX = LoopMix(
    multiply_adds=64, shared_multiply_adds=32, shared_reads=4, staged_loads=2, streamed_loads=6,
    shared_stores=2, barriers=2, others=20,
)  # fmt: skip
KERNEL = OldKernel(
    name="made", threads=64, registers=20, shared_bytes=1024, sums=8, turn_bytes=4096, mix=MIX
)


def test_a_turn_by_hand() -> None:
    """100 instructions of 4 cycles, 32 of them 2 longer, two warps; memory: the tile, 4 + 2."""
    turn = turn_of(KERNEL)
    assert turn.issue == 2 * (100 * 4 + 32 * 2) == 928
    assert turn.wait == 3 * 500
    assert turn.least == 2 * 64 * 4
    assert turn_of(KERNEL, memory_cycles=400, ahead=6).wait == 2 * 400


def test_one_warp_of_one_sum_waits_for_its_own_result() -> None:
    """A multiply-add of 4 cycles every 24: 20 idle for each of 64, and nothing else."""
    mix = LoopMix(
        multiply_adds=64, shared_multiply_adds=0, shared_reads=0, staged_loads=0, streamed_loads=0,
        shared_stores=0, barriers=0, others=0,
    )  # fmt: skip
    alone = replace(KERNEL, threads=32, sums=1, mix=mix)
    assert turn_of(alone) == Turn(issue=256, wait=64 * 20, least=256)
    # Six warps are NVIDIA's rule of 192 threads: 24 / 4. So are six sums of one warp.
    assert turn_of(replace(alone, threads=192)).wait == 0
    assert turn_of(replace(alone, threads=160)).wait == 64 * 4
    assert turn_of(replace(alone, sums=6)).wait == pytest.approx(0)


def test_blocks_by_hand() -> None:
    """One: issue + wait. Two: the second finds the first at the port in 2/5 of the time."""
    turn = Turn(issue=200, wait=300, least=100)
    assert turns_a_cycle(turn, 1) == pytest.approx(1 / 500)
    assert turns_a_cycle(turn, 2) == pytest.approx(2 / (200 * 1.4 + 300))
    assert turns_a_cycle(turn, 50) == pytest.approx(1 / 200, rel=1e-3)


@pytest.mark.parametrize("blocks", [2, 3, 4])
@pytest.mark.parametrize("drawn", ["exponential", "even"])
def test_the_model_is_what_a_simulation_does(blocks: int, drawn: str) -> None:
    """A port shared evenly by all that want it, and waits of any distribution: only means count."""
    turn, pick = Turn(issue=3464, wait=2500, least=2048), random.Random(blocks)

    def time(mean: float) -> float:
        return pick.expovariate(1 / mean) if drawn == "exponential" else pick.uniform(0, 2 * mean)

    now, done = 0.0, 0
    issuing: dict[int, float] = {}
    waiting = {block: time(turn.wait) for block in range(blocks)}
    while done < 20_000:
        ends = [end - now for end in waiting.values()]
        step = min([*ends, *(left * len(issuing) for left in issuing.values())])
        issuing = {b: left - step / len(issuing) for b, left in issuing.items()}
        now += step
        for block in [b for b, left in issuing.items() if left <= 1e-6]:
            del issuing[block]
            waiting[block] = now + time(turn.wait)
            done += 1
        for block in [b for b, end in waiting.items() if end <= now + 1e-6]:
            del waiting[block]
            issuing[block] = time(turn.issue)
    assert done / now == pytest.approx(turns_a_cycle(turn, blocks), rel=0.025)


def test_bandwidth_is_a_roof() -> None:
    slow = replace(gpu("GTX 280"), dram_bytes_per_s=1e9)
    point = old_point(KERNEL, slow, 8)
    # 64 threads x 64 multiply-adds are 8192 operations for 4096 bytes: 2 GFLOP/s at 1 GB/s.
    assert point.gflops == pytest.approx(2.0)
    assert point.bound == "memory"


def test_the_published_curve() -> None:
    """32, 49, 58, 59 % of the peak at one to four blocks; the last is 25 % occupancy."""
    kernel, card = design(THEIRS).kernel, gpu("GTX 280")
    points = {n: old_point(kernel, card, n) for n in range(1, 9)}
    for blocks, share in PUBLISHED_CURVE.items():
        assert points[blocks].share == pytest.approx(share, abs=0.03), blocks
    assert points[4].occupancy == 0.25
    assert points[8].share - points[4].share < 0.01  # more is not better
    assert points[1].share < 0.65 * points[4].share  # far less is worse
    assert (points[1].bound, points[8].bound) == ("waiting", "issue")
    # 400 to 600 cycles of latency: the published figure of one block lies in between.
    slow, fast = (old_point(kernel, card, 1, memory_cycles=n).share for n in (600, 400))
    assert slow < PUBLISHED_CURVE[1] < fast


@pytest.mark.parametrize("name", [THEIRS, OTHER])
def test_what_was_published_of_the_8800_gtx(name: str) -> None:
    """204 and 128 GFLOP/s, 33 and 67 % occupancy (GTC 2010); both ranges over four GPUs (SC08)."""
    reached = {r.gpu.name: r for r in design(name).reached}
    found = reached[PUBLISHED_GPU]
    assert found.point.gflops == pytest.approx(PUBLISHED_GFLOPS[name], rel=0.05)
    assert round(found.occupancy.fraction, 2) == PUBLISHED_OCCUPANCY[name]
    low, high = PUBLISHED_RANGE[name]
    assert set(reached) == {"8800 GTX", "9800 GTX", "GTX 280"}
    assert all(low - 0.01 <= r.point.share <= high + 0.01 for r in reached.values())


def test_a_gpu_of_2008_by_name() -> None:
    assert old_gpu("geforce gtx 280") is gpu("GTX 280")
    assert {each.compute_capability[0] for each in OLD_GPUS} == {1}
    with pytest.raises(UnknownNameError, match="unknown GPU of 2008 'H200'"):
        old_gpu("H200")
    with pytest.raises(UnknownNameError, match="did you mean '8800 GTX'"):
        old_gpu("8800 GT")
