"""Shapes, spans and overlaps against numpy's own answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import ProblemError
from tilewright.frameworks.overlap import share_memory
from tilewright.frameworks.shapes import product_shape
from tilewright.frameworks.views import View, packed

SIZES = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)


@given(SIZES, SIZES)
def test_shapes_are_numpys(a, b):
    try:
        expected = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(ProblemError, match=r"a has shape .* and b"):
            product_shape(a, b)
    else:
        found = product_shape(a, b)
        assert found.result == expected
        assert found.k == a[-1]


@given(SIZES)
def test_a_packed_view_has_numpys_strides(shape):
    assume = 0 not in shape  # numpy's strides of an empty array mean nothing
    expected = tuple(step // 4 for step in np.empty(shape, np.float32).strides)
    assert not assume or packed(shape).strides == expected


@st.composite
def views(draw):
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    strides = tuple(draw(st.integers(-6, 6)) for _ in shape)
    return View(shape=shape, strides=strides, aligned=True)


def places(view, start=0):
    """Every element's place, in elements, one by one."""
    return [
        start + sum(i * s for i, s in zip(at, view.strides, strict=True))
        for at in np.ndindex(view.shape)
    ]


@given(views())
def test_a_span_is_from_the_lowest_to_past_the_highest(view):
    found = places(view)
    assert view.span == ((4 * min(found), 4 * max(found) + 4) if found else (0, 0))


@given(views(), views(), st.integers(-20, 20))
def test_sharing_is_exact_on_small_arrays(one, other, shift):
    base = 1 << 20
    expected = not {*places(one)}.isdisjoint(places(other, shift))
    assert share_memory(one, base, other, base + 4 * shift) is expected


@given(views())
def test_no_view_with_two_elements_in_one_place_is_missed(view):
    found = places(view)
    if len({*found}) < len(found):
        assert view.overlaps_itself


@given(SIZES, st.randoms())
def test_ordinary_views_do_not_overlap_themselves(shape, random):
    axes = list(range(len(shape)))
    random.shuffle(axes)
    array = np.zeros(shape, np.float32).transpose(axes)[::-1]
    strides = tuple(step // 4 for step in array.strides)
    if array.size:
        assert not View(shape=array.shape, strides=strides).overlaps_itself
