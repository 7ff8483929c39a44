"""benchmarks/fit_cost.py finds what times were made with, by shapes that nothing is judged by."""

import json
import random
import statistics
from dataclasses import replace
from pathlib import Path

import cost_descent
import fit_cost
import numpy as np
import pytest
import ship_choices
from cost_descent import Case

from tilewright.bench.suites import suite
from tilewright.gpus import gpu
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.records import write_json
from tilewright.tuning import choice, cost, forest
from tilewright.tuning.features import INPUTS, features
from tilewright.tuning.forest import Forest, Tree, forest_of
from tilewright.tuning.replay import Recording, read_recordings, recorded
from tilewright.tuning.search import Found
from tilewright.tuning.space import legal, space
from tilewright.tuning.store import import_trials
from tuning.synthetic import H200, trial

SHAPES = [(1024,) * 3, (4096,) * 3, (300, 700, 9000), (2000, 128, 512), (64, 4096, 4096)]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Times by coefficients other than the shipped ones, with a little noise."""
    truth = {
        kernel: replace(c, fma=1.4 * c.fma, step=4 * c.step, sync_cycles=4 * c.sync_cycles,
                        fill_cycles=c.fill_cycles / 3, launch_s=3e-6)
        for kernel, c in cost.coefficients().items()
    }  # fmt: skip
    rng = random.Random(0)
    searches = []
    for shape in SHAPES:
        o = Operation.plain(*shape)
        found = features(space(o, H200), o, H200)
        times = cost.parts(cost.tabulate(found, H200, truth), cost.sizes(o)).total
        trials = tuple(
            trial(o, v, float(s) * rng.uniform(0.99, 1.01))
            for v, s in zip(found.variants, times, strict=True)
        )
        searches.append(
            Found(operation=o, trials=trials, best=None, first_s=None, measured=0,
                  space=len(trials), seconds=0.0, ended="done")
        )  # fmt: skip
    path = tmp_path / "tuning.json"
    environment = {"card": "none", "date": "2026-11-30"}
    write_json(path, {"environment": environment, **recorded(searches)})
    return path


def plain() -> fit_cost.Model:
    """The shipped coefficients, without trees."""
    return fit_cost.Model(known=cost.coefficients(), forest=None)


def test_the_fit_chooses_better_than_what_it_started_from(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(fit_cost, "FILE", tmp_path / "cost.json")
    monkeypatch.setattr(forest, "FILE", tmp_path / "forest.json")
    monkeypatch.setattr(cost_descent, "FITS", 1)
    monkeypatch.setattr("sys.argv", ["fit_cost.py", str(record), "--rounds", "60", "--write"])
    cases = fit_cost.read(record, H200)
    before = error(cases, plain())
    assert fit_cost.main() == 0
    data = json.loads((tmp_path / "cost.json").read_text())
    known = cost.read_coefficients(data)
    after = error(cases, fit_cost.Model(known=known, forest=None))
    assert after < 0.5 * before
    assert data["fitted_to"].startswith("benchmarks/results/tuning.json, 5 operations")
    grown = json.loads((tmp_path / "forest.json").read_text())
    assert (grown["gpu"], grown["fitted_to"]) == ("H200", data["fitted_to"])
    corrected = Forest.of(forest.read_trees(grown), INPUTS)
    trees = fit_cost.Model(known=known, forest=corrected)
    alone = replace(trees, forest=None)
    qualities = [[fit_cost.quality(c, m, H200) for c in cases] for m in (alone, trees)]
    assert sum(qualities[1]) >= sum(qualities[0])
    assert "after, fitted: 5 operations; the choice runs at " in capsys.readouterr().out


def test_slopes_are_those_of_the_loss(record: Path) -> None:
    """A row's derivative, by a difference of the loss itself."""
    rows = cost_descent._Rows(fit_cost.read(record, H200))
    rng = np.random.default_rng(0)
    share = rows.weighed(rng)
    assert share.sum() == pytest.approx(1)
    logs = rows.seconds + rng.normal(0, 0.1, len(rows.seconds))
    loss, slopes = rows.loss(logs, share)
    for i in (*rng.integers(0, len(logs), 5), int(np.abs(slopes).argmax())):
        moved = logs.copy()
        moved[i] += 1e-5
        assert (rows.loss(moved, share)[0] - loss) / 1e-5 == pytest.approx(slopes[i], abs=1e-4)


