"""The measurer of a real GPU, with the GPU taken away: what it makes of what happens there."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from tilewright.bench.contenders import Way
from tilewright.errors import CompileError, DeviceError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.records import Timing
from tilewright.tuning import measure
from tilewright.tuning.measure import DeviceMeasurer
from tilewright.tuning.space import space
from tuning.synthetic import H200, MACHINE, SQUARE

GOOD, OTHER, WRONG, REFUSED, LOSING = space(SQUARE, H200)[:5]


class Card:
    """What is left of a GPU: which variants do what, and whether the context still lives."""

    def __init__(self) -> None:
        self.lost = False
        self.live = 0
        self.ran: Variant | None = None
        self.timed: list[str] = []
        self.info = SimpleNamespace()

    def enter(self) -> None: ...

    def synchronize(self) -> None:
        if self.lost:
            raise DeviceError("the CUDA context of this process is lost")


class Memory:
    def __init__(self, card: Card) -> None:
        self.card = card

    def __enter__(self) -> "Memory":
        self.card.live += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.card.live -= 1
        if self.card.lost and error[1] is None:
            raise DeviceError("cuMemFree: the context is lost")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    card = Card()

    class Ours:
        def __init__(self, choose) -> None:
            (self.variant,) = choose(SQUARE)

        def ways(self, operation, arena) -> Sequence[Way]:
            if self.variant == REFUSED:
                raise CompileError("too many registers")
            return [Way(name=str(self.variant), bind=lambda p: self.run, variant=self.variant)]

        def run(self) -> None:
            card.ran = self.variant
            if self.variant == LOSING:
                card.lost = True
                raise DeviceError("CUDA_ERROR_ILLEGAL_ADDRESS")

    class Operands:
        def __init__(self, operation) -> None: ...

        def judge(self, d) -> SimpleNamespace:
            return SimpleNamespace(ok=card.ran != WRONG, message=lambda: "wrong: 3 of 9 elements")

    class Bench:
        def __init__(self, arena, sets) -> None: ...

        def time(self, ways, budget) -> dict[str, Timing]:
            card.timed += ways
            one = Timing(median_s=2e-5, p25_s=1.9e-5, p75_s=2.1e-5, runs=9, sets=3)
            return dict.fromkeys(ways, one)

    sets = SimpleNamespace(poison=lambda: None, pointers=[None], result=lambda: None)
    monkeypatch.setattr(measure, "Ours", Ours)
    monkeypatch.setattr(measure, "Operands", Operands)
    monkeypatch.setattr(measure, "OperationBench", Bench)
    monkeypatch.setattr(measure, "Arena", Memory)
    monkeypatch.setattr(measure, "DeviceSets", lambda arena, operands: sets)
    monkeypatch.setattr(measure, "open_session", lambda ordinal: card)
    monkeypatch.setattr(measure, "this_gpu", lambda ordinal: MACHINE)
    environment = SimpleNamespace(commit="abc")
    monkeypatch.setattr(measure, "describe_environment", lambda info: environment)
    return card


def test_what_is_right_is_timed_and_nothing_else(card: Card) -> None:
    measurer = DeviceMeasurer(SQUARE)
    trials = {t.variant: t for t in measurer.measure([WRONG, GOOD, REFUSED, OTHER], 0.02)}
    assert {v: t.state for v, t in trials.items()} == {
        GOOD: "timed", OTHER: "timed", WRONG: "wrong", REFUSED: "failed"
    }  # fmt: skip
    assert card.timed == [str(GOOD), str(OTHER)]
    assert trials[GOOD].median_s == 2e-5
    assert trials[GOOD].spread == pytest.approx(0.1)
    assert (trials[GOOD].measure_s, trials[GOOD].commit) == (0.02, "abc")
    assert trials[GOOD].machine == MACHINE
    assert trials[WRONG].message == "wrong: 3 of 9 elements"
    assert trials[REFUSED].message == "too many registers"
    measurer.close()
    assert card.live == 0


def test_a_variant_that_loses_the_gpu_is_blamed_alone_and_the_next_call_says_so(
    card: Card,
) -> None:
    measurer = DeviceMeasurer(SQUARE)
    (only,) = measurer.measure([GOOD, LOSING, OTHER], 0.02)
    assert (only.variant, only.state) == (LOSING, "failed")
    assert card.timed == []
    with pytest.raises(DeviceError, match="context of this process is lost"):
        measurer.measure([GOOD], 0.02)


def test_operands_that_do_not_fit_give_back_what_was_taken(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(arena: object, operands: object) -> None:
        raise DeviceError("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(measure, "DeviceSets", full)
    with pytest.raises(DeviceError, match="OUT_OF_MEMORY"):
        DeviceMeasurer(SQUARE)
    assert card.live == 0
