"""A curve on a real GPU: the driver counts the blocks that it was forced to, and all are right."""

import pytest

from tilewright.bench.timing import Budget
from tilewright.device import DeviceInfo, probe
from tilewright.gpus import Gpu, by_device_name
from tilewright.kernels import HISTORY, rung
from tilewright.problem import Problem
from tilewright.study.device import measured
from tilewright.study.occupancy import occupancy_curve

pytestmark = pytest.mark.gpu

QUICK = Budget(warmup_s=0.02, measure_s=0.1)


def card() -> Gpu:
    info = probe()
    assert isinstance(info, DeviceInfo), info
    known = by_device_name(info.name)
    if known is None:
        pytest.skip(f"{info.name} is not in the table of GPUs")
    return known


@pytest.mark.parametrize("name", ["04_register_1d", "08_warptiled", "09_pipelined", *HISTORY])
def test_the_driver_holds_as_many_blocks_as_the_curve_says(name: str) -> None:
    curve = occupancy_curve(rung(name), Problem(m=4096, n=4096, k=128), card())
    done = measured(curve, budget=QUICK)
    for point in done.ran:
        assert point.measured is not None
        if point.limiter != "grid":
            assert point.measured.blocks == point.blocks
        assert point.measured.gflops > 0
        assert point.measured.timing.runs >= 3


def test_blocks_that_stay_fill_the_sms_that_they_are_launched_for() -> None:
    curve = occupancy_curve(rung("10"), Problem(m=4096, n=4096, k=128), card())
    done = measured(curve, budget=QUICK)
    assert [point.measured is not None for point in done.points] == [p.runs for p in curve.points]


def test_few_warps_are_slower_than_those_of_the_rung() -> None:
    # Two warps an SM, of the eighteen blocks that fit: at most one of four schedulers' worth each.
    curve = occupancy_curve(rung("volkov_2008"), Problem(m=4096, n=4096, k=1024), card())
    done = measured(curve, budget=QUICK)
    rates = [point.measured_gflops or 0.0 for point in done.ran]
    assert rates[0] < 0.25 * max(rates)
