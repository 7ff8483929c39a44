"""The contract beyond `test_emulated_rungs`: the last bit, tall grids, counts at edges."""

from functools import cache

import numpy as np
import pytest

from kernels.operands import make_operands, matrix, padding_untouched
from kernels.shapes import RAGGED, TINY, label
from tilewright.counters import Counters
from tilewright.emulator import run
from tilewright.kernels import RUNGS
from tilewright.launch import Launch
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda


@cache
def compiled(name: str) -> Artifact:
    each = RUNGS[name]
    expression = each.expression(each.default)
    return compile_cuda(each.source, expression, include_dirs=each.include_dirs)


def chain(p: Problem, a: np.ndarray, b: np.ndarray, c0: np.ndarray) -> np.ndarray:
    """Return C, each output a chain of float32 multiply-adds in the order of k.

    Each link rounds once an exact product plus a float32. A long double holds the product exactly
    and rounds the sum to 64 bits first, which changes the float32 only within 2^-40 of a tie: in
    none of these.
    """
    acc = np.zeros((p.m, p.n), np.float32)
    for kk in range(p.k):
        product = np.outer(a[:, kk].astype(np.longdouble), b[kk].astype(np.longdouble))
        acc = (product + acc).astype(np.float32)
    old = np.float32(p.beta) * c0 if p.beta else np.float32(0)
    return (np.longdouble(p.alpha) * acc + old).astype(np.float32)


def check_bits(name: str, p: Problem, launch: Launch) -> None:
    operands = make_operands(p)
    run(compiled(name), launch, RUNGS[name].arguments(p, operands.a, operands.b, operands.c))
    a, b = matrix(operands.a, p.m, p.k, p.lda), matrix(operands.b, p.k, p.n, p.ldb)
    got, c0 = (matrix(c, p.m, p.n, p.ldc) for c in (operands.c, operands.c0))
    np.testing.assert_array_equal(got.view(np.int32), chain(p, a, b, c0).view(np.int32))
    assert padding_untouched(p, operands)


@pytest.mark.parametrize("p", [RAGGED[0], RAGGED[2], TINY[1]], ids=label)
@pytest.mark.parametrize("name", ["01_naive", "06_vectorized"])
def test_an_output_is_one_chain_in_the_order_of_k(name: str, p: Problem) -> None:
    check_bits(name, p, RUNGS[name].launch(p, RUNGS[name].default))


@pytest.mark.parametrize("name", ["01_naive", "03_shared_tile", "06_vectorized"])
def test_rows_of_tiles_that_go_on_in_z(name: str) -> None:
    """As for a tall C, but with few rows, and with some rows of tiles too many."""
    p = Problem(m=260, n=40, k=20, beta=1.0)
    x, y, _ = RUNGS[name].launch(p, RUNGS[name].default).grid
    folded = Launch(grid=(x, 2, y // 2 + 1), block=(RUNGS[name].default.threads, 1, 1))
    check_bits(name, p, folded)


@pytest.mark.parametrize("name", ["02_coalesced", "04_register_1d"])
def test_multiply_adds_of_tiles_that_cross_the_edge(name: str) -> None:
    each, p = RUNGS[name], RAGGED[3]
    operands = make_operands(p)
    args = each.arguments(p, operands.a, operands.b, operands.c)
    counters = run(compiled(name), each.launch(p, each.default), args, count=True).counters
    assert isinstance(counters, Counters)
    predicted = each.ffma_thread_instructions(p, each.default)
    assert counters.ffma_thread_instructions == predicted
