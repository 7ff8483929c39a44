"""What the hardware makes of one warp's cp.async, which has a source and a target in each lane.

Rows, NOBODY and the record: as in `rules.py`. The cases are cp_async* and copy*, 252 in all, and
tests/model/test_copy_rules.py holds every rule to every one of them. A lane that reads nothing and
writes zeros has a target alone.

Without a rule: the passes of `.cg` of which no lane reads (the source page has 32 in one of two
cases, where all other zeros count as we do); those of `.ca` of 8 and 16 bytes where both sides have
conflicts that are not the same ones (the page has one more than the hardware in two of ten).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tilewright.emulator.rules import (
    LINE_BYTES,
    NOBODY,
    Addresses,
    Counts,
    lane_wavefronts,
    sectors,
    tag_turns,
)
from tilewright.layouts.moves import lane_moves, sector_moves


def copy_wavefronts(
    sources: Addresses, targets: Addresses, size: int, *, through_l1: bool
) -> Counts:
    """Count the passes of cp.async as the source page does: `memory_l1_wavefronts_shared`.

    Through L1 (`.ca`) as in `lane_moves`: all 176 cases of 4, 8 and 16 bytes but for two, which
    take one pass more. Around it (`.cg`) as in `sector_moves`, all 60 cases without zeros. Where
    some lanes write zeros these count as through L1 do all targets: 15 of 16.
    """
    if through_l1:
        return _lanes(sources, targets, size)
    zeros = (_zeros(sources, targets) != NOBODY).any(axis=1)
    return np.where(zeros, lane_wavefronts(targets, size), _moves(sources, targets)[1])


def copy_sectors(sources: Addresses, targets: Addresses, size: int, *, through_l1: bool) -> Counts:
    """Count the sectors of cp.async: `memory_l2_theoretical_sectors_global`, in all 252 cases.

    Through L1 they are those of a load, which `l1tex__t_sectors_pipe_lsu_mem_global_op_ld` counts.
    """
    return sectors(sources, size) if through_l1 else _moves(sources, targets)[0]


def lasting(targets: Addresses) -> Addresses:
    """Return the targets of lanes that no later lane writes over: of those `.cg` moves no others.

    The fewest passes and sectors, `…_ideal` in the profile, are those of these lanes' bytes; of
    `.ca`, those of all lanes'.
    """
    same = targets[:, :, None] == targets[:, None, :]
    return np.where(np.triu(same, 1).any(axis=2), NOBODY, targets)


def copy_data_wavefronts(
    sources: Addresses, targets: Addresses, size: int, *, through_l1: bool
) -> Counts:
    """Count the passes of cp.async as the hardware does; sources are addresses of the device.

    Lanes whose lines go through the tags together go through the data together, and those that
    write zeros go at the end. Around L1 these alone do: what is read comes in from the L2.
    Equals `l1tex__data_pipe_lsu_wavefronts_mem_shared` less `…_op_misc` in all 252 cases.
    """
    passes = lane_wavefronts(_zeros(sources, targets), size)
    for turn in tag_turns(sources) if through_l1 else ():
        here = np.where(turn == NOBODY, NOBODY, targets)
        passes = passes + _lanes(turn, here, size)
    return passes


def is_unread(
    sources: Addresses, targets: Addresses, size: int, *, through_l1: bool
) -> npt.NDArray[np.bool_]:
    """Whether the passes of each row are of a kind that no reading has settled.

    Through L1 these are wide copies where both sides have conflicts, and not all lanes' targets lie
    equally many banks behind their sources; around it, those that fill with zeros alone.
    """
    if not through_l1:
        return np.asarray(
            (_zeros(sources, targets) != NOBODY).any(axis=1) & (sources == NOBODY).all(axis=1)
        )
    phases = size // 4
    distance = np.where(sources == NOBODY, NOBODY, (sources - targets) % np.uint64(LINE_BYTES))
    steady = (distance == distance.min(axis=1, keepdims=True)) | (sources == NOBODY)
    differ = ~steady.all(axis=1) & (lane_wavefronts(sources, size) > phases)
    return np.asarray((phases > 1) & (lane_wavefronts(targets, size) > phases) & differ)


def _lanes(sources: Addresses, targets: Addresses, size: int) -> Counts:
    """Return the passes of `.ca` by its lanes."""
    sides = sources.astype(np.int64), targets.astype(np.int64)
    return lane_moves(*sides, size, sources != NOBODY, targets != NOBODY)


def _zeros(sources: Addresses, targets: Addresses) -> Addresses:
    """Return the targets of lanes that read nothing."""
    return np.where(sources == NOBODY, targets, NOBODY)


def _moves(sources: Addresses, targets: Addresses) -> tuple[Counts, Counts]:
    """Return the sectors of `.cg`, and the passes of what is read."""
    reading = (sources != NOBODY) & (lasting(targets) != NOBODY)
    return sector_moves(sources.astype(np.int64), targets.astype(np.int64), reading)
