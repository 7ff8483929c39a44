"""A measured curve, on a stand-in for the ladder on a GPU: what is launched, and what is kept."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from study.curves import made, measured_point
from tilewright.bench.timing import Budget
from tilewright.errors import DeviceError
from tilewright.kernels import RUNGS, Rung, Tile
from tilewright.launch import Launch
from tilewright.study.curve import Curve
from tilewright.study.device import measured


class StandIn:
    """A ladder that keeps what it is asked; `wrong` names the launch whose result is not right."""

    def __init__(self, wrong: int | None = None) -> None:
        self.launches: list[tuple[Tile, Launch]] = []
        self.budget: Budget | None = None
        self._wrong = wrong

    def load(self, one: Rung, tile: Tile) -> Any:
        return SimpleNamespace(blocks_per_sm=lambda launch: 7)

    def queues(self, one: Rung, tile: Tile, kernel: Any, launch: Launch) -> list[int]:
        self.launches.append((tile, launch))
        return [len(self.launches)]

    def verify(self, queue: int) -> Any:
        message = "wrong: C[0, 0] is 1"
        return SimpleNamespace(ok=queue != self._wrong, message=lambda tile: message)

    def time_together(self, queues: dict[str, list[int]], budget: Budget) -> dict[str, Any]:
        self.budget = budget
        return {name: measured_point(0.0).timing for name in queues}


def test_each_point_is_launched_as_it_was_modelled() -> None:
    stand_in, curve = StandIn(), made(50, 100, 80, own=2)
    done = measured(curve, ladder=stand_in)  # type: ignore[arg-type]
    tiles = [tile for tile, _ in stand_in.launches]
    assert [tile.min_blocks for tile in tiles] == [0, 0, 3]
    assert [launch.shared_bytes for _, launch in stand_in.launches] == [50000, 0, 0]
    assert {launch.grid for _, launch in stand_in.launches} == {(8, 8, 1)}
    # 2 · 1024³ operations in the second that the stand-in says.
    assert [point.measured_gflops for point in done.ran] == [pytest.approx(2.147483648)] * 3
    assert [point.measured.blocks for point in done.ran] == [7, 7, 7]
    assert done.provenance["measured_gflops"] == "measured"
    assert done.is_measured
    assert not curve.is_measured
    assert Curve.from_json(done.to_json()) == done
    assert stand_in.budget.measure_s == pytest.approx(0.75)


def of_rung(curve: Curve, name: str) -> Curve:
    return replace(curve, rung=name, tile=RUNGS[name].default.to_json())


def test_dynamic_shared_memory_keeps_its_own() -> None:
    # 09 has its tiles in dynamic shared memory, 4 x 8 x 392 floats: what is added comes on top.
    stand_in = StandIn()
    measured(of_rung(made(50, 100, own=2), "09_pipelined"), ladder=stand_in)  # type: ignore[arg-type]
    assert [launch.shared_bytes for _, launch in stand_in.launches] == [100176, 50176]


def test_blocks_that_stay_are_as_many_as_fit() -> None:
    stand_in = StandIn()
    measured(of_rung(made(50, 100, 80), "10_persistent"), ladder=stand_in)  # type: ignore[arg-type]
    assert [launch.grid for _, launch in stand_in.launches] == [
        (132, 1, 1),
        (264, 1, 1),
        (396, 1, 1),
    ]


def test_a_wrong_result_is_an_error_and_nothing_is_timed() -> None:
    stand_in = StandIn(wrong=2)
    with pytest.raises(DeviceError, match="05_register_2d with 2 blocks an SM is wrong") as raised:
        measured(made(50, 100, own=2), ladder=stand_in)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
    assert stand_in.budget is None
