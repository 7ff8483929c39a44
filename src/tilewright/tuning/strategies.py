"""In which order to measure variants: generators that ask for times and are sent them.

A strategy knows no GPU and no clock, so a recorded search can answer it as well as a device
(`replay.py`). It ends when it has asked for all that it wants; the fastest of what was measured is
the result, whoever asked.
"""

from __future__ import annotations

import math
import random as randomness
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import UnknownNameError
from tilewright.kernels.gemm.kernel import Variant

# Device time for one variant: enough to tell 10 % apart, 3 %, and what the spread allows.
QUICK_S, LONGER_S, CAREFUL_S = 0.005, 0.02, 0.1

# Variants that are timed side by side.
GROUP = 4
# Candidates that a guided search measures at most, and how many of them once more, carefully.
MOST_MEASURED = 20
_FINALISTS = 3
# How far a measured error of the model reaches: differences between tiles count in doublings.
_REACH = 1.0
# Measurements after which half of their common error is believed to be everyone's.
_DOUBT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The search space in order of the predicted time, least first. Units: seconds."""

    variants: Sequence[Variant]
    predicted: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Variants to time, side by side where that can be done. Units: device seconds a variant."""

    variants: tuple[Variant, ...]
    measure_s: float


# Seconds by variant; infinite for one that is wrong or does not run.
Answers: TypeAlias = Mapping[Variant, float]
Asking: TypeAlias = Generator[Ask, Answers, None]
Strategy: TypeAlias = Callable[[Candidates], Asking]


def exhaustive(candidates: Candidates, *, measure_s: float = LONGER_S) -> Asking:
    """Measure everything, the most promising first; the best once more, carefully."""
    yield from _all(candidates.variants, measure_s)


def random(candidates: Candidates, *, seed: int = 0) -> Asking:
    """Measure everything in random order: what other strategies must beat."""
    shuffled = list(candidates.variants)
    randomness.Random(seed).shuffle(shuffled)
    yield from _all(shuffled, LONGER_S)


def model(candidates: Candidates, *, most: int = MOST_MEASURED) -> Asking:
    """Measure the variants of least predicted time, and correct the predictions by what is found.

    Where a variant takes longer or shorter than predicted, so will those like it.
    """
    variants = list(candidates.variants)
    places = _places(variants)
    predicted = np.log(np.array(candidates.predicted))
    found: dict[int, float] = {}
    while len(found) < min(most, len(variants)):
        corrected = predicted + _correction(places, predicted, found)
        order = (int(i) for i in np.argsort(corrected, kind="stable"))
        chosen = [i for i in order if i not in found][: min(GROUP, most - len(found))]
        times = yield Ask(variants=tuple(variants[i] for i in chosen), measure_s=LONGER_S)
        for i in chosen:
            found[i] = times.get(variants[i], math.inf)
    best = sorted(found, key=lambda i: found[i])
    yield from _carefully([variants[i] for i in best if math.isfinite(found[i])])


def halving(candidates: Candidates, *, most: int = MOST_MEASURED) -> Asking:
    """Measure many for a short time, and each time the better third for longer."""
    left = list(candidates.variants[:most])
    for measure_s in (QUICK_S, LONGER_S):
        times: dict[Variant, float] = {}
        for group in _groups(left):
            times.update((yield Ask(variants=group, measure_s=measure_s)))
        right = [v for v in left if math.isfinite(times.get(v, math.inf))]
        left = sorted(right, key=lambda v: times[v])[: max(_FINALISTS, len(left) // 3)]
    yield from _carefully(left)


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {"model": model, "halving": halving, "random": random, "exhaustive": exhaustive}
)


def strategy(name: str) -> Strategy:
    """Return a strategy by its name.

    Raises:
        UnknownNameError: no such strategy; suggests the nearest.
    """
    if name not in STRATEGIES:
        raise UnknownNameError("strategy", name, STRATEGIES)
    return STRATEGIES[name]


def _all(variants: Sequence[Variant], measure_s: float) -> Asking:
    times: dict[Variant, float] = {}
    for group in _groups(variants):
        times.update((yield Ask(variants=group, measure_s=measure_s)))
    right = [v for v in times if math.isfinite(times[v])]
    yield from _carefully(sorted(right, key=lambda v: times[v]))


def _carefully(best: Sequence[Variant]) -> Asking:
    """Measure the first of what was measured once more, side by side."""
    if len(best) > 1:
        yield Ask(variants=tuple(best[:_FINALISTS]), measure_s=CAREFUL_S)


def _groups(variants: Sequence[Variant]) -> Iterator[tuple[Variant, ...]]:
    for first in range(0, len(variants), GROUP):
        yield tuple(variants[first : first + GROUP])


def _places(variants: Sequence[Variant]) -> npt.NDArray[np.float64]:
    """Return each variant as a point: the logarithms of its numbers, and which kernel it is."""
    kernels = sorted({v.kernel for v in variants})
    rows = [
        [math.log2(1 + value) for value in (*v.tile.to_json().values(), v.splits)]
        + [2.0 * (v.workers > 0)]
        + [4.0 * (v.kernel == kernel) for kernel in kernels]
        for v in variants
    ]
    return np.array(rows)


def _correction(
    places: npt.NDArray[np.float64],
    predicted: npt.NDArray[np.float64],
    found: Mapping[int, float],
) -> npt.NDArray[np.float64]:
    """Return by how much predictions are off, in logarithms: the mean of measured errors near by.

    A virtual measurement that agrees with the model keeps far variants as they were predicted.
    """
    known = [i for i in found if math.isfinite(found[i])]
    if not known:
        return np.zeros(len(predicted))
    errors = np.log([found[i] for i in known]) - predicted[known]
    # What all errors share says nothing of which variant is better, once there are many of them.
    usual = float(np.median(errors)) * len(known) / (len(known) + _DOUBT)
    distances = np.abs(places[:, None, :] - places[None, known, :]).sum(axis=2)
    weights = np.exp(-distances / _REACH)
    shift: npt.NDArray[np.float64] = (weights @ (errors - usual)) / (1.0 + weights.sum(axis=1))
    shift[known] = errors - usual
    return shift
