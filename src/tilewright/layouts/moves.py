"""What cp.async around L1 (`.cg`) asks of the L2: sectors, and the passes that move them on.

Lanes of one warp, each with 16 bytes to read and a place of its own to write them to. A request is
of what goes from one sector to one sector; its two halves may change places there. A pass takes
requests from one line to one line, and has only such as are alike: see `sector_moves`.

Source: `memory_l2_theoretical_sectors_global` and `memory_l1_wavefronts_shared` in the 39 cases of
cp_async_cg16* and copy_cg16* without zeros, benchmarks/results/counters_nvidia_h200.json. The rule
was found by looking at these readings, and no others have tested it. What each part rests on:

* whole and half sectors: pairs1, of both families; reversed/halves, whose lines are turned around;
* by an even or an odd number of sectors: shifted/start16, reversed/shuffled;
* one place of a sector at a time: uniform.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = "npt.NDArray[np.int64]"
_Pairs: TypeAlias = "npt.NDArray[np.bool_]"

_HALF, _SECTOR, _LINE = 4, 5, 7  # 16, 32 and 128 bytes, as bits of an address


def sector_moves(
    sources: Integers, targets: Integers, active: npt.NDArray[np.bool_]
) -> tuple[Integers, Integers]:
    """Count the sectors that each row's active lanes ask for, and the passes of these.

    A pass moves requests between the same two lines, which all go on by an even number of sectors
    or all by an odd one (0 is even), all have or have not their halves crossed, and all have the
    first, the second or both halves of their sector. A sector that goes to two places takes two.

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
    alike &= _equal(halves << 2 | crossed << 1 | odd)
    turn = _earlier(alike & sector).sum(axis=2)
    passes = first & ~_earlier(alike & _equal(turn)).any(axis=2)
    return np.asarray(first.sum(axis=1)), np.asarray(passes.sum(axis=1))


def _equal(numbers: Integers) -> _Pairs:
    """Return of each two lanes whether their numbers are equal."""
    return np.asarray(numbers[:, :, None] == numbers[:, None, :])


def _earlier(pairs: _Pairs) -> _Pairs:
    """Keep of each lane's pairs those with lanes before it."""
    return np.tril(pairs, -1)
