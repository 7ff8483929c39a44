"""Recorded searches, and strategies run on them: how good a search would have been, without a GPU.

A recording is a JSON file of `benchmarks/h200_tuning.py`: for each operation the trial of every
variant. Trials of the replay take no time and have no noise, unless it is asked for.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import StoreError, TileError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile
from tilewright.records import is_time, read_text
from tilewright.tuning.search import Found
from tilewright.tuning.store import fastest
from tilewright.tuning.strategies import CAREFUL_S, Ask, Candidates, Strategy
from tilewright.tuning.trial import Machine, Trial

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What a search of one operation measured, in its order, of a `space` of so many variants.

    Units: seconds, of those that ran.
    """

    operation: Operation
    trials: tuple[Trial, ...]
    space: int

    @property
    def whole(self) -> bool:
        """Whether every variant of the space was tried."""
        return len(self.trials) >= self.space

    @property
    def times(self) -> Mapping[Variant, float]:
        """The measured times."""
        return {t.variant: t.median_s for t in self.trials if t.median_s is not None}

    @property
    def best_s(self) -> float:
        """The time of the fastest variant."""
        return min(self.times.values(), default=math.inf)


def recorded(searches: Iterable[Found]) -> dict[str, object]:
    """Return searches as the content of a record file: what trials share is written once."""
    return {
        "schema": SCHEMA,
        "searches": [
            {
                "operation": found.operation.to_json(),
                "space": found.space,
                "seconds": found.seconds,
                "ended": found.ended,
                "trials": [_short(trial) for trial in found.trials],
                "machine": asdict(found.trials[0].machine) if found.trials else None,
            }
            for found in searches
        ],
    }


def _short(trial: Trial) -> dict[str, object]:
    data = trial.to_json()
    tile = trial.variant.tile.to_json()
    plain = Tile(bm=1, bn=32).to_json()
    short = {n: v for n, v in tile.items() if n in ("bm", "bn") or v != plain[n]}
    data["variant"] = trial.variant.to_json() | {"tile": short}
    return {n: v for n, v in data.items() if n not in _SHARED and v not in (None, "")}


# Of trials, what a whole search has in common.
_SHARED = ("machine", "operation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How a strategy did: the time of what it chose over the best there is, and what it measured.

    `order` has the variants as they were first measured; `seconds` is the device time that the
    strategy asked for.
    """

    ratio: float
    order: tuple[Variant, ...]
    seconds: float

    @property
    def measured(self) -> int:
        """How many different variants it measured."""
        return len(self.order)


def replay(
    strategy: Strategy, candidates: Candidates, times: Mapping[Variant, float], *, noise: float = 0
) -> Replayed:
    """Run a strategy on recorded times; variants without one are taken to fail.

    `noise` is the relative error of a measurement of 0.1 s; shorter ones err more, by the square
    root of their time.
    """
    rng = random.Random(0)
    said: dict[Variant, Trial] = {}
    seconds = 0.0
    asking = strategy(candidates)
    ask: Ask | None = next(asking, None)
    while ask is not None:
        answers = {}
        for variant in ask.variants:
            seconds += ask.measure_s
            error = noise * math.sqrt(CAREFUL_S / ask.measure_s) * rng.gauss(0, 1)
            answers[variant] = times.get(variant, math.inf) * math.exp(error)
            said[variant] = _said(variant, answers[variant], ask.measure_s)
        try:
            ask = asking.send(answers)
        except StopIteration:
            ask = None
    chosen = fastest(said.values()).get(_ANY)
    found = times[chosen.variant] if chosen is not None else math.inf
    return Replayed(ratio=found / min(times.values()), order=tuple(said), seconds=seconds)


_ANY = "replayed"


def _said(variant: Variant, seconds: float, measure_s: float) -> Trial:
    return Trial(
        machine=Machine(gpu=_ANY, driver=_ANY, toolkit=_ANY),
        operation=_ANY,
        variant=variant,
        state="timed" if math.isfinite(seconds) else "failed",
        median_s=seconds if math.isfinite(seconds) else None,
        measure_s=measure_s,
    )


def read_recordings(path: str | Path) -> list[Recording]:
    """Return the searches of a record file, packed or not; unknown tiles are left out.

    Raises:
        StoreError: no such file, or not one of recorded searches.
    """
    try:
        data = json.loads(read_text(path))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StoreError(f"cannot read {path}: not JSON: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else None
    if found not in (SCHEMA, None):
        raise StoreError(
            f"cannot read {path}: schema {found!r}, this version reads {SCHEMA}: {_GIVE}"
        )
    if found is None or not isinstance(data.get("searches"), list):
        raise StoreError(f"cannot read {path}: {_NONE}: {_GIVE}")
    recordings = []
    for number, search in enumerate(data["searches"], 1):
        where = f"cannot read {path}: its search {number}"
        try:
            recordings.append(_recording(search))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise StoreError(f"{where} is not one of recorded searches: {_GIVE}") from error
        for trial in recordings[-1].trials:
            if trial.median_s is not None and not is_time(trial.median_s):
                raise StoreError(
                    f"{where}: median_s is {trial.median_s!r} of {trial.variant}, a finite number "
                    f"above 0 is required: {_GIVE}"
                )
    return recordings


_NONE = "not a file of recorded searches"
_GIVE = "give one that `tilewright tune --json` wrote"


def _recording(search: Mapping[str, Any]) -> Recording:
    operation = Operation.from_json(search["operation"])
    shared = {"machine": search["machine"], "operation": operation.key}
    trials = []
    for entry in search["trials"]:
        with contextlib.suppress(TileError):
            trials.append(Trial.from_json({**entry, **shared}))
    return Recording(operation=operation, trials=tuple(trials), space=int(search["space"]))
