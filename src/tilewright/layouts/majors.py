"""Constructors of tight layouts, by the mode that is contiguous or by the order of modes.

An operand of a matrix product is (rows, depth): A as (m, k), B as (n, k). K-major means stride 1
along the reduction, MN-major stride 1 along the rows.
"""

from __future__ import annotations

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import (
    IntTuple,
    canonical,
    congruent,
    leaves,
    refill,
    suffix_products,
    text,
)
from tilewright.layouts.layout import Layout


def column_major(*shape: IntTuple) -> Layout:
    """Return the tight layout whose first mode has stride 1 (CuTe's LayoutLeft).

    >>> print(column_major(4, 8))
    (4,8):(1,4)
    """
    return Layout(_bare(shape))


def row_major(*shape: IntTuple) -> Layout:
    """Return the tight layout whose last mode has stride 1 (CuTe's LayoutRight).

    >>> print(row_major(4, 8), row_major(2, (2, 2)))
    (4,8):(8,1) (2,(2,2)):(4,(2,1))
    """
    sizes = canonical(_bare(shape), "shape", 1)
    return Layout(sizes, suffix_products(sizes))


def k_major(mn: int, k: int, ld: int | None = None) -> Layout:
    """Return (mn,k) with stride 1 along k and rows `ld` apart, tight without it.

    >>> print(k_major(128, 8), k_major(128, 8, ld=12))
    (128,8):(8,1) (128,8):(12,1)
    """
    return Layout((mn, k), (_leading(ld, k, "k"), 1))


def mn_major(mn: int, k: int, ld: int | None = None) -> Layout:
    """Return (mn,k) with stride 1 along mn and columns `ld` apart, tight without it.

    >>> print(mn_major(128, 8), mn_major(128, 8, ld=132))
    (128,8):(1,128) (128,8):(1,132)
    """
    return Layout((mn, k), (1, _leading(ld, mn, "mn")))


def ordered(shape: IntTuple, order: IntTuple) -> Layout:
    """Return the tight layout whose modes follow in `order`: the lowest number has stride 1.

    >>> print(ordered((4, 3, 8, 2), (2, 1, 3, 0)))
    (4,3,8,2):(6,2,24,1)

    Raises:
        LayoutError: an order with another hierarchy than the shape's.
    """
    sizes, ranks = canonical(shape, "shape", 1), canonical(order, "order")
    if not congruent(sizes, ranks):
        raise LayoutError(
            f"order {text(ranks)} differs from shape {text(sizes)} in hierarchy; give each size "
            "its place"
        )
    flat, places = leaves(sizes), leaves(ranks)
    strides, total = [0] * len(flat), 1
    for at in sorted(range(len(flat)), key=lambda at: places[at]):
        strides[at] = total
        total *= flat[at]
    return Layout(sizes, refill(sizes, strides))


def like(layout: Layout) -> Layout:
    """Return the tight layout with the shape and the order of strides of another.

    Modes with stride 0 keep it: an array that serves the layout needs no room for them.

    >>> print(like(Layout((2, 3, 4, 5), (0, 42, 1, 0))))
    (2,3,4,5):(0,4,1,0)
    """
    shape, stride = layout.shape, leaves(layout.stride)
    stored = [size if step else 1 for size, step in layout.flat_modes()]
    steps = leaves(ordered(refill(shape, stored), layout.stride).stride)
    return Layout(
        shape, refill(shape, [n if old else 0 for n, old in zip(steps, stride, strict=True)])
    )


def _bare(shape: tuple[IntTuple, ...]) -> IntTuple:
    return shape[0] if len(shape) == 1 else shape


def _leading(ld: int | None, extent: int, name: str) -> int:
    if ld is not None and ld < extent:
        raise LayoutError(f"ld = {ld}: {name} has {extent} elements; give at least {extent}")
    return extent if ld is None else ld
