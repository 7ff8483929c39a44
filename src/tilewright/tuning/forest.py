"""What the cost model misses, learnt: trees that say by how much its times are wrong.

Each level of a tree asks one thing of all variants, whether an input is above a threshold. So a
leaf's number is a sum of powers of two, and all corrections of a shortlist are a few numpy
operations. `benchmarks/boosting.py` grows the trees, from searches recorded on one GPU; for that
GPU alone they are used, and `forest.json` names it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.tuning.features import INPUTS, Column

FILE = Path(__file__).with_name("forest.json")
SCHEMA = 1
SHORTLIST = 8  # variants that are corrected together, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Inputs by name with their thresholds, the first level first, and the leaves' values.

    The leaf of a variant is the number whose bits say, the first level's the highest, where an
    input is above the threshold. Values are logarithms of measured over modelled times.
    """

    levels: tuple[tuple[str, float], ...]
    leaves: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Trees as columns: of each level the input and the threshold, and all leaves.

    All trees' first levels come first, then their second ones. Thresholds and trees' first leaves
    are there once for each row: numpy is slow with shapes that differ.
    """

    asked: npt.NDArray[np.intp]
    above: Column
    bits: Column
    first: npt.NDArray[np.intp]
    leaves: Column
    ones: Column

    @classmethod
    def of(cls, trees: Sequence[Tree], inputs: Sequence[str]) -> Forest:
        """Return trees for inputs that come in this order."""
        at = {name: index for index, name in enumerate(inputs)}
        most = max((len(tree.levels) for tree in trees), default=0)
        # Levels that a tree has not are never above: their bits are 0.
        ask = [[*t.levels, *[(inputs[0], np.inf)] * (most - len(t.levels))] for t in trees]
        levels = [level for same in zip(*ask, strict=True) for level in same]
        above = np.array([above for _, above in levels], np.float32)
        leaves = [np.repeat(t.leaves, 2**most // len(t.leaves)) for t in trees]
        return cls(
            asked=np.array([at[name] for name, _ in levels], np.intp),
            above=np.repeat(above[:, None], SHORTLIST, axis=1),
            bits=np.array([2.0**bit for bit in reversed(range(most))], np.float32),
            first=np.repeat(2**most * np.arange(len(trees))[:, None], SHORTLIST, axis=1),
            leaves=np.concatenate([np.empty(0), *leaves]).astype(np.float32),
            ones=np.ones(len(trees), np.float32),
        )

    def corrections(self, inputs: Column) -> Column:
        """Return what is to be added to the logarithms of times.

        Shapes: [rows, inputs], of at most SHORTLIST rows; [rows].
        """
        rows = len(inputs)
        answers = inputs.T.take(self.asked, axis=0) > self.above[:, :rows]
        answers = answers.reshape(len(self.bits), len(self.first) * rows)
        leaf = self.bits.dot(answers).astype(np.intp).reshape(len(self.first), rows)
        corrections: Column = self.ones.dot(self.leaves.take(self.first[:, :rows] + leaf))
        return corrections


def read_trees(data: Mapping[str, Any]) -> list[Tree]:
    """Return the trees of a file's content."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"{FILE.name} has schema {data['schema']}, this code reads {SCHEMA}")
    return [
        Tree(levels=tuple((n, t) for n, t in each["levels"]), leaves=tuple(each["leaves"]))
        for each in data["trees"]
    ]


@functools.cache
def forest_of(gpu: str) -> Forest | None:
    """Return the trees that the package ships for a GPU by its name, None where it has none."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    return Forest.of(read_trees(data), INPUTS) if data["gpu"] == gpu else None
