"""Which padding or swizzle of a shared tile leaves its accesses without bank conflicts.

The search is exhaustive, so that it is a proof as well: what it finds is the cheapest of the
family, and where every member has conflicts, none is without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import LayoutError
from tilewright.layouts.banks import LANES, Integers, wavefronts
from tilewright.layouts.banks import least_wavefronts as least
from tilewright.layouts.memory import BANKS, WORD_BITS
from tilewright.layouts.swizzle import AnyLayout, Swizzle

LINE_BITS = BANKS * WORD_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAccess:
    """What all threads of a block do to a tile, once for each element of its second mode.

    Shapes: layout (threads, turns) -> index of the first of `vector` elements in the tile without
    padding, row after row. Threads are whole warps.

    `load` is False for stores, and for ldmatrix (a lane an address, `vector` its 16 bytes).
    """

    name: str
    layout: AnyLayout
    load: bool
    vector: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member of the family and what it costs.

    Units: `pad` elements after each row; `extra_bytes` of shared memory beside the tile's own;
    `wavefronts` and `least` (those without conflicts) of all accesses, each turn once.
    """

    pad: int
    swizzle: Swizzle | None
    extra_bytes: int
    wavefronts: int
    least: int

    @property
    def conflict_free(self) -> bool:
        """Whether each access takes as few passes as its bytes need."""
        return self.wavefronts == self.least

    def __str__(self) -> str:
        change = str(self.swizzle) if self.swizzle else f"pad {self.pad}"
        return f"{change} (+{self.extra_bytes} bytes): {self.wavefronts} of {self.least} wavefronts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """All members of the family that keep vectors aligned, the best first.

    The order: wavefronts, then extra bytes, then the simpler change.
    """

    family: str
    candidates: tuple[Candidate, ...]
    refused: int

    @property
    def best(self) -> Candidate:
        """The cheapest without conflicts, or the one with the fewest wavefronts."""
        return self.candidates[0]

    @property
    def plain(self) -> Candidate:
        """The tile as it is, without padding or swizzle."""
        return next(c for c in self.candidates if not c.pad and not c.swizzle)

    @property
    def best_padding(self) -> Candidate:
        """The best without a swizzle."""
        return next(c for c in self.candidates if not c.swizzle)

    def __str__(self) -> str:
        among = f"among {len(self.candidates)} ({self.family})"
        if self.best.conflict_free:
            return f"{self.best}, the cheapest without conflicts {among}"
        return f"{self.best}, the fewest {among}: none is without conflicts"


def solve(
    accesses: Sequence[SharedAccess], *, rows: int, row: int, bits: int, most_pad: int = 32
) -> Solution:
    """Search the paddings and swizzles of a tile of `rows` rows of `row` elements.

    The family: 0 to `most_pad` elements after each row; and every Swizzle(b, m, s) of element
    indices, s >= b, that keeps the largest vector whole, moves banks, and reads bits of the tile.

    >>> from tilewright.layouts import Layout
    >>> column = SharedAccess(name="column", layout=Layout((32, 32), (32, 1)), load=True)
    >>> line = SharedAccess(name="row", layout=Layout((32, 32), (1, 32)), load=False)
    >>> found = solve([column, line], rows=32, row=32, bits=32)
    >>> print(found.plain)
    pad 0 (+0 bytes): 1056 of 64 wavefronts
    >>> print(found.best_padding)
    pad 1 (+128 bytes): 64 of 64 wavefronts
    >>> print(found.best)
    Sw<5,0,5> (+0 bytes): 64 of 64 wavefronts

    Units: bits an element, `row`, `most_pad` elements.

    Raises:
        LayoutError: no accesses, threads that are no whole warps, elements of another width than
            8, 16, 32 or 64 bits, or an access outside the tile.
    """
    vector = max((access.vector for access in accesses), default=1)
    _check(accesses, rows * row, bits)
    tables = [(access, _table(access)) for access in accesses]
    family = _family(rows * row, vector, bits, most_pad)
    found = [_judge(tables, (rows, row), bits, *member) for member in family]
    kept = [candidate for candidate in found if candidate is not None]
    return Solution(
        family=f"pads of 0 to {most_pad}, swizzles that keep {vector} together",
        candidates=tuple(sorted(kept, key=_cost)),
        refused=len(found) - len(kept),
    )


def _family(
    size: int, vector: int, bits: int, most_pad: int
) -> Iterator[tuple[int, Swizzle | None]]:
    yield from ((pad, None) for pad in range(most_pad + 1))
    line = (LINE_BITS // bits).bit_length() - 1  # index bits that choose a word of a line
    top = (size - 1).bit_length()
    for base in range((vector - 1).bit_length(), line):
        for count in range(1, line - base + 1):
            for shift in range(count, top - base - count + 1):
                yield 0, Swizzle(count, base, shift)


def _judge(
    tables: Sequence[tuple[SharedAccess, Integers]],
    tile: tuple[int, int],
    bits: int,
    pad: int,
    swizzle: Swizzle | None,
) -> Candidate | None:
    """Return what a member costs; None where it takes a vector off its alignment."""
    rows, row = tile
    taken = fewest = 0
    for access, table in tables:
        moved = _moved(table, row, pad, swizzle)
        if (moved % access.vector).any():
            return None
        addresses, size = moved * bits // 8, access.vector * bits // 8
        taken += int(wavefronts(addresses, size, load=access.load).sum())
        fewest += int(least(addresses, size, load=access.load).sum())
    extent = rows * (row + pad)
    if swizzle and extent % swizzle.period:
        extent = 1 + int(_moved(np.arange(extent), row, 0, swizzle).max())
    return Candidate(
        pad=pad,
        swizzle=swizzle,
        extra_bytes=(extent - rows * row) * bits // 8,
        wavefronts=taken,
        least=fewest,
    )


def _moved(indices: Integers, row: int, pad: int, swizzle: Swizzle | None) -> Integers:
    """Return where elements of the tight tile lie in the padded or swizzled one."""
    if swizzle is None:
        return indices + indices // row * pad
    return indices ^ ((indices & swizzle.source_mask) >> swizzle.shift)


def _table(access: SharedAccess) -> Integers:
    """Return the indices of each warp's each turn, [requests, 32]."""
    threads = access.layout[0].size
    indices = np.array(access.layout.indices(), np.int64).reshape(-1, threads)
    return indices.reshape(-1, LANES)


