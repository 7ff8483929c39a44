"""Layouts and swizzles as values: made, evaluated, printed, compared; and what they refuse."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from layout_samples import random_draw

from tilewright.errors import LayoutError, TilewrightError
from tilewright.layouts import (
    ComposedLayout,
    Layout,
    Swizzle,
    append,
    coalesce,
    composition,
    crd2idx,
    downcast,
    equivalent,
    group,
    idx2crd,
    is_contiguous,
    is_injective,
    k_major,
    logical_divide,
    logical_product,
    mn_major,
    recast,
    right_inverse,
    row_major,
    tile_to_shape,
    upcast,
)


def test_a_layout_is_an_immutable_value() -> None:
    a = Layout((4, (2, 3)), (2, (1, 8)))
    assert a == Layout((4, (2, 3)), (2, (1, 8)))
    assert a != Layout((4, (2, 3)), (6, (1, 2)))
    assert a != (a.shape, a.stride)  # type: ignore[comparison-overlap]
    assert {a: "found"}[Layout((4, (2, 3)), (2, (1, 8)))] == "found"
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.shape = 4  # type: ignore[misc]
    assert repr(a) == "Layout((4, (2, 3)), (2, (1, 8)))"
    assert eval(repr(a)) == a
    assert (a.size, a.cosize, a.rank, a.depth, len(a)) == (24, 24, 2, 2, 2)


def test_numbers_of_numpy_become_integers() -> None:
    four, eight, one, two = np.array([4, 8, 1, 2])
    a = Layout((four, 8), (eight, 1))
    assert a == Layout((4, 8), (8, 1))
    assert type(a.shape[0]) is int  # type: ignore[index]
    assert a(one, two) == 10
    with pytest.raises(LayoutError, match="coordinate 4 is outside"):
        a(four, 0)


def test_every_form_of_a_coordinate_gives_the_same_index() -> None:
    draw = random_draw(seed=3)
    for _ in range(2000):
        layout = draw.layout()
        for index, want in enumerate(layout.indices()):
            middle = idx2crd(index, tuple([mode.size for mode in layout]))
            natural = idx2crd(index, layout.shape)
            assert layout(index) == layout(natural) == want
            if layout.depth:
                assert layout(middle) == want
                assert layout(*middle) == want  # type: ignore[misc]


def test_beyond_the_shape_the_last_mode_goes_on() -> None:
    assert crd2idx(13, (4, 3), (3, 100)) == 3 + 3 * 100
    assert crd2idx((1, 7), (4, (2, 2)), (1, (10, 100))) == 1 + 10 + 300
    assert idx2crd(13, (4, 3)) == (1, 3)
    with pytest.raises(LayoutError, match="coordinate 12 is outside shape"):
        Layout((4, 3))(12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Layout(0), "0 is below 1"),
        (lambda: Layout((4, -2)), "-2 is below 1"),
        (lambda: Layout((4, 2), (1, -4)), "stride: -4 is below 0"),
        (lambda: Layout(()), "is empty"),
        (lambda: Layout((4, ())), "is empty"),
        (lambda: Layout([4, 2]), "is a list; give an integer or a tuple"),  # type: ignore[arg-type]
        (lambda: Layout(4.0), "is a float"),  # type: ignore[arg-type]
        (lambda: Layout(True), "is a bool"),
        (lambda: Layout((4, 2), 1), "shape (4,2) and stride 1 differ in hierarchy"),
        (lambda: Layout((4, (2, 3)), (1, (2, 3, 4))), "mode 1: shape (2,3) and stride (2,3,4)"),
        (lambda: Layout((4, 2))[2], "mode 2 of (4,2):(1,4): it has modes 0 to 1"),
        (lambda: Layout((4, 2))(4, 0), "coordinate 4 is outside shape 4: from 0 to 3"),
        (lambda: Layout((4, 2))(-1), "coordinate -1 is outside"),
        (lambda: Layout((4, 2))(1, 1, 1), "has 3 elements, shape (4,2) has 2"),
        (lambda: Layout((4, 2))(1, (1, 0)), "has 2 elements, shape 2 has 1"),
        (lambda: Layout((4, 2))(None, 1), "use .slice"),  # type: ignore[arg-type]
        (lambda: Layout((4, 2))(1.5), "coordinate: 1.5 is a float"),  # type: ignore[arg-type]
        (lambda: Layout((4, 2)).slice(1, 1), "keeps no mode"),
        (lambda: Layout((4, 2)).slice(4, None), "coordinate 4 is outside"),
        (lambda: Swizzle(3, 4, 2), "shorter than the 3 bits"),
        (lambda: Swizzle(-1, 4, 3), "at least 0"),
        (lambda: Swizzle(3, 4, 3.0), "swizzle shift = 3.0"),  # type: ignore[arg-type]
        (lambda: ComposedLayout(Swizzle(3, 4, 3), -1, Layout(8)), "offset -1"),
        (lambda: group(Layout((4, 2)), 1, 1), "name at least one of its modes 0 to 1"),
        (lambda: k_major(128, 8, ld=4), "ld = 4: k has 8 elements; give at least 8"),
        (lambda: mn_major(128, 8, ld=4), "mn has 128 elements"),
        (
            lambda: tile_to_shape(Layout((8, 64)), (20, 64)),
            "do not divide 20; nearest that would do: 16",
        ),
        (lambda: tile_to_shape(Layout((8, 64)), 8), "give a size and a place for each mode"),
        (lambda: coalesce(Layout(8), (1, 1)), "profile (1,1) has 2 modes"),
    ],
)
def test_what_is_no_layout_is_refused(make: Any, says: str) -> None:
    with pytest.raises(LayoutError) as caught:
        make()
    assert says in str(caught.value)
    assert isinstance(caught.value, TilewrightError)
    assert isinstance(caught.value, ValueError)


def test_modes_and_iteration() -> None:
    a = Layout((4, (3, 6)))
    assert [str(mode) for mode in a] == ["4:1", "(3,6):(4,12)"]
    assert a[-1] == a[1]
    assert list(Layout(8, 2)) == [Layout(8, 2)]
    assert Layout(8, 2)[0] == Layout(8, 2)
    assert append(Layout(3), Layout(4, 3)) == Layout((3, 4))


def test_equivalent_layouts_are_equal_functions() -> None:
    assert equivalent(Layout((2, (2, 2))), Layout((4, 2)))
    assert not equivalent(Layout((4, 2)), Layout((4, 2), (2, 1)))
    swizzled = composition(Swizzle(1, 0, 2), Layout((4, 2)))
    assert not equivalent(swizzled, Layout(8))
    assert equivalent(composition(Swizzle(1, 0, 3), Layout((4, 2))), Layout(8))


def test_swizzles_by_hand() -> None:
    # 128-byte rows of 16-byte pieces: piece p of row r moves to p xor (r mod 8).
    spread = Swizzle(3, 4, 3)
    for row in range(20):
        for piece in range(8):
            assert spread(row * 128 + piece * 16 + 5) == row * 128 + (piece ^ row % 8) * 16 + 5
    assert (spread.source_mask, spread.target_mask, spread.period) == (0x380, 0x70, 1024)
    back = Swizzle(2, 1, -3)
    assert (back.source_mask, back.target_mask) == (0b110, 0b110000)
    assert back(0b000110) == 0b110110
    assert Swizzle(0, 4, 3).period == 1
    assert [Swizzle(0, 4, 3)(i) for i in range(99)] == list(range(99))


@pytest.mark.parametrize("shift", [-4, -3, 3, 5])
@pytest.mark.parametrize("bits", [0, 1, 2, 3])
@pytest.mark.parametrize("base", [0, 1, 4])
def test_a_swizzle_is_its_own_inverse_within_its_period(bits: int, base: int, shift: int) -> None:
    swizzle = Swizzle(bits, base, shift)
    for start in (0, swizzle.period * 3):
        run = range(start, start + swizzle.period)
        assert sorted(map(swizzle, run)) == list(run)
        assert all(swizzle(swizzle(index)) == index for index in run)


def test_a_composed_layout_is_swizzle_of_offset_plus_layout() -> None:
    rows = ComposedLayout(Swizzle(3, 3, 3), 64, row_major(8, 64))
    want = [Swizzle(3, 3, 3)(64 + i * 64 + j) for j in range(64) for i in range(8)]
    assert rows.indices() == want
    assert rows.cosize == max(want) + 1
    assert (rows.size, rows.rank, rows.depth, rows.shape) == (512, 2, 1, (8, 64))
    assert str(rows) == "Sw<3,3,3> o 64 o (8,64):(64,1)"
    row, offset = rows.slice(2, None)
    assert offset == 0
    assert [row(j) for j in range(64)] == [rows(2, j) for j in range(64)]
    assert is_injective(rows)
    assert is_contiguous(ComposedLayout(Swizzle(3, 3, 3), 0, row_major(8, 64)))
    assert not is_contiguous(rows)


def test_operations_pass_through_the_swizzle() -> None:
    rows = composition(Swizzle(3, 3, 3), row_major(8, 64))
    divided = logical_divide(rows, (4, 8))
    assert [divided((i % 4, i // 4), (j % 8, j // 8)) for i in range(8) for j in range(64)] == [
        rows(i, j) for i in range(8) for j in range(64)
    ]
    tile = tile_to_shape(rows, (128, 128))
    assert all(tile(i + 8, j) == rows(i, j) + 512 for i in range(8) for j in range(64))
    assert str(logical_product(rows, 3)) == "Sw<3,3,3> o 0 o ((8,64),3):((64,1),512)"


def test_recast_behind_a_swizzle() -> None:
    # 128-byte rows of 4-byte words, 16-byte pieces swizzled: by bytes, words and pieces.
    words = composition(Swizzle(3, 2, 3), row_major(8, 32))
    data = recast(words, 32, 8)
    pieces = recast(words, 32, 128)
    assert (str(data), str(pieces)) == (
        "Sw<3,4,3> o 0 o (8,128):(128,1)",
        "Sw<3,0,3> o 0 o (8,8):(8,1)",
    )
    for i in range(8):
        for j in range(32):
            assert [data(i, 4 * j + part) for part in range(4)] == [
                4 * words(i, j) + part for part in range(4)
            ]
            assert pieces(i, j // 4) == words(i, j) // 4
    with pytest.raises(LayoutError, match="permutes inside groups of 8"):
        upcast(words, 8)


def test_a_mode_of_one_element_leaves_the_parts_to_the_contiguous_one() -> None:
    assert str(downcast(Layout((1, 8), (1, 1)), 4)) == "(1,32):(4,1)"
    assert str(downcast(Layout((1, 8), (1, 16)), 4)) == "(4,8):(1,64)"
    assert str(downcast(Layout(8, 16), 4)) == "8:64"


def test_the_modes_of_a_composed_layout() -> None:
    rows = ComposedLayout(Swizzle(3, 3, 3), 64, row_major(8, 64))
    assert len(rows) == 2
    assert [mode.indices() for mode in rows] == [
        [rows(i, 0) for i in range(8)],
        [rows(0, j) for j in range(64)],
    ]
    assert rows[1] == list(rows)[1]


def test_right_inverse_of_overlapping_modes_goes_on_past_them() -> None:
    # What CuTe gives: 8:1 then 3:8; the mode 3:2 lies inside the first.
    assert str(right_inverse(Layout(((3, 8), 3), ((8, 1), 2)))) == "(8,3):(3,1)"


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (k_major(128, 8), "(128,8):(8,1)"),
        (k_major(128, 8, ld=12), "(128,8):(12,1)"),
        (mn_major(128, 8), "(128,8):(1,128)"),
        (mn_major(128, 8, ld=132), "(128,8):(1,132)"),
        (row_major(4, 2, 3), "(4,2,3):(6,3,1)"),
        (row_major(5), "5:1"),
    ],
)
def test_constructors_by_major_mode(layout: Layout, text: str) -> None:
    assert str(layout) == text
