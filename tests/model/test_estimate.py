"""A launch's time from its waves of blocks, its long loops extrapolated, and the GPU's figures."""

from dataclasses import replace

import pytest
from calibration import launches
from small_programs import function, profile

from tilewright.errors import LaunchError, UnsupportedError
from tilewright.gpus import gpu
from tilewright.model import runs
from tilewright.model.estimate import Estimate, estimates, resident_blocks
from tilewright.model.machine import machine
from tilewright.model.traffic import Hit, Hits
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass_flow import flow

H200 = gpu("H200")
SMS = 132
LAUNCH_S = 3.4e-6

LOOP = function(
    "S2R R0, SR_TID.X",
    ".L_x_1:",
    "FFMA R1, R1, R2, R3",
    "FFMA R1, R1, R2, R3",
    "@P0 BRA `(.L_x_1)",
    "EXIT",
)


def fields(stall: int) -> Control:
    return Control(stall=stall, write_barrier=None, read_barrier=None, wait=0, reuse=0)


# A trip takes 4 + 4 + 5 cycles of a warp; what is outside the loop 1 and 5.
CONTROL = {16 * i: fields(stall) for i, stall in enumerate([1, 4, 4, 5, 5])}
TRIP, OUTSIDE = 13, 6


def modelled(blocks: int, *, trips: int = 100, block: int = 32, shared_bytes: int = 0) -> Estimate:
    warps = blocks * block // 32
    counts = [warps, warps * trips, warps * trips, warps * trips, warps]
    edges = {(1, 2): warps, (2, 2): warps * (trips - 1), (2, 3): warps}
    found = profile(LOOP, counts, edges, grid=blocks, block=block, shared_bytes=shared_bytes)
    return estimates(found, flow(LOOP), CONTROL, H200, Hits(), (1.0,))[0]


@pytest.mark.parametrize("trips", [1, 4, 5, 100, 5000])
def test_a_loop_takes_its_trips_whether_it_is_simulated_whole_or_not(trips: int) -> None:
    found = modelled(1, trips=trips)
    assert found.cycles == pytest.approx(TRIP * trips + OUTSIDE, abs=26)
    assert found.seconds == pytest.approx(found.cycles / H200.boost_clock_hz + LAUNCH_S)
    assert found.clock_hz == H200.boost_clock_hz


@pytest.mark.parametrize("grid", [1, 132, 1056, 16384, 65536, 262144])
@pytest.mark.parametrize("block", [32, 256])
def test_blocks_start_one_after_the_other(grid: int, block: int) -> None:
    found = modelled(grid, trips=1, block=block)
    assert found.seconds == pytest.approx(launches()[f"launch-{grid}x{block}"], rel=0.04)
    assert found.is_starting == (grid > 10_000)


NESTED = function(
    "S2R R0, SR_TID.X",
    ".L_x_1:",
    "FADD R1, R1, R2",
    ".L_x_2:",
    "FFMA R1, R1, R2, R3",
    "FFMA R1, R1, R2, R3",
    "@P0 BRA `(.L_x_2)",
    "@P1 BRA `(.L_x_1)",
    "EXIT",
)


@pytest.mark.parametrize("tiles", [1, 3, 8])
def test_a_loop_of_long_loops_has_those_cut(tiles: int) -> None:
    """As where a block computes tile after tile: a trip is longer than any path."""
    trips = 20_000
    counts = [1, tiles, *[tiles * trips] * 3, tiles, 1]
    edges = {(1, 2): 1, (2, 3): tiles, (3, 3): tiles * (trips - 1), (3, 4): tiles}
    edges |= {(4, 2): tiles - 1, (4, 5): 1}
    control = {16 * i: fields(stall) for i, stall in enumerate([1, 4, 4, 4, 5, 5, 5])}
    found = estimates(profile(NESTED, counts, edges), flow(NESTED), control, H200, Hits(), (1.0,))
    assert found[0].cycles == pytest.approx(tiles * (trips * 13 + 9) + OUTSIDE, rel=1e-3)


def test_a_long_loop_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    path = runs.typical_path

    def spied(*args: object) -> list[int]:
        found = path(*args)
        lengths.append(len(found))
        return found

    monkeypatch.setattr(runs, "typical_path", spied)
    modelled(1, trips=5000)
    assert lengths == [2 + 3 * 1024, 2 + 3 * 2048]  # 1024 trips at most, and as many more


