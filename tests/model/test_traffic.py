"""Where accesses are served: traces by hand through a small L1, and what blocks share."""

from collections.abc import Sequence

import numpy as np
import pytest
from readings import recorded
from small_programs import function, profile

from tilewright.launch import Launch
from tilewright.model.profile import AccessCounts
from tilewright.model.traffic import Hit, Hits, Neighbours, line_hits, local_hits
from tilewright.trace import AccessTrace

KIB = 1024
LOAD, STORE = 7, 9  # lines of the PTX

# Block, warp, line of the PTX and the sectors that one access touches.
Access = tuple[int, int, int, Sequence[int]]


def trace(accesses: Sequence[Access]) -> AccessTrace:
    width = max(len(sectors) for *_, sectors in accesses)
    turns: dict[tuple[int, int], int] = {}
    order = []
    for block, warp, _, _ in accesses:
        order.append(turns.get((block, warp), 0))
        turns[block, warp] = order[-1] + 1
    rows = [sorted(s, reverse=True) + [-1] * (width - len(s)) for *_, s in accesses]
    block, warp, line = (np.array([a[i] for a in accesses], np.int64) for i in range(3))
    return AccessTrace(
        block=block, warp=warp, line=line, order=np.array(order, np.int64),
        load=line != STORE, sectors=np.array(rows, np.int64),
    )  # fmt: skip


def hits(
    accesses: Sequence[Access],
    *,
    l1_bytes: int = 64 * KIB,
    l2_bytes: int = 1 << 20,
    grid: tuple[int, int] = (1, 1),
    resident: int = 1,
) -> dict[int, Hit]:
    blocks = {block for block, *_ in accesses}
    found = Neighbours(
        trace=trace(accesses), block=0, along_x=1 if 1 in blocks else None,
        along_y=2 if 2 in blocks else None,
    )  # fmt: skip
    launch = Launch(grid=grid, block=32)
    return line_hits(found, launch, l1_bytes=l1_bytes, l2_bytes=l2_bytes, resident=resident)


def test_a_stream_misses_every_time_with_all_its_sectors() -> None:
    found = hits([(0, 0, LOAD, range(4 * i, 4 * i + 4)) for i in range(20)])[LOAD]
    assert (found.missing, found.pending, found.sectors) == (1.0, 0.0, 4.0)


def test_what_is_used_again_hits() -> None:
    """Lines of five sweeps over 10 lines: the first sweep misses."""
    sweep = [(0, 0, LOAD, range(4 * i, 4 * i + 4)) for i in range(10)]
    found = hits(sweep * 5)[LOAD]
    assert (found.missing, found.sectors) == (0.2, 4.0)


def test_what_is_too_large_for_the_l1_is_gone_when_it_is_used_again() -> None:
    """The least recently used of 16 lines is the next one of a sweep over 17."""
    sweep = [(0, 0, LOAD, range(4 * i, 4 * i + 4)) for i in range(17)]
    assert hits(sweep * 5, l1_bytes=16 * 128)[LOAD].missing == 1.0
    assert hits(sweep[:16] * 5, l1_bytes=16 * 128)[LOAD].missing == 0.2


