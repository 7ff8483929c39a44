"""What a search says of itself: how good the predictions were, and how other strategies had done.

Of a recorded search or of one just done, without a GPU: strategies are run on its times.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu, gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.tuning.predict import predict
from tilewright.tuning.replay import Recording, Replayed, replay
from tilewright.tuning.store import fastest
from tilewright.tuning.strategies import STRATEGIES, Candidates, random
from tilewright.tuning.trial import Machine, Trial

# Of these many random orders the quartiles are taken.
_SHUFFLES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How a strategy went: after each variant measured, the share of the fastest one's speed.

    `low` and `high` are quartiles over random orders, the same as `shares` (then the median) for a
    strategy without chance. `chosen` is the share that it ended with; `seconds` the device time
    that it asked for.
    """

    shares: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    chosen: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One search looked back at.

    `predicted` are the model's times of `recording.trials`, in their order; `rank` is Spearman's
    correlation of those and what was measured, None for fewer than three. `best` is what `tune`
    keeps, `first` the timed variant that was predicted to be the fastest. `courses` are by
    strategy, empty unless the whole space was measured: what a strategy would have found elsewhere
    nobody knows.
    """

    recording: Recording
    machine: Machine
    predicted: tuple[float, ...]
    rank: float | None
    best: Trial | None
    first: Trial | None
    courses: Mapping[str, Course]

    def share(self, trial: Trial) -> float:
        """Return a timed variant's share of the speed of the fastest one."""
        assert trial.median_s is not None
        return self.recording.best_s / trial.median_s


def review(recording: Recording, card: Gpu | None = None) -> Review:
    """Look back at a search, on the GPU that it names or on `card`.

    Raises:
        TilewrightError: nothing was tried.
        UnknownNameError: it names a GPU that is not in the table.
    """
    trials = recording.trials
    if not trials:
        raise TilewrightError(f"nothing was measured of {recording.operation.key}: search it first")
    machine = trials[0].machine
    variants = [trial.variant for trial in trials]
    predicted = predict(recording.operation, variants, card or gpu(machine.gpu))
    timed = [(p, t) for p, t in zip(predicted, trials, strict=True) if t.median_s is not None]
    timed.sort(key=lambda pair: pair[0])
    times = recording.times
    candidates = Candidates(
        variants=[t.variant for _, t in timed], predicted=[float(p) for p, _ in timed]
    )
    return Review(
        recording=recording,
        machine=machine,
        predicted=tuple(map(float, predicted)),
        rank=rank_correlation(candidates.predicted, [times[v] for v in candidates.variants]),
        best=fastest(trials).get(recording.operation.key),
        first=timed[0][1] if timed else None,
        courses=_courses(candidates, times) if recording.whole and timed else {},
    )


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's correlation, equal values sharing their ranks; None where it means nothing.

    1 says the same order, -1 the opposite. Fewer than three values have none, nor have equal ones.
    """
    a, b = _ranks(one), _ranks(other)
    if len(a) < 3 or not a.std() or not b.std():
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: npt.NDArray[np.float64] = (last - (counts - 1) / 2)[place]
    return ranks


def _courses(candidates: Candidates, times: Mapping[Variant, float]) -> dict[str, Course]:
    found = {}
    for name, strategy in STRATEGIES.items():
        if strategy is random:
            shuffled = [functools.partial(random, seed=seed) for seed in range(_SHUFFLES)]
            runs = [replay(each, candidates, times) for each in shuffled]
        else:
            runs = [replay(strategy, candidates, times)]
        found[name] = _course(runs, times)
    return found


def _course(runs: Sequence[Replayed], times: Mapping[Variant, float]) -> Course:
    best = min(times.values())
    shares = np.array([best / np.minimum.accumulate([times[v] for v in run.order]) for run in runs])
    low, middle, high = np.percentile(shares, (25, 50, 75), axis=0)
    return Course(
        shares=tuple(map(float, middle)),
        low=tuple(map(float, low)),
        high=tuple(map(float, high)),
        chosen=float(np.median([1 / run.ratio for run in runs])),
        seconds=runs[0].seconds,
    )


def together(courses: Sequence[Course]) -> Course:
    """Return one strategy's courses over several products as one: geometric means.

    One that has ended keeps what it had found.
    """
    longest = max(len(each.shares) for each in courses)

    def mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
        padded = [[*row, *[row[-1]] * (longest - len(row))] for row in rows]
        return tuple(map(float, np.exp(np.log(padded).mean(axis=0))))

    return Course(
        shares=mean([each.shares for each in courses]),
        low=mean([each.low for each in courses]),
        high=mean([each.high for each in courses]),
        chosen=mean([[each.chosen] for each in courses])[0],
        seconds=math.fsum(each.seconds for each in courses),
    )
