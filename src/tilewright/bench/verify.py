"""Is this C right? Elementwise, against a float64 reference and a bound derived for float32.

A float32 kernel that adds k products in any order, fused or not, commits at most k roundings on
each, so |s - A·B| <= gamma(k) · |A|·|B| elementwise, with gamma(k) = k·u / (1 - k·u) and
u = 2^-24 the unit roundoff. The epilogue alpha·s + beta·c adds two roundings to each term.

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, §3.1 and
§3.5 (inner products and matrix products).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import ProblemError
from tilewright.problem import Problem

UNIT_ROUNDOFF = 2.0**-24
# Half the smallest subnormal: what one rounding may lose below the normal range.
_UNDERFLOW = 2.0**-150
_FLOAT32_MAX = float(np.finfo(np.float32).max)
_EPILOGUE_ROUNDINGS = 2
# Few enough that the temporaries of one step stay in a cache.
_CHUNK_ROWS = 32

Matrix: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of C, half-open: rows from `row0` to before `row1`, columns likewise."""

    row0: int
    row1: int
    col0: int
    col1: int

    @property
    def rows(self) -> slice:
        """The rows, to index with."""
        return slice(self.row0, self.row1)

    @property
    def cols(self) -> slice:
        """The columns, to index with."""
        return slice(self.col0, self.col1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a region of C should be: the float64 result, how far one may be from it, and |A||B|."""

    reference: Float64s
    bound: Float64s
    magnitude: Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check found.

    `max_error` is the largest |c - reference|, infinite where one is NaN or infinite and the other
    is not. `bound_ratio` is the largest error over its own bound, at `worst` = (row, column);
    `error_bound`, `got` and `expected` are that element's.
    """

    ok: bool
    checked: int
    failed: int
    max_error: float
    bound_ratio: float
    error_bound: float
    worst: tuple[int, int]
    got: float
    expected: float

    def message(self, tile: tuple[int, int] | None = None) -> str:
        """Say in one line what is wrong, or how close to the bound the worst element came.

        `tile` is the (rows, columns) that one block computes: with it, the line names the block.
        """
        i, j = self.worst
        where = f"C[{i}, {j}]"
        if tile is not None:
            where += f" (block row {i // tile[0]}, block column {j // tile[1]})"
        if self.ok:
            return (
                f"right: {self.checked} elements, largest error {self.max_error:.3g}, "
                f"{self.bound_ratio:.3g} of its bound at {where}"
            )
        return (
            f"wrong: {self.failed} of {self.checked} elements; worst at {where}: got {self.got:g}, "
            f"expected {self.expected:g} within {self.error_bound:.3g}"
        )


def gamma(roundings: int) -> float:
    """Return the relative error that so many float32 roundings may add up to.

    Raises:
        ProblemError: 2^24 roundings or more, for which no such bound holds.
    """
    share = roundings * UNIT_ROUNDOFF
    if share >= 1:
        raise ProblemError(f"k = {roundings}: float32 sums of 2^24 terms or more have no bound")
    return share / (1 - share)


def whole(problem: Problem) -> Region:
    """Return all of C as one region."""
    return Region(0, problem.m, 0, problem.n)


def sample_regions(
    problem: Problem, *, edge: int = 64, interior: int = 12, seed: int = 0
) -> tuple[Region, ...]:
    """Return regions of C of at most `edge` squared: the four corners, and some at random.

    Positions follow no tile size, so that a region crosses the seams of any tile. A C that is no
    larger than the sample is one region, whole.
    """
    if problem.m * problem.n <= (4 + interior) * edge**2:
        return (whole(problem),)
    height, width = min(edge, problem.m), min(edge, problem.n)
    last_row, last_col = problem.m - height, problem.n - width
    rng = np.random.default_rng(seed)
    starts = [(0, 0), (0, last_col), (last_row, 0), (last_row, last_col)]
    starts += [
        (int(rng.integers(last_row + 1)), int(rng.integers(last_col + 1))) for _ in range(interior)
    ]
    return tuple(Region(i, i + height, j, j + width) for i, j in dict.fromkeys(starts))


def reference(
    problem: Problem, a: Matrix, b: Matrix, c0: Matrix | None, region: Region | None = None
) -> Float64s:
    """Return alpha · A · B + beta · C0 in float64 over `region` (all of C by default).

    Shapes: a is [m, k], b [k, n], c0 [m, n]; c0 is not read where beta is 0.
    """
    part = region or whole(problem)
    alpha, beta = float(np.float32(problem.alpha)), float(np.float32(problem.beta))
    with np.errstate(all="ignore"):
        out: Float64s = alpha * (
            a[part.rows].astype(np.float64) @ b[:, part.cols].astype(np.float64)
        )
        if beta and c0 is not None:
            out += beta * c0[part.rows, part.cols].astype(np.float64)
    return out


def error_bound(
    problem: Problem, a: Matrix, b: Matrix, c0: Matrix | None, region: Region | None = None
) -> Float64s:
    """Return how far a right float32 result may be from `reference`, elementwise.

    Raises:
        ProblemError: a k so large that no bound holds.
    """
    product, added = _magnitudes(problem, a, b, c0, region or whole(problem))
    return _bound(problem, product, added)


def _magnitudes(
    problem: Problem, a: Matrix, b: Matrix, c0: Matrix | None, part: Region
) -> tuple[Float64s, Float64s | float]:
    """Return |alpha| |A| |B| and |beta| |C0|: what the roundings scale with."""
    alpha, beta = abs(float(np.float32(problem.alpha))), abs(float(np.float32(problem.beta)))
    with np.errstate(all="ignore"):
        left = np.abs(a[part.rows].astype(np.float64))
        product: Float64s = alpha * (left @ np.abs(b[:, part.cols].astype(np.float64)))
        if not beta or c0 is None:
            return product, 0.0
        return product, beta * np.abs(c0[part.rows, part.cols].astype(np.float64))


def _bound(problem: Problem, product: Float64s, added: Float64s | float) -> Float64s:
    steps = problem.k + _EPILOGUE_ROUNDINGS
    with np.errstate(all="ignore"):
        return (
            gamma(steps) * product
            + gamma(_EPILOGUE_ROUNDINGS) * added
            + steps * (1 + abs(problem.alpha)) * _UNDERFLOW
        )


def check(
    problem: Problem,
    a: Matrix,
    b: Matrix,
    c0: Matrix | None,
    c: Matrix,
    regions: Sequence[Region] | None = None,
) -> Verification:
    """Compare `c` with the float64 reference over `regions` (all of C by default).

    NaN and infinities count: each must stand exactly where the reference has it. Where the partial
    sums themselves may pass the float32 range, an overflow is right.

    Shapes: a is [m, k], b [k, n], c0 and c [m, n]; rows may be strided.

    Raises:
        ProblemError: shapes that are not the problem's, or a k that no bound holds for.
    """
    _check_shapes(problem, a, b, c0, c)
    return compare(
        [(part, expect(problem, a, b, c0, part)) for part in regions or (whole(problem),)], c
    )


def expect(problem: Problem, a: Matrix, b: Matrix, c0: Matrix | None, region: Region) -> Expected:
    """Return what a region of C should be, to compare several results with.

    Raises:
        ProblemError: a k that no bound holds for.
    """
    product, added = _magnitudes(problem, a, b, c0, region)
    return Expected(
        reference=reference(problem, a, b, c0, region),
        bound=_bound(problem, product, added),
        magnitude=product + added,
    )


def compare(expected: Sequence[tuple[Region, Expected]], c: Matrix) -> Verification:
    """Compare `c` in regions with what it should be there, as `check` does."""
    found: Verification | None = None
    for part, one in expected:
        got = c[part.rows, part.cols].astype(np.float64)
        origin = (part.row0, part.col0)
        judged = _compare(got, one.reference, one.bound, one.magnitude, origin)
        found = judged if found is None else merge(found, judged)
    assert found is not None
    return found


def row_norms(matrix: Matrix) -> Float64s:
    """Return the Euclidean norm of each row, in float64."""
    norms = np.empty(len(matrix))
    for i in range(0, len(matrix), _CHUNK_ROWS):
        rows = slice(i, i + _CHUNK_ROWS)
        norms[rows] = np.sqrt(np.square(matrix[rows].astype(np.float64)).sum(axis=1))
    return norms


def column_norms(matrix: Matrix) -> Float64s:
    """Return the Euclidean norm of each column, in float64."""
    total = np.zeros(matrix.shape[1])
    for i in range(0, len(matrix), _CHUNK_ROWS):
        total += np.square(matrix[i : i + _CHUNK_ROWS].astype(np.float64)).sum(axis=0)
    root: Float64s = np.sqrt(total)
    return root


def check_against_library(
    problem: Problem,
    norms: tuple[Float64s, Float64s],
    c0: Matrix | None,
    c: Matrix,
    library: Matrix,
) -> Verification:
    """Compare every element of `c` with a library's float32 result, without a float64 product.

    Both are within their bound of the truth, so within twice the bound of each other; and
    (|A|·|B|)[i, j] is at most the norm of row i of A times the norm of column j of B
    (Cauchy-Schwarz): `norms` are `row_norms(a)` and `column_norms(b)`. For random data that is
    within a factor of 1.6 of |A|·|B|, in time m·n instead of m·n·k.
    """
    alpha, beta = abs(float(np.float32(problem.alpha))), abs(float(np.float32(problem.beta)))
    found: Verification | None = None
    for i in range(0, problem.m, _CHUNK_ROWS):
        rows = slice(i, i + _CHUNK_ROWS)
        product = alpha * np.outer(norms[0][rows], norms[1])
        added = beta * np.abs(c0[rows].astype(np.float64)) if beta and c0 is not None else 0.0
        one = _compare(
            c[rows].astype(np.float64),
            library[rows].astype(np.float64),
            2 * _bound(problem, product, added),
            product + added,
            (i, 0),
        )
        found = one if found is None else merge(found, one)
    assert found is not None
    return found


def _compare(
    got: Float64s, expected: Float64s, bound: Float64s, magnitude: Float64s, origin: tuple[int, int]
) -> Verification:
    with np.errstate(all="ignore"):
        error = np.abs(got - expected)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        overflow = (magnitude > _FLOAT32_MAX) & np.isfinite(magnitude) & ~np.isfinite(got)
        # A NaN compares false with everything, so it is never within its bound by accident.
        right = np.where(np.isfinite(expected), error <= bound, same) | overflow
        error = np.where(same | (overflow & right), 0.0, error)
        ratio = np.where(right & (error == 0), 0.0, error / bound)
    error[np.isnan(error)] = np.inf
    ratio[np.isnan(ratio)] = np.inf
    i, j = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    return Verification(
        ok=bool(right.all()),
        checked=right.size,
        failed=int(right.size - np.count_nonzero(right)),
        max_error=float(error.max()),
        bound_ratio=float(ratio[i, j]),
        error_bound=float(bound[i, j]),
        worst=(origin[0] + int(i), origin[1] + int(j)),
        got=float(got[i, j]),
        expected=float(expected[i, j]),
    )


def merge(one: Verification, other: Verification) -> Verification:
    """Return two checks as one."""
    worse = other if other.bound_ratio > one.bound_ratio else one
    return Verification(
        ok=one.ok and other.ok,
        checked=one.checked + other.checked,
        failed=one.failed + other.failed,
        max_error=max(one.max_error, other.max_error),
        bound_ratio=worse.bound_ratio,
        error_bound=worse.error_bound,
        worst=worse.worst,
        got=worse.got,
        expected=worse.expected,
    )


def _check_shapes(problem: Problem, a: Matrix, b: Matrix, c0: Matrix | None, c: Matrix) -> None:
    m, n, k = problem.m, problem.n, problem.k
    expected = {"a": (a, (m, k)), "b": (b, (k, n)), "c": (c, (m, n))}
    if c0 is not None:
        expected["c0"] = (c0, (m, n))
    for name, (array, shape) in expected.items():
        if array.shape != shape:
            raise ProblemError(
                f"{name} has shape {array.shape}, the problem needs {shape}: "
                f"cut the padding off, such as {name}[:, :{shape[1]}]"
            )
    if problem.beta and c0 is None:
        raise ProblemError(f"beta = {problem.beta}: the check needs C as it was before the run")
