"""How good the time model is: benchmarks/results/model_errors.json, held to what is promised.

The summary is computed again from the cases by other code, and some predictions are made again.
"""

import itertools
import json
import math
from dataclasses import asdict
from pathlib import Path

import model_errors
import pytest
from counter_cases.record import Record

from tilewright.bench.environment import describe_environment
from tilewright.kernels import rung

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RECORD = json.loads((RESULTS / "model_errors.json").read_text(encoding="utf-8"))
GROUPS = {
    "H200, rungs at five sizes": lambda case: case["group"] == "rungs",
    "H200, 40 other tiles": lambda case: case["group"] == "tiles",
    "H200, all": lambda case: case["gpu"] == "H200",
    "RTX A6000, held out, 4096": lambda case: case["gpu"] == "RTX A6000" and case["size"] == 4096,
    "RTX A6000, held out, both sizes": lambda case: case["gpu"] == "RTX A6000",
}


def seconds(gflops: float, size: int) -> float:
    return 2 * size**3 / gflops / 1e9


def test_the_errors_are_as_small_as_promised() -> None:
    found = RECORD["summary"]
    assert found["H200, all"]["mean_absolute_error"] <= 0.10
    assert found["H200, all"]["kendall_tau"] >= 0.9
    assert found["RTX A6000, held out, both sizes"]["mean_absolute_error"] <= 0.14


@pytest.mark.parametrize("name", GROUPS)
def test_the_summary_is_that_of_the_cases(name: str) -> None:
    group = [each for each in RECORD["cases"] if GROUPS[name](each["case"])]
    errors = []
    for each in group:
        size = each["case"]["size"]
        ours = seconds(each["predicted_gflops"], size)
        measured = seconds(each["case"]["measured_gflops"], size)
        assert each["error"] == pytest.approx((ours - measured) / measured)
        errors.append(abs(ours - measured) / measured)
    signs = [
        math.copysign(1, a["predicted_gflops"] - b["predicted_gflops"]) * math.copysign(1, delta)
        for a, b in itertools.combinations(group, 2)
        if (delta := a["case"]["measured_gflops"] - b["case"]["measured_gflops"])
    ]
    assert RECORD["summary"][name] == {
        "kernels": len(group),
        "mean_absolute_error": pytest.approx(sum(errors) / len(errors)),
        "largest_error": pytest.approx(max(errors)),
        "kendall_tau": pytest.approx(sum(signs) / len(signs)),
    }
    assert set(RECORD["summary"]) == set(GROUPS)


def test_every_kernel_that_was_measured_is_judged() -> None:
    assert [each["case"] for each in RECORD["cases"]] == [asdict(c) for c in model_errors.cases()]
    measured = sum(
        len(json.loads((RESULTS / f"{name}_nvidia_h200.json").read_text())["records"])
        for name in ("ladder", "model_set")
    )
    assert measured == RECORD["summary"]["H200, all"]["kernels"] >= 80


def test_the_first_stalls_are_the_profilers() -> None:
    """At 4096 of all but 07, whose first two are within 0.02 of a warp, read and modelled."""
    first = RECORD["first_stalls"]
    places = {
        name: [*stalls["modelled_stalls"], stalls["measured"]].index(stalls["measured"])
        for name, stalls in first.items()
    }
    right = [name[:2] for name, place in places.items() if place == 0]
    assert right == ["01", "02", "03", "04", "05", "06", "08"]
    assert max(places.values()) <= 1
    for kind in ("measured", "modelled"):
        largest, second, *_ = first["07_autotuned"][f"{kind}_stalls"].values()
        assert largest - second < 0.02
    for stalls in first.values():
        assert next(iter(stalls["modelled_stalls"])) == stalls["modelled"]
        values = list(stalls["measured_stalls"].values())
        assert values == sorted(values, reverse=True)
        assert next(iter(stalls["measured_stalls"])) == stalls["measured"]