def test_all_stalls_are_by_issued_instruction() -> None:
    """A trip issues three and waits ten cycles: 3 + 3 + 4."""
    found = modelled(1, trips=1000)
    assert found.stalls["wait"] == pytest.approx(10 / 3, rel=0.01)
    assert found.issue_active == pytest.approx(3 / 13 / 4, rel=0.01)
    assert found.demand["fma"] == pytest.approx(2 / 13 / 4, rel=0.01)


# Blocks of 48 KiB: four are resident on an SM of 228.
SHARED, RESIDENT = 48 << 10, 4


def test_waves_of_blocks_and_their_tail() -> None:
    full = SMS * RESIDENT
    one = modelled(full, shared_bytes=SHARED)
    assert (one.resident_blocks, one.waves) == (RESIDENT, 1.0)
    # Four warps of different partitions take what one takes.
    assert one.cycles == pytest.approx(TRIP * 100 + OUTSIDE, abs=26)
    assert modelled(full // 2, shared_bytes=SHARED).cycles == one.cycles
    two = modelled(2 * full, shared_bytes=SHARED)
    assert (two.cycles, two.waves) == (2 * one.cycles, 2.0)


def test_one_block_more_than_a_wave_costs_another_of_one_block() -> None:
    full = SMS * RESIDENT
    one, more = modelled(full, shared_bytes=SHARED), modelled(full + 1, shared_bytes=SHARED)
    alone = modelled(1, shared_bytes=SHARED)
    assert more.waves == 1 + 1 / RESIDENT
    assert more.cycles == one.cycles + alone.cycles


def test_a_tail_of_fewer_blocks_takes_less_where_they_share_a_partition() -> None:
    """Two blocks of 32 warps are 16 warps a partition, 48 instructions a trip; one has half."""
    full = modelled(SMS * 2, block=1024)
    tail = modelled(SMS * 3, block=1024)
    half = modelled(SMS, block=1024)
    assert (full.resident_blocks, tail.waves) == (2, 1.5)
    assert tail.cycles == full.cycles + half.cycles
    assert full.cycles > 48 * 100
    assert half.cycles == pytest.approx(full.cycles / 2, rel=0.1)


def test_a_round_lasts_until_its_stores_are_in_the_dram() -> None:
    """64 warps of an SM store 128 bytes each; it has 1 / 132 of 90 % of 4.8 TB/s."""
    code = function("STG.E desc[UR4][R2.64], R0", "EXIT")
    found = profile(code, [64 * SMS] * 2, grid=2 * SMS, block=1024)
    stored = Hit(missing=1.0, pending=0.0, sectors=4.0, dram=1.0)
    control = {0: fields(1), 16: fields(5)}
    hits = Hits(by_index={0: stored})
    (timed,) = estimates(found, flow(code), control, H200, hits, (1.0,))
    a_cycle = 0.9 * H200.dram_bytes_per_s / H200.boost_clock_hz / SMS
    assert timed.cycles == pytest.approx(64 * 128 / a_cycle, rel=0.01)
    assert timed.demand["dram"] == pytest.approx(1.0, abs=0.01)


def test_how_many_blocks_an_sm_holds() -> None:
    found = profile(LOOP, [1] * 5, block=1024, registers=64)
    assert resident_blocks(found, H200) == 1  # 64 K registers
    assert resident_blocks(replace(found, registers=32), H200) == 2  # 64 warps
    # A block may have more than 48 KiB, if it is given at the launch: two of 100 KiB in 228.
    small = profile(LOOP, [1] * 5, shared_bytes=100 << 10)
    assert resident_blocks(small, H200) == 2
    with pytest.raises(LaunchError, match="registers 128 x threads 1024"):
        estimates(replace(found, registers=128), flow(LOOP), CONTROL, H200, Hits(), (1.0,))


def test_a_gpu_without_a_compiler_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        machine(gpu("GTX 280"))


@pytest.mark.parametrize(
    ("name", "fma", "alu", "lanes"),
    # 128 float lanes of an SM from 8.6 on, but 64 of an A100; 16 load-store lanes but of an A100's
    # and an H200's SM. CUDA C++ Programming Guide, throughput table; NVIDIA's whitepapers.
    [("A100 80GB", 2, 2, 32), ("RTX A6000", 1, 2, 16), ("H200", 1, 2, 32), ("T4", 2, 2, 16)],
)
def test_the_rates_of_an_sm(name: str, fma: int, alu: int, lanes: int) -> None:
    found = machine(gpu(name))
    assert (found.interval["fma"], found.interval["alu"], found.lsu_lanes) == (fma, alu, lanes)
    assert found.latency["l2"] < found.latency["dram"]
