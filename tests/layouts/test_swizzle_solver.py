"""The solver: known answers, a case without one, and candidates counted again in plain code."""

import doctest
import random
import re
import time

import pytest

from tilewright.errors import LayoutError
from tilewright.layouts import Layout, Swizzle, swizzle_solver
from tilewright.layouts.instructions import ldmatrix, shared_atom
from tilewright.layouts.swizzle_solver import SharedAccess, solve

ROW = SharedAccess(name="a row", layout=Layout((32, 32), (1, 32)), load=False)
COLUMN = SharedAccess(name="a column", layout=Layout((32, 32), (32, 1)), load=True)
DIAGONAL = SharedAccess(name="the diagonal", layout=Layout((32, 1), (33, 0)), load=True)


def test_a_transpose_takes_one_element_of_padding_or_a_swizzle_of_five_bits() -> None:
    found = solve([ROW, COLUMN], rows=32, row=32, bits=32)
    # A column of 32 rows of 32 words is in one bank.
    assert (found.plain.wavefronts, found.plain.least) == (32 + 32 * 32, 64)
    assert (found.best_padding.pad, found.best_padding.extra_bytes) == (1, 128)
    assert found.best.swizzle == Swizzle(5, 0, 5)
    assert found.best.conflict_free
    assert found.refused == 0
    clean = {c.pad for c in found.candidates if c.conflict_free and c.swizzle is None}
    assert clean == set(range(1, 33, 2))


def test_no_member_serves_rows_columns_and_the_diagonal() -> None:
    """A column wants an odd row length, a diagonal an odd one plus 1; swizzles put i ^ i in 0."""
    found = solve([ROW, COLUMN, DIAGONAL], rows=32, row=32, bits=32)
    assert not found.best.conflict_free
    # Padding by 1: the diagonal's step is 34, two ways; all else is free.
    assert (found.best.pad, found.best.wavefronts, found.best.least) == (1, 66, 65)
    assert "none is without conflicts" in str(found)


def test_ldmatrix_finds_the_hardware_swizzle() -> None:
    """Rows of 64 halves, 16 of them by 16 columns a load: the 128-byte mode, or 16 bytes of pad."""
    # Lane 8 i + r: row r + 8 (i & 1), column 8 (i >> 1); turns: 4 along k.
    lanes = Layout(((8, 2, 2), 4), ((64, 512, 8), 16))
    read = SharedAccess(name="ldmatrix.x4", layout=lanes, load=False, vector=8)
    assert ldmatrix(4).source[0].size == lanes[0].size
    # 8 lanes a row of 16 bytes each, four rows a warp.
    write = SharedAccess(
        name="st.shared.v4", layout=Layout(((8, 4), 4), ((8, 64), 256)), load=False, vector=8
    )
    found = solve([read, write], rows=16, row=64, bits=16)
    assert found.plain.wavefronts == 4 * 32 + 4 * 4
    assert found.best.swizzle == shared_atom(128, 16).swizzle
    assert found.best.least == 32
    assert (found.best_padding.pad, found.best_padding.extra_bytes) == (8, 256)
    # 0, 8, 16, 24 and 32 keep vectors of 8 aligned.
    assert found.refused == 33 - 5


def words(access: SharedAccess, move) -> int:
    """Passes of 4-byte accesses, word by word: different words of the fullest bank."""
    total = 0
    threads = access.layout[0].size
    for turn in range(access.layout[1].size):
        for first in range(0, threads, 32):
            there = {move(access.layout(t, turn)) for t in range(first, first + 32)}
            total += max(sum(word % 32 == bank for word in there) for bank in range(32))
    return total


def test_every_candidate_is_counted_right() -> None:
    pick = random.Random(5)
    for _ in range(6):
        modes = [pick.choice([0, 1, 2, 4, 16, 17, 32, 64]) for _ in range(3)]
        access = SharedAccess(
            name="random", layout=Layout(((8, 4), 2), (tuple(modes[:2]), modes[2])), load=True
        )
        found = solve([access], rows=32, row=24, bits=32, most_pad=5)
        for candidate in pick.sample(found.candidates, 12):
            swizzle, pad = candidate.swizzle, candidate.pad
            expected = words(
                access,
                lambda index, s=swizzle, p=pad: (
                    s(index) if s else index // 24 * (24 + p) + index % 24
                ),
            )
            assert (candidate.wavefronts, candidate.least) == (expected, 2)
        costs = [(c.wavefronts, c.extra_bytes) for c in found.candidates]
        assert costs == sorted(costs)


def test_the_family_is_every_swizzle_that_moves_banks() -> None:
    access = SharedAccess(name="x", layout=Layout((32, 4), (1, 32)), load=True)
    found = solve([access], rows=8, row=16, bits=32)
    # 128 elements, 7 bits; targets below bit 5.
    expected = {
        (b, m, s)
        for b in range(1, 8)
        for m in range(8)
        for s in range(b, 8)
        if m + b <= 5 and m + s + b <= 7
    }
    tried = {
        (c.swizzle.bits, c.swizzle.base, c.swizzle.shift) for c in found.candidates if c.swizzle
    }
    assert tried == expected


def test_a_swizzle_past_the_end_costs_what_it_reaches() -> None:
    """Three rows of 8: the third's number, 2, has bit 1 set and moves its elements up to 23 ^ 2."""
    access = SharedAccess(name="x", layout=Layout((32, 1), (0, 0)), load=True)
    found = solve([access], rows=3, row=8, bits=32)
    extra = {str(c.swizzle): c.extra_bytes for c in found.candidates if c.swizzle}
    assert extra["Sw<1,0,3>"] == 0
    assert extra["Sw<1,3,1>"] == 4 * 8  # row 2 goes to row 3


@pytest.mark.parametrize(
    ("accesses", "bits", "says"),
    [
        ([], 32, "give the writers and the readers"),
        ([ROW], 12, "elements of 12 bits"),
        ([SharedAccess(name="x", layout=Layout((16, 2), (1, 16)), load=True)], 32, "whole warps"),
        ([SharedAccess(name="x", layout=Layout(32), load=True)], 32, "(threads, turns)"),
        ([SharedAccess(name="x", layout=Layout((32, 1)), load=True, vector=8)], 32, "are 32 bytes"),
        ([SharedAccess(name="x", layout=Layout((32, 9), (32, 1)), load=True)], 32, "element 1000"),
    ],
)
def test_accesses_that_make_no_sense_are_refused(accesses, bits: int, says: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(says)):
        solve(accesses, rows=31, row=32, bits=bits)


def test_the_example_holds_and_a_search_takes_under_a_second() -> None:
    found = doctest.testmod(swizzle_solver)
    assert found.attempted
    assert not found.failed
    start = time.perf_counter()
    solve([ROW, COLUMN], rows=32, row=32, bits=32)
    assert time.perf_counter() - start < 1
