"""What the lanes of one cp.async wait for: passes through the banks, and around L1 sectors.

Through L1 (`.ca`): `lane_moves`. Source: `memory_l1_wavefronts_shared` in the 176 cases of
cp_async4, 8 and 16 and copy4, 8 and 16, benchmarks/results/counters_nvidia_h200.json, and the
hardware's own passes in all of them. What decides are copy*_strided/pairs1 and shuffled.

Around L1 (`.cg`): what it asks of the L2. Lanes of one warp, each with 16 bytes to read and a place
of its own to write them to. A request is of what goes from one sector to one sector; its two halves
may change places there. A pass takes requests from one line to one line, and has only such as are
alike: see `sector_moves`. Source: `memory_l2_theoretical_sectors_global` and
`memory_l1_wavefronts_shared` in the 60 cases of cp_async_cg16* and copy_cg16* without zeros. The
rule was found by looking at 39 of them; of the 21 that were read to test it 20 were as it said, and
swizzled/pairs2 mended its last part. What each part rests on:

* whole and half sectors: pairs1, of both families; reversed/halves, whose lines are turned around;
* by an even or an odd number of sectors: shifted/start16, reversed/shuffled;
* one place of a sector at a time: uniform; whichever way it goes there: swizzled/pairs2.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = "npt.NDArray[np.int64]"
_Pairs: TypeAlias = "npt.NDArray[np.bool_]"

_BANKS_BYTES = 128
_HALF, _SECTOR, _LINE = 4, 5, 7  # 16, 32 and 128 bytes, as bits of an address


def lane_moves(
    sources: Integers,
    targets: Integers,
    size: int,
    reading: npt.NDArray[np.bool_],
    writing: npt.NDArray[np.bool_],
) -> Integers:
    """Count the passes of each row's copies through L1, by phases of 128 bytes.

    Copies of one phase that read from the same banks wait for each other, and so do those that
    write to the same: in the order of their lanes, on both sides.

    Shapes: sources, targets, reading and writing [n, 32] -> [n].
    """
    lanes = _BANKS_BYTES // size  # of a phase, and places in the banks
    rows = np.arange(len(sources))
    total = np.zeros(len(sources), np.int64)
    for phase in range(0, sources.shape[1], lanes):
        turns = np.zeros((2, len(sources), lanes), np.int64)  # that each side's places have had
        for lane in range(phase, min(phase + lanes, sources.shape[1])):
            sides = sources[:, lane], targets[:, lane]
            read, written = (side // size % lanes for side in sides)
            before = np.maximum(
                np.where(reading[:, lane], turns[0, rows, read], 0), turns[1, rows, written]
            )
            for side, place, takes in ((0, read, reading), (1, written, writing)):
                here = rows[takes[:, lane]]
                turns[side, here, place[here]] = before[here] + 1
        total += turns.max(axis=(0, 2))
    return total


def sector_moves(
    sources: Integers, targets: Integers, active: npt.NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Count the sectors that each row's active lanes ask for, and the passes of these.

    A pass moves requests between the same two lines, which all go on by an even number of sectors
    or all by an odd one (0 is even), all have or have not their halves crossed, and all have the
    first, the second or both halves of their sector. A sector that goes to two places takes two,
    and what goes to the second of them waits for what goes to the first.

    Shapes: sources, targets and active [n, lanes] -> [n] twice.
    """
    change = sources ^ targets
    crossed, odd = change >> _HALF & 1, change >> _SECTOR & 1
    sector = _equal(sources >> _SECTOR)
    request = sector & _equal(targets >> _SECTOR) & _equal(crossed) & active[:, None, :]
    first = active & ~_earlier(request).any(axis=2)
    second_half = (sources >> _HALF & 1).astype(bool)[:, None, :]
    halves = (request & ~second_half).any(axis=2) + 2 * (request & second_half).any(axis=2)
    alike = _equal(sources >> _LINE) & _equal(targets >> _LINE) & first[:, None, :]
    alike &= _equal(halves << 1 | crossed)
    turn = _earlier(alike & sector).sum(axis=2)
    passes = first & ~_earlier(alike & _equal(turn << 1 | odd)).any(axis=2)
    return np.asarray(first.sum(axis=1)), np.asarray(passes.sum(axis=1))


def _equal(numbers: Integers) -> _Pairs:
    """Return of each two lanes whether their numbers are equal."""
    return np.asarray(numbers[:, :, None] == numbers[:, None, :])


def _earlier(pairs: _Pairs) -> _Pairs:
    """Keep of each lane's pairs those with lanes before it."""
    return np.tril(pairs, -1)
