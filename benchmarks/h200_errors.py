"""Largest errors beside cuBLAS's over many draws of wide data, on this machine's GPU.

    python benchmarks/h200_errors.py --out benchmarks/results

On wide data one element decides the largest error, so one draw says little. Each case of the suites
is drawn with many seeds. As a control cuBLAS computes the transposed product too, where rows and
columns change roles, and is compared with itself. Truth is torch's float64 product on the GPU. It
takes about two minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tilewright import matmul
from tilewright.bench.build import build_all
from tilewright.bench.environment import describe_environment
from tilewright.bench.suites import Case, suite
from tilewright.device import require_device
from tilewright.device.standin import gpu_of
from tilewright.errors import TilewrightError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.records import write_json
from tilewright.tuning.choice import choose

SEEDS = 16
WHO = ("tilewright", "cublas", "cublas_transposed")
# What is compared with what.
PAIRS = (("tilewright", "cublas"), ("cublas_transposed", "cublas"))
LUCKY = 2.0
DIGITS = 4


def main() -> int:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--suite", nargs="+", default=["complaints", "batched"])
    parser.add_argument("--seconds", type=float, default=480, help="start nothing after this long")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        device = require_device()
        environment = describe_environment(device, commit=options.commit).to_json()
        card = gpu_of(device)
        cases = [case for name in options.suite for case in suite(name).cases]
        chosen = [choose(case.operation, card).variant for case in cases]
        pairs = zip(cases, chosen, strict=True)
        list(build_all(((case.operation, variant) for case, variant in pairs), device.arch))
        rows = measure(cases, chosen, options.seconds)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    path = options.out / f"errors_{device.name.lower().replace(' ', '_')}.json"
    found = summary(rows)
    write_json(path, {"environment": environment, "kind": "wide", "summary": found, "rows": rows})
    for line in found:
        print(line)
    print(path)
    return 0


def measure(cases: list[Case], chosen: list[Variant], seconds: float) -> list[dict[str, Any]]:
    """Return a row for each case: the largest errors of everyone by seed."""
    import torch

    torch.set_float32_matmul_precision("highest")  # no TF32
    deadline = time.monotonic() + seconds
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for case, variant in zip(cases, chosen, strict=True):
            if time.monotonic() > deadline:
                print(f"stopped after {seconds:g} s: {len(cases) - len(rows)} left")
                break
            draws = [largest_errors(torch, case, seed) for seed in range(SEEDS)]
            errors = {who: [draw[who] for draw in draws] for who in WHO}
            rows.append({"case": case.name, "kernel": variant.kernel, "errors": errors})
    return rows


def largest_errors(torch: Any, case: Case, seed: int) -> dict[str, float]:  # noqa: ANN401 - a module
    """Return the largest error of everyone, on one draw of a case."""
    o = case.operation
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def wide(rows: int, cols: int, transposed: bool) -> Any:  # noqa: ANN401 - a tensor
        shape = (cols, rows) if transposed else (rows, cols)
        shape = (o.batch, *shape) if o.batch > 1 else shape
        drawn, scale = (torch.randn(shape, device="cuda", generator=generator) for _ in range(2))
        drawn *= scale.mul_(3).exp_()
        return drawn.mT if transposed else drawn

    a = wide(o.m, o.k, o.layout[0] == "t")
    b = wide(o.k, o.n, o.layout[1] == "t")
    truth = a.double() @ b.double()
    results = (matmul(a, b), torch.matmul(a, b), torch.matmul(b.mT, a.mT).mT)
    return {
        who: float(f"{float((result - truth).abs().max()):.{DIGITS}g}")
        for who, result in zip(WHO, results, strict=True)
    }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how errors compare: of all cases, and by kernel."""
    kernels = sorted({row["kernel"] for row in rows})
    return [
        {"kernel": kernel or "all", "of": who, "over": base, **compared(ratios)}
        for kernel in (None, *kernels)
        for who, base in PAIRS
        if (ratios := list(ratios_of(rows, kernel, who, base)))
    ]


def ratios_of(
    rows: list[dict[str, Any]], kernel: str | None, who: str, base: str
) -> Iterable[float]:
    """Yield the ratios of two errors, a case and seed each; exact results are left out."""
    for row in rows:
        if kernel in (None, row["kernel"]):
            pairs = zip(row["errors"][who], row["errors"][base], strict=True)
            yield from (one / other for one, other in pairs if one and other)


def compared(ratios: list[float]) -> dict[str, Any]:
    """Return what is said of ratios: their mean, shares that are 1 and far from 1, the largest."""
    count = len(ratios)
    return {
        "ratios": count,
        "equal": round(ratios.count(1.0) / count, DIGITS),
        "mean": round(math.exp(sum(map(math.log, ratios)) / count), DIGITS),
        "above": round(sum(ratio > LUCKY for ratio in ratios) / count, DIGITS),
        "below": round(sum(ratio < 1 / LUCKY for ratio in ratios) / count, DIGITS),
        "most": round(max(ratios), DIGITS),
    }


if __name__ == "__main__":
    sys.exit(main())
