"""How blocks come to what they share, against counts by hand and what an H200 showed."""

import pytest
from small_programs import H200

from tilewright.model.arrivals import Arrival, Arrivals, Turns

MISS, FETCH = H200.latency["dram"], H200.latency["dram"] - H200.latency["l2"]
LONG = 1e6  # cycles: no fetch is on its way any more
LOAD = 7


def arrivals(period: float, share: float, number: int = 1000) -> list[Arrival]:
    """How one block of one warp comes, time after time."""
    found = Arrivals(Turns(), H200.latency, warps_per_block=1, together=False)
    result = []
    for turn in range(number):
        found.count(0, LOAD)
        result.append(found.of(turn * period, 0, LOAD, share))
    return result


@pytest.mark.parametrize("share", [1 / 2, 1 / 12, 0.3])
def test_a_block_fetches_its_part_of_what_it_shares(share: float) -> None:
    found = arrivals(LONG, share)
    assert sum(each.fetches for each in found) == pytest.approx(1000 * share, abs=1)
    assert not any(each.rest for each in found)


@pytest.mark.parametrize(("blocks", "halves"), [(2, 1.5), (4, 1.875), (1, 1.0)])
def test_each_half_of_the_l2_fetches_once(blocks: int, halves: float) -> None:
    """All n blocks are of one half for 2 of 2^n ways to draw them; else both halves fetch."""
    found = arrivals(LONG, 1 / blocks)
    assert sum(each.other for each in found) == pytest.approx(1000 * halves / blocks, abs=2)
    assert all(each.other for each in found if each.fetches)


# How many of the pairs of blocks that share columns of B ended within a fetch of one another, and
# what a fetch was of the time between two, of rungs at 4096 on the H200: 0.85 of 02_coalesced, 0.48
# of 04_register_1d, 0.077 of 05_register_2d, 0.025 of 08_warptiled.
@pytest.mark.parametrize(
    ("of_period", "measured"), [(0.413, 0.85), (0.21, 0.48), (0.091, 0.077), (0.047, 0.025)]
)
def test_blocks_close_up_where_a_fetch_is_long(of_period: float, measured: float) -> None:
    found = arrivals(FETCH / of_period, 1e-9)
    late = [each.rest for each in found if each.rest]
    assert len(late) / 1000 == pytest.approx(measured, abs=0.11)
    assert sum(late) / len(late) == pytest.approx(0.5, abs=0.05)


def test_what_is_read_within_a_miss_is_come_to_at_once() -> None:
    """Warps of a block, and what they read next; after a miss it is another arrival."""
    found = Arrivals(Turns(), H200.latency, warps_per_block=2, together=False)

    def come(now: float, block: int, index: int, share: float = 0.5) -> Arrival:
        found.count(block, index)
        return found.of(now, block, index, share)

    first = come(0, 0, LOAD)
    assert come(MISS + 1, 0, LOAD) is first  # the other warp, however late
    assert come(MISS - 1, 0, LOAD + 1) is first
    assert come(MISS + 1, 0, LOAD + 2) is not first
    assert come(MISS - 1, 1, LOAD) is not first
    assert come(MISS - 1, 0, LOAD + 3, share=0.25) is not first
    assert come(2 * MISS + 2, 0, LOAD) is not first


def test_blocks_that_run_together_all_wait() -> None:
    found = Arrivals(Turns(), H200.latency, warps_per_block=1, together=True)
    for turn in range(10):
        found.count(0, LOAD)
        assert found.of(turn * LONG, 0, LOAD, 0.01).fetches
