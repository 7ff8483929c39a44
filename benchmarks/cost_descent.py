"""Coefficients of the cost model from recorded times: a descent by gradients (fit_cost.py).

The model is differentiable in its coefficients (traced.py), and all rows of all operations are one
table. What tiles take beside it is found at the end by least squares, which follow single products
less than a choice does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from traced import Traced
from traced import slopes as derivatives

from tilewright.gpus import Gpu
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.cost import Coefficients, Sizes, label, parts, priced, sizes, tabulate
from tilewright.tuning.features import SHAPE, Column, Features

Known = Mapping[str, Coefficients]

# What is lowered, the mean over operations: the regret to be expected where predictions err by
# TAU, with its square as many times as BIG, since a bad choice is worse than several middling
# ones; and the error of the predictions, those of fast variants counting most.
TAU, BIG, ERROR, FAST = 0.05, 2.0, 0.4, 3.0
# How much it costs to leave the guesses below, per square of a logarithm, and to have tiles differ:
# little for tiled, which has a hundred times as many variants to learn it from.
LEAVE, DIFFER = 0.001, {"tiled": 0.003}
DIFFER_MUCH = 0.03
# Of tiles' factors, in logarithms: how large they are usually, and the error of a row beside them.
USUAL, AROUND = 0.03, 0.1
RATE = 0.05
FITS = 3
# What one would guess: for every kernel, and for one that has all of k in shared memory.
GUESS = {
    "fma": 1.1, "shared": 0.5, "single": 2.5, "quad": 4.0, "line": 1.0, "step": 40.0,
    "alone": 1.5, "depth_cycles": 20.0, "barrier_cycles": 60.0, "fill_cycles": 1500.0,
    "latency_cycles": 1000.0, "fold": 1.0, "bytes_per_cycle": 60.0, "read_per_cycle": 40.0,
    "sync_cycles": 2000.0, "l2_share": 0.8, "parts_share": 0.5, "dram_share": 0.75,
    "launch_s": 1.5e-6,
}  # fmt: skip
GUESS_TINY = {"shared": 1.0, "single": 1.0, "quad": 2.0, "step": 8.0, "depth_cycles": 60.0,
              "latency_cycles": 200.0}  # fmt: skip
# What the hardware has cannot be had better than about this.
BOUNDS = {"fma": (1.0, np.inf), "l2_share": (0.0, 1.3), "dram_share": (0.0, 1.0)}
_NAMES = tuple(GUESS)
_SHAPES = ("rest", "fill")
_IS_SHAPE = np.arange(len(_NAMES) + len(_SHAPES) * len(SHAPE)) >= len(_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recorded operation: the features of what ran, and how long it took. Units: seconds."""

    operation: Operation
    features: Features
    seconds: Column


def descend(cases: Sequence[Case], card: Gpu, rounds: int) -> Known:
    """Return coefficients fitted to the cases: the mean of several fits, from the guesses.

    Each weighs the products otherwise, at random (a Bayesian bootstrap): what hangs on a few of
    them differs from fit to fit, and is damped.
    """
    rows = _Rows(cases)
    rng = np.random.default_rng(0)
    fits = [_descent(rows, rows.weighed(rng), card, rounds) for _ in range(FITS)]
    known = {kernel: _known(np.mean([fit[kernel] for fit in fits], axis=0)) for kernel in rows.of}
    if "tiled" in known:
        known["tiled"] = replace(known["tiled"], tiles=rows.factors(known["tiled"], card))
    return known


def _descent(rows: _Rows, share: Column, card: Gpu, rounds: int) -> dict[str, Column]:
    """Return the logarithms of coefficients fitted to cases of so much weight each."""
    points = {kernel: _guess(kernel) for kernel in rows.of}
    speed = {kernel: (np.zeros(len(p)), np.zeros(len(p))) for kernel, p in points.items()}
    for index in range(rounds):
        rate = RATE / 2 * (1 + np.cos(np.pi * index / rounds))
        logs = rows.predicted(points, card)
        loss, slopes = rows.loss(logs, share)
        if index % 50 == 0:
            print(f"{index} of {rounds}: {loss:.4f}", file=sys.stderr, flush=True)
        for kernel, point in points.items():
            gradient = _gradient(rows, kernel, point, slopes, card)
            mean, square = speed[kernel]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            grown = mean / (1 - 0.9 ** (index + 1))
            scale = np.sqrt(square / (1 - 0.999 ** (index + 1))) + 1e-8
            # Shapes are slopes, not logarithms of what they are: they move less.
            points[kernel] = point - rate * np.where(_IS_SHAPE, 1 / 3, 1.0) * grown / scale
    return points


def _guess(kernel: str) -> Column:
    values = GUESS | (GUESS_TINY if kernel == "tiny" else {})
    return np.concatenate([np.log(list(values.values())), np.zeros(len(_SHAPES) * len(SHAPE))])


def _bounded(name: str, logarithm: Traced) -> Traced | float:
    least, most = BOUNDS.get(name, (0.0, np.inf))
    value = float(np.exp(logarithm.value))
    return np.exp(logarithm) if least < value < most else float(np.clip(value, least, most))  # type: ignore[no-any-return]


def _known(point: Column) -> Coefficients:
    values = {n: float(np.exp(v)) for n, v in zip(_NAMES, point, strict=False)}
    for name, (least, most) in BOUNDS.items():
        values[name] = float(np.clip(values[name], least, most))
    shapes = point[len(_NAMES) :].reshape(-1, len(SHAPE))
    more = {n: tuple(map(float, v)) for n, v in zip(_SHAPES, shapes, strict=False)}
    return Coefficients(**values, **more)


