"""The search: it finds what is fast, keeps what it measured, and ends when it is told to."""

import math
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from tilewright.errors import DeviceError
from tilewright.tuning.measure import compile_ahead
from tilewright.tuning.search import Found, Workers, search
from tilewright.tuning.space import space
from tilewright.tuning.store import Store
from tilewright.tuning.strategies import MOST_MEASURED, exhaustive, model
from tuning.synthetic import H200, MACHINE, SQUARE, Synthetic, SyntheticMeasurer, seconds, trial

VARIANTS = space(SQUARE, H200)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with Store(tmp_path / "tuned.db") as store:
        yield store


@pytest.fixture(autouse=True)
def measurers() -> None:
    SyntheticMeasurer.asked.clear()
    yield
    assert SyntheticMeasurer.opened == 0  # each search closes what it opened


def find(store: Store, told: Synthetic | None = None, **more) -> Found:
    values = {"strategy": exhaustive, "opener": told or Synthetic(SQUARE)}
    return search(SQUARE, H200, store=store, **(values | more))


def test_everything_is_measured_and_the_fastest_is_found(store: Store) -> None:
    found = find(store)
    assert (found.ended, found.measured, found.space) == ("done", len(VARIANTS), len(VARIANTS))
    assert found.best is not None
    assert found.best.variant == min(VARIANTS, key=lambda v: seconds(SQUARE, v))
    kept = {t.variant: t.median_s for t in store.trials()}
    assert kept == pytest.approx({t.variant: t.median_s for t in found.trials})


def test_a_guided_search_measures_20(store: Store) -> None:
    found = find(store, strategy=model)
    assert found.measured == MOST_MEASURED
    assert found.best is not None
    assert len({v for v, _ in SyntheticMeasurer.asked}) == MOST_MEASURED


def test_what_fails_or_is_wrong_is_recorded_and_passed_over(store: Store) -> None:
    found = find(store, Synthetic(SQUARE, broken=0.3, wrong=0.3))
    states = [t.state for t in store.trials()]
    assert len(states) == len(VARIANTS)
    assert min(states.count(s) for s in ("timed", "wrong", "failed")) > 0.2 * len(VARIANTS)
    assert found.best is not None
    assert found.best.state == "timed"
    nothing = find(store, Synthetic(SQUARE, broken=1), resume=False)
    assert nothing.best is None
    assert nothing.ended == "done"


def test_an_interrupt_keeps_what_was_measured_and_the_next_search_goes_on(store: Store) -> None:
    found = find(store, Synthetic(SQUARE, interrupt_after=30))
    assert found.ended == "interrupted"
    assert found.best is not None
    kept = len(store.trials())
    assert 26 <= kept <= 30  # a group that was interrupted is lost
    assert found.measured == kept
    SyntheticMeasurer.asked.clear()
    again = find(store)
    assert again.ended == "done"
    assert again.measured == len(VARIANTS) - kept
    assert again.best is not None
    first_pass = [v for v, measure_s in SyntheticMeasurer.asked if measure_s < 0.1]
    assert len(first_pass) == len(VARIANTS) - kept
    assert find(store).measured == 0
    assert find(store, resume=False).measured == len(VARIANTS)


def test_what_an_earlier_search_measured_comes_first_by_date(store: Store) -> None:
    earlier = [
        trial(SQUARE, v, date=f"2026-11-30T10:00:{59 - n:02}+00:00")
        for n, v in enumerate(VARIANTS[-20:])
    ]
    store.add(earlier)
    found = [t.variant for t in find(store).trials]
    assert found[:20] == [t.variant for t in reversed(earlier)]
    assert found[20] == VARIANTS[0]


def test_another_driver_starts_anew(store: Store) -> None:
    find(store)
    assert find(store, Synthetic(SQUARE, driver="999.9")).measured == len(VARIANTS)
    assert len(store.trials()) == 2 * len(VARIANTS)


def test_the_budget_ends_the_search(store: Store) -> None:
    now = iter(range(10**6))
    found = find(store, budget_s=20, clock=lambda: float(next(now)))
    assert found.ended == "budget"
    assert 0 < found.measured < len(VARIANTS)
    assert found.best is not None
    assert find(store, budget_s=0).measured == 0


def test_a_lost_gpu_ends_the_search_with_an_error_and_what_was_measured(store: Store) -> None:
    with pytest.raises(DeviceError, match="fell off the bus"):
        find(store, Synthetic(SQUARE, lost_after=10))
    assert 8 <= len(store.trials()) <= 10


def test_a_busy_gpu_shows_as_spread(store: Store) -> None:
    assert find(store, Synthetic(SQUARE, spread=0.4)).noisy == 1
    assert find(store, resume=False).noisy == 0


def test_progress_is_told(store: Store) -> None:
    told = []
    find(store, watch=lambda trial, done, total: told.append((trial.variant, done, total)))
    assert len(told) >= len(VARIANTS)
    assert told[-1][1:] == (len(VARIANTS), len(VARIANTS))


def refusing(operation: object, variant: object, arch: str) -> str | None:
    assert arch == "sm_90"
    return "too many registers" if variant in VARIANTS[::2] else None


def test_kernels_are_compiled_ahead_and_what_does_not_compile_is_never_measured(
    store: Store,
) -> None:
    with ThreadPoolExecutor(2) as pool:
        workers = Workers(compiling=pool, compile=refusing)
        found = find(store, workers=workers)
    refused = [t for t in found.trials if t.message == "too many registers"]
    assert [t.state for t in refused] == ["failed"] * len(VARIANTS[::2])
    assert not {v for v, _ in SyntheticMeasurer.asked} & {t.variant for t in refused}
    assert found.best is not None


def test_a_real_kernel_compiles_in_a_process_of_a_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(compile_ahead, SQUARE, VARIANTS[0], "sm_90").result() is None
    assert any(tmp_path.rglob("*"))


def test_a_fleet_of_threads_measures_at_once(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = find(store, workers=Workers(measuring=pool, lanes=4))
    assert found.measured == len(VARIANTS)
    assert found.best is not None
    assert found.best.variant == min(VARIANTS, key=lambda v: seconds(SQUARE, v))
    SyntheticMeasurer.opened = 0  # those of the pool's threads ended with them


def test_a_fleet_of_processes_measures_at_once(store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        found = find(store, strategy=model, workers=Workers(measuring=pool, lanes=2))
    assert found.measured == MOST_MEASURED
    assert found.best is not None


def test_a_dask_cluster_measures(store: Store) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        workers = Workers(measuring=client.get_executor(), lanes=2)
        found = find(store, strategy=model, workers=workers)
    assert found.measured == MOST_MEASURED
    assert found.best is not None
    assert {t.machine for t in store.trials()} == {MACHINE}
    assert find(store, strategy=model).best == found.best  # all of it is resumed


def test_an_interrupt_closes_a_measurer_that_a_later_search_opens_again(store: Store) -> None:
    find(store, Synthetic(SQUARE, interrupt_after=0))
    assert SyntheticMeasurer.opened == 0
    assert math.isfinite(find(store).best.median_s)