def _cost(candidate: Candidate) -> tuple[int, ...]:
    swizzle = candidate.swizzle or Swizzle(0, 0, 0)
    shape = (swizzle.bits, swizzle.base, swizzle.shift)
    return (candidate.wavefronts, candidate.extra_bytes, candidate.pad, *shape)


def _check(accesses: Sequence[SharedAccess], size: int, bits: int) -> None:
    if not accesses:
        raise LayoutError("no accesses: give the writers and the readers of the tile")
    if bits not in (8, 16, 32, 64):
        raise LayoutError(f"elements of {bits} bits: give 8, 16, 32 or 64")
    for access in accesses:
        threads, bytes_each = access.layout[0].size, access.vector * bits // 8
        if access.layout.rank != 2 or threads % LANES:
            raise LayoutError(
                f"{access.name}: {access.layout} has {threads} threads in its first of "
                f"{access.layout.rank} modes; give (threads, turns) with whole warps of {LANES}"
            )
        if bytes_each not in (1, 2, 4, 8, 16):
            raise LayoutError(
                f"{access.name}: {access.vector} elements of {bits} bits are {bytes_each} bytes; "
                "an instruction moves 1, 2, 4, 8 or 16 a lane"
            )
        if (last := max(access.layout.indices()) + access.vector) > size:
            raise LayoutError(
                f"{access.name}: {access.layout} reaches element {last - 1} of a tile of {size}"
            )
