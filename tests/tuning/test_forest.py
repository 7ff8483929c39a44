"""Trees: what they answer, by hand; the shipped ones; and that boosting finds what is there."""

import json
import math
import statistics
from dataclasses import replace

import boosting
import fit_cost
import numpy as np
import pytest
from cost_descent import Case

from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning import cost, forest
from tilewright.tuning.features import INPUTS, features
from tilewright.tuning.forest import SHORTLIST, Forest, Tree, forest_of
from tilewright.tuning.predict import described, predict, shortlist
from tilewright.tuning.space import space
from tuning.synthetic import H200, SQUARE

TALL = Tree(levels=(("m", 100.0), ("k", 8.0)), leaves=(0.0, 1.0, 2.0, 4.0))


def test_the_first_level_is_the_highest_bit_of_a_leaf() -> None:
    found = Forest.of([TALL, Tree(levels=(("k", 9.0),), leaves=(0.0, 0.5))], ["k", "m"])
    rows = np.array([[8.0, 100.0], [9.0, 100.0], [8.0, 101.0], [10.0, 101.0]])
    assert found.corrections(rows).tolist() == [0.0, 1.0, 2.0, 4.5]


def test_a_forest_without_trees_corrects_nothing() -> None:
    assert Forest.of([], ["k"]).corrections(np.ones((3, 1))).tolist() == [0, 0, 0]


def test_what_was_grown_on_one_gpu_is_used_for_no_other() -> None:
    shipped = forest_of(H200.name)
    assert shipped is not None
    assert len(shipped.ones) == boosting.TREES
    assert forest_of("RTX A6000") is None
    data = json.loads(forest.FILE.read_text(encoding="utf-8"))
    assert data["fitted_to"] == json.loads(cost.FILE.read_text(encoding="utf-8"))["fitted_to"]


def test_another_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="schema 2, this code reads 1"):
        forest.read_trees({"schema": 2, "trees": []})


def test_inputs_are_the_tile_s_and_the_product_s() -> None:
    operation = Operation.plain(1000, 300, 4097, layout="tn")
    variant = next(v for v in space(operation, H200) if v.kernel == "tiled" and v.splits > 1)
    table = cost.tabulate(features([variant], operation, H200), H200)
    of = cost.sizes(operation)
    (row,) = described(table, of, cost.parts(table, of), np.array([0]))
    found, tile = dict(zip(INPUTS, row.tolist(), strict=True)), variant.tile
    assert {n: found[n] for n in ("m", "n", "k", "batch")} == {
        "m": 1000, "n": 300, "k": 4097, "batch": 1,
    }  # fmt: skip
    assert (found["bm"], found["tn"], found["stages"]) == (tile.bm, tile.tn, tile.stages)
    # A is along m, of rows of 1000 floats; B along n, of rows of 300.
    assert (found["a_along_k"], found["b_along_n"]) == (0, 1)
    assert (found["a_vector"], found["b_vector"]) == (4, 4)
    down, across = math.ceil(1000 / tile.bm), math.ceil(300 / tile.bn)
    assert (found["tiles"], found["splits"]) == (down * across, variant.splits)
    assert found["each"] == math.ceil(math.ceil(4097 / tile.bk) / variant.splits)
    waves = down * across * variant.splits / (H200.sm_count * found["resident"])
    assert found["waves"] == pytest.approx(waves)


def test_the_shortlist_is_the_model_s_and_its_order_the_trees() -> None:
    table = cost.tabulate(features(space(SQUARE, H200), SQUARE, H200), H200)
    of = cost.sizes(SQUARE)
    found = cost.parts(table, of)
    before = shortlist(table, of, found, None, 4)
    rows = [row for _, row in before]
    assert rows == found.total.argsort(kind="stable")[:4].tolist()
    assert [seconds for seconds, _ in before] == found.total[rows].tolist()
    # A tree against the tile that was first.
    first = table.variants[rows[0]].tile
    against = Tree(levels=(("bm", first.bm - 0.5), ("bn", first.bn - 0.5)), leaves=(0, 0, 0, 3))
    corrected = Forest.of([against], INPUTS)
    after = shortlist(table, of, found, corrected, 4)
    assert sorted(row for _, row in after) == sorted(rows)
    assert after == sorted(after)
    for seconds, row in after:
        tile = table.variants[row].tile
        is_large = tile.bm >= first.bm and tile.bn >= first.bn
        assert seconds == pytest.approx(found.total[row] * math.exp(3 * is_large))