def test_derivatives_are_differences_of_predictions(record: Path) -> None:
    """Of what is lowered, by every coefficient of every kernel."""
    rows = cost_descent._Rows(fit_cost.read(record, H200))
    rng = np.random.default_rng(0)
    for kernel, at in rows.of.items():
        guess = cost_descent._guess(kernel)
        point = guess + rng.normal(0, 0.05, len(guess))
        # What exceeds a bound is kept there, and does not move.
        point[list(cost_descent.GUESS).index("dram_share")] = 0.1
        weights = np.zeros(len(rows.variants))
        weights[at] = rng.normal(size=len(at))

        def lowered(moved: np.ndarray, kernel=kernel, at=at, weights=weights) -> float:
            logs = rows.logs(kernel, cost_descent._known(moved), H200)
            much = cost_descent.DIFFER.get(kernel, cost_descent.DIFFER_MUCH)
            pull = np.where(cost_descent._IS_SHAPE, much, cost_descent.LEAVE)
            away = moved - cost_descent._guess(kernel)
            return float(weights[at] @ logs + pull @ away**2)

        found = cost_descent._gradient(rows, kernel, point, weights, H200)
        for i in range(len(point)):
            step = np.eye(len(point))[i] * 1e-5
            expected = (lowered(point + step) - lowered(point - step)) / 2e-5
            assert found[i] == pytest.approx(expected, rel=1e-4, abs=1e-4), (kernel, i)


def test_factors_are_what_tiles_take_beside_the_rest(record: Path) -> None:
    """Nothing where the model says all; more where a tile was made slower, up to what is usual."""
    cases = fit_cost.read(record, H200)
    known = replace(cost.coefficients()["tiled"], tiles={})

    def factors(slower: str) -> dict[str, float]:
        made = []
        for case in cases:
            seconds = cost.parts(
                cost.tabulate(case.features, H200, {**cost.coefficients(), "tiled": known}),
                cost.sizes(case.operation),
            ).total
            is_it = [cost.label(v.tile) == slower for v in case.features.variants]
            made.append(replace(case, seconds=np.where(is_it, 1.05, 1.0) * seconds))
        return cost_descent._Rows(made).factors(known, H200)

    assert factors("none") == pytest.approx(dict.fromkeys(factors("none"), 0.0), abs=1e-9)
    found = factors("128x128x8 8x8 2")
    assert max(found, key=lambda name: found[name]) == "128x128x8 8x8 2"
    assert 0.01 < found.pop("128x128x8 8x8 2") < 0.05
    assert max(map(abs, found.values())) < 0.005


def test_what_is_compiled_otherwise_now_is_not_fitted_to(record: Path, tmp_path: Path) -> None:
    """A record names what it compiled; without a name of a variant its time is of other code."""
    data = json.loads(record.read_text())
    all_of = fit_cost.read(record, H200)
    second = all_of[1]
    names = {
        gemm_kernel(v.kernel).expression(case.operation, v)
        for case in all_of
        for v in case.features.variants
    }
    gone = second.features.variants[0]
    names -= {gemm_kernel(gone.kernel).expression(second.operation, gone)}
    path = tmp_path / "old.json"
    write_json(path, data | {"kernels": dict.fromkeys(names)})
    left = fit_cost.read(path, H200)
    assert [c.operation for c in left] == [c.operation for c in all_of]
    assert gone.tile not in {v.tile for v in left[1].features.variants}
    assert 0 < len(left[1].seconds) < len(second.seconds)
    # Of searches that have lost most of their variants nothing is kept.
    write_json(path, data | {"kernels": dict.fromkeys(sorted(names)[:3])})
    assert not fit_cost.read(path, H200)


