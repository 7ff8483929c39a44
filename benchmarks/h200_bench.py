"""Make the records of `tilewright bench` on this machine's GPU: a file a suite.

    python benchmarks/h200_bench.py --out benchmarks/results --suite squares complaints

It is `tilewright bench --json` with the commit named, and with the file rewritten after each case,
so that nothing is lost where time runs out: --skip goes on from there. Exit code 1 where a result
of ours is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from tilewright.bench.baselines import BASELINES
from tilewright.bench.environment import describe_environment
from tilewright.bench.results import OURS, BenchFile, BenchRecord
from tilewright.bench.run import BUDGET, Plan, measure_suites
from tilewright.bench.suites import suite, suites
from tilewright.device import require_device
from tilewright.device.standin import gpu_of
from tilewright.errors import TilewrightError
from tilewright.records import write_json
from tilewright.tuning.choice import choose


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--suite", nargs="+", default=["squares"], choices=list(suites()))
    parser.add_argument("--layout", help="only this layout")
    parser.add_argument("--baselines", nargs="*", default=["cublas", "cublaslt", "triton"],
                        choices=list(BASELINES))  # fmt: skip
    parser.add_argument("--measure-s", type=float, default=BUDGET.measure_s)
    parser.add_argument("--skip", type=int, default=0, help="cases to leave out at the start")
    parser.add_argument("--seconds", type=float, default=540, help="start nothing after this long")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        deadline = time.monotonic() + options.seconds
        return max(measure(name, options, deadline) for name in options.suite)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def measure(name: str, options: argparse.Namespace, deadline: float) -> int:
    """Measure one suite; return the exit code."""
    device = require_device()
    card = gpu_of(device)
    environment = describe_environment(device, commit=options.commit)

    cases = suite(name).only(options.layout)[options.skip :]
    plan = Plan(
        cases=[(name, case) for case in cases],
        choose=lambda operation: (choose(operation, card).variant,),
        baselines=options.baselines,
        budget=replace(BUDGET, measure_s=options.measure_s),
    )
    part = f"_from{options.skip}" if options.skip else ""
    path = options.out / f"bench_{name}{part}_{device.name.lower().replace(' ', '_')}.json"
    absent: dict[str, str] = {}
    records: list[BenchRecord] = []
    wrong = 0
    for record in measure_suites(plan, absent):
        records.append(record)
        file = BenchFile(environment=environment, records=tuple(records), absent=absent)
        write_json(path, file.to_json())
        wrong += report(record)
        if time.monotonic() > deadline:
            done = options.skip + len(records)
            print(f"stopped; continue with --suite {name} --skip {done}", file=sys.stderr)
            break
    print(f"{path}: {len(records)} of {len(cases)} cases; absent: {absent or 'nothing'}")
    return 1 if wrong else 0


def report(record: BenchRecord) -> int:
    """Print one case in a line; return how many of our results were wrong."""
    parts = [f"{record.case:32}"]
    for run in record.runs:
        if run.timing is None:
            parts.append(f"{run.contender}: {run.reason}")
            continue
        ratio = record.ratio(other=run.contender)
        shown = f" ({ratio:.3f}x)" if ratio and run.contender != OURS else ""
        parts.append(f"{run.contender} {1e6 * run.timing.median_s:.2f}us{shown}")
    ours = record.run(OURS)
    share = max(ours.bound_ratios.values(), default=0) if ours else 0
    print("  ".join(parts), f"err {share:.1e}", ours.way if ours else "", flush=True)
    return sum(run.wrong for run in record.runs if run.contender == OURS)


if __name__ == "__main__":
    sys.exit(main())