def test_a_column_fetches_a_sector_of_each_row_and_eight_words_use_it() -> None:
    """32 lanes down 32 rows of 4096 floats, stepping along them: a miss in eight steps."""
    steps = [(0, 0, LOAD, [512 * row + step // 8 for row in range(32)]) for step in range(64)]
    found = hits(steps)[LOAD]
    assert (found.missing, found.sectors) == (1 / 8, 32.0)


def test_a_warp_finds_on_its_way_what_another_has_just_asked_for() -> None:
    found = hits([(0, warp, LOAD, range(4)) for warp in range(8)])[LOAD]
    assert (found.missing, found.pending) == (1 / 8, 7 / 8)
    again = [(0, warp, LOAD, range(4)) for _ in range(4) for warp in range(8)]
    assert hits(again)[LOAD].pending == (7 + 8) / 32  # from the third turn on it is there


def test_stores_go_through_and_leave_nothing() -> None:
    accesses = [(0, 0, STORE, range(4)), (0, 0, STORE, range(4)), (0, 0, LOAD, range(4))]
    found = hits(accesses)
    assert (found[STORE].missing, found[STORE].sectors) == (1.0, 4.0)
    assert found[STORE].dram == 1 / 2  # the L2 joins what is stored to one sector
    assert found[LOAD].missing == 1.0


# The blocks of a GEMM: A's rows are those of the next block along x, B's columns along y.
A, B = 11, 12


def gemm() -> list[Access]:
    return [
        (block, 0, line, [base + i for i in range(4)])
        for block, a, b in ((0, 0, 1000), (1, 0, 2000), (2, 4000, 1000))
        for line, base in ((A, a), (B, b))
    ]


def test_neighbours_of_a_gemm_fetch_rows_and_columns_once() -> None:
    """8 by 4 blocks run at a time, and all fits the L2: A once for 8 blocks, B once for 4."""
    found = hits(gemm(), grid=(8, 4), resident=32)
    assert found[A].dram == pytest.approx(1 / 8)
    assert found[B].dram == pytest.approx(1 / 4)


def test_a_later_wave_finds_what_fits_the_l2() -> None:
    found = hits(gemm(), grid=(8, 4), resident=8)
    assert found[A].dram == pytest.approx(1 / 8)
    assert found[B].dram == pytest.approx(1 / 4)


def test_what_does_not_fit_the_l2_is_shared_by_those_that_run_together() -> None:
    """8 blocks are one row of the grid: they share A, and fetch B again in each wave."""
    found = hits(gemm(), grid=(8, 4), resident=8, l2_bytes=256)
    assert found[A].dram == pytest.approx(1 / 8)
    assert found[B].dram == 1.0
    two_rows = hits(gemm(), grid=(8, 4), resident=16, l2_bytes=256)
    assert two_rows[B].dram == pytest.approx(1 / 2)


def test_the_l2_holds_four_fifths_of_its_size_for_a_launch() -> None:
    """32 blocks fetch 128 bytes twice, less what they share: 512 of A and 1024 of B."""
    assert hits(gemm(), grid=(8, 4), resident=8, l2_bytes=1536 * 5 // 4 + 16)[B].dram < 1
    assert hits(gemm(), grid=(8, 4), resident=8, l2_bytes=1536 * 5 // 4 - 16)[B].dram == 1


def test_a_wave_of_half_a_row_shares_among_its_own() -> None:
    """4 of 8 blocks of a row run at a time: A is fetched twice for the row."""
    found = hits(gemm(), grid=(8, 4), resident=4, l2_bytes=256)
    assert found[A].dram == pytest.approx(1 / 4)
    assert found[B].dram == 1.0


def test_a_row_that_goes_on_in_the_next_wave_is_fetched_again() -> None:
    """12 blocks a wave of 4 rows of 8: waves of 2, 2 and 1 rows, each with all 8 columns."""
    found = hits(gemm(), grid=(8, 4), resident=12, l2_bytes=256)
    assert found[A].dram == pytest.approx((2 + 2 + 1) / 32)
    assert found[B].dram == pytest.approx(3 * 8 / 32)


# Rungs at 4096: outputs of a block, blocks along x and y, and those that run at a time.
AT_4096 = {
    "02_coalesced": ((32, 32), (128, 128), 264),
    "04_register_1d": ((64, 64), (64, 64), 264),
    "05_register_2d": ((128, 128), (32, 32), 264),
    "06_vectorized": ((128, 128), (32, 32), 264),
    "08_warptiled": ((128, 128), (32, 32), 396),
}


@pytest.mark.parametrize("rung", AT_4096)
def test_the_dram_gives_what_ncu_read(rung: str) -> None:
    """Each block reads its rows of A and columns of B, and C once: within 1 % of the profiler."""
    (bm, bn), grid, resident = AT_4096[rung]
    found = hits(gemm(), grid=grid, resident=resident, l2_bytes=256)
    blocks, row = grid[0] * grid[1], 4096 * 4  # bytes
    a, b, c = blocks * bm * row * found[A].dram, blocks * bn * row * found[B].dram, 4096 * row
    read = next(each for each in recorded() if each.name == f"{rung}/4096").metrics
    assert a + b + c == pytest.approx(read["dram__bytes_read.sum"], rel=0.01)


def test_what_half_of_a_block_shares() -> None:
    accesses = [(0, 0, LOAD, range(4)), (1, 0, LOAD, range(2, 6))]
    assert hits(accesses, grid=(4, 1), resident=4)[LOAD].dram == pytest.approx(1 / 2 + 1 / 2 / 4)


def test_spilled_registers_hit_as_far_as_the_l1_holds_them() -> None:
    code = function("LDL R0, [R1]", "STL [R1], R0", "LDS R0, [R1]")

    def access(space: str, way: str) -> AccessCounts:
        return AccessCounts(
            space=space, way=way, size=4, requests=10, sectors=40, lines=10, wavefronts=10,
            ideal=40,
        )  # fmt: skip

    accesses = {
        0: access("local", "load"),
        1: access("local", "store"),
        2: access("shared", "load"),
    }
    found = profile(code, [10, 10, 10], accesses=accesses, block=256)
    by_index = local_hits(found, 128, 8 * KIB)  # 32 KiB of which a quarter fits
    assert by_index[0].missing == pytest.approx(3 / 4)
    assert (by_index[1].missing, by_index[1].sectors) == (1.0, 4.0)
    assert set(by_index) == {0, 1}
    assert local_hits(found, 16, 8 * KIB)[0].missing == 0.0
    assert Hits(by_index=by_index).of(2).missing == 0.0
