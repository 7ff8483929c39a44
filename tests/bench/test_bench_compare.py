"""Verdicts: only what exceeds the recorded spreads, and what cuBLAS itself did, counts."""

import math

import pytest
from bench_files import bench_file, record, run, timing

from tilewright.bench.compare import LEAST, compare, verdict
from tilewright.bench.suites import case
from tilewright.errors import TilewrightError

CASE = case((64, 64, 64))


def files(old, new, spread=0.01, cublas=(None, None)):
    made = []
    for ours, theirs in zip((old, new), cublas, strict=True):
        runs = [run("tilewright", ours, spread)]
        runs += [run("cublas", theirs, spread)] if theirs else []
        made.append(bench_file(record(CASE, runs)))
    return made


@pytest.mark.parametrize(
    ("new", "old", "spread", "word"),
    [
        (1.00, 1.00, 0.01, "even"),
        (0.90, 1.00, 0.01, "faster"),
        (1.10, 1.00, 0.01, "slower"),
        (0.99, 1.00, 0.01, "even"),  # 1.0 % beside 1.4 % of noise
        (0.98, 1.00, 0.01, "faster"),
        (0.90, 1.00, 0.10, "even"),  # 11 % beside 14 %
        (0.996, 1.00, 0.0, "even"),  # below what anybody acts on
        (0.99, 1.00, 0.0, "faster"),
    ],
)
def test_words(new, old, spread, word):
    assert verdict(timing(new, spread), timing(old, spread)).word == word


def test_noise_is_the_root_of_the_sum_of_squares():
    found = verdict(timing(2.0, 0.03), timing(4.0, 0.04))
    assert found.ratio == 2.0
    assert found.noise == pytest.approx(0.05)
    assert verdict(timing(1.0, 0.0), timing(1.0, 0.0)).noise == LEAST


def test_what_cublas_did_counts_as_noise():
    alone = compare(*files(1.0, 1.1)).cases[0].verdict
    beside_steady = compare(*files(1.0, 1.1, cublas=(2.0, 2.0))).cases[0].verdict
    beside_slower = compare(*files(1.0, 1.1, cublas=(2.0, 2.3))).cases[0].verdict
    assert [v.word for v in (alone, beside_steady, beside_slower)] == ["slower", "slower", "even"]
    assert beside_slower.noise == pytest.approx(0.15)


def test_the_control_is_cublass_own_change():
    assert compare(*files(1.0, 1.0)).control is None
    assert compare(*files(1.0, 1.0, cublas=(2.0, 1.0))).control == pytest.approx(2.0)
    found = compare(*files(1.0, 1.0, cublas=(2.0, 1.0)), contender="cublas").cases[0]
    assert found.verdict.word == "faster"  # of itself, its change is no noise


def test_environments_and_cases_that_differ_are_named():
    old = bench_file(record(CASE, [run("tilewright", 1.0)]), driver="580.1", commit="a")
    other = record(case((8, 8, 8)), [run("tilewright", 1.0)])
    new = bench_file(record(CASE, [run("tilewright", 1.0)]), other, driver="590.2", commit="a")
    found = compare(old, new)
    assert found.differences == ("driver: 580.1 -> 590.2",)
    assert (found.only_old, found.only_new) == ((), ("8x8x8 nn",))
    assert math.isclose(found.cases[0].verdict.ratio, 1.0)


def test_nothing_in_common_is_an_error():
    old = bench_file(record(CASE, [run("tilewright", 1.0)]))
    new = bench_file(record(case((8, 8, 8)), [run("tilewright", 1.0)]))
    with pytest.raises(TilewrightError, match="no operation in common"):
        compare(old, new)
    with pytest.raises(TilewrightError, match="time torch on no operation"):
        compare(old, old, contender="torch")
