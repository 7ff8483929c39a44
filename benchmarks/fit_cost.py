"""Fit the cost model to recorded exhaustive searches, and say how well it chooses.

    python benchmarks/fit_cost.py benchmarks/results/tuning*_nvidia_h200.json --write
    python benchmarks/fit_cost.py --judge benchmarks/results/unseen_nvidia_h200.json

Without a file to fit, the coefficients as they stand are judged. A choice's quality is the time of
the fastest variant over that of the one which the model would choose: their geometric mean, and
the worst. The fit moves one coefficient at a time, and keeps what lowers the mean regret (the
logarithm of that ratio) plus the error of the predictions, those of fast variants counting most.
With `--hold` one operation in so many is left out of the fit, and judged apart. It takes a minute
on one core.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu, gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.records import write_json
from tilewright.tuning.cost import FILE, SCHEMA, Coefficients, coefficients, parts, tabulate
from tilewright.tuning.features import Column, Features, features
from tilewright.tuning.replay import Recording, read_recordings, replay
from tilewright.tuning.strategies import STRATEGIES, Candidates

Known = Mapping[str, Coefficients]

# How much the error of predictions counts beside the regret of choices, and how fast a variant's
# share of it falls with its time over the fastest.
_ERROR_WEIGHT = 0.3
_FAST = 3.0
# Of a multiplicative step at the start and the end of the fit.
_STEPS = (0.5, 0.03)
# Shares of what the hardware has cannot be more than about all of it.
_MOST = {"l2_share": 2.0, "dram_share": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recorded operation: the features of what ran, and how long it took."""

    operation: Operation
    features: Features
    seconds: Column
    weights: Column


