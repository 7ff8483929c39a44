"""Looking back at searches: rank correlation by hand, strategies' courses, what is not compared."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.errors import TilewrightError, UnknownNameError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.predict import predict
from tilewright.tuning.replay import Recording, read_recordings
from tilewright.tuning.review import rank_correlation, review, together
from tilewright.tuning.space import space
from tuning.synthetic import H200, SQUARE, seconds, trial

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
VARIANTS = space(SQUARE, H200)


def recording(
    times: dict[Variant, float | None], operation: Operation = SQUARE, whole: int | None = None
) -> Recording:
    trials = tuple(trial(operation, v, t) for v, t in times.items())
    return Recording(operation=operation, trials=trials, space=whole or len(trials))


@pytest.mark.parametrize(
    ("one", "other", "rank"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),  # 1 - 6 · (1 + 1) / (4 · 15)
        ([1, 2, 3, 4, 5], [100, 1, 2, 3, 4], 0.0),  # 1 - 6 · (16 + 4 · 1) / (5 · 24)
        ([1, 2, 2, 3], [1, 2, 3, 4], 4.5 / math.sqrt(4.5 * 5)),  # equal ones share 2.5
    ],
)
def test_rank_correlation_by_hand(one: list[float], other: list[float], rank: float) -> None:
    assert rank_correlation(one, other) == pytest.approx(rank)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [3.0, 3.0, 3.0]])
def test_no_rank_correlation_of_few_or_equal(values: list[float]) -> None:
    assert rank_correlation(values, values) is None


def test_what_was_predicted_fastest_and_what_is() -> None:
    times = {v: 1e-3 * (1 + n) for n, v in enumerate(reversed(VARIANTS))}
    found = review(recording(times))
    assert found.rank == pytest.approx(-1, abs=0.02)  # equal predictions share their ranks
    assert found.best is not None
    assert found.best.variant == VARIANTS[-1]
    assert found.first is not None
    assert found.share(found.first) == pytest.approx(1 / len(VARIANTS))
    assert found.predicted == tuple(predict(SQUARE, list(times), H200))


def test_a_perfect_model_has_the_best_at_once() -> None:
    predicted = dict(zip(VARIANTS, predict(SQUARE, VARIANTS, H200), strict=True))
    shuffled = dict(sorted(predicted.items(), key=lambda item: str(item[0])))
    found = review(recording(dict(shuffled)))
    assert found.rank == pytest.approx(1)
    for name in ("model", "halving", "exhaustive"):
        course = found.courses[name]
        assert set(course.shares) == {1.0}
        assert (course.low, course.high) == (course.shares, course.shares)
    assert [len(found.courses[n].shares) for n in ("model", "exhaustive")] == [20, len(VARIANTS)]
    chance = found.courses["random"]
    assert chance.shares[0] < 0.9
    assert chance.low[5] < chance.shares[5] < chance.high[5]
    assert chance.shares[-1] == 1
    assert list(chance.shares) == sorted(chance.shares)


def test_a_course_is_the_best_so_far() -> None:
    """Exhaustive asks in the order of the predictions, so its course is known by hand."""
    found = review(recording({v: seconds(SQUARE, v) for v in VARIANTS}))
    times = [seconds(SQUARE, v) for v in VARIANTS]
    by_hand = [min(times) / min(times[: n + 1]) for n in range(len(times))]
    assert found.courses["exhaustive"].shares == pytest.approx(by_hand)
    # 0.02 s each, and 0.1 s more for the three best.
    assert found.courses["exhaustive"].seconds == pytest.approx(0.02 * len(times) + 0.3)


def test_strategies_are_not_compared_on_a_part_of_the_space() -> None:
    part = {v: 1e-3 for v in VARIANTS[:20]}
    assert review(recording(part, whole=len(VARIANTS))).courses == {}
    assert review(recording(part)).courses


def test_nothing_right_has_no_best() -> None:
    found = review(recording(dict.fromkeys(VARIANTS[:5])))
    assert (found.best, found.first, found.rank, found.courses) == (None, None, None, {})


def test_means_are_geometric_and_one_that_ended_keeps_what_it_found() -> None:
    course = review(recording({v: 1e-3 for v in VARIANTS[:5]})).courses["model"]
    half = replace(course, shares=(0.25, 0.5), low=(0.25, 0.5), high=(0.25, 0.5), chosen=0.5)
    both = together([half, replace(half, shares=(1.0, 1.0, 1.0, 1.0), chosen=1.0, seconds=2.0)])
    assert both.shares == pytest.approx((0.5, *[math.sqrt(0.5)] * 3))
    assert both.chosen == pytest.approx(math.sqrt(0.5))
    assert both.seconds == pytest.approx(course.seconds + 2)


def test_the_records_choose_as_docs_tuning_says() -> None:
    page = (RESULTS.parents[1] / "docs" / "tuning.md").read_text(encoding="utf-8")
    for name in ("tuning_drawn_nvidia_h200.json.gz", "unseen_nvidia_h200.json.gz"):
        reviews = [review(each) for each in read_recordings(RESULTS / name)]
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        _, _, count, chosen, worst, tuned, least, _ = (cell.strip() for cell in row.split("|"))
        shares = [each.share(each.first) for each in reviews if each.first is not None]
        mean = math.exp(sum(map(math.log, shares)) / len(shares))
        courses = [each.courses["model"] for each in reviews]
        assert count == str(len(reviews))
        assert (chosen, worst) == (f"{mean:.1%}", f"{min(shares):.1%}")
        assert tuned == f"{together(courses).chosen:.1%}"
        assert least == f"{min(course.chosen for course in courses):.1%}"


def test_bad_input() -> None:
    with pytest.raises(TilewrightError, match="nothing was measured"):
        review(Recording(operation=SQUARE, trials=(), space=3))
    one = trial(SQUARE, VARIANTS[0])
    elsewhere = replace(one, machine=replace(one.machine, gpu="Voodoo 2"))
    with pytest.raises(UnknownNameError, match="Voodoo 2"):
        review(Recording(operation=SQUARE, trials=(elsewhere,), space=1))
    assert review(Recording(operation=SQUARE, trials=(elsewhere,), space=1), H200).best is not None
