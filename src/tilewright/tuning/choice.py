"""Which variant computes a product: what was tuned here, else what is shipped, else the model's."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

from tilewright.errors import StoreError, UnsupportedError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.tiled import TILED
from tilewright.settings import read_settings
from tilewright.tuning.cost import Parts, Sizes, Table, parts, sizes, tabulate
from tilewright.tuning.features import features
from tilewright.tuning.forest import forest_of
from tilewright.tuning.predict import shortlist
from tilewright.tuning.space import legal, table
from tilewright.tuning.store import Store, StoreWarning, fastest, import_trials
from tilewright.tuning.trial import Trial, this_machine

SHIPPED = Path(__file__).with_name("shipped.json")

Source: TypeAlias = Literal["tuned", "shipped", "model"]

# Choices that are remembered: one is 200 bytes, and a program has far fewer shapes.
_MOST_REMEMBERED = 1 << 16
_OTHERS_SHOWN = 3
_remembered: dict[tuple[Operation, str, bool], Choice] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A variant, where it comes from, its time, and what is to be said of that.

    Units: seconds, measured or modelled.
    """

    variant: Variant
    source: Source
    seconds: float
    note: str

    @property
    def reason(self) -> str:
        """Why it is the choice, in one line."""
        how = "predicted" if self.source == "model" else "measured"
        return f"{how} {1e6 * self.seconds:.4g} µs{self.note}"


def choose(operation: Operation, gpu: Gpu, *, batch_invariant: bool = False) -> Choice:
    """Return the variant to compute a product with; the same for the same product, at once.

    With `batch_invariant` it is one whose rows have the same bits whatever m is: tiled, with each
    sum over k by one block. All of its tiles add in the same order, so any of them will do.

    Raises:
        UnsupportedError: no kernel can compute it on this GPU, or be compiled for it.
    """
    key = (operation, gpu.name, batch_invariant)
    found = _remembered.get(key)
    if found is None:
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        if batch_invariant:
            found = _whole_sums(operation, gpu)
        else:
            found = _measured(operation, gpu) or modelled(operation, gpu)
        _remembered[key] = found
    return found


def forget() -> None:
    """Read the store again, on the next choice: something was tuned."""
    _remembered.clear()
    _known.cache_clear()


def why(operation: Operation, gpu: Gpu) -> tuple[str, ...]:
    """Return in lines what was chosen for a product and why, with the model's view of it."""
    choice = choose(operation, gpu)
    columns, of = table(operation, gpu), sizes(operation)
    found = parts(columns, of)
    lines = [
        f"{operation.key} on {gpu.name}: {choice.variant}",
        f"{choice.source}: {choice.reason}",
    ]
    rows: dict[Variant, tuple[int, float]] = {}
    for seconds, row in _ranked(columns, of, found, gpu):
        if seconds < math.inf:
            rows.setdefault(_at(columns, found, row), (row, seconds))
    others = [v for v in rows if v != choice.variant][:_OTHERS_SHOWN]
    for variant in [v for v in (choice.variant, *others) if v in rows]:
        i, seconds = rows[variant]
        total = found.total[i]
        by = "" if seconds == total else f", corrected by {seconds / total:.3g}"
        lines.append(
            f"{'this' if variant == choice.variant else 'next'}: predicted {1e6 * seconds:.4g} µs: "
            f"modelled {1e6 * total:.4g} (root of squares of SMs {1e6 * found.busy[i]:.4g}, L2 "
            f"{1e6 * found.l2[i]:.4g} and DRAM {1e6 * found.dram[i]:.4g}; launch and adding parts "
            f"of k {1e6 * found.rest[i]:.4g}){by}: {variant}"
        )
    return tuple(lines)


def _measured(operation: Operation, gpu: Gpu) -> Choice | None:
    known = _known(gpu.name)
    found = known.get(operation.key) if known else None
    if found is None or not legal(operation, found.variant):
        return None
    return found


def modelled(operation: Operation, gpu: Gpu) -> Choice:
    """Return the model's choice, whatever was measured.

    Raises:
        UnsupportedError: no kernel can compute it on this GPU, or be compiled for it.
    """
    columns, of = table(operation, gpu), sizes(operation)
    found = parts(columns, of)
    for seconds, row in _ranked(columns, of, found, gpu):
        variant = _at(columns, found, row)
        if seconds < math.inf and legal(operation, variant):
            note = "; no search of this product is known"
            return Choice(variant=variant, source="model", seconds=seconds, note=note)
    raise UnsupportedError(f"{operation.key}: no kernel can compute it on {gpu.name}")


def _ranked(columns: Table, of: Sizes, found: Parts, gpu: Gpu) -> Iterator[tuple[float, int]]:
    """Return times and rows, the best first: the shortlist's, then all others."""
    first = shortlist(columns, of, found, forest_of(gpu.name))
    return chain(first, _others(found, first))


def _others(found: Parts, first: Collection[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    known = {row for _, row in first}
    for row in map(int, found.total.argsort(kind="stable")):
        if row not in known:
            yield float(found.total[row]), row


def _whole_sums(operation: Operation, gpu: Gpu) -> Choice:
    """Return the model's choice among those that never cut k."""
    gpu.require_arch()
    # Without its parts a tile may have sums too long for it, in another order than the others'.
    ways = (replace(v, splits=1) for v in TILED.variants(operation, gpu) if not v.workers)
    whole = dict.fromkeys(v for v in ways if TILED.accurate(operation, v, gpu))
    if not whole:
        raise UnsupportedError(f"{operation.key}: no tile of tiled can compute it on {gpu.name}")
    kept = features(tuple(whole), operation, gpu)
    total = parts(tabulate(kept, gpu), sizes(operation)).total
    i = int(total.argmin())
    note = ", the fastest of those that never cut k"
    return Choice(variant=kept.variants[i], source="model", seconds=float(total[i]), note=note)


def _at(columns: Table, found: Parts, row: int) -> Variant:
    """Return the variant of a row, with the parts of k that the model chose for it."""
    variant, splits = columns.variants[row], int(found.splits[row])
    if splits == 1 or variant.workers:
        return variant
    return Variant(kernel=variant.kernel, tile=variant.tile, splits=splits)


@functools.cache
def _known(gpu: str) -> Mapping[str, Choice]:
    """Return what was measured for a GPU: by this machine's user before what is shipped."""
    shipped = (trial for trial in import_trials(SHIPPED) if trial.machine.gpu == gpu)
    known = {key: _choice(trial, "shipped") for key, trial in fastest(shipped).items()}
    path = read_settings().store
    if path is None or not path.exists():  # choosing must not make one
        return known
    try:
        with Store(path) as store:
            tuned = store.trials(gpu)
    except StoreError as error:
        warnings.warn(f"{error}; choosing without it", StoreWarning, stacklevel=4)
        return known
    here = this_machine(gpu) if tuned else None
    return known | {key: _choice(trial, "tuned") for key, trial in fastest(tuned, here).items()}


def _choice(trial: Trial, source: Source) -> Choice:
    machine = trial.machine
    note = f" on {trial.date[:10]} with driver {machine.driver} and {machine.toolkit}"
    return Choice(variant=trial.variant, source=source, seconds=trial.median_s or 0.0, note=note)
