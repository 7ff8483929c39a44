"""Fewer modes for the same function."""

from __future__ import annotations

from typing import TypeAlias

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import IntTuple, text, unwrap
from tilewright.layouts.layout import Layout, unchecked
from tilewright.layouts.modes import concat
from tilewright.layouts.swizzle import AnyLayout, L, lift

Mode: TypeAlias = tuple[int, int]
Modes: TypeAlias = list[Mode]


def merged(modes: Modes) -> Modes:
    """Join each mode to its left neighbour where that goes on in the same steps; drop size 1."""
    result: Modes = []
    for size, step in modes:
        if size == 1:
            continue
        if result and result[-1][0] * result[-1][1] == step:
            result[-1] = (result[-1][0] * size, result[-1][1])
        else:
            result.append((size, step))
    return result


def from_modes(modes: Modes) -> Layout:
    """Return the layout of flat (size, stride) pairs: 1:0 for none, an integer shape for one."""
    if not modes:
        return Layout(1, 0)
    return unchecked(unwrap([size for size, _ in modes]), unwrap([step for _, step in modes]))


def coalesce(layout: L, profile: IntTuple | None = None) -> L:
    """Return the flat layout of fewest modes with the same index at every flat coordinate.

    With a tuple as `profile`, its elements stand for the modes, and each is coalesced by itself;
    further modes stay. The integers in the profile are flags: their values mean nothing.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    12:1
    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1)))
    (2,6):(1,2)

    Raises:
        LayoutError: a profile with more modes than the layout.
    """
    return lift(layout, lambda inner: _coalesce(inner, profile))


def _coalesce(layout: Layout, profile: IntTuple | None) -> Layout:
    if not isinstance(profile, tuple):
        return from_modes(merged(layout.flat_modes()))
    if len(profile) > layout.rank:
        raise LayoutError(
            f"profile {text(profile)} has {len(profile)} modes, {layout} has {layout.rank}; "
            "give at most as many"
        )
    modes = list(layout)
    heads = [_coalesce(mode, part) for mode, part in zip(modes, profile, strict=False)]
    return concat(*heads, *modes[len(profile) :])


def filter(layout: Layout) -> Layout:
    """Return the coalesced layout without its modes of stride 0: every index, no broadcast.

    >>> print(filter(Layout((4, 3, 2), (1, 0, 4))))
    8:1
    """
    return from_modes(merged([mode for mode in layout.flat_modes() if mode[1]]))


def equivalent(a: AnyLayout, b: AnyLayout) -> bool:
    """Say whether both give the same index at every flat coordinate.

    >>> equivalent(Layout((2, 4)), Layout(8)), equivalent(Layout((2, 4), (4, 1)), Layout(8))
    (True, False)
    """
    if isinstance(a, Layout) and isinstance(b, Layout):
        return coalesce(a) == coalesce(b)
    return a.size == b.size and a.indices() == b.indices()
