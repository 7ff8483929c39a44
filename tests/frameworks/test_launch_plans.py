"""Which operation and how many launches an array's strides become, derived by hand."""

import numpy as np
import pytest

from tilewright.frameworks.launches import plan_launches, writable
from tilewright.frameworks.shapes import product_shape
from tilewright.frameworks.views import View, packed
from tilewright.kernels.gemm.operation import Operation, Strides


def view(array):
    return View(
        shape=array.shape,
        strides=tuple(step // 4 for step in array.strides),
        aligned=array.ctypes.data % 16 == 0,
    )


def plan(a, b, c=None, d=None):
    shape = product_shape(a.shape, b.shape)
    target = packed(shape.result) if d is None else view(d)
    return plan_launches(shape, view(a), view(b), None if c is None else view(c), target)


def aligned(*shape):
    """An array at a multiple of 16 bytes."""
    flat = np.zeros(int(np.prod(shape)) + 4, np.float32)
    skip = -flat.ctypes.data // 4 % 4
    return flat[skip : skip + int(np.prod(shape))].reshape(shape)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_packed_matrices_are_the_plain_operation(layout):
    a = aligned(8, 12) if layout[0] == "n" else aligned(12, 8).T
    b = aligned(12, 20) if layout[1] == "n" else aligned(20, 12).T
    found = plan(a, b, aligned(8, 20))
    assert found.operation == Operation.plain(8, 20, 12, layout=layout, beta=True)
    assert found.offsets == ((0, 0, 0, 0),)
    assert not found.swapped


def test_a_batch_is_one_launch():
    found = plan(aligned(5, 8, 12), aligned(5, 12, 20))
    assert found.operation == Operation.plain(8, 20, 12, batch=5)


def test_a_batch_that_repeats_has_a_step_of_0():
    o = plan(aligned(8, 12), aligned(5, 12, 20)).operation
    assert (o.batch, o.a.batch, o.b.batch, o.d.batch) == (5, 0, 240, 160)


def test_a_batch_times_one_matrix_is_one_large_product():
    found = plan(aligned(3, 5, 8, 12), aligned(12, 20))
    assert found.operation == Operation.plain(3 * 5 * 8, 20, 12)


def test_a_batch_of_rows_times_one_matrix_is_one_product():
    found = plan(aligned(6, 1, 12), aligned(12, 20))
    assert found.operation == Operation.plain(6, 20, 12)


def test_a_batch_whose_rows_do_not_follow_stays_a_batch():
    a = aligned(5, 10, 12)[:, :8]
    o = plan(a, aligned(12, 20)).operation
    assert (o.m, o.batch, o.a.batch, o.b.batch) == (8, 5, 120, 0)


def test_axes_that_do_not_follow_are_looped_over_but_the_largest():
    a, b = aligned(2, 7, 8, 12), aligned(7, 2, 12, 20).swapaxes(0, 1)
    found = plan(a, b)
    o = found.operation
    assert (o.batch, o.a.batch, o.b.batch, o.d.batch) == (7, 96, 480, 160)
    assert found.offsets == ((0, 0, 0, 0), (4 * 7 * 96, 4 * 240, 0, 4 * 7 * 160))


def test_the_largest_axis_is_the_batch_wherever_it_stands():
    a, b = aligned(7, 2, 8, 12), aligned(2, 7, 12, 20).swapaxes(0, 1)
    found = plan(a, b)
    o = found.operation
    assert (o.batch, o.a.batch, o.b.batch, o.d.batch) == (7, 2 * 96, 240, 2 * 160)
    assert found.offsets == ((0, 0, 0, 0), (4 * 96, 4 * 7 * 240, 0, 4 * 160))


def test_axes_are_not_joined_past_the_largest_size():
    a, b = packed((2**16, 2**15, 4)), packed((4, 8))
    shape = product_shape(a.shape, b.shape)
    o = plan_launches(shape, a, b, None, packed(shape.result)).operation
    assert (o.batch, o.m) == (2**16, 2**15)


def test_a_column_major_result_is_the_transposed_product():
    found = plan(aligned(8, 12), aligned(12, 20), aligned(8, 20), d=aligned(20, 8).T)
    o = found.operation
    assert found.swapped
    assert (o.m, o.n, o.k) == (20, 8, 12)
    assert o.a == Strides(row=1, col=20)  # b, transposed
    assert o.b == Strides(row=1, col=12)  # a, transposed
    assert o.c == Strides(row=1, col=20)
    assert o.d == Strides(row=8, col=1)


def test_alignment_counts_the_start_and_every_step():
    a, b = aligned(2, 3, 8, 12), aligned(12, 20)
    assert plan(a[0, 0], b).operation.access.a_vector == 4
    assert plan(a[0, 0, :, 1:5], b[:4]).operation.access.a_vector == 1  # starts at 4 bytes
    assert plan(a[0, 0, :, 4:8], b[:4]).operation.access.a_vector == 4
    odd = aligned(2 * (4 * 48 + 2))[: 2 * (4 * 48 + 2)].reshape(2, -1)[:, :192].reshape(2, 4, 4, 12)
    strided = np.lib.stride_tricks.as_strided(odd, (2, 3, 4, 12), (4 * 194, 4 * 48, 48, 4))
    assert strided.strides[0] % 16 == 8
    o = plan(strided, aligned(3, 12, 20)).operation
    assert o.batch == 3
    assert not o.a.vector  # the second launch starts at 8 bytes


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        # a row: along k, four at a time, whatever step numpy states for its one row
        (aligned(12), aligned(12, 20), {"m": 1, "a": Strides(row=12, col=1)}),
        (aligned(2, 3, 12)[:, 1][1:], aligned(12, 20), {"m": 1, "a": Strides(row=12, col=1)}),
        # a column: along k too
        (aligned(8, 12), aligned(12), {"n": 1, "b": Strides(row=1, col=12)}),
        (aligned(8, 12), aligned(12, 20)[:, 4], {"n": 1, "b": Strides(row=20, col=1)}),
        # k = 1: a column times a row
        (aligned(8, 1), aligned(1, 20), {"k": 1, "a": Strides(row=1, col=8)}),
    ],
)
def test_vectors_are_read_along_their_elements(a, b, expected):
    o = plan(a, b).operation
    assert {name: getattr(o, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("out", "can"),
    [
        (aligned(8, 20), True),
        (aligned(20, 8).T, True),
        (aligned(8, 40)[:, :20], True),
        (aligned(8, 40)[:, ::2], False),
        (aligned(8, 20)[:, ::-1], False),
        (aligned(16, 20)[::2], True),
    ],
)
def test_kernels_write_rows_or_columns_without_gaps(out, can):
    assert writable(product_shape((8, 12), (12, 20)), view(out)) is can


def test_a_single_column_may_have_any_step():
    assert writable(product_shape((8, 12), (12,)), view(aligned(16)[::2]))
    assert writable(product_shape((12,), (12, 8)), view(aligned(16)[::2]))
