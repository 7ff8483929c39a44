"""Operands: what each kind of data is, and that a wrong or missing result is seen anywhere."""

import numpy as np
import pytest

from tilewright.bench import operands
from tilewright.bench.operands import KINDS, Operands, draws, extent, view
from tilewright.kernels.gemm.operation import Operation, Strides

BATCHED = Operation.plain(90, 70, 33, layout="tn", batch=3)


def computed(found):
    o = found.operation
    d = np.full(found.d_floats, np.nan, np.float32)
    for z in range(o.batch):
        view(d, o.d, o.m, o.n, z)[...] = found.matrix("a", z) @ found.matrix("b", z)
    return d


@pytest.mark.parametrize("kind", KINDS)
def test_a_float32_product_is_right_on_every_kind_of_data(kind):
    found = Operands(BATCHED, kind)
    result = found.judge(computed(found))
    assert result.ok
    assert result.checked == 3 * 90 * 70
    assert 0 < result.bound_ratio < 1


def test_a_wrong_element_is_seen_in_any_matrix_of_a_batch():
    found = Operands(BATCHED)
    d = computed(found)
    view(d, BATCHED.d, 90, 70, 2)[89, 69] += 1
    result = found.judge(d)
    assert not result.ok
    assert result.worst == (89, 69)


def test_an_element_that_was_not_written_is_seen_outside_of_every_sample():
    o = Operation.plain(700, 900, 3)
    found = Operands(o)
    d = computed(found)
    assert found.judge(d).ok
    row, col = 345, 456
    view(d, o.d, 700, 900, 0)[row, col] = np.nan
    result = found.judge(d)
    assert not result.ok
    assert result.worst == (row, col)
    assert result.failed == 1


def test_kinds_are_what_they_are_called():
    o = Operation.plain(300, 200, 400)
    a = {kind: Operands(o, kind).matrix("a", 0).astype(np.float64) for kind in KINDS}
    assert abs(a["normal"].std() - 1) < 0.02
    assert 0 <= a["uniform"].min() < 0.01
    assert 0.99 < a["uniform"].max() < 1
    # The logarithm of exp(3 normal) has a deviation of 3, that of |normal| one of 1.11.
    assert abs(np.log(np.abs(a["wide"])).std() - np.hypot(3, 1.11)) < 0.1
    scales = np.log(np.sqrt((a["scaled"] ** 2).mean(axis=1)))
    assert 7 < scales.std() < 9
    assert np.log(np.sqrt((a["scaled"] ** 2).mean(axis=0))).std() < 3
    other = Operands(o, "normal", seed=1).matrix("a", 0)
    assert not np.array_equal(other, a["normal"])


def test_large_matrices_repeat_with_a_period_that_no_row_has(monkeypatch):
    monkeypatch.setattr(operands, "_DRAWN", 97)
    a = Operands(Operation.plain(40, 8, 32)).matrix("a", 0)
    assert np.array_equal(a.ravel()[:97], a.ravel()[97:194])
    assert len({row.tobytes() for row in a}) == 40


@pytest.mark.parametrize(
    ("strides", "rows", "cols", "batch", "floats"),
    [
        (Strides(row=7, col=1), 3, 5, 1, 19),
        (Strides(row=1, col=3, batch=15), 3, 5, 4, 60),
        (Strides(row=5, col=1, batch=0), 3, 5, 9, 15),
        (Strides(row=0, col=1), 3, 0, 1, 1),
    ],
)
def test_extents_by_hand(strides, rows, cols, batch, floats):
    assert extent(strides, rows, cols, batch) == floats


def test_a_set_is_padded_to_the_alignment_of_allocations():
    # 90 x 33 x 3, 33 x 70 x 3 and 90 x 70 x 3 floats, each up to a multiple of 256 bytes.
    assert Operands(BATCHED).set_bytes == 35840 + 27904 + 75776


@pytest.mark.parametrize(
    ("shape", "batch", "times"),
    [
        ((1, 105, 107), 1, 8),
        ((100, 100, 100), 1, 6),  # 60 000 elements, nearly 2^16
        ((4, 256, 6144), 1, 2),  # 1.6 million floats, 2^22 in all
        ((9, 4, 4), 8192, 8),  # 16 matrices are looked at
        ((3, 100, 100000), 1, 1),
        ((4096, 4096, 4096), 1, 1),
        ((4096, 4096, 1), 1, 1),
    ],
)
def test_few_outputs_are_drawn_more_often_where_that_is_cheap(shape, batch, times):
    assert draws(Operation.plain(*shape, batch=batch)) == times
