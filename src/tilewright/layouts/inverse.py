"""Inverses of layouts, and the longest vector that two layouts share."""

from __future__ import annotations

from tilewright.errors import LayoutError
from tilewright.layouts.layout import Layout
from tilewright.layouts.simplify import Modes, from_modes, merged


def right_inverse(layout: Layout) -> Layout:
    """Return R with layout(R(i)) = i: where each index is found, from 0 as far as modes go on.

    It is the inverse where the layout is contiguous, and the longest such R where no modes overlap.

    >>> print(right_inverse(Layout((4, 8), (8, 1))), right_inverse(Layout((4, 8), (1, 5))))
    (8,4):(4,1) 4:1
    """
    result: Modes = []
    reached = 1
    for step, size, place in _placed(layout):
        if step > reached:
            break
        if step == reached:
            result.append((size, place))
            reached *= size
    return from_modes(merged(result))


def left_inverse(layout: Layout) -> Layout:
    """Return L with L(layout(c)) = c for every flat coordinate c; padding is left out.

    >>> print(left_inverse(Layout((4, 8), (8, 1))), left_inverse(Layout((8, 8), (1, 9))))
    (8,4):(4,1) (9,8):(1,8)

    Raises:
        LayoutError: a layout that is not injective, or strides of which one does not divide the
            next, so that the digits of an index are no layout's.
    """
    result: Modes = []
    reached, digit, place = (
        1,
        1,
        0,
    )  # the span so far; the size and coordinate step of its top digit
    for step, size, next_place in _placed(layout, zeros=True):
        if step < reached:
            raise LayoutError(
                f"left_inverse of {layout}: it is not injective, mode {size}:{step} steps inside "
                f"the {reached} indices of the modes below. Nearest that would do: {size}:{reached}"
            )
        if step % digit:
            raise LayoutError(
                f"left_inverse of {layout}: the stride {step} must be a multiple of {digit}, the "
                f"stride below it. Nearest that would do: {size}:{-(-step // digit) * digit}"
            )
        result.append((step // digit, place))
        reached, digit, place = size * step, step, next_place
    return from_modes(merged([*result, (reached // digit, place)]))


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """Return the longest layout V with a(V(i)) = b(V(i)) = i: 1:0 where they share no more.

    >>> print(max_common_layout(Layout((8, 4), (1, 8)), Layout((8, 4), (1, 9))))
    8:1
    """
    common: Modes = []
    ours, theirs = right_inverse(a).flat_modes(), right_inverse(b).flat_modes()
    for (size, place), (other, other_place) in zip(ours, theirs, strict=False):
        if place != other_place:
            break
        common.append((min(size, other), place))
        if size != other:
            break
    return from_modes(merged(common))


def max_common_vector(a: Layout, b: Layout) -> int:
    """Return how many elements are contiguous, from index 0, in both at the same coordinates.

    >>> max_common_vector(Layout((8, 4)), Layout((8, 4), (1, 9)))
    8
    """
    return max_common_layout(a, b).size


def _placed(layout: Layout, *, zeros: bool = False) -> list[tuple[int, int, int]]:
    """Return (stride, size, step of the flat coordinate) of the coalesced modes, by stride."""
    modes, place = [], 1
    for size, step in merged(layout.flat_modes()):
        if step or zeros:
            modes.append((step, size, place))
        place *= size
    return sorted(modes)
