"""A kernel's run as the profiler would count it: every machine instruction with its counts.

Values only: `binding` makes a `Profile` from a run of the PTX and the machine code; the time
model, the report and the advice read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.accesses import Space, Way
from tilewright.counters import Provenance
from tilewright.launch import Launch
from tilewright.toolchain.sass import SassInstruction

__all__ = ["AccessCounts", "BlockKind", "Counted", "Loop", "Profile", "Space", "WarpKind", "Way"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCounts:
    """What one machine instruction's memory accesses cost, summed over its executions.

    Units: `size` bytes a lane; `requests` warp-level accesses with a lane that takes part;
    `sectors` distinct 32-byte pieces and `lines` distinct 128-byte lines of each request, summed
    (0 for shared memory); `wavefronts` passes through the 32 banks of shared memory, or, of global
    memory, cycles of the L1 if all hits; `ideal` the fewest sectors (global) or wavefronts (shared)
    that as many lanes and bytes take side by side, or those taken, if fewer.
    """

    space: Space
    way: Way
    size: int
    requests: int
    sectors: int
    lines: int
    wavefronts: int
    ideal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One machine instruction, how often warps and threads executed it, and its accesses.

    `beside` is the shared memory that a copy from global memory, its `access`, writes.
    """

    instruction: SassInstruction
    executed: int
    threads: int
    access: AccessCounts | None
    beside: AccessCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A natural loop of the machine code: the indices of its instructions, its entries and trips.

    `entries` and `trips` are summed over warps: trips / entries is the mean trip count. `depth` is
    1 for an outermost loop.
    """

    header: int
    body: tuple[int, ...]
    depth: int
    entries: int
    trips: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpKind:
    """Warps of a launch that execute about the same, `count` of them.

    `executed` is how often they ran each block of `toolchain.sass_flow.flow`, by its number, and
    `edges` how often they went from one to the next, as those of a `Profile`.
    """

    count: int
    executed: tuple[int, ...]
    edges: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockKind:
    """Blocks of a launch whose warps execute about the same: the kinds that their warps are of."""

    warps: tuple[WarpKind, ...]

    @property
    def count(self) -> int:
        """How many warps all its blocks have together."""
        return sum(warp.count for warp in self.warps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One launch, counted: the whole grid, scaled from the blocks that ran.

    `counted` are all machine instructions in the order of their addresses. `provenance` says of
    "executed", "global", "shared" whether those counts are exact or derived, and `gaps` why not.
    `edges` are how often warps went from one block of `toolchain.sass_flow.flow` to the next, as
    far as that is known: a branch at which lanes part goes both ways. `kinds` are the kinds of
    blocks that there are; none, if nobody knows.
    """

    kernel: str
    arch: str
    launch: Launch
    blocks_run: int
    registers: int
    shared_bytes: int
    spill_bytes: int
    counted: tuple[Counted, ...]
    loops: tuple[Loop, ...]
    provenance: dict[str, Provenance]
    gaps: tuple[str, ...]
    edges: Mapping[tuple[int, int], int] = field(default_factory=dict)
    kinds: tuple[BlockKind, ...] = ()
