"""Fit the cost model and its corrections to recorded searches, and say how well they choose.

    python benchmarks/fit_cost.py benchmarks/results/tuning_drawn_nvidia_h200.json.gz … --write
    python benchmarks/fit_cost.py --judge benchmarks/results/unseen_nvidia_h200.json.gz

Without a file to fit, the coefficients as they stand are judged. A choice's quality is the time of
the fastest variant over that of the one which the model would choose: their geometric mean, and
the worst. `cost_descent.py` fits the cost model, `boosting.py` grows the trees that correct what
it ranks first. With `--folds` every operation is judged as well by a fit that its sizes had no part
in: by this forms of the model are to be compared, not by the searches that it is judged by in the
end. A fit takes a few minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from boosting import grow
from cost_descent import Case, descend

from tilewright.bench.suites import suite
from tilewright.errors import TileError, TilewrightError
from tilewright.gpus import Gpu, gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.kernels.gemm.tiled import TILES
from tilewright.records import read_text, write_json
from tilewright.tuning import forest as trees
from tilewright.tuning.cost import FILE, SCHEMA, Coefficients, coefficients, parts, sizes, tabulate
from tilewright.tuning.features import INPUTS, SHAPE, Column, features
from tilewright.tuning.forest import Forest, Tree, forest_of
from tilewright.tuning.predict import shortlist, times
from tilewright.tuning.replay import Recording, read_recordings, replay
from tilewright.tuning.strategies import STRATEGIES, Candidates

SAME = 0.4  # of a search's variants


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The cost model's coefficients, and the trees that correct its times on the card."""

    known: Mapping[str, Coefficients]
    forest: Forest | None


def main() -> int:
    """Fit and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path, nargs="*", help="the searches to fit to")
    parser.add_argument("--judge", type=Path, nargs="+", default=[], help="other searches")
    parser.add_argument("--gpu", default="H200", help="where they were recorded")
    parser.add_argument("--rounds", type=int, default=120, help="steps of the descent")
    parser.add_argument("--folds", type=int, default=0, help="judge by so many fits as well")
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
    model = Model(known=coefficients(), forest=forest_of(card.name))
    if options.records:
        cases = unjudged([case for record in options.records for case in read(record, card)])
        show("before, fitted", cases, model, card)
        if options.folds:
            held = cross_validated(cases, card, options.rounds, options.folds)
            mean = math.exp(sum(map(math.log, held)) / len(held))
            below = sum(each < 0.8 for each in held)
            print(
                f"held out, in {options.folds} folds: {mean:.1%}, {min(held):.1%} at worst, "
                f"{below} of {len(held)} below 80 %"
            )
            for each, case in sorted(zip(held, cases, strict=True), key=lambda pair: pair[0])[:10]:
                print(f"  {each:6.1%} {case.operation.key}")
        model, grown = fitted(cases, card, options.rounds)
        show("after, fitted", cases, model, card, each=True)
        if options.write:
            write(model.known, grown, options.records, len(cases), card)
    for path in options.judge:
        show(str(path), read(path, card), model, card, each=True)
        strategies(read_recordings(path), model, card)
    return 0


def fitted(cases: Sequence[Case], card: Gpu, rounds: int) -> tuple[Model, list[Tree]]:
    """Return what is fitted to the cases, with the trees; kernels without cases stay as they are.

    The trees correct the cases that the coefficients were fitted to: there are hundreds of
    variants for each of these, which err as much on what they have not seen.
    """
    known = {**coefficients(), **descend(cases, card, rounds)}
    grown = grow(cases, known, card)
    return Model(known=known, forest=Forest.of(grown, INPUTS)), grown


def read(path: Path, card: Gpu) -> list[Case]:
    """Return the recorded operations of which at least two variants ran whose code is still ours.

    Where that of many is not, the kernels were others too, and the whole search is left out.
    """
    compiled = json.loads(read_text(path)).get("kernels")
    found = []
    for recording in read_recordings(path):
        times = recording.times
        same = [v for v in times if compiled is None or is_same(recording.operation, v, compiled)]
        if len(same) > max(1, SAME * len(times)):
            kept = features(same, recording.operation, card)
            seconds = np.array([times[v] for v in kept.variants])
            found.append(Case(operation=recording.operation, features=kept, seconds=seconds))
    return found


def unjudged(cases: Sequence[Case]) -> list[Case]:
    """Leave out products with the sizes of the suite `unseen`: by those choices are judged."""
    judged = {_kind(case.operation) for case in suite("unseen").cases}
    return [case for case in cases if _kind(case.operation) not in judged]


def is_same(operation: Operation, variant: Variant, compiled: Collection[str]) -> bool:
    """Return whether a variant is compiled from what a record says was compiled for it."""
    kernel = gemm_kernel(variant.kernel)
    is_tried = variant.kernel != "tiled" or variant.tile in TILES
    try:
        return is_tried and kernel.expression(operation, variant) in compiled
    except TileError:
        return False


def predicted(case: Case, model: Model, card: Gpu) -> Column:
    """Return the predicted times of a case's variants."""
    return times(tabulate(case.features, card, model.known), sizes(case.operation), model.forest)


def chosen(case: Case, model: Model, card: Gpu) -> int:
    """Return which of a case's variants is chosen."""
    table, of = tabulate(case.features, card, model.known), sizes(case.operation)
    return shortlist(table, of, parts(table, of), model.forest)[0][1]


