"""Division: a layout split into tiles and the layout of the tiles.

layout (M, N, L), tiler <TM, TN>
logical_divide  ((TM,RestM), (TN,RestN), L)      tiled_divide  ((TM,TN), RestM, RestN, L)
zipped_divide   ((TM,TN), (RestM,RestN,L))       flat_divide   (TM, TN, RestM, RestN, L)
"""

from __future__ import annotations

import contextlib
import itertools

from tilewright.errors import LayoutError
from tilewright.layouts.complement import complement
from tilewright.layouts.composition import CompositionError, Tiler, around, composition, zip_modes
from tilewright.layouts.layout import Layout
from tilewright.layouts.modes import concat
from tilewright.layouts.swizzle import L, lift


def logical_divide(layout: L, tiler: Tiler) -> L:
    """Return (tile, rest): the elements that the tiler points at, and the layout of such tiles.

    With a tuple, each mode is divided by its element. A tile that does not divide the size leaves
    a rest rounded up: indices beyond the layout are then to be predicated, as in CuTe.

    >>> print(logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
    ((2,2),(2,3)):((4,1),(2,8))
    >>> tiler = Layout(3, 3), Layout((2, 4), (1, 8))
    >>> print(logical_divide(Layout((9, (4, 8)), (59, (13, 1))), tiler))
    ((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))

    Raises:
        LayoutError: a tiler whose modes overlap, or tiles that are no layout of this one.
    """
    return lift(layout, lambda inner: _divide(inner, tiler))


def _divide(layout: Layout, tiler: Tiler) -> Layout:
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        return concat(*[_divide(mode, part) for mode, part in zip_modes(layout, tiler, "divide")])
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
    try:
        return _split(layout, tile)
    except CompositionError as error:
        raise LayoutError(
            f"{layout} does not divide by {tile}: {error.reason}. {_nearest(layout, tile)}"
        ) from None
    except LayoutError as error:
        raise LayoutError(f"{layout} does not divide by {tile}: {error}") from None


def _split(layout: Layout, tile: Layout) -> Layout:
    return composition(layout, concat(tile, complement(tile, layout.size)))


def _nearest(layout: Layout, tile: Layout) -> str:
    """Name the tile of the nearest size that divides the layout, as far as it has one mode."""
    if len(tile.flat_modes()) > 1:
        return "Divide by its modes one after the other to see which of them does not fit"
    ((size, step),) = tile.flat_modes()
    for near in around(size):
        with contextlib.suppress(LayoutError):
            _split(layout, Layout(near, step))
            return f"Nearest that would do: {near}:{step}"
    return "Nearest that would do: 1:1"


def zipped_divide(layout: L, tiler: Tiler) -> L:
    """Return (tile, rest) with the tiles of all modes in the first, the rests in the second.

    >>> print(zipped_divide(Layout((8, 6)), (4, 3)))
    ((4,3),(2,2)):((1,8),(4,24))
    """
    return lift(layout, lambda inner: unzip(_divide(inner, tiler), tiler))


def tiled_divide(layout: L, tiler: Tiler) -> L:
    """Return (tile, rest, rest, …): as zipped_divide, with the rests as modes of their own.

    >>> print(tiled_divide(Layout((8, 6)), (4, 3)))
    ((4,3),2,2):((1,8),4,24)
    """
    return lift(layout, lambda inner: spread(unzip(_divide(inner, tiler), tiler)))


def flat_divide(layout: L, tiler: Tiler) -> L:
    """Return (tile, tile, …, rest, rest, …): as zipped_divide, with every mode its own.

    >>> print(flat_divide(Layout((8, 6)), (4, 3)))
    (4,3,2,2):(1,8,4,24)
    """
    return lift(layout, lambda inner: concat(*itertools.chain(*zipped_divide(inner, tiler))))


def spread(pair: Layout) -> Layout:
    """Return (first, second) with the modes of the second as modes of their own."""
    first, second = pair
    return concat(first, *second)


def unzip(layout: Layout, tiler: Tiler) -> Layout:
    """Gather the first of each pair that a tiler made, then the second of each and what it left."""
    if tiler is None:
        raise LayoutError("a tiler None leaves nothing to gather; give the size, or a layout")
    if not isinstance(tiler, tuple):
        return layout
    pairs = [unzip(mode, part) for mode, part in zip(layout, tiler, strict=False)]
    rest = [pair[1] for pair in pairs] + list(layout)[len(tiler) :]
    return concat(concat(*[pair[0] for pair in pairs]), concat(*rest))
