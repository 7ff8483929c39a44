"""Strategies on recorded and synthetic times: what they find, and with how many measurements."""

import math
import statistics
from collections import Counter
from pathlib import Path

import pytest

from tilewright.errors import StoreError, UnknownNameError
from tilewright.kernels.gemm.operation import Operation
from tilewright.records import write_json
from tilewright.tuning.predict import predict
from tilewright.tuning.replay import read_recordings, recorded, replay
from tilewright.tuning.search import Found
from tilewright.tuning.space import space
from tilewright.tuning.strategies import (
    CAREFUL_S,
    GROUP,
    MOST_MEASURED,
    STRATEGIES,
    Ask,
    Candidates,
    strategy,
)
from tuning.synthetic import H200, SQUARE, seconds, trial, unit

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RECORD = RESULTS / "tuning_drawn_nvidia_h200.json.gz"
SHAPES = [(4096,) * 3, (1024,) * 3, (300, 5000, 800), (64, 4096, 4096), (1, 2000, 3000)]


def candidates(operation: Operation) -> Candidates:
    variants = space(operation, H200)
    return Candidates(variants=variants, predicted=predict(operation, variants, H200))


def landscape(operation: Operation) -> tuple[Candidates, dict]:
    found = candidates(operation)
    return found, {v: seconds(operation, v) for v in found.variants}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_perfect_model_is_followed_and_confirmed(name: str) -> None:
    found = candidates(SQUARE)
    times = dict(zip(found.variants, found.predicted, strict=True))
    done = replay(strategy(name), found, times)
    assert done.ratio == 1
    everything = name in ("exhaustive", "random")
    assert done.measured == (len(times) if everything else MOST_MEASURED)


@pytest.mark.parametrize("name", ["model", "halving"])
def test_guided_strategies_measure_at_most_20_and_come_close(name: str) -> None:
    ratios = []
    for shape in SHAPES:
        done = replay(strategy(name), *landscape(Operation.plain(*shape)))
        assert done.measured <= MOST_MEASURED
        ratios.append(done.ratio)
    # The landscape errs by up to 43 % from tile to tile, so nothing can be sure of its best.
    assert max(ratios) < 1.12
    assert statistics.geometric_mean(ratios) < 1.05


def test_the_model_strategy_learns_from_what_it_measures() -> None:
    """Of a tile that the model overrates, other ways are left alone once some were measured."""
    found = candidates(SQUARE)
    count = Counter(v.tile for v in found.variants)
    tile, most = count.most_common(1)[0]
    assert most > GROUP
    ways = [v for v in found.variants if v.tile == tile]
    others = [v for v in found.variants if v not in ways]
    predicted = [1e-5] * len(ways) + [1.2e-5] * len(others)
    asking = strategy("model")(Candidates(variants=[*ways, *others], predicted=predicted))
    assert next(asking).variants == tuple(ways[:GROUP])
    second = asking.send(dict.fromkeys(ways[:GROUP], 3e-5))
    assert ways[GROUP] not in second.variants
    right = dict.fromkeys(ways[:GROUP], 1e-5)
    asking = strategy("model")(Candidates(variants=[*ways, *others], predicted=predicted))
    next(asking)
    assert ways[GROUP] in asking.send(right).variants


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_fails_is_never_the_result(name: str) -> None:
    found, times = landscape(SQUARE)
    right = {v: t for v, t in times.items() if unit(v, "state") > 0.5}
    done = replay(strategy(name), found, right)
    assert math.isfinite(done.ratio)


@pytest.mark.parametrize("name", STRATEGIES)
def test_where_nothing_runs_a_strategy_ends(name: str) -> None:
    found = candidates(Operation.plain(64, 64, 64))
    asking = strategy(name)(found)
    ask = next(asking)
    asked = 0
    while ask is not None:
        asked += len(ask.variants)
        assert asked <= len(found.variants)
        try:
            ask = asking.send({v: math.inf for v in ask.variants})
        except StopIteration:
            ask = None


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_finalists_are_measured_once_more_with_care(name: str) -> None:
    found, times = landscape(SQUARE)
    first = found.variants[:2]  # the only ones that run
    times = {v: t if v in first else math.inf for v, t in times.items()}
    asks: list[Ask] = []
    asking = strategy(name)(found)
    ask = next(asking, None)
    while ask is not None:
        asks.append(ask)
        try:
            ask = asking.send({v: times[v] for v in ask.variants})
        except StopIteration:
            ask = None
    assert all(len(ask.variants) <= GROUP for ask in asks)
    assert asks[-1].measure_s == CAREFUL_S
    assert all(math.isfinite(times[v]) for v in asks[-1].variants)
    measured = {v for ask in asks for v in ask.variants}
    assert min(measured, key=lambda v: times[v]) in asks[-1].variants


def test_noise_costs_little_since_finalists_are_measured_again() -> None:
    found, times = landscape(SQUARE)
    done = replay(strategy("model"), found, times, noise=0.01)
    assert done.ratio < 1.1
    assert done.seconds < 1.0


def test_an_unknown_strategy_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'halving'"):
        strategy("halfing")


def test_recordings_are_read_back(tmp_path: Path) -> None:
    variants = space(SQUARE, H200)[:3]
    trials = [trial(SQUARE, v, 1e-3 * (i + 1)) for i, v in enumerate(variants[:2])]
    trials.append(trial(SQUARE, variants[2], None))
    done = Found(
        operation=SQUARE, trials=tuple(trials), best=trials[0], first_s=None, measured=3, space=3,
        seconds=1.0, ended="done",
    )  # fmt: skip
    path = tmp_path / "record.json"
    write_json(path, recorded([done]))
    (found,) = read_recordings(path)
    assert found.operation == SQUARE
    assert found.trials == done.trials
    assert found.times == {variants[0]: 1e-3, variants[1]: 2e-3}
    assert found.best_s == 1e-3
    path.write_text('{"schema": 3}')
    with pytest.raises(StoreError, match="schema 3"):
        read_recordings(path)
    path.write_text('{"schema": 1, "searches": [{}]}')
    with pytest.raises(StoreError, match="recorded searches"):
        read_recordings(path)


def test_packed_recordings_are_read_and_a_broken_one_is_named(tmp_path):
    path = tmp_path / "record.json.gz"
    write_json(path, recorded([]))
    assert read_recordings(path) == []
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(StoreError, match=r"record\.json\.gz: not JSON: not a whole gzip file"):
        read_recordings(path)


@pytest.mark.skipif(not RECORD.exists(), reason="no exhaustive search was recorded yet")
def test_on_the_recorded_searches_20_measurements_reach_99_percent() -> None:
    ratios = []
    for recording in read_recordings(RECORD):
        times = recording.times
        variants = [v for v in space(recording.operation, H200) if v in times]
        found = Candidates(
            variants=variants, predicted=predict(recording.operation, variants, H200)
        )
        done = replay(strategy("model"), found, times)
        assert done.measured <= MOST_MEASURED
        ratios.append(done.ratio)
    assert statistics.geometric_mean(ratios) < 1 / 0.99
