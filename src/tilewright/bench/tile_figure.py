"""Where a matmul tile lives, moment by moment: what a page shows, as values that go to JSON.

A figure is one block of one rung at work on a problem small enough to step through. `tile_steps`
makes it of the emulator's events: every access, and which elements of A, B and C its lanes touch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from tilewright.bench.followed import Kind, Operand

Pattern: TypeAlias = "tuple[int | None, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A memory instruction of the source, at one line of it.

    Units: `bytes` a lane; `step` is the distance in elements of its operand between the floats
    that a lane moves at once. `code` is the line's text, empty where the source is not at hand.
    """

    operand: Operand
    space: Literal["global", "shared"]
    way: Literal["load", "store", "copy"]
    bytes: int
    step: int
    file: str
    line: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One execution of a site, by each of some warps.

    Shapes: all [warps]. Lane l of warp `warps[i]` begins at byte
    `base[i] + patterns[pattern[i]][l]` of its array (or of shared memory) and at element
    `element[i] + patterns[places[i]][l]` of its operand; where that is None it takes no part.
    `cost` are sectors of global or wavefronts of shared memory, `least` those of as many bytes
    side by side.
    """

    site: int
    warps: tuple[int, ...]
    base: tuple[int, ...]
    pattern: tuple[int, ...]
    element: tuple[int, ...]
    places: tuple[int, ...]
    cost: tuple[int, ...]
    least: tuple[int, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values: a column of one number throughout is that number."""
        return {name: _column(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What happens between two stops: accesses of one kind, at one place along k.

    `phase` is the number of barriers before it. `k` is the first step along k that it touches and
    `depth` how many; 0 for stores of C.
    """

    title: str
    kind: Kind
    phase: int
    k: int
    depth: int
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileFigure:
    """One block of a rung at work.

    `m`, `n`, `k` are the problem shown, `asked` the one that was asked for, if it is another;
    `row` and `column` where the block's tile of C begins; `warp_tile` the rows and columns of a
    warp's outputs, `thread_tile` those of a thread's, the holes between them included. `notation`
    are the layouts, named. Elements are numbered row by row, from the leading dimensions `ld`.
    """

    rung: str
    idea: str
    gpu: str
    tile: str
    m: int
    n: int
    k: int
    ld: Mapping[Operand, int]
    asked: tuple[int, int, int] | None
    blocks: int
    block: int
    row: int
    column: int
    bm: int
    bn: int
    depth: int
    threads: int
    shared_bytes: int
    notation: tuple[tuple[str, str], ...]
    sites: tuple[Site, ...]
    patterns: tuple[Pattern, ...]
    moments: tuple[Moment, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, as tile_figure.js reads them."""
        whole = {name: getattr(self, name) for name in self.__slots__}
        whole |= {
            "ld": dict(self.ld),
            "sites": [asdict(site) for site in self.sites],
            "moments": [
                {
                    **{name: getattr(moment, name) for name in Moment.__slots__},
                    "accesses": [access.to_json() for access in moment.accesses],
                }
                for moment in self.moments
            ],
        }
        return whole


def _column(value: object) -> object:
    if isinstance(value, Sequence) and len(set(value)) == 1 and len(value) > 1:
        return value[0]
    return value
