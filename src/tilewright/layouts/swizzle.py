"""Swizzles, and layouts behind one: the XOR of some address bits into lower ones.

index bits   ...  Y Y Y  . .  Z Z Z  . . . .
                  └─────────────>┘   └─────┘      Z ^= Y, `bits` of each
                   `shift` to the right    `base` bits stay as they are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, cast

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import Coordinate, IntTuple
from tilewright.layouts.layout import Layout


@dataclass(frozen=True, slots=True)
class Swizzle:
    """CuTe's Swizzle<bits, base, shift>: bits [base + shift, + bits) XORed into [base, + bits).

    It is its own inverse. `Swizzle(3, 4, 3)` on byte addresses permutes the 16-byte pieces of each
    128-byte row by the row's number modulo 8.

    >>> spread = Swizzle(3, 4, 3)
    >>> spread(128), spread(spread(1000))
    (144, 1000)
    >>> print(spread)
    Sw<3,4,3>

    Raises:
        LayoutError: a negative `bits` or `base`, or |shift| < bits, where the two fields overlap.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        for name in ("bits", "base", "shift"):
            value = getattr(self, name)
            if type(value) is not int:
                raise LayoutError(f"swizzle {name} = {value!r}: give an integer")
        if self.bits < 0 or self.base < 0:
            raise LayoutError(f"{self}: bits and base must be at least 0")
        if abs(self.shift) < self.bits:
            raise LayoutError(
                f"{self}: the shift {self.shift} is shorter than the {self.bits} bits, so that "
                f"source and target overlap; give a shift of at least {self.bits}"
            )

    @property
    def source_mask(self) -> int:
        """The bits that are read."""
        return ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))

    @property
    def target_mask(self) -> int:
        """The bits that change."""
        return ((1 << self.bits) - 1) << (self.base - min(self.shift, 0))

    @property
    def period(self) -> int:
        """The smallest n for which the swizzle maps each aligned run of n indices to itself."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def __call__(self, index: int) -> int:
        """Return the swizzled index."""
        source = index & self.source_mask
        return index ^ (source >> self.shift if self.shift >= 0 else source << -self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True, slots=True)
class ComposedLayout:
    """A swizzle after an offset after a layout: c maps to swizzle(offset + layout(c)).

    >>> rows = ComposedLayout(Swizzle(2, 0, 3), 0, Layout((4, 8), (8, 1)))
    >>> rows(1, 0), rows(1, 1), rows(2, 0)
    (9, 8, 18)
    >>> print(rows)
    Sw<2,0,3> o 0 o (4,8):(8,1)
    """

    swizzle: Swizzle
    offset: int
    layout: Layout

    def __post_init__(self) -> None:
        if type(self.offset) is not int or self.offset < 0:
            raise LayoutError(f"offset {self.offset!r}: give a whole number from 0")

    @property
    def shape(self) -> IntTuple:
        """The shape of the coordinates."""
        return self.layout.shape

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.layout.size

    @property
    def cosize(self) -> int:
        """One more than the largest index."""
        return 1 + max(self.indices())

    @property
    def rank(self) -> int:
        """The number of modes."""
        return self.layout.rank

    @property
    def depth(self) -> int:
        """How deep the shape's tuples nest."""
        return self.layout.depth

    def __call__(self, *coordinate: IntTuple) -> int:
        """Return the index of a coordinate, as a Layout does."""
        return self.swizzle(self.offset + self.layout(*coordinate))

    def indices(self) -> list[int]:
        """Return the index of every coordinate, in the order of flat coordinates."""
        swizzle, offset = self.swizzle, self.offset
        return [swizzle(offset + index) for index in self.layout.indices()]

    def slice(self, *coordinate: Coordinate) -> tuple[ComposedLayout, int]:
        """Fix the coordinates given, keep the modes with None.

        The offset goes inside, since a swizzle does not pass it on: the second result is 0.
        """
        kept, offset = self.layout.slice(*coordinate)
        return ComposedLayout(self.swizzle, self.offset + offset, kept), 0

    def __iter__(self) -> Iterator[ComposedLayout]:
        """Yield the modes, each behind the same swizzle and offset."""
        return (ComposedLayout(self.swizzle, self.offset, mode) for mode in self.layout)

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, path: int | tuple[int, ...]) -> ComposedLayout:
        """Return one mode, or a mode of a mode, behind the same swizzle and offset."""
        return ComposedLayout(self.swizzle, self.offset, self.layout[path])

    def map(self, change: Callable[[Layout], Layout]) -> ComposedLayout:
        """Return the same swizzle and offset around a changed layout."""
        return ComposedLayout(self.swizzle, self.offset, change(self.layout))

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"


AnyLayout: TypeAlias = Layout | ComposedLayout
L = TypeVar("L", bound=AnyLayout)


def lift(layout: L, change: Callable[[Layout], Layout]) -> L:
    """Return the changed layout, behind its swizzle and offset where it has one."""
    if isinstance(layout, ComposedLayout):
        return cast(L, layout.map(change))
    return cast(L, change(layout))
