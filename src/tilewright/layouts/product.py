"""Products: a layout repeated in the arrangement of another.

block (M, N), tiler <TM, TN> by mode
logical_product  ((M,TM), (N,TN))      tiled_product  ((M,N), TM, TN)
zipped_product   ((M,N), (TM,TN))      flat_product   (M, N, TM, TN)
"""

from __future__ import annotations

import itertools

from tilewright.errors import LayoutError
from tilewright.layouts.complement import gaps
from tilewright.layouts.composition import Tiler, composition, zip_modes
from tilewright.layouts.divide import spread, unzip
from tilewright.layouts.int_tuple import IntTuple, elements, product, text
from tilewright.layouts.layout import Layout
from tilewright.layouts.majors import ordered
from tilewright.layouts.modes import concat, pad_rank
from tilewright.layouts.simplify import from_modes, merged
from tilewright.layouts.swizzle import L, lift


def logical_product(block: L, tiler: Tiler) -> L:
    """Return (block, tiler'): the block, and its repetitions in the order of the tiler.

    Repetitions fill the block's holes first, then follow it; no two meet. An integer n repeats it
    n times; a tuple repeats each mode by its element.

    >>> print(logical_product(Layout((2, 2), (4, 1)), Layout(6)))
    ((2,2),(2,3)):((4,1),(2,8))
    >>> print(logical_product(Layout((8, 8), (1, 9)), 4))
    ((8,8),4):((1,9),72)

    Raises:
        LayoutError: a block whose modes overlap, or a tiler that is no layout of its repetitions.
    """
    return lift(block, lambda inner: _product(inner, tiler))


def _product(block: Layout, tiler: Tiler) -> Layout:
    if tiler is None:
        return block
    if isinstance(tiler, tuple):
        return concat(*[_product(mode, part) for mode, part in zip_modes(block, tiler, "product")])
    tiles = tiler if isinstance(tiler, Layout) else Layout(tiler)
    return _repeated(block, tiles)


def zipped_product(block: L, tiler: Tiler) -> L:
    """Return (block, repetitions) with the modes of a by-mode product gathered.

    >>> print(zipped_product(Layout((2, 4), (1, 8)), (3, 2)))
    ((2,4),(3,2)):((1,8),(2,1))
    """
    return lift(block, lambda inner: unzip(_product(inner, tiler), tiler))


def tiled_product(block: L, tiler: Tiler) -> L:
    """Return (block, repetition, repetition, …).

    >>> print(tiled_product(Layout((2, 4), (1, 8)), (3, 2)))
    ((2,4),3,2):((1,8),2,1)
    """
    return lift(block, lambda inner: spread(unzip(_product(inner, tiler), tiler)))


def flat_product(block: L, tiler: Tiler) -> L:
    """Return the modes of the block, then those of the repetitions.

    >>> print(flat_product(Layout((2, 4), (1, 8)), (3, 2)))
    (2,4,3,2):(1,8,2,1)
    """
    return lift(block, lambda inner: concat(*itertools.chain(*zipped_product(inner, tiler))))


def blocked_product(block: L, tiler: Layout) -> L:
    """Return the block repeated in the tiler's arrangement, mode by mode: blocks side by side.

    Each mode is (block, repetition); coalesce by mode to join the two where they are one run.

    >>> print(blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    return lift(block, lambda inner: _by_rank(inner, tiler, (0, 1)))


def raked_product(block: L, tiler: Layout) -> L:
    """Return the block repeated in the tiler's arrangement, mode by mode: blocks interleaved.

    Each mode is (repetition, block).

    >>> print(raked_product(Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    return lift(block, lambda inner: _by_rank(inner, tiler, (1, 0)))


def _repeated(block: Layout, tiles: Layout) -> Layout:
    try:
        holes, span = gaps(block)
        # Enough repetitions for the tiler even where padding makes the block sparse.
        repetitions = from_modes(merged([*holes, (tiles.cosize, span)]))
        return concat(block, composition(repetitions, tiles))
    except LayoutError as error:
        raise LayoutError(f"{block} does not repeat by {tiles}: {error}") from None


def _by_rank(block: Layout, tiler: Layout, order: tuple[int, int]) -> Layout:
    rank = max(block.rank, tiler.rank)
    pair = _product(pad_rank(block, rank), pad_rank(tiler, rank))
    both = [pair[part] for part in order]
    return concat(*[concat(*[part[mode] for part in both]) for mode in range(rank)])


def tile_to_shape(block: L, shape: IntTuple, order: tuple[int, ...] | None = None) -> L:
    """Return the block repeated until it has `shape`, along the modes in `order`.

    `order` gives each mode its place, as in `ordered`: (1, 0) repeats along mode 1 first. Without
    it the modes follow from left to right.

    >>> print(tile_to_shape(Layout((8, 64), (64, 1)), (128, 64)))
    ((8,16),(64,1)):((64,512),(1,8192))
    >>> print(tile_to_shape(Layout((4, 2)), (8, 4), order=(1, 0)))
    ((4,2),(2,2)):((1,16),(4,8))

    Raises:
        LayoutError: a shape that is no multiple of the block's, or an order that is none.
    """
    return lift(block, lambda inner: _tile_to_shape(inner, shape, order))


def _tile_to_shape(block: Layout, shape: IntTuple, order: tuple[int, ...] | None) -> Layout:
    sizes = [product(size) for size in elements(shape)]
    whole = pad_rank(block, len(sizes))
    places = tuple(range(len(sizes))) if order is None else order
    if len(sizes) < block.rank or len(places) != len(sizes):
        raise LayoutError(
            f"tile_to_shape: shape {text(shape)} and order {text(places)} for {block}: give a size "
            "and a place for each mode"
        )
    for number, (mode, size) in enumerate(zip(whole, sizes, strict=True)):
        if size % mode.size:
            raise LayoutError(
                f"tile_to_shape: mode {number} of {block} has {mode.size} elements, which do not "
                f"divide {size}; nearest that would do: {max(size // mode.size, 1) * mode.size}"
            )
    counts = tuple([size // mode.size for size, mode in zip(sizes, whole, strict=True)])
    return blocked_product(whole, ordered(counts, places))
