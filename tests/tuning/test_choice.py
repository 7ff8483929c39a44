"""The choice: quick, legal, the same each time; the store goes before the model."""

import statistics
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.suites import suites
from tilewright.errors import UnsupportedError
from tilewright.gpus import gpu
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.registry import gemm_kernel, variants
from tilewright.tuning import choice
from tilewright.tuning.choice import choose, forget, why
from tilewright.tuning.predict import predict
from tilewright.tuning.space import legal, space, table
from tilewright.tuning.store import Store, StoreWarning, export_trials
from tuning.synthetic import H200, SQUARE, trial

OPERATIONS = [case.operation for suite in suites().values() for case in suite.cases]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tuned.db"
    monkeypatch.setenv("TILEWRIGHT_STORE", str(path))
    shipped = tmp_path / "shipped.json"
    export_trials(shipped, [])
    monkeypatch.setattr(choice, "SHIPPED", shipped)
    forget()
    yield path
    forget()


@pytest.mark.parametrize("name", ["GTX 280", "8800 GTX", "V100"])
@pytest.mark.parametrize("batch_invariant", [False, True])
def test_nothing_is_chosen_for_a_gpu_that_nothing_is_compiled_for(
    name: str, batch_invariant: bool
) -> None:
    with pytest.raises(UnsupportedError, match="compiles for sm_75 and later"):
        choose(SQUARE, gpu(name), batch_invariant=batch_invariant)


@pytest.mark.parametrize("name", ["H200", "RTX A6000", "A100 80GB"])
def test_every_choice_is_legal_and_predicted_no_slower_than_all_of_the_space(name: str) -> None:
    card = gpu(name)
    for operation in OPERATIONS[::5]:
        chosen = choose(operation, card)
        assert chosen.source == "model"
        assert legal(operation, chosen.variant)
        assert gemm_kernel(chosen.variant.kernel).accurate(operation, chosen.variant, card)
        (seconds,) = predict(operation, [chosen.variant], card)
        # A table's last block of tiny products is as full as the others.
        assert seconds == pytest.approx(chosen.seconds, rel=0.01)
        # Tables hold the tiles of products like this one, which may be a few more than its own.
        assert seconds <= 1.05 * predict(operation, space(operation, card)[:1], card)[0]


def test_the_choice_does_not_depend_on_what_was_asked_before() -> None:
    first = {o: choose(o, H200).variant for o in OPERATIONS[:40]}
    forget()
    from tilewright.tuning import space as module

    module._TABLES.clear()
    assert {o: choose(o, H200).variant for o in reversed(OPERATIONS[:40])} == first


@pytest.mark.parametrize("m", [None, 16])
def test_an_unseen_shape_is_chosen_for_in_tens_of_microseconds(m: int | None) -> None:
    rng = np.random.default_rng(0)
    unseen = [
        Operation.plain(m or int(a) * 4, int(b) * 4, int(c) * 4)
        for a, b, c in rng.integers(513, 2000, (200, 3))
    ]
    choose(unseen[0], H200)  # makes the table of its kind
    times = []
    for operation in unseen[1:]:
        began = time.perf_counter()
        choose(operation, H200)
        times.append(time.perf_counter() - began)
    # 49 us in the median on a core of 2.5 GHz; here other tests may share the core.
    assert statistics.quantiles(times, n=10)[0] < 70e-6
    again = []
    for operation in unseen:
        began = time.perf_counter()
        choose(operation, H200)
        again.append(time.perf_counter() - began)
    assert statistics.median(again) < 5e-6


