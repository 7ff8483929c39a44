"""What whole warps cost in memory: sectors of global, wavefronts of shared memory.

A row holds the byte addresses of the 32 lanes of one access; all of them take part, each with
`size` bytes at a multiple of `size`. So it is for the accesses that layouts describe.

The rules, and the measurements they come from, are those of `tilewright.emulator.rules`, which
stands below this module and knows idle lanes and other accesses too; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.layouts.memory import BANKS, WORD_BITS
from tilewright.layouts.moves import lane_moves, sector_moves

Integers: TypeAlias = "npt.NDArray[np.int64]"

LANES = 32
WORD_BYTES = WORD_BITS // 8
SECTOR_BYTES = 32
AROUND_L1_BYTES = 16  # of a lane of cp.async that bypasses L1, as lib/async.cuh has it do


def sectors(rows: Integers, size: int) -> Integers:
    """Count the distinct 32-byte sectors of each row. Shapes: rows [n, 32] -> [n]."""
    return _distinct(rows // max(SECTOR_BYTES, size))


def least_sectors(rows: Integers, size: int) -> Integers:
    """Count the sectors of as many bytes side by side, or those touched, if fewer.

    Lanes that share an address need no more than that: a uniform load is at its best.
    """
    return np.minimum(sectors(rows, size), LANES * size // SECTOR_BYTES)


def wavefronts(rows: Integers, size: int, *, load: bool) -> Integers:
    """Count the passes of each row through the banks: the most words of one bank, by phases.

    Accesses of 8 bytes go by half warps, of 16 by quarters. A load in which lanes t and t ^ 1, or
    t and t ^ 2, agree throughout goes in half as many phases. ldmatrix and stmatrix of four
    matrices count as stores of 16 bytes do: nothing merges.

    Shapes: rows [n, 32] -> [n].
    """

    def fullest(part: Integers) -> Integers:
        words = np.arange(max(size // WORD_BYTES, 1))
        word = np.sort((part[..., None] // WORD_BYTES + words).reshape(len(part), -1), axis=1)
        fresh = np.diff(word, axis=1, prepend=-1) != 0
        place = np.arange(len(part))[:, None] * BANKS + word % BANKS
        counts = np.bincount(place[fresh], minlength=len(part) * BANKS)
        return np.asarray(counts.reshape(-1, BANKS).max(axis=1))

    return _by_phases(rows, size, load, fullest)


def copy_wavefronts(sources: Integers, targets: Integers, size: int) -> Integers:
    """Count the passes of cp.async by what it reads and what it writes: no lanes share a target.

    4 and 8 bytes go through L1, 16 around it (`moves.py`).

    Shapes: sources and targets [n, 32] -> [n].
    """
    if size == AROUND_L1_BYTES:
        return _moved(sources, targets)[1]
    everybody = np.ones(sources.shape, bool)
    return lane_moves(sources, targets, size, everybody, everybody)


def copy_sectors(sources: Integers, targets: Integers, size: int) -> Integers:
    """Count the sectors of cp.async. Shapes as above."""
    if size == AROUND_L1_BYTES:
        return _moved(sources, targets)[0]
    return sectors(sources, size)


def _moved(sources: Integers, targets: Integers) -> tuple[Integers, Integers]:
    return sector_moves(sources, targets, np.ones(sources.shape, bool))


def least_wavefronts(rows: Integers, size: int, *, load: bool) -> Integers:
    """Count the passes without conflicts: a phase has at most 128 bytes, and takes one."""
    return _by_phases(rows, size, load, lambda part: np.ones(len(part), np.int64))


def _by_phases(
    rows: Integers, size: int, load: bool, passes: Callable[[Integers], Integers]
) -> Integers:
    def total(phases: int) -> Integers:
        return np.asarray(sum(passes(part) for part in np.split(rows, phases, axis=1)))

    phases = max(size // WORD_BYTES, 1)
    lanes = np.arange(LANES)
    agree = [(rows == rows[:, lanes ^ step]).all(axis=1) for step in (1, 2)]
    merged = (agree[0] | agree[1]) & (load and phases > 1)
    return (
        np.where(merged, total(phases // 2 or 1), total(phases)) if merged.any() else total(phases)
    )


def _distinct(numbers: Integers) -> Integers:
    return np.asarray(1 + (np.diff(np.sort(numbers, axis=1), axis=1) != 0).sum(axis=1))
