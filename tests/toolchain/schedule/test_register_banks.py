"""The register banks' time and the orders of multiply-adds, against counts by hand."""

from itertools import pairwise

import pytest

from tilewright.toolchain.schedule.banks import cycles, issue, reads_of
from tilewright.toolchain.schedule.order import Grid, balanced, columns, rows


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([(1, 1)] * 10, 10),  # each bank gives one a cycle: never behind
        # Two from one bank each time. The first is free, the second finds the bank one behind,
        # which it may be; from the third on a bank of one a cycle makes it two cycles each.
        ([(2, 0)] * 10, 18),
        ([(2, 0), (0, 2)] * 5, 10),  # as much from both, by turns
        ([(2, 1)] * 10, 18),
        ([(0, 0)] * 7, 7),
        ([(2, 0), (0, 0)] * 5, 10),  # what reads nothing lets the bank catch up
    ],
)
def test_cycles(reads: list[tuple[int, int]], expected: int) -> None:
    assert cycles((each, 1) for each in reads) == expected


def test_stalls_count_and_let_banks_catch_up() -> None:
    assert cycles([((2, 0), 5), ((2, 0), 1)]) == 6
    assert issue((3, 0), (1, 0)) == (3, (1, 0))
    assert issue((3, 0), (0, 1)) == (1, (2, 0))


def test_a_register_is_read_once() -> None:
    assert reads_of([4, 4, 7]) == (1, 1)


def grid(height: int, width: int, odd: int = 2) -> Grid:
    """Accumulators whose bank is the parity of the row's and column's sum, modulo `odd`."""
    return Grid(
        tuple(range(height)),
        tuple(range(100, 100 + width)),
        tuple(tuple(200 + (i * width + j) * 2 + (i + j) % odd % 2 for j in range(width))
              for i in range(height)),
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (8, 16)])
def test_orders_visit_every_pair_once(shape: tuple[int, int]) -> None:
    own = grid(*shape)
    every = sorted((i, j) for i in range(shape[0]) for j in range(shape[1]))
    for way in (rows(own), columns(own), balanced(own, 8)):
        assert sorted(way) == every
    for way in (rows(own), columns(own)):
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(way))


def time(way: list[tuple[int, int]], own: Grid) -> int:
    reads = []
    for before, (i, j) in pairwise([(-1, -1), *way]):
        new = [own.chains[i][j]]
        new += [own.a[i]] if i != before[0] else []
        new += [own.b[j]] if j != before[1] else []
        reads.append(reads_of(new))
    return cycles((each, 1) for each in reads)


def test_a_balanced_order_beats_snakes_that_meet_one_bank() -> None:
    # Every accumulator in the bank of its column's factor: a row of even columns reads two each.
    own = Grid(
        (0, 2, 4, 6), (100, 102, 103, 105),
        tuple(tuple(200 + 8 * i + 2 * j + (j > 1) for j in range(4)) for i in range(4)),
    )  # fmt: skip
    assert time(balanced(own, 24), own) < min(time(rows(own), own), time(columns(own), own))
