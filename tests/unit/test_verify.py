from fractions import Fraction

import numpy as np
import pytest

from tilewright.bench.verify import (
    Region,
    check,
    check_against_library,
    column_norms,
    error_bound,
    gamma,
    reference,
    row_norms,
    sample_regions,
    whole,
)
from tilewright.errors import ProblemError
from tilewright.problem import Problem


def make(m=13, n=9, k=7, seed=0, **more):
    rng = np.random.default_rng(seed)
    problem = Problem(m=m, n=n, k=k, **more)
    a = rng.standard_normal((m, k), np.float32)
    b = rng.standard_normal((k, n), np.float32)
    c0 = rng.standard_normal((m, n), np.float32)
    return problem, a, b, c0


def float32_gemm(problem, a, b, c0):
    """One rounding after each operation, sums in order: what the plainest kernel does."""
    acc = np.zeros((problem.m, problem.n), np.float32)
    for p in range(problem.k):
        acc = acc + a[:, p : p + 1] * b[p : p + 1, :]
    scaled = np.float32(problem.alpha) * acc
    return scaled + np.float32(problem.beta) * c0 if problem.beta else scaled


def test_gamma_by_hand():
    u = Fraction(1, 2**24)
    assert gamma(5) == pytest.approx(float(5 * u / (1 - 5 * u)), rel=1e-15)
    assert gamma(2**23) == 1.0  # one half over one half
    with pytest.raises(ProblemError, match="no bound"):
        gamma(2**24)


def test_reference_and_bound_by_hand():
    problem = Problem(m=1, n=1, k=2, alpha=0.5, beta=2.0)
    a, b = np.float32([[3, -4]]), np.float32([[5], [6]])
    c0 = np.float32([[-1]])
    # 0.5 · (15 - 24) + 2 · (-1) = -6.5
    assert reference(problem, a, b, c0) == [[-6.5]]
    # Four roundings on 0.5 · (15 + 24), two on 2 · 1.
    expected = gamma(4) * 0.5 * 39 + gamma(2) * 2
    assert error_bound(problem, a, b, c0)[0, 0] == pytest.approx(expected, rel=1e-12)


def test_scalars_are_rounded_to_float32_as_the_kernel_takes_them():
    problem = Problem(m=1, n=1, k=1, alpha=0.1)
    one = np.ones((1, 1), np.float32)
    assert reference(problem, one, one, None)[0, 0] == float(np.float32(0.1))


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (0.5, 3), (-1.25, -0.75), (0, 1)])
@pytest.mark.parametrize("k", [0, 1, 7, 300])
def test_a_right_product_passes(k, alpha, beta):
    problem, a, b, c0 = make(k=k, alpha=alpha, beta=beta)
    found = check(problem, a, b, c0, float32_gemm(problem, a, b, c0))
    assert found.ok, found.message()
    assert found.checked == 13 * 9
    assert found.bound_ratio <= 1


def test_the_bound_is_not_slack_enough_for_a_lost_term():
    problem, a, b, c0 = make(k=300)
    c = float32_gemm(problem, a, b, c0)
    c[4, 2] -= a[4, 299] * b[299, 2]
    found = check(problem, a, b, c0, c)
    assert not found.ok
    assert found.worst == (4, 2)
    assert found.failed == 1
    assert "C[4, 2] (block row 1, block column 0)" in found.message((4, 8))


def test_tf32_inputs_do_not_pass_for_float32():
    problem, a, b, c0 = make(k=64)

    def to_tf32(x):
        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)

    c = (to_tf32(a).astype(np.float64) @ to_tf32(b).astype(np.float64)).astype(np.float32)
    assert not check(problem, a, b, c0, c).ok


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_where_the_reference_is_finite_fails(bad):
    problem, a, b, c0 = make()
    c = float32_gemm(problem, a, b, c0)
    c[2, 3] = bad
    found = check(problem, a, b, c0, c)
    assert not found.ok
    assert found.worst == (2, 3)
    assert found.max_error == np.inf
    assert "wrong: 1 of 117" in found.message()


