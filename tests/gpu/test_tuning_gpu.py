"""A search on a real GPU: what it times was verified, what it finds is chosen afterwards."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.operands import Operands
from tilewright.device import require_device
from tilewright.device.standin import gpu_of
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.choice import choose, forget
from tilewright.tuning.measure import DeviceMeasurer, OnDevice
from tilewright.tuning.search import search
from tilewright.tuning.space import space
from tilewright.tuning.store import Store
from tilewright.tuning.strategies import QUICK_S, model

pytestmark = pytest.mark.gpu
OPERATION = Operation.plain(300, 500, 700, layout="tn")


def test_a_search_is_chosen_from_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tuned.db"
    monkeypatch.setenv("TILEWRIGHT_STORE", str(path))
    card = gpu_of(require_device())
    with Store(path) as store:
        found = search(
            OPERATION, card, strategy=model, opener=OnDevice(operation=OPERATION), store=store
        )
    assert found.ended == "done"
    assert {t.state for t in found.trials} == {"timed"}
    assert found.best is not None
    forget()
    chosen = choose(OPERATION, card)
    assert (chosen.source, chosen.variant) == ("tuned", found.best.variant)
    forget()


def test_a_wrong_result_is_never_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Operands.judge

    def judged(self: Operands, d: np.ndarray) -> object:
        d[7] = np.nan  # as if a kernel had left an element out
        return real(self, d)

    monkeypatch.setattr(Operands, "judge", judged)
    measurer = DeviceMeasurer(OPERATION)
    variants = space(OPERATION, gpu_of(require_device()))[:2]
    trials = measurer.measure(variants, QUICK_S)
    measurer.close()
    assert [t.state for t in trials] == ["wrong", "wrong"]
    assert all(t.median_s is None for t in trials)


def test_a_variant_that_cannot_run_is_passed_over() -> None:
    card = gpu_of(require_device())
    good = space(OPERATION, card)[0]
    bad = replace(good, splits=10**6)
    measurer = DeviceMeasurer(OPERATION)
    trials = {t.variant: t.state for t in measurer.measure([bad, good], QUICK_S)}
    measurer.close()
    assert trials == {bad: "failed", good: "timed"}
