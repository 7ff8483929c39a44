"""The fragment: which elements of a matrix tile each thread holds, in the order of its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.layouts.layout import Layout

# Bits of an element, by the name that PTX gives its type.
BITS = {
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "e4m3": 8,
    "e5m2": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A map (thread, value) -> row + rows · col, so that composing it with a tile's layout works.

    Values are in the order of PTX: the elements of a thread's registers, low bits first.

    Shapes: layout ((threads), (values)), onto the rows x cols of the tile.
    """

    rows: int
    cols: int
    layout: Layout

    @property
    def threads(self) -> int:
        """Threads that hold the tile together."""
        return self.layout[0].size

    @property
    def values(self) -> int:
        """Elements a thread."""
        return self.layout[1].size

    def coordinate(self, thread: int, value: int) -> tuple[int, int]:
        """Return (row, col) of a thread's value."""
        col, row = divmod(self.layout(thread, value), self.rows)
        return row, col


class Digit(NamedTuple):
    """A digit of a thread's or a value's number: how far one step of it goes in the tile."""

    size: int
    down: int = 0
    right: int = 0


def fragment(
    rows: int, cols: int, *, threads: Sequence[Digit], values: Sequence[Digit]
) -> Fragment:
    """Return the fragment of digits, the fastest first; digits of size 1 are left out."""
    modes = [[d for d in digits if d.size > 1] or [Digit(1)] for digits in (threads, values)]
    shape = tuple([tuple([d.size for d in mode]) for mode in modes])
    stride = tuple([tuple([d.down + rows * d.right for d in mode]) for mode in modes])
    return Fragment(rows=rows, cols=cols, layout=Layout(shape, stride))