def test_each_is_judged_by_a_fit_without_its_sizes(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = fit_cost.read(record, H200)
    twice = [*cases, *cases]  # as another layout of the same sizes
    fitted = []

    def watched(learnt: list[Case], *rest: object) -> tuple[fit_cost.Model, list[Tree]]:
        fitted.append({c.operation for c in learnt})
        return plain(), []

    monkeypatch.setattr(fit_cost, "fitted", watched)
    held = fit_cost.cross_validated(twice, H200, 1, 5)
    assert held == [fit_cost.quality(case, plain(), H200) for case in twice]
    every = {c.operation for c in cases}
    assert [len(every - learnt) for learnt in fitted] == [1] * 5
    assert set().union(*(every - learnt for learnt in fitted)) == every


def error(cases: list[Case], model: fit_cost.Model) -> float:
    """The mean error of the predictions, in logarithms."""
    return statistics.mean(
        float(np.abs(np.log(fit_cost.predicted(case, model, H200) / case.seconds)).mean())
        for case in cases
    )


def test_quality_is_what_the_choice_costs(record: Path) -> None:
    case = fit_cost.read(record, H200)[0]
    times = fit_cost.predicted(case, plain(), H200)
    chosen = case.seconds[int(times.argmin())]
    expected = case.seconds.min() / chosen
    assert fit_cost.quality(case, plain(), H200) == pytest.approx(expected)
    assert 0 < expected <= 1


def test_judging_says_how_strategies_do(
    record: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("sys.argv", ["fit_cost.py", "--judge", str(record)])
    assert fit_cost.main() == 0
    out = capsys.readouterr().out
    assert "exhaustive: 100.00% of the best, 100.0% at worst" in out


def test_what_choices_are_judged_by_is_left_out_of_the_fit(record: Path) -> None:
    drawn = fit_cost.read(record, gpu("H200"))
    judged = [replace(drawn[0], operation=each.operation) for each in suite("unseen").only("nt")]
    kept = fit_cost.unjudged([*judged, *drawn, *judged])
    assert [case.operation for case in kept] == [case.operation for case in drawn]


def test_only_what_the_model_misses_is_shipped(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "shipped.json"
    monkeypatch.setattr(ship_choices, "SHIPPED", target)
    monkeypatch.setattr("sys.argv", ["ship_choices.py", str(record)])
    assert ship_choices.main() == 0
    shipped = {t.operation: t for t in import_trials(target)}
    cases = {c.operation.key: c for c in fit_cost.read(record, H200)}
    for key, case in cases.items():
        shipped_model = fit_cost.Model(known=cost.coefficients(), forest=forest_of(H200.name))
        missed = 1 / fit_cost.quality(case, shipped_model, H200) - 1
        assert (key in shipped) == (missed > ship_choices.LEAST_GAIN), key
        if key in shipped:
            assert shipped[key].median_s == case.seconds.min()
    assert 0 < len(shipped) < len(cases)


def test_what_is_not_accurate_any_more_is_not_shipped() -> None:
    o = Operation.plain(373, 317, 1792, layout="nt")
    right = space(o, H200)
    wrong = {replace(v, splits=1, workers=0) for v in right if v.kernel == "tiled"} - set(right)
    times = {next(iter(wrong)): 1e-5, right[-1]: 2e-5, right[0]: 4e-5}
    trials = tuple(trial(o, v, seconds) for v, seconds in times.items())
    found = ship_choices.worth_shipping(Recording(operation=o, trials=trials, space=3))
    assert found is not None
    assert found.variant == right[-1]


def test_what_is_shipped_is_legal_and_in_its_records() -> None:
    data = json.loads(choice.SHIPPED.read_text(encoding="utf-8"))
    root = Path(__file__).parents[2]
    recorded_trials = {
        (r.operation.key, t.variant, t.median_s): r.operation
        for name in data.get("records", [])
        for r in read_recordings(root / name)
        for t in r.trials
    }
    for shipped in import_trials(choice.SHIPPED):
        operation = recorded_trials[shipped.operation, shipped.variant, shipped.median_s]
        assert legal(operation, shipped.variant)
        card = gpu(shipped.machine.gpu)
        assert gemm_kernel(shipped.variant.kernel).accurate(operation, shipped.variant, card)
