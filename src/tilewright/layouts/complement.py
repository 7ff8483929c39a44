"""The complement: the layout of the repetitions that fill what a layout leaves out."""

from __future__ import annotations

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import IntTuple, product
from tilewright.layouts.layout import Layout
from tilewright.layouts.simplify import Modes, from_modes, merged


def complement(layout: Layout, cotarget: IntTuple = 1) -> Layout:
    """Return the ordered layout whose shifts of `layout` never meet, up to size(cotarget).

    The layout and its complement side by side reach every index below the cotarget once, where
    every stride of the layout is a multiple of what lies below it; with padding, as in
    (8,8):(1,9), the padded indices stay out.

    >>> print(complement(Layout(4, 2), 24), complement(Layout((2, 2), (1, 6)), 24))
    (2,3):(1,8) (3,2):(2,12)

    Raises:
        LayoutError: modes that overlap: one's stride is less than the extent of a lower one.
    """
    holes, span = gaps(layout)
    return from_modes(merged([*holes, (-(-product(cotarget) // span), span)]))


def gaps(layout: Layout) -> tuple[Modes, int]:
    """Return the modes that fill the holes between the layout's own, and the span of both."""
    modes = sorted(
        (mode for mode in layout.flat_modes() if mode[0] > 1 and mode[1]), key=_by_stride
    )
    holes: Modes = []
    span, below = 1, "1:1"
    for size, step in modes:
        if step < span:
            raise LayoutError(
                f"complement of {layout}: modes {below} and {size}:{step} overlap: a stride must "
                f"be at least the extent (size × stride) of the modes with smaller ones, here "
                f"{span}. Nearest that would do: {size}:{span}"
            )
        holes.append((step // span, span))
        span, below = size * step, f"{size}:{step}"
    return holes, span


def _by_stride(mode: tuple[int, int]) -> tuple[int, int]:
    return mode[1], mode[0]
