"""`emulate_gemm` places operands as the operation says and holds a kernel to its contract."""

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.plain_gemm import PLAIN, registered
from tilewright.bench.emulated_gemm import emulate_gemm
from tilewright.errors import ProblemError, TilewrightError
from tilewright.kernels.gemm.operation import Operation, Strides

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def operation(**changes):
    plain = Operation.plain(5, 7, 6)
    return replace(plain, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"a": Strides(row=1, col=5)},
        {"b": Strides(row=1, col=6, vector=False)},
        {"d": Strides(row=11, col=1)},
        {"a": Strides(row=-9, col=-1)},
        {"b": Strides(row=0, col=0)},
        {"batch": 3, "a": Strides(row=6, col=1, batch=32), "d": Strides(row=7, col=1, batch=40)},
        {"c": Strides(row=0, col=1)},
        {"k": 0},
    ],
    ids=str,
)
def test_values_are_those_of_the_product_wherever_they_lie(changes):
    o = operation(**changes)
    a = normal(*([o.batch] if o.a.batch else []), o.m, o.k)
    b = np.broadcast_to(normal(1, 1), (o.k, o.n)) if o.b.row == 0 else normal(o.k, o.n)
    c = None if o.c is None else np.broadcast_to(normal(1, o.n), (o.m, o.n))
    beta = 0.0 if c is None else -2.0
    with registered() as variant:
        d = emulate_gemm(o, variant, a, b, c, alpha=0.5, beta=beta)
    assert d.shape == (o.batch, o.m, o.n)
    expected = 0.5 * (a.astype(np.float64) @ b.astype(np.float64))
    expected = expected + (0 if c is None else beta * c.astype(np.float64))
    np.testing.assert_allclose(d, np.broadcast_to(expected, d.shape), rtol=1e-5, atol=1e-5)


@contextmanager
def breaking(rule, tmp_path):
    broken = tmp_path / "plain_gemm.cuh"
    broken.write_text(f"#define BREAK {rule}\n{Path(PLAIN.source).read_text()}")
    with registered(replace(PLAIN, file=str(broken))) as variant:
        yield variant


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (1, "wrote into a"),
        (2, "wrote between the rows of d"),
        (3, "arrivals at 1"),
        (4, "past the end of argument 0, field b .*, which has 168 bytes"),
    ],
)
def test_a_kernel_that_breaks_its_contract_is_caught(rule, says, tmp_path):
    o = operation(d=Strides(row=9, col=1))
    with breaking(rule, tmp_path) as variant, pytest.raises(TilewrightError, match=says):
        emulate_gemm(o, variant, normal(5, 6), normal(6, 7))


def test_memory_is_aligned_as_the_operation_states(tmp_path):
    aligned = operation(a=Strides(row=6, col=1, vector=True))
    unaligned = operation(a=Strides(row=6, col=1, vector=False))
    with breaking(5, tmp_path) as variant:  # it reads 128 bits from the start of A
        emulate_gemm(aligned, variant, normal(5, 6), normal(6, 7))
        with pytest.raises(TilewrightError, match="misaligned"):
            emulate_gemm(unaligned, variant, normal(5, 6), normal(6, 7))


@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 6), (5,)])
def test_shapes_other_than_the_operations_are_refused(shape):
    refusal = pytest.raises(ProblemError, match=r"a has shape .*: expected \(1, 5, 6\)")
    with registered() as variant, refusal:
        emulate_gemm(operation(), variant, normal(*shape), normal(6, 7))
