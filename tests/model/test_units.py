"""What simulated warps ask for: the load-store unit, the L2 and the DRAM, on tiny programs.

Every program ends with END, which issues once and is over 5 cycles later.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from calibration import measured
from small_programs import END, H200, operation, simulate

from tilewright.model.sm import PARTITIONS, Sm
from tilewright.model.traffic import Hit, Hits
from tilewright.model.units import Queue, Units, Way


@pytest.mark.parametrize(
    ("size", "wavefronts", "load", "cycles"),
    [(4, 1.0, True, 2), (4, 4.0, True, 8), (16, 2.0, True, 4), (16, 2.0, False, 4)],
)
def test_a_warps_passes_are_two_cycles_apart(
    size: int, wavefronts: float, load: bool, cycles: int
) -> None:
    """Two warps fill a unit that takes a pass a cycle, of one partition or of two."""
    access = operation("shared", size=size, wavefronts=wavefronts, load=load)

    def last_start(count: int, warps: int) -> float:
        program = [access] * count + [operation("barrier"), END]
        return simulate(program, warps=warps).stalls["mio_throttle"]

    assert last_start(100, 1) - last_start(80, 1) == pytest.approx(20 * (cycles - 1), abs=2)
    both = simulate([access] * 60 + [END], warps=PARTITIONS)
    assert both.busy["lsu"] == PARTITIONS * 60 * wavefronts


def served(wavefronts: Sequence[float]) -> list[float]:
    """When the loads of so many warps, one each, come back: in the order of the warps."""
    ends = []
    for number in range(len(wavefronts)):
        units = Units(H200, Hits(), sms=1, warps_per_block=4, together=False)
        queues, ways = [Queue() for _ in range(PARTITIONS)], [Way() for _ in wavefronts]
        for warp in range(number + 1):
            load = operation("shared", wavefronts=wavefronts[warp])
            result, _ = units.execute(0.0, load, queues[warp % PARTITIONS], 0, ways[warp])
        ends.append(result)
    return ends


def test_the_unit_serves_two_warps_at_a_time() -> None:
    """Measured, four warps' LDS.128 of 16 passes each: 57, 61, 89 and 93 cycles behind issue."""
    first, second, third, fourth = served([16.0] * 4)
    assert first == second == H200.latency["lds"] + 2 * 15
    assert third == fourth == first + 32


def test_a_long_access_does_not_hold_up_the_other_server() -> None:
    assert served([100.0, 1.0])[1] == H200.latency["lds"]


@pytest.mark.parametrize(("wavefronts", "longest"), [(4.0, 37), (8.0, 136)])
def test_a_load_waits_behind_those_that_wait_for_their_warp(
    wavefronts: float, longest: int
) -> None:
    """Measured: the longest wait of a load beside 16 of a warp of another partition, 4 apart.

    That warp keeps one of the two servers busy, and yet another's load is not served at once.
    """
    waits = []
    for late in range(140):
        units = Units(H200, Hits(), sms=1, warps_per_block=4, together=False)
        queue, way = Queue(), Way()
        for n in range(16):
            if 4 * n < late:
                load = operation("shared", wavefronts=wavefronts)
                units.execute(4.0 * n, load, queue, 0, way)
        result, _ = units.execute(late, operation("shared"), Queue(), 0, Way())
        waits.append(result - late - H200.latency["lds"])
    assert min(waits) == 0
    assert max(waits) == pytest.approx(longest, abs=wavefronts)


def test_an_access_in_which_no_lane_takes_part_costs_no_unit() -> None:
    found = simulate([operation("shared", share=0.25)] * 20 + [END], warps=16)
    assert found.busy["lsu"] == 16 * 20 / 4


FAR = Hit(missing=1.0, pending=0.0, sectors=4.0, dram=0.0)
READ = [operation("global", write_barrier=0), operation(wait=1), END]


@pytest.mark.parametrize(
    ("hit", "name"),
    [
        (Hit(missing=0.0, pending=0.0, sectors=0.0, dram=0.0), "l1"),
        (FAR, "l2"),
        (Hit(missing=1.0, pending=0.0, sectors=4.0, dram=0.1), "dram"),
        (Hit(missing=1.0, pending=0.0, sectors=4.0, dram=1.0), "dram"),
    ],
)
def test_a_load_takes_as_long_as_it_goes_far(hit: Hit, name: str) -> None:
    found = simulate(READ, warps=16, hits=Hits(by_index={0: hit}))
    # Lines are nearer and farther by turns; some of the loads wait for the unit.
    assert found.stalls["long_scoreboard"] / 16 == pytest.approx(H200.latency[name], abs=12)
    assert found.busy.get("dram", 0) > 0 or not hit.dram


