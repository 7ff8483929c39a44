"""Wavefronts and sectors of whole warps: the emulator's rules, which are held to ncu's."""

import numpy as np
import pytest

from tilewright.emulator import copy_rules, rules
from tilewright.layouts.banks import (
    copy_sectors,
    copy_wavefronts,
    least_sectors,
    least_wavefronts,
    sectors,
    wavefronts,
)

LANES = np.arange(32)


def random_rows(size: int) -> np.ndarray:
    """Rows of every kind: scattered, strided, broadcast, in pairs that merge and that do not."""
    rng = np.random.default_rng(size)
    scattered = rng.integers(0, 300, (400, 32))
    strided = np.array([LANES * step + start for step in range(40) for start in (0, 5)])
    coarse = rng.integers(0, 8, (100, 32)) * 32
    plain = np.concatenate([scattered, strided, coarse])
    paired = [plain[:, LANES & ~1], plain[:, LANES & ~2], plain[:, LANES & ~3], plain[:, LANES & 7]]
    spoiled = plain[:, LANES & ~1]
    spoiled[:, 31] += 1
    return np.concatenate([plain, *paired, spoiled]) * size


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_counts_equal_the_emulators(size: int) -> None:
    rows = random_rows(size)
    theirs = rows.astype(np.uint64)
    assert np.array_equal(sectors(rows, size), rules.sectors(theirs, size))
    assert np.array_equal(least_sectors(rows, size), rules.fewest_sectors(theirs, size))
    for load in (True, False):
        ours = wavefronts(rows, size, load=load)
        assert np.array_equal(ours, rules.wavefronts(theirs, size, load=load))
        assert (ours >= least_wavefronts(rows, size, load=load)).all()


@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_count_as_the_emulators_do(size: int) -> None:
    """Sources anywhere, targets each their own; some keep their place in a line, some do not."""
    sources = random_rows(size)
    rng = np.random.default_rng(1)
    apart = rng.permuted(np.tile(np.arange(0, 512 * size, size), (len(sources), 1)), axis=1)[:, :32]
    beside = LANES * size + sources[:, :1] // 128 * 128
    for targets in (apart, beside, beside + sources[:, :1] % 128):
        ours = copy_wavefronts(sources, targets, size), copy_sectors(sources, targets, size)
        theirs = [rows.astype(np.uint64) for rows in (sources, targets)]
        for mine, rule in zip(
            ours, (copy_rules.copy_wavefronts, copy_rules.copy_sectors), strict=True
        ):
            assert np.array_equal(mine, rule(*theirs, size, through_l1=size < 16))


def test_ldmatrix_counts_as_a_store_of_sixteen_bytes() -> None:
    rows = random_rows(16)
    found = wavefronts(rows, 16, load=False)
    assert np.array_equal(found, rules.matrix_wavefronts(rows.astype(np.uint64), 4))


# By hand: a phase is 32, 16 or 8 lanes; lanes in pairs go twice as many at a time.
@pytest.mark.parametrize(
    ("row", "size", "load", "passes", "least"),
    [
        (LANES * 4, 4, True, 1, 1),
        (LANES * 8, 4, True, 2, 1),
        (LANES * 128, 4, False, 32, 1),
        (LANES * 0, 4, True, 1, 1),
        (LANES * 8, 8, True, 2, 2),
        (LANES * 16, 16, True, 4, 4),
        (LANES * 32, 16, True, 8, 4),
        (LANES // 2 * 16, 16, True, 2, 2),
        (LANES // 2 * 16, 16, False, 4, 4),
        (LANES // 2 * 32, 16, True, 4, 2),
        (LANES * 2, 2, True, 1, 1),
    ],
)
def test_wavefronts_by_hand(row, size: int, load: bool, passes: int, least: int) -> None:
    rows = np.array([row])
    assert wavefronts(rows, size, load=load).tolist() == [passes]
    assert least_wavefronts(rows, size, load=load).tolist() == [least]