def test_the_first_stalls_at_all_other_sizes_that_the_profiler_read() -> None:
    """02_coalesced's at 1000 is first by 0.006 of a warp."""
    others = RECORD["other_first_stalls"]
    read = {f"{name}/{size}" for name, size in model_errors.measured_stalls() if size != 4096}
    assert others.keys() == read
    wrong = {name for name, each in others.items() if each["measured"] != each["modelled"]}
    assert wrong == set()


@pytest.mark.parametrize(
    ("size", "cycles_off", "time_off", "barrier_off"),
    [(256, 0.22, 0.15, 0.03), (512, 0.15, 0.1, 0.03), (1000, 0.15, 0.1, 0.11)],
)
def test_blocks_that_share_tiles_take_as_long_as_the_profiler_read(
    size: int, cycles_off: float, time_off: float, barrier_off: float
) -> None:
    """The SM that is active longest adds the parts of a tile; others have nothing to add.

    At 256 the model is 21 % of the cycles and 14 % of the time too fast: nearly all of it is a lone
    SM's start and its adding.
    At 1000 `barrier` is 0.20 of 0.19 with the NVRTC of the record, 0.29 with 13.5.
    """
    name = "10_persistent"
    recorded = Record.read(RESULTS / "counters_nvidia_h200.json").recorded()
    read = next(each.metrics for each in recorded if each.name == f"{name}/{size}")
    tile = rung(name).tile_for("H200").to_json()
    found = model_errors.predict(
        model_errors.Case(
            group="", gpu="H200", rung=name, tile=tile, size=size, measured_gflops=1.0
        )
    )
    assert found.cycles == pytest.approx(read["sm__cycles_active.max"], rel=cycles_off)
    assert found.seconds == pytest.approx(read["gpu__time_duration.max"] * 1e-9, rel=time_off)
    for stall in ("barrier", "lg_throttle", "long_scoreboard", "membar"):
        ratio = read[f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio"]
        off = barrier_off if stall == "barrier" else 0.03
        assert found.stalls[stall] == pytest.approx(ratio, rel=0.25, abs=off), stall


AGAIN = [
    ("H200", "02_coalesced", 1024),
    ("H200", "07_autotuned", 1024),
    ("H200", "10_persistent", 1024),
    ("RTX A6000", "06_vectorized", 4096),
]


@pytest.mark.parametrize(("gpu", "name", "size"), AGAIN)
def test_a_prediction_is_what_the_model_says_now(gpu: str, name: str, size: int) -> None:
    """Another NVRTC allocates other registers, and schedules otherwise."""
    kept = next(
        each
        for each in RECORD["cases"]
        if (each["case"]["gpu"], each["case"]["rung"], each["case"]["size"]) == (gpu, name, size)
    )
    found = model_errors.judge(model_errors.Case(**kept["case"]))
    same = describe_environment(None).nvrtc == RECORD["environment"]["nvrtc"]
    assert found.predicted_gflops == pytest.approx(
        kept["predicted_gflops"], rel=0.01 if same else 0.2
    )
    if same:
        assert found.stalls == pytest.approx(kept["stalls"], rel=0.02, abs=0.01)


def test_the_rank_correlation_of_known_orders() -> None:
    def judged(measured: float, predicted: float) -> model_errors.Judged:
        case = model_errors.Case(
            group="", gpu="", rung="", tile={}, size=1, measured_gflops=measured
        )
        return model_errors.Judged(case=case, predicted_gflops=predicted, error=-0.5, stalls={})

    tau = model_errors.kendall_tau
    assert tau([judged(1, 10), judged(2, 20), judged(3, 30)]) == 1
    assert tau([judged(1, 30), judged(2, 20), judged(3, 10)]) == -1
    assert tau([judged(1, 10), judged(2, 30), judged(3, 20)]) == pytest.approx(1 / 3)
    assert tau([judged(1, 10), judged(1, 20), judged(2, 30)]) == 1
    assert model_errors.mean_error([judged(1, 1), judged(1, 1)]) == 0.5
