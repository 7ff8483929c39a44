"""What cuBLAS is asked for gives the row-major product, by a column-major BLAS written out here."""

import ctypes
import itertools

import numpy as np
import pytest

from tilewright.bench.cublas import column_major
from tilewright.bench.cublaslt import _Found
from tilewright.bench.operands import extent, view
from tilewright.errors import UnsupportedError
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.problem import Problem


def blas(call, batch, b, a, d):
    """D = op(B) · op(A), element by element as the BLAS standard indexes column-major storage."""
    n, m, k = call.sizes
    for z in range(batch):
        for i, j in itertools.product(range(n), range(m)):
            total = 0.0
            for p in range(k):
                at_b = i + p * call.lds[0] if call.ops[0] == 0 else p + i * call.lds[0]
                at_a = p + j * call.lds[1] if call.ops[1] == 0 else j + p * call.lds[1]
                total += float(b[z * call.steps[0] + at_b]) * float(a[z * call.steps[1] + at_a])
            d[z * call.steps[2] + i + j * call.lds[2]] = total


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1)])
@pytest.mark.parametrize("batch", [1, 2])
def test_packed_matrices_in_every_layout(layout, shape, batch):
    check(Operation.plain(*shape, layout=layout, batch=batch))


def test_padded_rows_and_a_repeated_operand():
    check(Operation.of(Problem(m=3, n=4, k=5, lda=7, ldb=6, ldc=9)))
    check(
        Operation(
            m=3,
            n=4,
            k=5,
            batch=2,
            a=Strides(row=5, col=1, batch=15),
            b=Strides(row=4, col=1, batch=0),
            d=Strides(row=4, col=1, batch=12),
        )
    )


def test_strides_of_a_single_row_mean_nothing():
    plain = Operation.plain(1, 4, 3)
    check(Operation(m=1, n=4, k=3, a=Strides(row=0, col=1), b=plain.b, d=Strides(row=0, col=1)))


def check(o):
    rng = np.random.default_rng(0)
    a, b, d = (
        rng.integers(-4, 5, extent(strides, rows, cols, o.batch)).astype(np.float32)
        for strides, rows, cols in ((o.a, o.m, o.k), (o.b, o.k, o.n), (o.d, o.m, o.n))
    )
    call = column_major(o)
    n, m, k = call.sizes
    # The BLAS standard: a leading dimension is at least the rows as stored.
    assert call.lds[0] >= (n if call.ops[0] == 0 else k)
    assert call.lds[1] >= (k if call.ops[1] == 0 else m)
    assert call.lds[2] >= n
    blas(call, o.batch, b, a, d)
    for z in range(o.batch):
        expected = view(a, o.a, o.m, o.k, z) @ view(b, o.b, o.k, o.n, z)
        np.testing.assert_array_equal(view(d, o.d, o.m, o.n, z), expected)


@pytest.mark.parametrize("strides", [Strides(row=8, col=2), Strides(row=0, col=1)])
def test_strides_that_no_blas_takes_are_refused(strides):
    plain = Operation.plain(3, 4, 4)
    o = Operation(m=3, n=4, k=4, a=strides, b=plain.b, d=plain.d)
    with pytest.raises(UnsupportedError, match=r"A has strides of \d and \d elements"):
        column_major(o)


def test_the_heuristics_result_is_as_large_as_nvidias():
    # cublasLt.h: 64 bytes of algorithm, size_t, two of 4 bytes, four reserved ints.
    assert ctypes.sizeof(_Found) == 96