def test_lines_are_spread_and_the_last_of_four_is_waited_for() -> None:
    """Of an even spread of 64 cycles one is in its middle, the last of four at four fifths.

    Three lines more take three cycles more on their way.
    """

    def waited(lines: int) -> float:
        load = operation("global", write_barrier=0, lines=lines)
        hits = Hits(by_index={2 * n: FAR for n in range(32)})
        found = simulate([load, READ[1]] * 32 + [END], hits=hits)
        return found.stalls["long_scoreboard"] / 32

    assert waited(4) - waited(1) == pytest.approx(64 * (4 / 5 - 1 / 2) + 3, abs=2)


def test_a_miss_is_as_long_as_the_chain_of_misses_of_the_calibration() -> None:
    """696 cycles with 9 of arithmetic (chain-dram): another probe than the figure is from."""
    assert H200.latency["dram"] == pytest.approx(696 - 9, rel=0.02)


def test_later_blocks_wait_for_the_dram_as_often_as_they_lead() -> None:
    """One block in four waits, with all of its warps; together all blocks wait.

    Another is the first of its half of the L2: half of its lines come from the other half.
    """
    program = [operation("global", write_barrier=0), operation(wait=1)]

    def waited(together: bool, dram: float) -> float:
        hit = Hit(missing=1.0, pending=0.0, sectors=1.0, dram=dram)
        found = simulate(
            [*program, END], warps=8, blocks=4, hits=Hits(by_index={0: hit}), together=together
        )
        return found.stalls["long_scoreboard"] / 32

    near, far = waited(together=False, dram=0.0), waited(together=True, dram=0.25)
    assert far - near == pytest.approx(H200.latency["dram"] - H200.latency["l2"], abs=5)
    expected = (far - near + H200.l2_far / 2) / 4
    assert waited(together=False, dram=0.25) - near == pytest.approx(expected, rel=0.05)
    hit = Hit(missing=1.0, pending=0.0, sectors=1.0, dram=0.25)
    found = simulate(
        [*program, operation("barrier"), END],
        warps=8,
        blocks=4,
        hits=Hits(by_index={0: hit}),
        together=False,
    )
    # None of a block's warps waits a fetch (407) longer than the others, only for farther lines.
    assert found.stalls["barrier"] / 32 < 100


def test_one_that_comes_while_another_fetches_waits_for_the_rest() -> None:
    """It comes with every third load, 1320 cycles apart, where 0.65 wait for half of a fetch.

    1 - exp(-11 (407 / 1320)^2) is 0.65, and three loads take 3 (292 + 0.65 * 407 / 2) or 1270.
    """
    code = [replace(op, index=n) for n, op in enumerate(READ[:2])]

    def waited(dram: float) -> float:
        hits = Hits(by_index={0: Hit(missing=1.0, pending=0.0, sectors=1.0, dram=dram)})
        sm = Sm(
            H200, code, [[0, 1] * 300], hits, blocks=1, warps_per_block=1, together=False, sms=1
        )
        return sm.run().stalls["long_scoreboard"] / 300

    assert waited(1e-6) - waited(0.0) == pytest.approx(0.65 * 407 / 2, rel=0.2)


def test_half_of_the_requests_miss() -> None:
    half = Hit(missing=0.5, pending=0.0, sectors=4.0, dram=0.0)
    found = simulate(READ, warps=8, hits=Hits(by_index={0: half}))
    everything = simulate(READ, warps=8, hits=Hits(by_index={0: FAR}))
    assert found.busy["l2"] == pytest.approx(everything.busy["l2"] / 2)
    assert everything.busy["l2"] == pytest.approx(8)  # a cycle a line, with all of the L2 to itself
    shared = simulate(READ, warps=8, hits=Hits(by_index={0: FAR}), sms=132)
    assert shared.busy["l2"] == pytest.approx(8 * 128 / 85)  # bytes that each of all SMs gets


@pytest.mark.parametrize(("lines", "cycles"), [(4, 4.4), (8, 8.1), (16, 16.1)])
def test_a_line_takes_the_way_to_the_l2_as_long_for_one_sector_as_for_four(
    lines: int, cycles: float
) -> None:
    """LDG.128 of one SM with 32 warps, all 16 sectors of so many lines: read on an H200."""
    load = operation("global", write_barrier=0, size=16, wavefronts=4, lines=lines)
    hit = Hit(missing=1.0, pending=0.0, sectors=16.0, dram=0.0)
    found = simulate([load, *READ[1:]], warps=32, hits=Hits(by_index={0: hit}))
    assert found.busy["l2"] / 32 == pytest.approx(cycles, rel=0.1)


