"""Measurers without a GPU: times by a formula, failures by choice. Values, so they can be sent."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tilewright.errors import DeviceError
from tilewright.gpus import gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.predict import predict
from tilewright.tuning.trial import Machine, Trial

H200 = gpu("H200")
MACHINE = Machine(gpu="H200", driver="580.1", toolkit="NVRTC 13.0")
SQUARE = Operation.plain(1024, 1024, 1024)


def unit(variant: Variant, salt: str = "") -> float:
    """A number in [0, 1) that belongs to a variant."""
    return zlib.crc32(f"{variant}{salt}".encode()) / 2**32


def seconds(operation: Operation, variant: Variant) -> float:
    """The model's time, wrong by up to 30 % for the tile and 10 % for the variant."""
    predicted = predict(operation, [variant], H200)[0]
    return predicted * (1 + 0.3 * unit(variant, str(variant.tile)) + 0.1 * unit(variant))


def trial(operation: Operation, variant: Variant, median_s: float | None = 1e-3, **more) -> Trial:
    values = {
        "machine": MACHINE,
        "state": "timed" if median_s else "failed",
        "median_s": median_s,
        "spread": 0.01 if median_s else None,
        "measure_s": 0.1 if median_s else 0.0,
        "date": "2026-11-30T10:00:00+00:00",
        "commit": "abc",
    }
    return Trial(operation=operation.key, variant=variant, **(values | more))


@dataclass(frozen=True)
class Synthetic:
    """Opens a measurer of synthetic times; `broken` is the share of variants that do not run."""

    operation: Operation
    broken: float = 0.0
    wrong: float = 0.0
    spread: float = 0.01
    interrupt_after: int = 10**9
    lost_after: int = 10**9
    driver: str = MACHINE.driver

    def machine(self) -> Machine:
        return Machine(gpu="H200", driver=self.driver, toolkit=MACHINE.toolkit)

    def __call__(self) -> "SyntheticMeasurer":
        return SyntheticMeasurer(self)


class SyntheticMeasurer:
    opened = 0
    asked: ClassVar[list[tuple[Variant, float]]] = []

    def __init__(self, told: Synthetic) -> None:
        self.told = told
        self.count = 0
        SyntheticMeasurer.opened += 1

    def measure(self, variants: Sequence[Variant], measure_s: float) -> list[Trial]:
        self.asked += [(v, measure_s) for v in variants]
        return [self._one(v, measure_s) for v in variants]

    def _one(self, variant: Variant, measure_s: float) -> Trial:
        self.count += 1
        if self.count > self.told.interrupt_after:
            raise KeyboardInterrupt
        if self.count > self.told.lost_after:
            raise DeviceError("the GPU fell off the bus")
        share = unit(variant, "state")
        state = "timed"
        if share < self.told.broken:
            state = "failed"
        elif share < self.told.broken + self.told.wrong:
            state = "wrong"
        timed = state == "timed"
        return trial(
            self.told.operation,
            variant,
            seconds(self.told.operation, variant) if timed else None,
            machine=self.told.machine(),
            state=state,
            spread=self.told.spread if timed else None,
            measure_s=measure_s if timed else 0.0,
        )

    def close(self) -> None:
        SyntheticMeasurer.opened -= 1
