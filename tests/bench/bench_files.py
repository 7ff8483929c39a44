"""Files of bench records made up for tests: times by case and contender, nothing measured."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.bench.results import BenchFile, BenchRecord, BenchRun, floor
from tilewright.bench.suites import Case, suite
from tilewright.gpus import gpu
from tilewright.records import Environment, Timing

H200 = gpu("H200")
LABELS = {"tilewright": "tilewright", "cublas": "cuBLAS 13.1.0 (wheel), float32"}


def timing(median_s: float, spread: float = 0.01) -> Timing:
    half = spread / 2 * median_s
    return Timing(median_s=median_s, p25_s=median_s - half, p75_s=median_s + half, runs=99, sets=4)


def run(contender: str, median_s: float, spread: float = 0.01, **changes) -> BenchRun:
    values = {
        "contender": contender,
        "label": LABELS.get(contender, contender),
        "way": "a way",
        "tried": 1,
        "timing": timing(median_s, spread),
        "verified": True,
        "max_errors": {"normal": 2e-5, "wide": 3.0},
        "bound_ratios": {"normal": 0.02, "wide": 0.1},
    }
    return BenchRun(**{**values, **changes})


def record(case: Case, runs: list[BenchRun], suite_name: str = "squares") -> BenchRecord:
    floor_s, floor_by = floor(case.operation, H200)
    return BenchRecord(
        suite=suite_name,
        case=case.name,
        operation=case.operation,
        gpu="H200",
        floor_s=floor_s,
        floor_by=floor_by,
        runs=tuple(runs),
    )


def bench_file(*records: BenchRecord, absent: Mapping[str, str] | None = None, **env) -> BenchFile:
    values = {
        "date": "2026-11-30T10:00:00+00:00",
        "tilewright": "0.1.0",
        "python": "3.12",
        "host": "x",
    }
    return BenchFile(
        environment=Environment(**{**values, "card": "NVIDIA H200", "driver": "580.1", **env}),
        records=records,
        absent=absent or {},
    )


def whole_suite(name: str, times: Mapping[str, float], spread: float = 0.01) -> list[BenchRecord]:
    """Return a record a case of a suite; `times` are multiples of its floor, by contender."""
    return [
        record(
            case,
            [run(c, t * floor(case.operation, H200)[0], spread) for c, t in times.items()],
            name,
        )
        for case in suite(name).cases
    ]
