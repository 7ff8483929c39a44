"""Measure variants of the production kernels beside cuBLAS on this machine's GPU.

    python benchmarks/h200_gemm.py --out benchmarks/results --suite squares
    python benchmarks/h200_gemm.py --out /tmp --shapes 4096,4096,4096 64,4096,14336 --layout nt \
        --splits 1 2 4 --match "bn=256"
    python benchmarks/h200_gemm.py --out /tmp --variants-file mine.json --shapes 2048,2048,2048

Kernels are compiled in parallel, verified, then every variant is timed in the same rounds as cuBLAS
(and as the other baselines asked for), L2 cold. `--variants-file` holds a list of variants in the
form that records have: {"kernel": "tiled", "tile": {...}, "splits": 1}. Exit code 1 where a result
is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tilewright.bench.baselines import BASELINES, REFERENCE, opened_baselines
from tilewright.bench.build import build_all
from tilewright.bench.contenders import Contender, Ours
from tilewright.bench.environment import describe_environment
from tilewright.bench.gemm import Entry, run_operation
from tilewright.bench.operands import KINDS
from tilewright.bench.suites import Case, case, suite
from tilewright.bench.timing import Budget
from tilewright.device import require_device
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.device.standin import gpu_of
from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel, variants
from tilewright.records import write_json


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--name", default="gemm", help="the record's name")
    parser.add_argument("--suite", nargs="+", default=[], help="suites of `tilewright bench`")
    parser.add_argument("--shapes", nargs="+", default=[], help="m,n,k or m,n,k,batch")
    parser.add_argument("--layout", nargs="+", help="nn, nt, tn, tt; of suites: only these")
    parser.add_argument("--variants-file", type=Path, help="JSON list of variants, else all")
    parser.add_argument("--kernels", nargs="+", help="only these kernels' variants")
    parser.add_argument("--match", default="", help="only variants whose text contains this")
    parser.add_argument("--splits", type=int, nargs="+", default=[1], help="of all variants")
    parser.add_argument("--baselines", nargs="*", default=["cublas"], choices=list(BASELINES))
    parser.add_argument("--kinds", nargs="+", default=["normal"], choices=KINDS)
    parser.add_argument("--measure-s", type=float, default=0.3, help="device time an operation")
    parser.add_argument("--seconds", type=float, default=480, help="start nothing after this long")
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
    card = gpu_of(device)
    cases = wanted_cases(options)
    work = [(each, wanted_variants(options, each.operation, card)) for each in cases]
    built = compile_all(work, device.arch)
    environment = describe_environment(device, commit=options.commit)
    path = options.out / f"{options.name}_{device.name.lower().replace(' ', '_')}.json"
    records: list[dict[str, object]] = []
    wrong = 0
    session = open_session(0)
    session.enter()
    budget = Budget(warmup_s=options.measure_s / 5, measure_s=options.measure_s)
    with (
        Arena(session) as arena,
        opened_baselines(arena, options.baselines) as (libraries, absent),
    ):
        for name, reason in absent.items():
            print(f"no {name}: {reason}")
        for each, chosen in work:
            ready = [v for v in chosen if expression(each.operation, v) in built]
            ours: list[Contender] = [
                Ours(lambda _, v=variant: [v], name=str(variant)) for variant in ready
            ]
            entries = run_operation(
                session, each.operation, [*libraries, *ours], budget=budget, kinds=options.kinds
            )
            wrong += report(each, entries)
            records.append(
                {
                    "case": each.name,
                    "operation": each.operation.to_json(),
                    "entries": {name: entry_json(entry) for name, entry in entries.items()},
                }
            )
            write_json(path, {"environment": environment.to_json(), "records": records})
            if time.monotonic() > deadline:
                print(f"stopped after {options.seconds:g} s", file=sys.stderr)
                break
    print(f"{device.name}, driver {environment.driver}, NVRTC {environment.nvrtc}: {path}")
    return 1 if wrong else 0


def wanted_cases(options: argparse.Namespace) -> list[Case]:
    """Return the operations that the options name."""
    layouts = options.layout or ["nn"]
    found = [
        case([int(size) for size in shape.split(",")], layout)
        for shape in options.shapes
        for layout in layouts
    ]
    for name in options.suite:
        for layout in options.layout or [None]:
            found += suite(name).only(layout)
    return found


def wanted_variants(options: argparse.Namespace, operation: Operation, card: Gpu) -> list[Variant]:
    """Return the variants that the options name, as far as they can run the operation."""
    if options.variants_file:
        data = json.loads(options.variants_file.read_text(encoding="utf-8"))
        found: Iterable[Variant] = [Variant.from_json(each) for each in data]
    else:
        found = (v for v in variants(operation, card) if v.splits in options.splits)
    return [v for v in found if can_run(options, operation, v)]


def can_run(options: argparse.Namespace, operation: Operation, variant: Variant) -> bool:
    """Say whether a variant is asked for and legal."""
    if options.match not in str(variant):
        return False
    if options.kernels and variant.kernel not in options.kernels:
        return False
    try:
        gemm_kernel(variant.kernel).check(operation, variant)
    except TilewrightError as error:
        print(f"{operation.key}: {error}", file=sys.stderr)
        return False
    return True


def expression(operation: Operation, variant: Variant) -> tuple[str, str]:
    """Return what is compiled for it: the kernel and its name expression."""
    return variant.kernel, gemm_kernel(variant.kernel).expression(operation, variant)


def compile_all(work: Sequence[tuple[Case, Sequence[Variant]]], arch: str) -> set[tuple[str, str]]:
    """Compile in parallel, say what each kernel takes, and leave out what does not compile."""
    began = time.monotonic()
    ready: set[tuple[str, str]] = set()
    count = 0
    for built in build_all(((each.operation, v) for each, vs in work for v in vs), arch):
        count += 1
        said = built.error
        if built.found:
            ready.add((built.kernel, built.expression))
            said = f"{built.found.registers} registers, {built.found.local_bytes} bytes spilled"
        print(f"{built.expression}: {said}", file=sys.stderr)
    print(f"{len(ready)} of {count} kernels compiled, {time.monotonic() - began:.0f} s")
    return ready


def report(each: Case, entries: dict[str, Entry]) -> int:
    """Print one operation's table, the fastest first; return how many were wrong."""
    o = each.operation
    base = entries.get(REFERENCE)
    print(f"\n{each.name}", flush=True)
    timed = sorted(
        entries.items(), key=lambda item: item[1].timing.median_s if item[1].timing else 1e9
    )
    for name, entry in timed:
        if entry.timing is None:
            failed = [c.message() for c in entry.checks.values() if not c.ok]
            print(f"  {'':>34} {name}: {entry.reason or '; '.join(failed)}")
            continue
        t = entry.timing
        ratio = base.timing.median_s / t.median_s if base and base.timing else float("nan")
        share = max(check.bound_ratio for check in entry.checks.values())
        print(
            f"  {1e6 * t.median_s:9.2f} us {o.flops / t.median_s / 1e9:8.0f} GFLOP/s "
            f"{ratio:6.3f}x ±{t.spread:.1%} err {share:.1e} {name}"
        )
    return sum(not entry.ok for entry in entries.values())


def entry_json(entry: Entry) -> dict[str, object]:
    """Return an entry as plain JSON values."""
    return {
        "way": entry.way.name if entry.way else None,
        "variant": entry.way.variant.to_json() if entry.way and entry.way.variant else None,
        "timing": asdict(entry.timing) if entry.timing else None,
        "bound_ratios": {
            kind: found.bound_ratio if found.ok else None for kind, found in entry.checks.items()
        },
        "reason": entry.reason,
    }


if __name__ == "__main__":
    sys.exit(main())
