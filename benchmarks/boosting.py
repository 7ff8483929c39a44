"""Trees for what the cost model misses: gradient boosting on recorded times (fit_cost.py).

Tree by tree what is lowered is what `cost_descent.py` lowers, of the variants that the model ranks
first: the regret to be expected of the choice, with its square, and the error of the predictions.
All leaves of a level ask the same (forest.py says why); each tree sees most of the products and
half of the inputs, chosen at random, so that it can learn little that hangs on a few of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from cost_descent import BIG, FAST, Case, alike

from tilewright.gpus import Gpu
from tilewright.tuning.cost import Coefficients, parts, sizes, tabulate
from tilewright.tuning.features import INPUTS, Column
from tilewright.tuning.forest import Tree
from tilewright.tuning.predict import described

TREES, DEPTH, RATE = 48, 7, 0.25
# Of the variants that the model ranks first, half as many again as a choice compares.
LEARNT = 12
# Thresholds an input, quantiles of the rows.
MOST_THRESHOLDS = 31
# Of the products and of the inputs, what a tree sees.
SEEN, ASKED = 0.8, 0.8
# As in cost_descent.py, where the whole model is fitted: here the rest is small and noisy.
TAU, REGRET, ERROR = 0.1, 0.3, 4.0
# What a leaf's curvature counts beside, and how much of a softmax's is believed.
RIDGE, CURVED = 1.0, 0.3

Indices = npt.NDArray[np.intp]


def grow(
    cases: Sequence[Case], known: Mapping[str, Coefficients], card: Gpu, trees: int = TREES
) -> list[Tree]:
    """Return trees that correct the model with coefficients `known` on the cases."""
    rows = _Rows(cases, known, card)
    rng = np.random.default_rng(0)
    corrections, grown = np.zeros(len(rows.case)), []
    for _ in range(trees):
        slopes, curves = rows.loss(corrections)
        seen = (rng.random(len(rows.starts)) < SEEN)[rows.case]
        asked = np.flatnonzero(rng.random(len(INPUTS)) < ASKED)
        levels, leaf = _levels(rows, slopes * seen, curves * seen, asked)
        leaves = -RATE * _sums(leaf, slopes * seen) / (_sums(leaf, curves * seen) + RIDGE)
        corrections += leaves[leaf]
        named = tuple((INPUTS[i], float(rows.thresholds[i][at])) for i, at in levels)
        grown.append(Tree(levels=named, leaves=tuple(map(float, leaves))))
    return grown


def _levels(
    rows: _Rows, slopes: Column, curves: Column, asked: Indices
) -> tuple[list[tuple[int, int]], Indices]:
    """Return what a tree asks, an input and the number of its threshold each, and rows' leaves."""
    leaf, levels = np.zeros(len(rows.case), np.intp), []
    for depth in range(DEPTH):
        best = (-1.0, 0, 0)
        for i in asked:
            count = len(rows.thresholds[i])
            if not count:
                continue
            cell = leaf * (count + 1) + rows.bins[i]
            below = [_sums(cell, c, (count + 1) << depth) for c in (slopes, curves)]
            slope, curve = (sums.reshape(-1, count + 1).cumsum(axis=1) for sums in below)
            left = slope**2 / (curve + RIDGE)
            right = (slope[:, -1:] - slope) ** 2 / (curve[:, -1:] - curve + RIDGE)
            gains = (left + right).sum(axis=0)[:-1]
            at = int(gains.argmax())
            best = max(best, (float(gains[at]), int(i), at))
        _, i, at = best
        levels.append((i, at))
        leaf = 2 * leaf + (rows.bins[i] > at)
    return levels, leaf


def _sums(leaf: Indices, column: Column, count: int = 1 << DEPTH) -> Column:
    found: Column = np.bincount(leaf, column, count)
    return found


class _Rows:
    """The variants of all cases that the model ranks first, those of a case side by side."""

    def __init__(self, cases: Sequence[Case], known: Mapping[str, Coefficients], card: Gpu) -> None:
        inputs, modelled, seconds, lengths = [], [], [], []
        for case in cases:
            table, of = tabulate(case.features, card, known), sizes(case.operation)
            found = parts(table, of)
            first = found.total.argsort(kind="stable")[:LEARNT]
            inputs.append(described(table, of, found, first))
            modelled.append(np.log(found.total[first]))
            seconds.append(np.log(case.seconds[first]))
            lengths.append(len(first))
        self.starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.case = np.repeat(np.arange(len(cases)), lengths)
        self.modelled, self.seconds = np.concatenate(modelled), np.concatenate(seconds)
        self.regret = self._beside_least(self.seconds)
        # Rows count that are fast, and those that the model takes for fast.
        near = np.minimum(self.regret, self._beside_least(self.modelled))
        weights = np.exp(-FAST * near)
        kind, shares = alike(cases)
        share = shares[kind]
        self.share = (share / share.mean())[self.case]
        self.weights = self.share * weights / self._of_case(np.add, weights)
        self.thresholds, self.bins = _binned(np.concatenate(inputs))

    def _of_case(self, reduce: np.ufunc, column: Column) -> Column:
        found: Column = reduce.reduceat(column, self.starts)[self.case]
        return found

    def _beside_least(self, column: Column) -> Column:
        return column - self._of_case(np.minimum, column)

    def loss(self, corrections: Column) -> tuple[Column, Column]:
        """Return the loss's derivative by each row's correction, and about its second one."""
        logs = self.modelled + corrections
        bid = np.exp(-self._beside_least(logs) / TAU)
        chance = bid / self._of_case(np.add, bid)
        cost = self.regret + BIG * self.regret**2
        expected = self._of_case(np.add, chance * cost)
        # What all variants of a product have in common decides nothing.
        error = logs - self.seconds
        common = self._of_case(np.add, self.weights * error) / self._of_case(np.add, self.weights)
        slopes = ERROR * self.weights * (error - common)
        slopes += REGRET * self.share * chance * (expected - cost) / TAU
        curves = ERROR * self.weights
        curves += REGRET * CURVED * self.share * chance * (1 - chance) / TAU
        return slopes, curves


def _binned(inputs: Column) -> tuple[list[Column], list[Indices]]:
    """Return each input's thresholds, and how many of them are below each row's."""
    thresholds, bins = [], []
    for column in inputs.T:
        values = np.unique(column)
        between = (values[1:] + values[:-1]) / 2
        if len(between) > MOST_THRESHOLDS:
            inner = np.linspace(0, 1, MOST_THRESHOLDS + 2)[1:-1]
            between = np.unique(np.quantile(column, inner))
        # As they are written, so that a row is on the same side of one wherever it is asked.
        between = np.unique([float(f"{value:.6g}") for value in between])
        thresholds.append(between)
        bins.append(np.searchsorted(between, column, side="left"))
    return thresholds, bins