def _gradient(rows: _Rows, kernel: str, point: Column, slopes: Column, card: Gpu) -> Column:
    """Return the derivatives of what is lowered by a kernel's coefficients."""
    numbers = [Traced(value) for value in point]
    logs = rows.traced(kernel, numbers, card)
    found = np.array(derivatives(logs, slopes[rows.of[kernel]], numbers))
    pull = np.where(_IS_SHAPE, DIFFER.get(kernel, DIFFER_MUCH), LEAVE)
    total: Column = found + 2 * pull * (point - _guess(kernel))
    return total


def alike(cases: Sequence[Case]) -> tuple[npt.NDArray[np.intp], Column]:
    """Return the number of each case's kind, and the kinds' shares: the sizes make a kind.

    The same sizes in three layouts are little more to learn from than one.
    """
    kinds = [(c.operation.m, c.operation.n, c.operation.k, c.operation.batch) for c in cases]
    _, kind, count = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    return kind.reshape(-1), 1 / np.sqrt(count)


class _Rows:
    """All variants of all cases, one a row, those of a case side by side."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.variants = [v for case in cases for v in case.features.variants]
        lengths = np.array([len(case.seconds) for case in cases])
        self.starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.case = np.repeat(np.arange(len(cases)), lengths)
        self.seconds = np.log(np.concatenate([case.seconds for case in cases]))
        self.regret = self.seconds - np.minimum.reduceat(self.seconds, self.starts)[self.case]
        weights = np.exp(-FAST * self.regret)
        self.weights = weights / self.sums(weights)[self.case]
        self.kind, self.share = alike(cases)
        names = np.array([v.kernel for v in self.variants])
        self.of = {str(name): np.flatnonzero(names == name) for name in sorted(set(names))}
        self._features = {kernel: self._of(cases, at) for kernel, at in self.of.items()}

    def _of(self, cases: Sequence[Case], at: Column) -> tuple[Features, Sizes]:
        """Return the features of a kernel's rows, and the sizes that belong to each."""
        joined = {
            f.name: np.concatenate([getattr(case.features, f.name) for case in cases])[at]
            for f in fields(Features)
            if f.name != "variants"
        }
        each = zip(*(sizes(case.operation) for case in cases), strict=True)
        columns = (np.array(column)[self.case[at]] for column in each)
        found = Features(variants=tuple(self.variants[i] for i in at), **joined)
        return found, Sizes(*columns)

    def logs(self, kernel: str, known: Coefficients, card: Gpu) -> Column:
        """Return the logarithms of the predicted times of a kernel's rows."""
        found, of = self._features[kernel]
        times: Column = np.log(parts(tabulate(found, card, {kernel: known}), of).total)
        return times

    def traced(self, kernel: str, point: Sequence[Traced], card: Gpu) -> Traced:
        """Return the logarithms of the predicted times of a kernel's rows by its coefficients'."""
        found, of = self._features[kernel]
        c: dict[str, Any] = {
            name: _bounded(name, value) for name, value in zip(_NAMES, point, strict=False)
        }
        for index, name in enumerate(_SHAPES):
            first = len(_NAMES) + index * len(SHAPE)
            c[name] = point[first : first + len(SHAPE)]
        times: Traced = np.log(parts(priced(found, card, c, np.ones(1)), of).total)
        return times

    def factors(self, known: Coefficients, card: Gpu) -> dict[str, float]:
        """Return the logarithms of tiles' factors: ridge regression of what the model leaves.

        What all variants of a product have in common is taken out, the fast ones count most.
        """
        at = self.of["tiled"]
        names = [label(self.variants[i].tile) for i in at]
        different = sorted(set(names))
        has = np.array([[name == each for each in different] for name in names], float)
        left = np.column_stack([has, self.seconds[at] - self.logs("tiled", known, card)])
        weight = (np.exp(-self.regret) * self.share[self.kind][self.case])[at, None]
        case = self.case[at]
        sums = np.zeros((len(self.starts), left.shape[1] + 1))
        np.add.at(sums, case, weight * np.column_stack([left, np.ones(len(at))]))
        left -= (sums[:, :-1] / np.maximum(sums[:, -1:], 1e-12))[case]
        has, error = left[:, :-1], left[:, -1]
        square = (weight * has).T @ has + (AROUND / USUAL) ** 2 * np.eye(len(different))
        found = np.linalg.solve(square, (weight[:, 0] * error) @ has)
        return {name: float(value) for name, value in zip(different, found, strict=True)}

    def predicted(self, points: Mapping[str, Column], card: Gpu) -> Column:
        """Return the logarithms of all predicted times."""
        logs = np.empty(len(self.variants))
        for kernel, at in self.of.items():
            logs[at] = self.logs(kernel, _known(points[kernel]), card)
        return logs

    def sums(self, column: Column) -> Column:
        """Return the sum of each case."""
        found: Column = np.add.reduceat(column, self.starts)
        return found

    def weighed(self, rng: np.random.Generator) -> Column:
        """Return random weights of the cases, those of the same sizes alike; their sum is 1."""
        share = (self.share * rng.exponential(size=len(self.share)))[self.kind]
        found: Column = share / share.sum()
        return found

    def loss(self, logs: Column, share: Column) -> tuple[float, Column]:
        """Return the loss, and its derivatives by the rows' predictions."""
        of = self.case
        bid = np.exp((np.minimum.reduceat(logs, self.starts)[of] - logs) / TAU)
        chance = bid / self.sums(bid)[of]
        cost = self.regret + BIG * self.regret**2
        expected = self.sums(chance * cost)
        error = np.sqrt(self.sums(self.weights * (logs - self.seconds) ** 2) + 1e-4)
        slopes = chance * (expected[of] - cost) / TAU
        slopes += ERROR * self.weights * (logs - self.seconds) / error[of]
        return float(share @ (expected + ERROR * error)), slopes * share[of]
