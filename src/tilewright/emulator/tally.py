"""Counts accesses by what they cost, in a table, where the code tells most of it beforehand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tilewright.emulator.rules import LINE_BYTES, Addresses, Counts

ROOM = 1 << 62  # before the first lane of a pattern: room for lanes that lie below it
_WHOLE = 0xFFFF_FFFF  # the mask of a warp all of whose lanes are active


class FixedTally:
    """Counts accesses of whole warps whose addresses are a base plus what the code fixes.

    Most accesses of most kernels are such. What one costs follows from its instruction and its base
    modulo 128, so that a table of so many counts an instruction holds all there is to know.
    `offsets` are the lanes' by instruction, and `counted` the instructions to count.
    """

    def __init__(
        self, offsets: Mapping[int, tuple[int, ...]], counted: Collection[int], instructions: int
    ) -> None:
        self._pcs = sorted(set(offsets) & set(counted))
        self._offsets = offsets
        self._slots = np.full(instructions, -1, np.int64)
        self._slots[self._pcs] = np.arange(len(self._pcs))
        self._counts = np.zeros(len(self._pcs) * LINE_BYTES, np.int64)

    def take(self, events: npt.NDArray[np.void]) -> npt.NDArray[np.intp]:
        """Count what is of this kind; return the numbers of the other events."""
        slots = self._slots[events["pc"]]
        known = (slots >= 0) & (events["row"] < 0) & (events["mask"] == _WHOLE)
        codes = slots * LINE_BYTES + (events["base"] % np.uint64(LINE_BYTES)).astype(np.int64)
        self._counts += np.bincount(codes[known], minlength=len(self._counts))
        return np.flatnonzero(~known)

    def patterns(self) -> Iterator[tuple[int, Addresses, Counts]]:
        """Yield each instruction's distinct accesses, as rows, and how often each occurred.

        Rows are addresses from `ROOM` before the 128-byte line of the first lane on.
        """
        for pc, counts in zip(self._pcs, self._counts.reshape(-1, LINE_BYTES), strict=True):
            bases = np.flatnonzero(counts)
            if len(bases):
                lanes = bases[:, None] + np.array(self._offsets[pc], np.int64)
                origin = lanes[:, :1] // LINE_BYTES * LINE_BYTES - ROOM
                yield pc, (lanes - origin).astype(np.uint64), counts[bases]
