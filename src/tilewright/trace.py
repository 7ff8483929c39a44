"""A sample of a run's accesses of global memory, in order. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessTrace:
    """The first accesses of each instruction and warp of some blocks.

    Shapes: all [n], but `sectors` [n, w]: the distinct 32-byte sectors that the access touches, in
    descending order, -1 where there are fewer. `line` is the PTX line, `order` the number of the
    warp's access among those kept, `load` whether it reads.
    """

    block: Array
    warp: Array
    line: Array
    order: Array
    load: npt.NDArray[np.bool_]
    sectors: Array

    @classmethod
    def empty(cls) -> AccessTrace:
        """Return a trace of no access."""
        none = np.zeros(0, np.int64)
        return cls(
            block=none,
            warp=none,
            line=none,
            order=none,
            load=none.astype(bool),
            sectors=np.zeros((0, 1), np.int64),
        )

    def of_block(self, block: int) -> AccessTrace:
        """Return the accesses of one block, as its warps would make them side by side."""
        chosen = np.flatnonzero(self.block == block)
        chosen = chosen[np.lexsort((self.warp[chosen], self.order[chosen]))]
        return AccessTrace(
            block=self.block[chosen],
            warp=self.warp[chosen],
            line=self.line[chosen],
            order=self.order[chosen],
            load=self.load[chosen],
            sectors=self.sectors[chosen],
        )
