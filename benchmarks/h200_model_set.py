"""Measure the 40 tiles of model_set.py on this machine's GPU, at 4096³, beside cuBLAS.

    python benchmarks/h200_model_set.py --out benchmarks/results --commit "$(git rev-parse HEAD)"

Each is compiled for the card, verified (sampled regions against float64, every element against
cuBLAS), then timed in rounds with cuBLAS, L2 cold. The records go to one JSON file, rewritten after
each. On an H200 it takes under two minutes. Exit code 1 where a kernel is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from model_set import model_set

from tilewright.bench.device_ladder import DeviceLadder
from tilewright.bench.environment import describe_environment
from tilewright.bench.timing import Budget
from tilewright.device import require_device
from tilewright.errors import TilewrightError
from tilewright.kernels import rung
from tilewright.problem import Problem
from tilewright.records import LadderRecord, write_records

PROBLEM = Problem(m=4096, n=4096, k=4096, alpha=0.5, beta=0.5)
BUDGET = Budget(warmup_s=0.05, measure_s=0.15, max_rounds=20)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        return measure(options.out, options.commit)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def measure(out: Path, commit: str | None) -> int:
    """Measure every tile; return the exit code."""
    device = require_device()
    environment = describe_environment(device, commit=commit)
    path = out / f"model_set_{device.name.lower().replace(' ', '_')}.json"
    records: list[LadderRecord] = []
    with DeviceLadder(PROBLEM, budget=BUDGET, environment=environment.key) as ladder:
        for name, tile in model_set():
            record = ladder.measure(rung(name), tile).record
            records.append(record)
            write_records(path, environment, records)
            rate = f"{record.measured_gflops or 0:8.0f} GFLOP/s"
            print(f"{name:16s} {rate}  {tile}", flush=True)
    print(path)
    return 0 if all(record.verified for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
