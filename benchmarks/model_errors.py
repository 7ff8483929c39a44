"""Judge the time model: every prediction beside what was measured, and its errors.

    python benchmarks/model_errors.py --out benchmarks/results

No GPU is needed. The measured times are the records of benchmarks/h200_ladder.py (the rungs at five
sizes) and h200_model_set.py (40 more tiles at 4096³), and the chapter's figures of an RTX A6000,
which the model was not calibrated with. The stalls are those that ncu read (h200_counters.py). It
takes about three minutes. Run it with the NVRTC of the records: another allocates other registers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from counter_cases.record import Record

from tilewright.bench.environment import describe_environment
from tilewright.bench.profiling import profile_rung, rung_launch
from tilewright.bench.timing_model import estimate_launch
from tilewright.errors import TilewrightError
from tilewright.gpus import gpu
from tilewright.kernels import RUNGS, Tile, rung
from tilewright.model.estimate import Estimate
from tilewright.problem import Problem
from tilewright.records import write_json

RESULTS = Path(__file__).parent / "results"
HELD_OUT = "RTX A6000"
HELD_OUT_SIZES = (4096, 4092)
# What the profiler counts of warps that do issue, or could: reasons that are no waits.
_NO_STALLS = ("selected", "not_selected")
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel to predict. Units: `measured_gflops` 10^9 operations a second."""

    group: str
    gpu: str
    rung: str
    tile: dict[str, int]
    size: int
    measured_gflops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A prediction beside its measurement. `error` is that of the time, as a share of it."""

    case: Case
    predicted_gflops: float
    error: float
    stalls: dict[str, float]


def cases() -> Iterator[Case]:
    """Yield all cases."""
    for name, group in (("ladder_nvidia_h200", "rungs"), ("model_set_nvidia_h200", "tiles")):
        for record in json.loads((RESULTS / f"{name}.json").read_text())["records"]:
            yield Case(
                group=group,
                gpu="H200",
                rung=record["rung"],
                tile=record["tile"],
                size=record["problem"]["m"],
                measured_gflops=record["measured_gflops"],
            )
    published = [each for each in RUNGS.values() if HELD_OUT in each.published_gflops]
    for each, size in itertools.product(published, HELD_OUT_SIZES):
        yield Case(
            group="held out",
            gpu=HELD_OUT,
            rung=each.name,
            tile=each.tile_for(HELD_OUT).to_json(),
            size=size,
            measured_gflops=each.published_gflops[HELD_OUT],
        )


def predict(case: Case) -> Estimate:
    """Return the modelled time of a case."""
    chosen, on = rung(case.rung), gpu(case.gpu)
    problem = Problem(m=case.size, n=case.size, k=case.size, alpha=0.5, beta=0.5)
    tile = Tile.from_json(case.tile)
    profile = profile_rung(chosen, problem, on, tile)
    artifact, _, args = rung_launch(chosen, problem, on, tile)
    return estimate_launch(artifact, profile.launch, args, profile, on)


def judge(case: Case) -> Judged:
    """Return a case's prediction and error."""
    found = predict(case)
    rate = 2 * case.size**3 / found.seconds / 1e9
    return Judged(
        case=case,
        predicted_gflops=rate,
        error=case.measured_gflops / rate - 1,
        stalls={name: each for name, each in found.stalls.items() if name not in _NO_STALLS},
    )


def mean_error(found: Sequence[Judged]) -> float:
    """Return the mean of the errors' sizes."""
    return sum(abs(each.error) for each in found) / len(found)


def kendall_tau(found: Sequence[Judged]) -> float:
    """Return how far the predictions rank as the measurements do: 1 for alike, -1 for reversed.

    Pairs that were measured alike do not count: the chapter has one figure for both sizes.
    """
    agree, pairs = 0, 0
    for one, two in itertools.combinations(found, 2):
        measured = one.case.measured_gflops - two.case.measured_gflops
        if measured:
            pairs += 1
            agree += 1 if measured * (one.predicted_gflops - two.predicted_gflops) > 0 else -1
    return agree / pairs


