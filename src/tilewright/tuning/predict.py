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
from tilewright.tuning.features import TRAITS, Column, features
from tilewright.tuning.forest import Forest, shipped_forest

# So many of the model's first are corrected, and compared by a choice.
SHORTLIST = 8

INPUTS = (
    *TRAITS,
    *("tiles", "each", "splits", "waves"),
    *("tail", "rows", "columns"),
    *("m", "n", "k", "batch"),
)
_MADE, _TAIL, _SIZES = map(INPUTS.index, ("tiles", "tail", "m"))
_SIDES = slice(INPUTS.index("bm"), INPUTS.index("bn") + 1)


def forest_of(gpu: Gpu) -> Forest | None:
    """Return the trees for a GPU, None where none were grown."""
    forest = shipped_forest(INPUTS)
    return forest if forest.gpu == gpu.name else None


def shortlist(
    table: Table, of: Sizes, found: Parts, forest: Forest | None, count: int = SHORTLIST
) -> tuple[npt.NDArray[np.intp], Column]:
    """Return the rows of a table that the model ranks first, and their times, least first.

    Units: seconds.
    """
    total = found.total
    rows = total.argpartition(count)[:count] if total.size > count else np.arange(total.size)
    seconds = total.take(rows)
    if forest is not None:
        seconds *= np.exp(forest.corrections(described(table, of, found, rows)))
    order = seconds.argsort(kind="stable")
    return rows.take(order), seconds.take(order)


def described(table: Table, of: Sizes, found: Parts, rows: npt.NDArray[np.intp]) -> Column:
    """Return what the trees know of some rows of a table, by the names of INPUTS.

    Beside the tile's traits: output tiles, parts of k and their steps, waves; what the last wave
    leaves idle, and edges of rows and columns, as factors; and the product's sizes.
    """
    inputs = np.empty((len(rows), len(INPUTS)), np.float32)
    inputs[:, :_MADE] = table.traits.take(rows, axis=0)
    made = np.array([found.tiles, found.each, found.splits, found.waves])
    inputs[:, _MADE:_TAIL] = made.take(rows, axis=1).T
    whole = inputs[:, _TAIL:_SIZES]
    whole[:, 0] = inputs[:, _TAIL - 1]
    whole[:, 1:] = of.own[:2] / inputs[:, _SIDES]
    np.divide(np.ceil(whole), whole, out=whole)
    inputs[:, _SIZES:] = of.own
    return inputs


def times(table: Table, of: Sizes, forest: Forest | None) -> Column:
    """Return the times of all rows of a table.

    What is not on the shortlist is taken to be off as the worst of it: it stays behind all of that,
    in the model's order. Units: seconds.
    """
    found = parts(table, of)
    rows, seconds = shortlist(table, of, found, forest)
    worst = (seconds / found.total[rows]).max(initial=1.0)
    corrected: Column = worst * found.total
    corrected[rows] = seconds
    return corrected


def predict(operation: Operation, variants: Sequence[Variant], gpu: Gpu) -> list[float]:
    """Return the predicted seconds of variants; infinite where no SM holds a block of it."""
    table = tabulate(features(variants, operation, gpu), gpu)
    seconds = times(table, sizes(operation), forest_of(gpu)).tolist()
    found = dict(zip(table.variants, seconds, strict=True))
    return [found.get(variant, float("inf")) for variant in variants]