def quality(case: Case, model: Model, card: Gpu) -> float:
    """Return the time of the fastest variant over that of the chosen one."""
    return float(case.seconds.min() / case.seconds[chosen(case, model, card)])


def cross_validated(cases: Sequence[Case], card: Gpu, rounds: int, folds: int) -> list[float]:
    """Return the quality of each case's choice, with its sizes left out of the fit."""
    kinds = sorted({_kind(case.operation) for case in cases})
    random.Random(0).shuffle(kinds)
    fold = {kind: index % folds for index, kind in enumerate(kinds)}
    found = [0.0] * len(cases)
    for out in range(folds):
        model, _ = fitted(
            [case for case in cases if fold[_kind(case.operation)] != out], card, rounds
        )
        for index, case in enumerate(cases):
            if fold[_kind(case.operation)] == out:
                found[index] = quality(case, model, card)
    return found


def _kind(operation: Operation) -> tuple[int, ...]:
    return (operation.m, operation.n, operation.k, operation.batch)


def show(title: str, cases: Sequence[Case], model: Model, card: Gpu, *, each: bool = False) -> None:
    """Print how well the model chooses, and how far its predictions of the fastest are off."""
    rows = []
    for case in cases:
        fastest = int(case.seconds.argmin())
        off = predicted(case, model, card)[fastest] / case.seconds[fastest]
        rows.append((quality(case, model, card), off, case))
    mean = math.exp(sum(math.log(ratio) for ratio, _, _ in rows) / len(rows))
    worst = min(ratio for ratio, _, _ in rows)
    error = math.exp(sum(abs(math.log(off)) for _, off, _ in rows) / len(rows)) - 1
    print(
        f"{title}: {len(rows)} operations; the choice runs at {mean:.1%} of the best in geometric "
        f"mean, {worst:.1%} at worst; predictions of the best are off by {error:.0%}"
    )
    if each:
        for ratio, off, case in sorted(rows, key=lambda row: row[0]):
            print(f"  {ratio:6.1%} {case.operation.key}, predicted x{off:.2f}")
            if ratio < 0.95:
                variants = case.features.variants
                print(f"         chosen {variants[chosen(case, model, card)]}")
                print(f"         best   {variants[int(case.seconds.argmin())]}")


def strategies(recordings: Sequence[Recording], model: Model, card: Gpu) -> None:
    """Print how close to the best each strategy comes, and with how many measurements."""
    for name, strategy in STRATEGIES.items():
        ratios, measured = [], []
        for recording in recordings:
            measured_s = recording.times
            if len(measured_s) > 1:
                done = replay(strategy, ordered(recording, model, card), measured_s)
                ratios.append(done.ratio)
                measured.append(done.measured)
        mean = math.exp(-sum(map(math.log, ratios)) / len(ratios))
        print(
            f"{name}: {mean:.2%} of the best, {1 / max(ratios):.1%} at worst, with "
            f"{sum(measured) / len(measured):.0f} measured"
        )


def ordered(recording: Recording, model: Model, card: Gpu) -> Candidates:
    """Return what was recorded as a strategy gets it, ordered by these coefficients."""
    found = features(tuple(recording.times), recording.operation, card)
    table = tabulate(found, card, model.known)
    seconds = times(table, sizes(recording.operation), model.forest)
    predicted_s = dict(zip(found.variants, seconds.tolist(), strict=True))
    order: list[Variant] = sorted(predicted_s, key=lambda v: predicted_s[v])
    return Candidates(variants=order, predicted=[predicted_s[v] for v in order])


_NOTHING = ((0.0,) * len(SHAPE), {})


def _short(value: Any) -> Any:  # noqa: ANN401 - JSON of any of the coefficients
    if isinstance(value, tuple):
        return [_short(each) for each in value]
    if isinstance(value, Mapping):
        return {name: float(f"{each:.3f}") for name, each in value.items()}
    return float(f"{value:.4g}")


def write(
    known: Mapping[str, Coefficients],
    grown: Sequence[Tree],
    records: Sequence[Path],
    count: int,
    card: Gpu,
) -> None:
    """Put the coefficients into cost.json, with four digits, and the trees into forest.json."""
    kernels = {
        kernel: {
            name: _short(value) for name, value in asdict(values).items() if value not in _NOTHING
        }
        for kernel, values in known.items()
    }
    names = " and ".join(record.name for record in records)
    fitted_to = f"benchmarks/results/{names}, {count} operations, by benchmarks/fit_cost.py"
    write_json(FILE, {"schema": SCHEMA, "fitted_to": fitted_to, "kernels": kernels})
    content = [
        {"levels": tree.levels, "leaves": [round(leaf, 4) for leaf in tree.leaves]}
        for tree in grown
    ]
    head = {"schema": trees.SCHEMA, "fitted_to": fitted_to, "gpu": card.name}
    write_json(trees.FILE, {**head, "trees": content})
    print(f"written to {FILE.name} and {trees.FILE.name}")
    for record in records:
        environment = json.loads(read_text(record))["environment"]
        print(f"{record.name}: recorded on {environment['card']}, {environment['date']}")


if __name__ == "__main__":
    sys.exit(main())
