"""Measure every rung of the ladder beside cuBLAS on this machine's GPU, and record it.

    python benchmarks/h200_ladder.py --out benchmarks/results

Each rung is compiled for the card, verified (sampled regions against float64, every element against
cuBLAS), then timed in rounds with cuBLAS, L2 cold. The records go to one JSON file, rewritten after
each size, and a table is printed last. On an H200 it takes about two minutes. Exit code 1 where a
rung is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.bench.device_ladder import measure_ladder
from tilewright.bench.environment import describe_environment
from tilewright.bench.timing import Budget
from tilewright.device import require_device
from tilewright.errors import TilewrightError
from tilewright.kernels import RUNGS, rung
from tilewright.problem import Problem
from tilewright.records import LadderRecord, write_records

# The sizes of the README's table, those that decide first.
SIZES = (4096, 4092, 1024, 2048, 8192)
# As the public measurements do, C is read and blended; with beta below 1 it stays finite however
# often a launch is repeated.
ALPHA, BETA = 0.5, 0.5
BUDGET = Budget(warmup_s=0.1, measure_s=0.4)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="m = n = k")
    parser.add_argument("--rungs", nargs="+", default=list(RUNGS), help="names of rungs")
    parser.add_argument("--seconds", type=float, default=220, help="start nothing after this long")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        return measure(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def measure(options: argparse.Namespace) -> int:
    """Measure what the options ask for; return the exit code."""
    deadline = time.monotonic() + options.seconds
    device = require_device()
    environment = describe_environment(device, commit=options.commit)
    rungs = [rung(name) for name in options.rungs]
    path = options.out / f"ladder_{device.name.lower().replace(' ', '_')}.json"
    records: list[LadderRecord] = []
    wrong = 0
    for size in options.sizes:
        problem = Problem(m=size, n=size, k=size, alpha=ALPHA, beta=BETA)
        for found in measure_ladder(problem, rungs, budget=BUDGET, environment=environment.key):
            records.append(found.record)
            wrong += not found.record.verified
            report(found.record, found.verification.message((found.tile.bm, found.tile.bn)))
            if time.monotonic() > deadline:
                break
        write_records(path, environment, records)
        if time.monotonic() > deadline:
            print(f"stopped after {options.seconds:g} s, within {size}", file=sys.stderr)
            break
    print(f"{device.name}, driver {environment.driver}, NVRTC {environment.nvrtc}: {path}")
    print_table(records, sorted(options.sizes))
    return 1 if wrong else 0


def report(record: LadderRecord, message: str) -> None:
    """Say on stderr how one rung went."""
    figures = "not timed"
    if record.timing is not None and record.measured_gflops is not None:
        figures = (
            f"{record.measured_gflops:.0f} GFLOP/s, spread {record.timing.spread:.1%}, "
            f"{record.timing.runs} runs"
        )
    print(f"{record.rung} {record.problem.m}: {figures}; {message}", file=sys.stderr, flush=True)


def print_table(records: Sequence[LadderRecord], sizes: Sequence[int]) -> None:
    """Print GFLOP/s by rung and size, and in percent of cuBLAS in the same rounds."""
    print("GFLOP/s (% of cuBLAS)".ljust(22) + "".join(f"{size:>16}" for size in sizes))
    by_place = {(record.rung, record.problem.m): record for record in records}
    for name in dict.fromkeys(record.rung for record in records):
        cells = [cell(by_place.get((name, size))) for size in sizes]
        print(name.ljust(22) + "".join(f"{text:>16}" for text in cells))
    baselines = []
    for size in sizes:
        rates = [r.baseline_gflops for r in records if r.problem.m == size and r.baseline_gflops]
        baselines.append(f"{np.median(rates):.0f}" if rates else "-")
    print("cuBLAS".ljust(22) + "".join(f"{text:>16}" for text in baselines))


def cell(record: LadderRecord | None) -> str:
    """Return one cell of the table."""
    if record is None:
        return "-"
    if record.measured_gflops is None or record.baseline_gflops is None:
        return "wrong"
    share = record.measured_gflops / record.baseline_gflops
    return f"{record.measured_gflops:.0f} ({share:.1%})"


if __name__ == "__main__":
    sys.exit(main())