def test_non_finite_must_stand_where_the_reference_has_it():
    problem, a, b, c0 = make()
    a[5, 0] = np.inf
    b[0, 1] = 0.0  # infinity times zero: NaN at (5, 1), infinities in the rest of row 5
    with np.errstate(invalid="ignore"):
        c = float32_gemm(problem, a, b, c0)
    assert np.isnan(c[5, 1])
    assert np.isinf(c[5, 0])
    assert check(problem, a, b, c0, c).ok
    for column, value in ((1, 0.0), (0, -c[5, 0]), (0, 1.0), (0, np.nan)):
        wrong = c.copy()
        wrong[5, column] = value
        found = check(problem, a, b, c0, wrong)
        assert (found.ok, found.worst) == (False, (5, column))


def test_overflow_of_the_sums_is_right():
    problem = Problem(m=1, n=1, k=2)
    big = np.float32(3e38)
    a, b = np.float32([[big, big]]), np.float32([[1], [-0.5]])
    # The float64 reference is 1.5e38; a sum of 6e38 overflows nothing here, but 3e38 + 3e38 would.
    assert check(problem, a, b, None, np.float32([[1.5e38]])).ok
    assert check(problem, a, b, None, np.float32([[np.inf]])).ok
    assert not check(problem, a, b, None, np.float32([[1.0]])).ok


def test_beta_zero_never_reads_c():
    problem, a, b, c0 = make(beta=0.0)
    c0[:] = np.nan
    assert check(problem, a, b, c0, float32_gemm(problem, a, b, c0)).ok
    assert check(problem, a, b, None, float32_gemm(problem, a, b, c0)).ok


def test_regions_see_only_themselves():
    problem, a, b, c0 = make()
    c = float32_gemm(problem, a, b, c0)
    c[12, 8] = np.nan
    assert check(problem, a, b, c0, c, [Region(0, 12, 0, 9)]).ok
    found = check(problem, a, b, c0, c, [Region(0, 4, 0, 4), Region(10, 13, 6, 9)])
    assert (found.ok, found.worst, found.checked) == (False, (12, 8), 16 + 9)


def test_regions_add_up():
    problem, a, b, c0 = make()
    c = float32_gemm(problem, a, b, c0)
    c[0, 0] += 1
    c[0, 1] += 1
    c[12, 8] += 8
    found = check(problem, a, b, c0, c, [Region(0, 1, 0, 2), Region(12, 13, 8, 9)])
    assert (found.failed, found.checked, found.worst) == (3, 3, (12, 8))
    assert found.max_error == pytest.approx(8, rel=1e-5)


def test_sampled_regions_hold_the_corners_and_stay_inside():
    problem = Problem(m=1000, n=130, k=5)
    regions = sample_regions(problem)
    corners = {(0, 0), (0, 129), (999, 0), (999, 129)}
    for i, j in corners:
        assert any(r.row0 <= i < r.row1 and r.col0 <= j < r.col1 for r in regions)
    assert all(0 <= r.row0 < r.row1 <= 1000 and 0 <= r.col0 < r.col1 <= 130 for r in regions)
    assert len(regions) > 10


def test_sample_of_a_small_problem_is_all_of_it():
    problem = Problem(m=5, n=64, k=1)
    assert sample_regions(problem) == (whole(problem),)


def test_library_comparison_sees_every_element():
    problem, a, b, c0 = make(m=300, n=40, k=50, alpha=0.5, beta=0.5)
    c = float32_gemm(problem, a, b, c0)
    library = reference(problem, a, b, c0).astype(np.float32)
    norms = (row_norms(a), column_norms(b))
    assert check_against_library(problem, norms, c0, c, library).ok
    c[299, 39] += 0.01
    found = check_against_library(problem, norms, c0, c, library)
    assert (found.ok, found.worst, found.checked) == (False, (299, 39), 300 * 40)


def test_norms_by_hand():
    matrix = np.float32([[3, 4], [0, -2]])
    assert row_norms(matrix).tolist() == [5, 2]
    assert column_norms(matrix).tolist() == [3, pytest.approx(20**0.5)]


def test_wrong_shapes_are_refused():
    problem, a, b, c0 = make()
    with pytest.raises(ProblemError, match=r"b has shape .*cut the padding off, such as b\[:, :9"):
        check(problem, a, np.zeros((7, 12), np.float32), c0, c0)
    with pytest.raises(ProblemError, match="needs C as it was"):
        check(Problem(m=13, n=9, k=7, beta=1.0), a, b, None, c0)
