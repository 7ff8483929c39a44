"""Memory accesses of a run, by line of the PTX and by the width that the hardware gives them.

Values that the emulator makes and the model binds to machine code. Imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Space: TypeAlias = Literal["global", "shared", "local", "constant"]
Way: TypeAlias = Literal["load", "store", "atomic", "copy"]
Integers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Width:
    """How a machine access covers the one of a PTX line: `size` bytes a lane, `shift` before it.

    `counting` marks an atomic that adds up the lanes at one address before it goes there.
    """

    size: int
    shift: int = 0
    counting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSums:
    """What accesses cost, summed over the events of a run.

    Units: `requests` warp-level accesses with a lane that takes part; `sectors` distinct 32-byte
    pieces and `lines` distinct 128-byte lines of each; `wavefronts` passes through the banks of
    shared memory, or cycles of the L1 if all hits (global: its tags or its data banks, what takes
    longer); `ideal` the fewest sectors (shared memory: wavefronts) that as many lanes and bytes
    take side by side, or those taken, if fewer.
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    wavefronts: int = 0
    ideal: int = 0

    def plus(self, other: AccessSums, times: int = 1) -> AccessSums:
        """Return self + times · other."""
        return AccessSums(
            **{n: getattr(self, n) + times * getattr(other, n) for n in self.__slots__}
        )

    def share(self, part: int, whole: int) -> AccessSums:
        """Return part / whole of the sums, rounded."""
        return AccessSums(
            **{n: (2 * part * getattr(self, n) + whole) // (2 * whole) for n in self.__slots__}
        )


# The PTX line of an access, where its address lies, and the width it is counted with.
AccessKey: TypeAlias = tuple[int, Space, Width]


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxCounts:
    """What the warps of a run executed, by line of the PTX.

    Warps that executed the same, in blocks that did, are one row: `weights` says how many there
    are, and `kind` which kind of block theirs is. `lines` are the
    lines of all instructions; `executed` and `threads` say how often a warp, and its threads,
    came to each, and `parted` how often the branch of a line sent its lanes different ways (to
    n places: n - 1 times). `unsure` are the lines whose costs follow a rule that no reading of
    the profiler has tested.

    Shapes: lines [n]; weights, kind, lanes [warps]; executed, threads, parted [warps, n]. `lanes`
    are the threads that a warp has (32, fewer in the last warp of a block).
    """

    lines: Integers
    weights: Integers
    kind: Integers
    lanes: Integers
    executed: Integers
    threads: Integers
    parted: Integers
    accesses: Mapping[AccessKey, AccessSums] = field(default_factory=dict)
    blocks: int
    unsure: frozenset[int] = frozenset()

    def joined(self, other: PtxCounts) -> PtxCounts:
        """Return the counts of both runs of one kernel."""
        accesses = dict(self.accesses)
        for key, sums in other.accesses.items():
            accesses[key] = accesses.get(key, AccessSums()).plus(sums)
        return replace(
            self,
            weights=np.concatenate([self.weights, other.weights]),
            kind=np.concatenate([self.kind, other.kind + 1 + self.kind.max(initial=-1)]),
            lanes=np.concatenate([self.lanes, other.lanes]),
            executed=np.concatenate([self.executed, other.executed]),
            threads=np.concatenate([self.threads, other.threads]),
            parted=np.concatenate([self.parted, other.parted]),
            accesses=accesses,
            blocks=self.blocks + other.blocks,
            unsure=self.unsure | other.unsure,
        )

    def scaled(self, blocks: int) -> PtxCounts:
        """Return the counts of `blocks` blocks like those that ran, rounded to whole warps."""
        if blocks % self.blocks == 0:
            return self.times(blocks // self.blocks)
        before = np.cumsum(np.append(0, self.weights)) * blocks // self.blocks
        accesses = {key: sums.share(blocks, self.blocks) for key, sums in self.accesses.items()}
        return replace(self, weights=np.diff(before), accesses=accesses, blocks=blocks)

    def times(self, count: int) -> PtxCounts:
        """Return the counts of `count` runs like this one."""
        accesses = {key: AccessSums().plus(sums, count) for key, sums in self.accesses.items()}
        weights = self.weights * count
        return replace(self, weights=weights, accesses=accesses, blocks=self.blocks * count)
