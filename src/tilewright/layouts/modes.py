"""Rearranging the modes of a layout without changing what any of them does."""

from __future__ import annotations

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import leaves
from tilewright.layouts.layout import Layout, unchecked


def concat(*layouts: Layout) -> Layout:
    """Return the layout whose modes are the given layouts (CuTe's make_layout of layouts).

    >>> print(concat(Layout(3), Layout(4, 3)), concat(Layout(3)))
    (3,4):(1,3) (3):(1)
    """
    if not layouts:
        raise LayoutError("concat of nothing: give at least one layout")
    return unchecked(tuple([a.shape for a in layouts]), tuple([a.stride for a in layouts]))


def select(layout: Layout, *modes: int) -> Layout:
    """Return the layout of the modes named, in that order.

    >>> print(select(Layout((2, 3, 5, 7)), 1, 3))
    (3,7):(2,30)
    """
    return concat(*[layout[mode] for mode in modes])


def take(layout: Layout, begin: int, end: int) -> Layout:
    """Return the layout of modes begin to end - 1.

    >>> print(take(Layout((2, 3, 5, 7)), 1, 3))
    (3,5):(2,6)
    """
    _check_range(layout, begin, end)
    return concat(*[layout[mode] for mode in range(begin, end)])


def group(layout: Layout, begin: int, end: int) -> Layout:
    """Return the layout with modes begin to end - 1 made into one.

    >>> print(group(Layout((2, 3, 5, 7)), 0, 2))
    ((2,3),5,7):((1,2),6,30)
    """
    _check_range(layout, begin, end)
    modes = list(layout)
    return concat(*modes[:begin], concat(*modes[begin:end]), *modes[end:])


def flatten(layout: Layout) -> Layout:
    """Return the layout with one level of modes; an integer shape stays one.

    >>> print(flatten(Layout(((2, 3), 5, 7))))
    (2,3,5,7):(1,2,6,30)
    """
    if isinstance(layout.shape, int):
        return layout
    return unchecked(tuple(leaves(layout.shape)), tuple(leaves(layout.stride)))


def append(layout: Layout, mode: Layout) -> Layout:
    """Return the layout with one more mode at the end.

    >>> print(append(Layout(3), Layout(4, 3)))
    (3,4):(1,3)
    """
    return concat(*layout, mode)


def prepend(layout: Layout, mode: Layout) -> Layout:
    """Return the layout with one more mode at the front.

    >>> print(prepend(Layout(3), Layout(4, 3)))
    (4,3):(3,1)
    """
    return concat(mode, *layout)


def replace(layout: Layout, at: int, mode: Layout) -> Layout:
    """Return the layout with mode `at` replaced.

    >>> print(replace(Layout((3, 4)), 1, Layout(2, 9)))
    (3,2):(1,9)
    """
    _check_range(layout, at, at + 1)
    modes = list(layout)
    return concat(*modes[:at], mode, *modes[at + 1 :])


def pad_rank(layout: Layout, rank: int) -> Layout:
    """Return the layout with modes 1:0 at the end until it has `rank` of them."""
    return concat(*layout, *[Layout(1, 0)] * (rank - layout.rank))


def _check_range(layout: Layout, begin: int, end: int) -> None:
    if not 0 <= begin < end <= layout.rank:
        raise LayoutError(
            f"modes {begin} to {end - 1} of {layout}: name at least one of its modes 0 to "
            f"{layout.rank - 1}"
        )