def measured_stalls() -> dict[tuple[str, int], dict[str, float]]:
    """Return the stalls that ncu read of the rungs, by rung and size, most first."""
    found = {}
    for each in Record.read(RESULTS / "counters_nvidia_h200.json").recorded():
        name, _, size = each.name.partition("/")
        if name in RUNGS:
            prefix, suffix = _STALL.split("{}")
            stalls = {
                metric.removeprefix(prefix).removesuffix(suffix): value
                for metric, value in each.metrics.items()
                if metric.startswith(prefix) and metric.endswith(suffix)
            }
            kept = {n: v for n, v in stalls.items() if n not in _NO_STALLS and v >= 0.01}
            found[name, int(size)] = dict(sorted(kept.items(), key=lambda item: -item[1]))
    return found


def summary(found: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Return the errors of every group."""
    rungs = [each for each in found if each.case.group == "rungs"]
    tiles = [each for each in found if each.case.group == "tiles"]
    held_out = [each for each in found if each.case.group == "held out"]
    first_size = [each for each in held_out if each.case.size == HELD_OUT_SIZES[0]]
    groups = {
        "H200, rungs at five sizes": rungs,
        "H200, 40 other tiles": tiles,
        "H200, all": [*rungs, *tiles],
        f"{HELD_OUT}, held out, {HELD_OUT_SIZES[0]}": first_size,
        f"{HELD_OUT}, held out, both sizes": held_out,
    }
    return {
        name: {
            "kernels": len(group),
            "mean_absolute_error": mean_error(group),
            "largest_error": max(abs(each.error) for each in group),
            "kendall_tau": kendall_tau(group),
        }
        for name, group in groups.items()
    }


def first_stalls(found: Sequence[Judged]) -> dict[str, dict[str, object]]:
    """Return the rungs' first stalls at 4096 on the H200, measured and modelled, where ncu read."""
    measured = measured_stalls()
    return {
        each.case.rung: _compared(measured[each.case.rung, 4096], each.stalls)
        for each in found
        if each.case.group == "rungs" and (each.case.rung, 4096) in measured
        if each.case.size == 4096
    }


def other_first_stalls() -> dict[str, dict[str, object]]:
    """Return the first stalls at the other sizes that ncu read, by rung and size."""
    result = {}
    for (name, size), measured in sorted(measured_stalls().items()):
        if size != 4096:
            tile = rung(name).tile_for("H200").to_json()
            case = Case(
                group="stalls", gpu="H200", rung=name, tile=tile, size=size, measured_gflops=1.0
            )
            result[f"{name}/{size}"] = _compared(measured, judge(case).stalls)
    return result


def _compared(measured: dict[str, float], modelled: dict[str, float]) -> dict[str, object]:
    return {
        "measured": next(iter(measured)),
        "modelled": next(iter(modelled)),
        "measured_stalls": dict(itertools.islice(measured.items(), 4)),
        "modelled_stalls": dict(itertools.islice(modelled.items(), 4)),
    }


def main() -> int:
    """Judge the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    options = parser.parse_args()
    try:
        found = []
        for case in cases():
            last = judge(case)
            found.append(last)
            print(
                f"{case.gpu:10} {case.rung:16} {case.size:5} measured {case.measured_gflops:8.0f} "
                f"modelled {last.predicted_gflops:8.0f} ({last.error:+.1%})",
                flush=True,
            )
        errors, stalls, others = summary(found), first_stalls(found), other_first_stalls()
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_json(
        options.out / "model_errors.json",
        {
            "environment": describe_environment(None).to_json(),
            "summary": errors,
            "first_stalls": stalls,
            "other_first_stalls": others,
            "cases": [asdict(each) for each in found],
        },
    )
    print(json.dumps(errors, indent=1))
    for name, first in (stalls | others).items():
        print(f"{name:16} first stall: {first['measured']} measured, {first['modelled']} modelled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
