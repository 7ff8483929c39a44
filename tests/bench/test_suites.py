"""The suites hold what they say, each operation once, and the unseen one stays as drawn."""

import math

import pytest

from tilewright.bench.suites import case, suite, suites
from tilewright.errors import ProblemError, UnknownNameError


def shapes(name):
    return [(o.m, o.n, o.k, o.batch) for o in (c.operation for c in suite(name).cases)]


@pytest.mark.parametrize("name", list(suites()))
def test_every_case_is_named_and_measured_once(name):
    found = suite(name)
    assert found.about
    assert found.source
    assert len({c.name for c in found.cases}) == len(found.cases)
    assert len({c.operation.key for c in found.cases}) == len(found.cases)


def test_the_squares_have_the_chapters_size_and_those_of_the_reach():
    sizes = [m for m, *_ in shapes("squares")]
    assert {1024, 2048, 4092, 4096, 8192} <= set(sizes)
    assert all(m == n == k for m, n, k, _ in shapes("squares"))


def test_complaints_are_in_three_layouts_but_for_vectors():
    of_4097 = [c.name for c in suite("complaints").cases if c.operation.m == 4097]
    assert of_4097 == ["4097x4097x4097 nn", "4097x4097x4097 nt", "4097x4097x4097 tn"]
    # A of one row is the same transposed.
    of_vector = [c.name for c in suite("complaints").cases if c.operation.n == 105]
    assert of_vector == ["1x105x107 nn", "1x105x107 nt"]
    assert len(set(shapes("complaints"))) == 37
    assert (33, 33, 903168, 1) in shapes("complaints")
    assert len(set(shapes("batched"))) == 7
    assert (1, 100, 100, 100000) in shapes("batched")


def test_a_layout_can_be_chosen():
    assert {c.operation.layout for c in suite("complaints").only("tn")} == {"tn"}
    assert suite("squares").only("tn") == ()
    assert suite("squares").only(None) == suite("squares").cases


def test_unseen_shapes_are_as_they_were_drawn():
    cases = suite("unseen").cases
    assert len(cases) == 60
    assert [c.name for c in cases[:4]] == [
        "5x16x3287 nn", "3408x16x16 nt", "72x1x40 nn", "16x160x2016 nt",
    ]  # fmt: skip
    for m, n, k, batch in shapes("unseen"):
        assert 1 <= m <= 8192
        assert 1 <= n <= 8192
        assert 1 <= k <= 65536
        assert m * n * k <= 2**36
        assert batch == 1
    assert all(size % 16 == 0 for shape in shapes("unseen")[1::2] for size in shape[:3])


def test_unseen_sizes_are_log_uniform():
    logs = [math.log2(m) for m, *_ in shapes("unseen")]
    # Of 60 uniform numbers in [0, 13] a third lies in each third, give or take; rounding up to 16
    # empties the lowest four bits of half of them.
    assert 6 < sum(logs) / len(logs) < 8.5
    assert sum(x > 26 / 3 for x in logs) > 10


def test_names_that_are_none_teach():
    with pytest.raises(UnknownNameError, match="did you mean 'squares'"):
        suite("squers")
    with pytest.raises(ProblemError, match="nn, nt, tn or tt"):
        case((2, 3, 4), "nx")
    with pytest.raises(ProblemError, match="m = 0"):
        case((0, 3, 4))


def test_a_batch_is_in_the_name():
    assert case((9, 4, 4, 8192), "nt").name == "9x4x4 b8192 nt"
    assert case((9, 4, 4), name="mlp").name == "mlp nn"