def test_boosting_finds_what_the_model_misses() -> None:
    """Tiles that it likes are made 1.4 times as slow where k is long; it is judged by other m."""

    def made(m: int, k: int) -> Case:
        o = Operation.plain(m, 1024, k)
        found = features([v for v in space(o, H200) if v.kernel == "tiled"], o, H200)
        seconds = cost.parts(cost.tabulate(found, H200), cost.sizes(o)).total
        liked = (found.bm == 128) & (found.bn == 256) & (k > 2000)
        return Case(operation=o, features=found, seconds=seconds * np.where(liked, 1.4, 1.0))

    learnt = [made(m, k) for m in (300, 700, 1500, 3000) for k in (500, 1000, 3000, 6000, 9000)]
    held = [made(m, k) for m in (500, 1000, 2000) for k in (800, 4000, 7000)]
    before = fit_cost.Model(known=cost.coefficients(), forest=None)
    grown = boosting.grow(learnt, cost.coefficients(), H200)
    after = replace(before, forest=Forest.of(grown, INPUTS))

    def mean(cases: list[Case], model: fit_cost.Model) -> float:
        return statistics.geometric_mean(fit_cost.quality(case, model, H200) for case in cases)

    assert mean(learnt, before) < 0.97
    assert mean(learnt, after) > 0.99
    assert mean(held, before) < 0.97
    assert mean(held, after) > 0.99


def test_loss_s_slopes_are_its_differences() -> None:
    """Of the regret to be expected and of the error, by one row's correction."""
    o = Operation.plain(512, 512, 2048)
    found = features(space(o, H200), o, H200)
    rng = np.random.default_rng(0)
    modelled = cost.parts(cost.tabulate(found, H200), cost.sizes(o)).total
    case = Case(
        operation=o, features=found, seconds=modelled * np.exp(rng.normal(0, 0.2, len(modelled)))
    )
    rows = boosting._Rows([case], cost.coefficients(), H200)
    count = len(rows.case)
    assert count == min(boosting.LEARNT, len(modelled))

    def loss(corrections: np.ndarray) -> float:
        logs = rows.modelled + corrections
        chance = np.exp(-logs / boosting.TAU)
        chance /= chance.sum()
        regret = chance @ (rows.regret + boosting.BIG * rows.regret**2)
        error = logs - rows.seconds
        error -= rows.weights @ error / rows.weights.sum()
        return float(boosting.REGRET * regret + boosting.ERROR / 2 * rows.weights @ error**2)

    at = rng.normal(0, 0.1, count)
    slopes, curves = rows.loss(at)
    assert (curves > 0).all()
    for i in range(0, count, 5):
        step = np.eye(count)[i] * 1e-6
        assert slopes[i] == pytest.approx((loss(at + step) - loss(at - step)) / 2e-6, abs=1e-6)


def test_predictions_of_the_first_are_corrected_and_all_others_stay_behind() -> None:
    table = cost.tabulate(features(space(SQUARE, H200), SQUARE, H200), H200)
    alone = cost.parts(table, cost.sizes(SQUARE)).total
    found = np.array(predict(SQUARE, table.variants, H200))
    order = alone.argsort(kind="stable")
    first, others = order[:SHORTLIST], order[SHORTLIST:]
    factors = found / alone
    assert len(set(factors[first].round(6))) > 1
    assert factors[others] == pytest.approx(max(1.0, factors[first].max()))
    assert found[others].min() >= found[first].max()
