"""The laws of divides and products, at every coordinate of ten thousand random operands each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_samples import COUNT, INJECTIVE, Draw, Law, random_draw, value

from tilewright.layouts import (
    Layout,
    blocked_product,
    compatible,
    complement,
    composition,
    concat,
    flat_divide,
    flat_product,
    is_contiguous,
    is_injective,
    logical_divide,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)


def check_composition(a: Layout, b: Layout, result: Layout) -> None:
    assert compatible(b.shape, result.shape)
    assert result.indices() == [value(a, index) for index in b.indices()]


def check_composition_by_mode(a: Layout, tiler: tuple[Any, ...], result: Layout) -> None:
    assert result.rank == len(tiler)
    for mode, old, tile in zip(result, a, tiler, strict=False):
        check_composition(old, tile if isinstance(tile, Layout) else Layout(tile), mode)


def tiled(draw: Draw) -> tuple[Layout, Any]:
    return draw.layout(("compact", "compact", "padded", "broadcast")), draw.tiler()


def tiled_by_mode(draw: Draw) -> tuple[Layout, Any]:
    return draw.matrix(limit=48), (draw.tiler(), draw.tiler())


def as_layout(tiler: Layout | int) -> Layout:
    return tiler if isinstance(tiler, Layout) else Layout(tiler)


def check_divide(layout: Layout, tiler: Any, result: Layout) -> None:
    tile = as_layout(tiler)
    rest = complement(tile, layout.size)
    assert result.rank == 2
    assert compatible(tile.shape, result[0].shape)
    want = [value(layout, i + j) for j in rest.indices() for i in tile.indices()]
    assert result.indices() == want
    if is_contiguous(concat(tile, rest)) and result.size == layout.size:
        assert sorted(want) == sorted(layout.indices()), "the tiles are all of the layout"


def check_divide_by_mode(layout: Layout, tiler: Any, result: Layout) -> None:
    for mode, old, part in zip(result, layout, tiler, strict=True):
        check_divide(old, part, mode)


def regroups(logical: Callable[..., Layout], *ends: int) -> Callable[..., None]:
    """The check that a result is `logical`, ((t0,r0),(t1,r1)), in the order t0, t1, r0, r1.

    `ends` says after how many of the four each mode of the result ends.
    """

    def check(layout: Layout, tiler: Any, result: Layout) -> None:
        pairs = logical(layout, tiler)
        t0, r0, t1, r1 = sizes = [part.size for mode in pairs for part in mode]
        table = pairs.indices()
        assert result.indices() == [
            table[a + t0 * (c + r0 * (b + t1 * d))]
            for d in range(r1)
            for c in range(r0)
            for b in range(t1)
            for a in range(t0)
        ]
        order = (t0, t1, r0, r1)
        parts = [math.prod(order[i:j]) for i, j in zip((0, *ends), ends, strict=False)]
        assert [mode.size for mode in result] == parts
        assert len(sizes) == ends[-1]

    return check


ZIPPED, TILED, FLAT = (2, 4), (2, 3, 4), (1, 2, 3, 4)


def block_and_tiler(draw: Draw) -> tuple[Layout, Any]:
    return draw.layout(INJECTIVE, limit=32), draw.tiler()


def blocks_by_mode(draw: Draw) -> tuple[Layout, Any]:
    return draw.matrix(INJECTIVE, limit=24), (draw.tiler(), draw.tiler())


def two_blocks(draw: Draw) -> tuple[Layout, Layout]:
    return draw.matrix(INJECTIVE, limit=24), draw.matrix(INJECTIVE, limit=12)


def check_product(block: Layout, tiler: Any, result: Layout) -> None:
    tiles = as_layout(tiler)
    assert result.rank == 2
    assert result[0] == block
    assert compatible(tiles.shape, result[1].shape)
    # The repetitions are those of the complement, counted by the tiler's values.
    repetitions = complement(block, 64 * block.cosize * tiles.cosize)
    assert result[1].indices() == [value(repetitions, index) for index in tiles.indices()]
    assert len(set(result.indices())) == result.size, "copies meet"


def check_product_by_mode(block: Layout, tiler: Any, result: Layout) -> None:
    for mode, old, part in zip(result, block, tiler, strict=True):
        check_product(old, part, mode)


def check_blocked(block: Layout, tiler: Layout, result: Layout) -> None:
    both, (m, n) = logical_product(block, tiler), (block[0].size, block[1].size)
    table, down = both.indices(), tiler[0].size
    assert result.indices() == [
        table[i % m + m * (j % n + n * (i // m + down * (j // n)))]
        for j in range(n * tiler[1].size)
        for i in range(m * down)
    ]


def check_raked(block: Layout, tiler: Layout, result: Layout) -> None:
    both, (down, across) = logical_product(block, tiler), (tiler[0].size, tiler[1].size)
    table, (m, n) = both.indices(), (block[0].size, block[1].size)
    assert result.indices() == [
        table[i // down + m * (j // across + n * (i % down + down * (j % across)))]
        for j in range(n * across)
        for i in range(m * down)
    ]


def make_tiled_shape(draw: Draw) -> tuple[Layout, Any, Any]:
    block = draw.matrix(INJECTIVE, limit=16)
    shape = tuple([mode.size * draw.pick((1, 2, 3)) for mode in block])
    return block, shape, draw.pick((None, (0, 1), (1, 0)))


def check_tiled_shape(block: Layout, shape: Any, order: Any, result: Layout) -> None:
    assert compatible(shape, result.shape)
    m, n = block[0].size, block[1].size
    corner = [result(i, j) for j in range(n) for i in range(m)]
    assert corner == [block(i, j) for j in range(n) for i in range(m)]
    assert is_injective(result)
    down, across = m < shape[0], n < shape[1]
    if down and across:
        assert (result(m, 0) < result(0, n)) == (order != (1, 0)), "the order of repetition"


LAWS: dict[str, Law] = {
    "composition by mode": Law(tiled_by_mode, composition, check_composition_by_mode),
    "logical_divide": Law(tiled, logical_divide, check_divide),
    "logical_divide by mode": Law(tiled_by_mode, logical_divide, check_divide_by_mode),
    "zipped_divide": Law(tiled_by_mode, zipped_divide, regroups(logical_divide, *ZIPPED)),
    "tiled_divide": Law(tiled_by_mode, tiled_divide, regroups(logical_divide, *TILED)),
    "flat_divide": Law(tiled_by_mode, flat_divide, regroups(logical_divide, *FLAT)),
    "logical_product": Law(block_and_tiler, logical_product, check_product),
    "logical_product by mode": Law(blocks_by_mode, logical_product, check_product_by_mode),
    "zipped_product": Law(blocks_by_mode, zipped_product, regroups(logical_product, *ZIPPED)),
    "tiled_product": Law(blocks_by_mode, tiled_product, regroups(logical_product, *TILED)),
    "flat_product": Law(blocks_by_mode, flat_product, regroups(logical_product, *FLAT)),
    "blocked_product": Law(two_blocks, blocked_product, check_blocked),
    "raked_product": Law(two_blocks, raked_product, check_raked),
    "tile_to_shape": Law(make_tiled_shape, tile_to_shape, check_tiled_shape),
}


@pytest.mark.parametrize("name", LAWS)
def test_law_over_ten_thousand_random_operands(name: str) -> None:
    LAWS[name].hold(COUNT, random_draw(seed=len(name)))


@pytest.mark.parametrize("name", LAWS)
@settings(max_examples=30, deadline=None, database=None)
@given(data=st.data())
def test_law_on_examples_that_shrink(name: str, data: st.DataObject) -> None:
    LAWS[name].hold_or_refuse(Draw(lambda items: data.draw(st.sampled_from(items))))
