"""Measure performance against occupancy of some rungs on this machine's GPU, beside the model's.

    python benchmarks/h200_study.py --out benchmarks/results --model   # anywhere, needs no GPU
    python benchmarks/h200_study.py --out benchmarks/results

The first makes the modelled curves, a minute of CPU; the second measures every point of them, and
models what is missing first. A kernel is that of the compiler at hand, so the first belongs on the
NVRTC of the second: a curve of another one is made again. Every point is verified; then all of a
curve are timed in the same rounds, L2 cold. The file is rewritten after each curve, and what it has
measured of this commit stays. On an H200 about two minutes. Exit code 1 where nothing was measured.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tilewright.bench.device_ladder import DeviceLadder
from tilewright.bench.environment import describe_environment
from tilewright.device import require_device
from tilewright.errors import TilewrightError
from tilewright.gpus import by_device_name, gpu
from tilewright.kernels import HISTORY, rung
from tilewright.problem import Problem
from tilewright.records import Environment
from tilewright.study.curve import Curve
from tilewright.study.device import measured
from tilewright.study.occupancy import occupancy_curve
from tilewright.study.records import read_curves, write_curves
from tilewright.toolchain import load_nvrtc

SIZES = (4096, 1024)
RUNGS = ("03_shared_tile", "04_register_1d", "05_register_2d", "07_autotuned", "08_warptiled")
RUNGS += ("10_persistent", *HISTORY)
NAME = "study_occupancy_{gpu}.json"

Key = tuple[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="m = n = k")
    parser.add_argument("--rungs", nargs="+", default=RUNGS, help="names of rungs")
    parser.add_argument("--gpu", default="H200", help="with --model: the GPU to model")
    parser.add_argument("--model", action="store_true", help="model only: needs no GPU")
    parser.add_argument("--seconds", type=float, default=240, help="start nothing after this long")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args(arguments)
    try:
        return study(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def study(options: argparse.Namespace) -> int:
    """Do what the options ask for; return the exit code."""
    deadline = time.monotonic() + options.seconds
    device = None if options.model else require_device()
    card = gpu(options.gpu) if device is None else by_device_name(device.name)
    if card is None:
        raise TilewrightError(f"{device} is not in the table of GPUs (tilewright gpus)")
    environment = describe_environment(device, commit=options.commit)
    path = options.out / NAME.format(gpu=card.name.lower().replace(" ", "_"))
    kept = kept_curves(path, environment)
    for size in options.sizes:
        problem = Problem(m=size, n=size, k=size)
        for name in options.rungs:
            key = (rung(name).name, size)
            if key in kept or time.monotonic() > deadline:
                continue
            kept[key] = occupancy_curve(rung(name), problem, card)
            report(kept[key], "modelled")
            write_curves(path, environment, kept.values())
    if device is not None:
        measure(kept, options, path, environment, deadline)
    print_table(card.name, list(kept.values()))
    print(f"{environment.card or 'no card'}, NVRTC {environment.nvrtc}: {path}")
    missing = [key for key in wanted(options) if key not in kept or not kept[key].is_measured]
    if device is None or not missing:
        return 0
    print(f"not measured after {options.seconds:g} s: {missing}", file=sys.stderr)
    return 1


def wanted(options: argparse.Namespace) -> list[Key]:
    """Return the rungs and sizes that were asked for."""
    return [
        (rung(name).name, size) for size, name in itertools.product(options.sizes, options.rungs)
    ]


def kept_curves(path: Path, environment: Environment) -> dict[Key, Curve]:
    """Return the curves of an earlier run that still hold: of this compiler.

    What was measured of another commit is measured again.
    """
    if not path.exists():
        return {}
    before = read_curves(path)
    stale = before.environment.commit != environment.commit
    return {
        (curve.rung, curve.problem.m): curve.with_measured({}) if stale else curve
        for curve in before.curves
        if curve.compiler.startswith(load_nvrtc().label)
    }


def measure(
    kept: dict[Key, Curve],
    options: argparse.Namespace,
    path: Path,
    environment: Environment,
    deadline: float,
) -> None:
    """Measure the curves that are not yet, those of one size on the same operands."""
    for size in options.sizes:
        due = [key for key in wanted(options) if key[1] == size and key in kept]
        due = [key for key in due if not kept[key].is_measured]
        if not due or time.monotonic() > deadline:
            continue
        with DeviceLadder(kept[due[0]].problem) as ladder:
            for key in due:
                if time.monotonic() > deadline:
                    return
                kept[key] = measured(kept[key], ladder=ladder)
                report(kept[key], "measured")
                write_curves(path, environment, kept.values())


def report(curve: Curve, what: str) -> None:
    """Say on stderr how one curve went."""
    best, enough = curve.best, curve.enough
    print(
        f"{curve.rung} {curve.problem.m} {what}: best {curve.rate(best):.0f} GFLOP/s with "
        f"{best.warps} warps, enough {enough.warps}",
        file=sys.stderr,
        flush=True,
    )


def print_table(name: str, curves: Sequence[Curve]) -> None:
    """Print each curve's points, measured beside modelled, and where more warps stop mattering."""
    print(f"{name}: GFLOP/s by warps an SM, 'warps measured/modelled'; * is enough")
    for curve in curves:
        print(f"{curve.rung} {curve.problem.m}")
        cells = [
            f"{point.warps}{'*' if point == curve.enough else ''} "
            f"{'-' if point.measured is None else format(point.measured.gflops, '.0f')}"
            f"/{point.predicted_gflops:.0f}"
            for point in curve.ran
        ]
        for first in range(0, len(cells), 5):
            print("  " + "".join(cell.ljust(19) for cell in cells[first : first + 5]).rstrip())


if __name__ == "__main__":
    sys.exit(main())
