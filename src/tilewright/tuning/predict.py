"""How long variants should take: the cost model's times, those it ranks first corrected by trees.

The cost model sees all variants, and nearly always has the fastest among its first eight
(docs/tuning.md); which of them it is, trees say better (`forest.py`), of what the tiles and the
products are and of what the model makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.cost import Parts, Sizes, Table, parts, sizes, tabulate
from tilewright.tuning.features import INPUTS, MADE, SIZES, TRAITS, Column, features
from tilewright.tuning.forest import SHORTLIST, Forest, forest_of

_MADE = slice(len(TRAITS), len(TRAITS) + len(MADE))
_SIZES = slice(_MADE.stop, len(INPUTS))


def shortlist(
    table: Table, of: Sizes, found: Parts, forest: Forest | None, count: int = SHORTLIST
) -> list[tuple[float, int]]:
    """Return the times of what the model ranks first and their rows in a table, the least first.

    Units: seconds.
    """
    total = found.total
    rows = total.argsort()[:count]
    seconds = total.take(rows)
    if forest is not None:
        seconds *= np.exp(forest.corrections(described(table, of, found, rows)))
    return sorted(zip(seconds.tolist(), rows.tolist(), strict=True))


def described(table: Table, of: Sizes, found: Parts, rows: npt.NDArray[np.intp]) -> Column:
    """Return what the trees know of some rows of a table, by the names of INPUTS."""
    inputs = table.inputs.take(rows, axis=0)
    made = np.array([found.tiles, found.each, found.splits, found.waves], np.float32)
    inputs[:, _MADE] = made.take(rows, axis=1).T
    inputs[:, _SIZES] = of[: len(SIZES)]
    return inputs


def times(table: Table, of: Sizes, forest: Forest | None) -> Column:
    """Return the times of all rows of a table.

    What is not on the shortlist is taken to be off as the worst of it: it stays behind all of that,
    in the model's order. Units: seconds.
    """
    found = parts(table, of)
    first = shortlist(table, of, found, forest)
    worst = max((seconds / float(found.total[row]) for seconds, row in first), default=1.0)
    corrected: Column = max(worst, 1.0) * found.total
    for seconds, row in first:
        corrected[row] = seconds
    return corrected


def predict(operation: Operation, variants: Sequence[Variant], gpu: Gpu) -> list[float]:
    """Return the predicted seconds of variants; infinite where no SM holds a block of it."""
    table = tabulate(features(variants, operation, gpu), gpu)
    seconds = times(table, sizes(operation), forest_of(gpu.name)).tolist()
    found = dict(zip(table.variants, seconds, strict=True))
    return [found.get(variant, float("inf")) for variant in variants]
