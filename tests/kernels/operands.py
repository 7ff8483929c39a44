"""Operands that catch a kernel which reads or writes what it must not."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.problem import Problem

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Operands:
    """A, B and C as a kernel gets them (flat storages), and C as it was."""

    a: Floats
    b: Floats
    c: Floats
    c0: Floats


def make_operands(problem: Problem, *, shift: int = 0, seed: int = 0) -> Operands:
    """Random operands whose padding is NaN and whose storage ends with the last element.

    With beta = 0 all of C is NaN, since it must not be read. `shift` moves each storage by so many
    floats from where it is aligned.
    """
    p = problem
    rng = np.random.default_rng(seed)

    def storage(rows: int, cols: int, ld: int, *, empty: bool = False) -> Floats:
        flat = np.full(shift + max((rows - 1) * ld + cols, 1), np.nan, np.float32)[shift:]
        if not empty:
            for i in range(rows):
                flat[i * ld : i * ld + cols] = rng.standard_normal(cols, np.float32)
        return flat

    a, b = storage(p.m, p.k, p.lda), storage(p.k, p.n, p.ldb)
    c = storage(p.m, p.n, p.ldc, empty=p.beta == 0)
    return Operands(a=a, b=b, c=c, c0=c.copy())


def matrix(flat: Floats, rows: int, cols: int, ld: int) -> Floats:
    """The matrix inside a storage."""
    return np.lib.stride_tricks.as_strided(flat, (rows, cols), (4 * ld, 4))


def padding_untouched(problem: Problem, operands: Operands) -> bool:
    """Whether everything of C's storage outside the matrix is what it was, bit for bit."""
    inside = np.zeros(operands.c.size, bool)
    for i in range(problem.m):
        inside[i * problem.ldc : i * problem.ldc + problem.n] = True
    before, after = (x.view(np.uint32)[~inside] for x in (operands.c0, operands.c))
    return bool(np.array_equal(before, after))