def test_tuned_beats_shipped_beats_the_model(store: Path) -> None:
    third, second = space(SQUARE, H200)[5], space(SQUARE, H200)[7]
    export_trials(choice.SHIPPED, [trial(SQUARE, second, 3e-5)])
    forget()
    found = choose(SQUARE, H200)
    assert (found.variant, found.source, found.seconds) == (second, "shipped", 3e-5)
    with Store(store) as kept:
        kept.add([trial(SQUARE, third, 4e-5), trial(SQUARE, second, None)])
    assert choose(SQUARE, H200).source == "shipped"  # remembered until told to forget
    forget()
    found = choose(SQUARE, H200)
    assert (found.variant, found.source) == (third, "tuned")
    assert "40 µs on 2026-11-30 with driver 580.1 and NVRTC 13.0" in found.reason
    assert choose(SQUARE, gpu("A100 80GB")).source == "model"
    assert choose(replace(SQUARE, k=1028), H200).source == "model"
    other = replace(SQUARE, k=1032)
    export_trials(choice.SHIPPED, [trial(other, second, 3e-5)])
    forget()
    assert choose(other, H200).source == "shipped"
    assert choose(SQUARE, H200).source == "tuned"


def test_a_tuned_variant_that_is_legal_no_more_is_not_chosen(store: Path) -> None:
    bad = replace(space(SQUARE, H200)[0], splits=63)
    assert not legal(replace(SQUARE, k=64), bad)
    with Store(store) as kept:
        kept.add([trial(replace(SQUARE, k=64), bad, 1e-6)])
    assert choose(replace(SQUARE, k=64), H200).source == "model"


def test_a_corrupt_store_is_said_once_and_the_model_chooses(store: Path) -> None:
    store.write_bytes(b"garbage" * 1000)
    with pytest.warns(StoreWarning, match="corrupt.*choosing without it"):
        assert choose(SQUARE, H200).source == "model"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(replace(SQUARE, m=2048), H200)
    assert store.read_bytes() == b"garbage" * 1000


def test_choosing_makes_no_store(store: Path) -> None:
    choose(SQUARE, H200)
    assert not store.exists()


def test_why_says_what_was_chosen_and_what_bounds_it() -> None:
    first, second, *rest = why(SQUARE, H200)
    variant = choose(SQUARE, H200).variant
    assert first == f"{SQUARE.key} on H200: {variant}"
    assert second.startswith("model: predicted ")
    assert rest[0].startswith("this: predicted ")
    assert str(variant) in rest[0]
    assert all(line.startswith("next: ") for line in rest[1:])
    assert len(rest) == 4


def test_odd_products_have_a_choice() -> None:
    odd = [
        Operation.plain(1, 1, 1),
        Operation.plain(1, 1, 0),
        Operation.plain(100_000, 1, 3),
        Operation.plain(3, 5, 7, batch=70_000, layout="tt"),
        replace(SQUARE, a=Strides(row=3000, col=3, vector=False), b=Strides(row=0, col=0)),
        Operation.plain(16, 16, 16, batch=10, beta=True),
    ]
    for operation in odd:
        assert legal(operation, choose(operation, H200).variant), operation.key


def test_sides_just_above_128_have_tiles_that_fit_them() -> None:
    # The fastest that searches recorded: 61.7 µs for the first, 22.3 for the second.
    wide = Operation.plain(224, 1456, 3632, layout="nt")
    assert choose(wide, H200).variant.tile.bm == 112
    values = space(Operation.plain(197, 64, 197, batch=128), H200)
    assert any((v.tile.bm, v.tile.bn) == (112, 64) for v in values)


def test_a_table_stands_for_many_sizes_and_has_112_where_it_suits() -> None:
    tables = set()
    for m in range(129, 257):
        o = Operation.plain(m, 4096, 4096)
        found = table(o, H200)
        tables.add(id(found))
        sides = ({v.tile.bm for v in ways} for ways in (found.variants, variants(o, H200)))
        assert len({112 in each for each in sides}) == 1, m
    assert len(tables) == 4  # for 112 or not, of whole vectors or not


def test_no_kernel_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "legal", lambda operation, variant: False)
    with pytest.raises(UnsupportedError, match="no kernel can compute it on H200"):
        choose(Operation.plain(777, 776, 775), H200)