def main() -> int:
    """Fit and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path, nargs="*", help="the searches to fit to")
    parser.add_argument("--judge", type=Path, nargs="+", default=[], help="other searches")
    parser.add_argument("--gpu", default="H200", help="where they were recorded")
    parser.add_argument("--rounds", type=int, default=4000, help="steps tried")
    parser.add_argument("--hold", type=int, default=0, help="leave out one operation in so many")
    parser.add_argument("--write", action="store_true", help="put the fit into cost.json")
    options = parser.parse_args()
    try:
        return fit_and_judge(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def fit_and_judge(options: argparse.Namespace) -> int:
    """Do what the options ask for."""
    card = gpu(options.gpu)
    known: Known = dict(coefficients())
    if options.records:
        cases = [case for record in options.records for case in read(record, card)]
        held = cases[:: options.hold] if options.hold else []
        fitted = [each for each in cases if each not in held]
        show("before, fitted", fitted, known, card)
        known = fit(fitted, known, card, options.rounds)
        show("after, fitted", fitted, known, card, each=True)
        if held:
            show("after, held out", held, known, card, each=True)
        if options.write:
            write(known, options.records, len(fitted))
    for path in options.judge:
        show(str(path), read(path, card), known, card, each=True)
        strategies(read_recordings(path), known, card)
    return 0


def read(path: Path, card: Gpu) -> list[Case]:
    """Return the recorded operations of which at least two variants ran."""
    found = []
    for recording in read_recordings(path):
        times = recording.times
        if len(times) > 1:
            kept = features(tuple(times), recording.operation, card)
            seconds = np.array([times[v] for v in kept.variants])
            weights = (seconds.min() / seconds) ** _FAST
            found.append(
                Case(
                    operation=recording.operation,
                    features=kept,
                    seconds=seconds,
                    weights=weights / weights.sum(),
                )
            )
    return found


def predicted(case: Case, known: Known, card: Gpu) -> Column:
    """Return the model's times of a case's variants."""
    table = tabulate(case.features, card, known)
    return parts(table, case.operation).total


def quality(case: Case, known: Known, card: Gpu) -> float:
    """Return the time of the fastest variant over that of the chosen one."""
    return float(case.seconds.min() / case.seconds[int(predicted(case, known, card).argmin())])


def loss(cases: Sequence[Case], known: Known, card: Gpu) -> float:
    """Return what the fit lowers: regret of the choices, and error of the predictions."""
    total = 0.0
    for case in cases:
        times = predicted(case, known, card)
        regret = math.log(case.seconds[int(times.argmin())] / case.seconds.min())
        error = np.log(times / case.seconds)
        total += regret + _ERROR_WEIGHT * math.sqrt(float(case.weights @ error**2))
    return total / len(cases)


def fit(cases: Sequence[Case], known: Known, card: Gpu, rounds: int) -> Known:
    """Return coefficients that lower the loss: steps in one at a time, ever smaller."""
    rng = random.Random(0)
    names = [f.name for f in fields(Coefficients)]
    kernels = sorted({v.kernel for case in cases for v in case.features.variants})
    best, least = dict(known), loss(cases, known, card)
    for index in range(rounds):
        size = _STEPS[0] * (_STEPS[1] / _STEPS[0]) ** (index / rounds)
        kernel, name = rng.choice(kernels), rng.choice(names)
        value = getattr(best[kernel], name) * math.exp(size * rng.gauss(0, 1))
        value = min(value, _MOST.get(name, math.inf))
        tried = best | {kernel: replace(best[kernel], **{name: value})}
        found = loss(cases, tried, card)
        if found < least:
            best, least = tried, found
        if index % 500 == 0:
            print(f"{index} of {rounds}: loss {least:.4f}", file=sys.stderr, flush=True)
    return best


def show(title: str, cases: Sequence[Case], known: Known, card: Gpu, *, each: bool = False) -> None:
    """Print how well the model chooses, and how far its predictions of the fastest are off."""
    rows = []
    for case in cases:
        times = predicted(case, known, card)
        fastest = int(case.seconds.argmin())
        rows.append((quality(case, known, card), times[fastest] / case.seconds[fastest], case))
    mean = math.exp(sum(math.log(ratio) for ratio, _, _ in rows) / len(rows))
    worst = min(ratio for ratio, _, _ in rows)
    error = math.exp(sum(abs(math.log(off)) for _, off, _ in rows) / len(rows)) - 1
    print(
        f"{title}: {len(rows)} operations; the choice runs at {mean:.1%} of the best in geometric "
        f"mean, {worst:.1%} at worst; predictions of the best are off by {error:.0%}"
    )
    if each:
        for ratio, off, case in sorted(rows, key=lambda row: row[0]):
            chosen = case.features.variants[int(predicted(case, known, card).argmin())]
            right = case.features.variants[int(case.seconds.argmin())]
            print(f"  {ratio:6.1%} {case.operation.key}, predicted x{off:.2f}")
            if ratio < 0.95:
                print(f"         chosen {chosen}\n         best   {right}")


def strategies(recordings: Sequence[Recording], known: Known, card: Gpu) -> None:
    """Print how close to the best each strategy comes, and with how many measurements."""
    for name, strategy in STRATEGIES.items():
        ratios, measured = [], []
        for recording in recordings:
            times = recording.times
            if len(times) > 1:
                done = replay(strategy, ordered(recording, known, card), times)
                ratios.append(done.ratio)
                measured.append(done.measured)
        mean = math.exp(-sum(map(math.log, ratios)) / len(ratios))
        print(
            f"{name}: {mean:.2%} of the best, {1 / max(ratios):.1%} at worst, with "
            f"{sum(measured) / len(measured):.0f} measured"
        )


def ordered(recording: Recording, known: Known, card: Gpu) -> Candidates:
    """Return what was recorded as a strategy gets it, ordered by these coefficients."""
    found = features(tuple(recording.times), recording.operation, card)
    table = tabulate(found, card, known)
    times = dict(zip(found.variants, parts(table, recording.operation).total, strict=True))
    order: list[Variant] = sorted(times, key=lambda v: times[v])
    return Candidates(variants=order, predicted=[float(times[v]) for v in order])


def write(known: Known, records: Sequence[Path], count: int) -> None:
    """Put the coefficients into cost.json, with four digits."""
    kernels = {
        kernel: {name: float(f"{value:.4g}") for name, value in asdict(values).items()}
        for kernel, values in known.items()
    }
    names = " and ".join(record.name for record in records)
    fitted_to = f"benchmarks/results/{names}, {count} operations, by benchmarks/fit_cost.py"
    write_json(FILE, {"schema": SCHEMA, "fitted_to": fitted_to, "kernels": kernels})
    print(f"written to {FILE.name}")
    for record in records:
        environment = json.loads(record.read_text(encoding="utf-8"))["environment"]
        print(f"{record.name}: recorded on {environment['card']}, {environment['date']}")


if __name__ == "__main__":
    sys.exit(main())