def test_what_few_blocks_ask_for_shares_the_l2_with_those_alone() -> None:
    """Of 132 SMs 119 ask: each has 85 / 0.9 bytes a cycle; 33 have the line that one can take."""
    far = Hit(missing=1.0, pending=0.0, sectors=4.0, dram=1.0)
    for part, rate in ((0.9, 85 / 0.9), (0.25, 128.0)):
        read = [operation("global", write_barrier=0, blocks=part), operation(wait=1), END]
        found = simulate(read, warps=8, hits=Hits(by_index={0: far}), sms=132)
        assert found.busy["l2"] == pytest.approx(8 * 128 / rate)
        a_cycle = H200.dram_bytes_per_cycle / 132 / part
        assert found.busy["dram"] == pytest.approx(8 * 128 / a_cycle)


def test_nothing_waits_for_a_store() -> None:
    store = operation("global", load=False, read_barrier=0)
    found = simulate([store, END], hits=Hits(by_index={0: FAR}))
    assert found.cycles < H200.latency["l1"]
    assert found.busy["l2"] > 0


WHOLE = Hit(missing=1.0, pending=0.0, sectors=16.0, dram=0.0)  # 16 bytes of every lane


@pytest.mark.parametrize(("sms", "rate"), [(1, 33.4), (132, 25.6)])
def test_the_l2_takes_stores_no_faster(sms: int, rate: float) -> None:
    """Eight warps of 32 stores of 512 bytes: as measured of one SM, and of all at once."""
    store = operation("global", load=False, size=16, wavefronts=4.0)
    program = [store] * 32 + [operation("barrier"), END]
    hits = Hits(by_index=dict.fromkeys(range(32), WHOLE))
    found = simulate(program, warps=8, hits=hits, sms=sms)
    assert found.cycles == pytest.approx(8 * 32 * 512 / rate, rel=0.03)
    # The queues and the unit hold 8 of each partition and 20 more.
    assert found.stalls["lg_throttle"] / 8 > 0.5 * found.cycles
    assert found.stalls["barrier"] / 8 < 0.35 * found.cycles


@pytest.mark.parametrize(("apart", "lines"), [(32, 8), (64, 16), (128, 32)])
@pytest.mark.parametrize(("sms", "of", "near"), [(1, "-one", 0.05), (132, "", 0.14)])
def test_sectors_that_are_not_full_cost_more(
    apart: int, lines: int, sms: int, of: str, near: float
) -> None:
    """As the H200 took 32 words of 32 sectors, in so many lines, alone and all SMs at once."""
    read = measured()[f"stream-stg32-apart{apart}{of}"]["16"]
    store = operation("global", load=False, lines=lines, partial=1.0)
    hit = Hit(missing=1.0, pending=0.0, sectors=32.0, dram=0.0)
    program = [store] * 32 + [operation("barrier"), END]
    found = simulate(program, warps=16, hits=Hits(by_index=dict.fromkeys(range(32), hit)), sms=sms)
    assert found.cycles / (16 * 32) == pytest.approx(read, rel=near)


def test_a_line_on_its_way_is_waited_for() -> None:
    """Of eight requests four miss; the others, half of all, wait as they do."""

    def waited(pending: float) -> float:
        hit = Hit(missing=0.5, pending=pending, sectors=4.0, dram=0.0)
        found = simulate(READ, warps=8, hits=Hits(by_index={0: hit}))
        return found.stalls["long_scoreboard"]

    longer = H200.latency["l2"] - H200.latency["l1"]
    assert waited(0.5) - waited(0.0) == pytest.approx(4 * longer, rel=0.04)


def test_a_fence_waits_for_the_stores_and_a_barrier_does_not() -> None:
    """Behind 32 stores of each of 8 warps a fence took 846 cycles on one SM and 1412 on all of
    them, with none 493; a barrier 2."""
    fence = operation("membar", stall=6)
    found = simulate([fence, END])
    assert found.cycles == pytest.approx(493 + 5, abs=1)
    assert found.stalls == {"membar": pytest.approx(493 - 1, abs=1)}
    stores = [operation("global", load=False, size=16, wavefronts=4.0)] * 32
    hits = Hits(by_index=dict.fromkeys(range(32), WHOLE))
    behind = simulate([*stores, fence, END], warps=8, hits=hits)
    assert 846 < behind.stalls["membar"] / 8 < 1412
    met = simulate([*stores, operation("barrier"), END], warps=8, hits=hits)
    assert met.cycles == pytest.approx(3930, rel=0.02)  # read: the last store's issue
    assert met.cycles == pytest.approx(simulate([*stores, END], warps=8, hits=hits).cycles)
