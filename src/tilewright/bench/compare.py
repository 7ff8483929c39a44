"""Is it faster? Two timings, or two files of them, told apart only beyond their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tilewright.bench.baselines import REFERENCE
from tilewright.bench.results import OURS, BenchFile, BenchRecord
from tilewright.errors import TilewrightError
from tilewright.records import Timing

Word: TypeAlias = Literal["faster", "slower", "even"]

# Differences below this are called even however narrow the spreads are: nobody acts on them.
LEAST = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many times faster the new is than the old, and the noise it must exceed to count."""

    ratio: float
    noise: float

    @property
    def word(self) -> Word:
        """What to call it."""
        if abs(math.log(self.ratio)) <= math.log1p(self.noise):
            return "even"
        return "faster" if self.ratio > 1 else "slower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One operation in two files: the old and the new time of a contender, in seconds."""

    suite: str
    case: str
    contender: str
    old_s: float
    new_s: float
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two files have in common, and how their machines differ.

    `control` is the geometric mean by which cuBLAS, the same code in both, was faster in the new
    file; None where it took no part. `cards` are the GPUs where they are different ones.
    `only_old` and `only_new` name what one file lacks.
    """

    cases: tuple[Compared, ...]
    control: float | None
    cards: tuple[str, str] | None
    differences: tuple[str, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def verdict(new: Timing, old: Timing, drift: float = 0.0) -> Verdict:
    """Judge two timings by their interquartile ranges, which add as independent errors do.

    `drift` is by how much something that did not change differs between them, as a share.
    """
    noise = max(LEAST, math.hypot(new.spread, old.spread), drift)
    return Verdict(ratio=old.median_s / new.median_s, noise=noise)


def compare(old: BenchFile, new: BenchFile, contender: str = OURS) -> Comparison:
    """Compare a contender's times in two files, operation by operation.

    Where both files time cuBLAS on the operation, its change there counts as noise: its code did
    not change, so that is what the machines differ by.

    Raises:
        TilewrightError: no operation that both files timed.
    """
    before, after = _by_case(old), _by_case(new)
    shared = [key for key in after if key in before]
    cases = tuple(
        found
        for key in shared
        if (found := _compared(before[key], after[key], contender)) is not None
    )
    if not cases:
        raise TilewrightError(
            f"the two files time {contender} on no operation in common: measure the same suite"
        )
    cards = (_card(old), _card(new))
    return Comparison(
        cases=cases,
        control=_control([(before[key], after[key]) for key in shared]),
        cards=None if cards[0] == cards[1] else cards,
        differences=_differences(old, new),
        only_old=tuple(case for suite, case in before if (suite, case) not in after),
        only_new=tuple(case for suite, case in after if (suite, case) not in before),
    )


def _card(file: BenchFile) -> str:
    gpus = ", ".join(dict.fromkeys(each.gpu for each in file.records))
    return file.environment.card or gpus


def _by_case(file: BenchFile) -> dict[tuple[str, str], BenchRecord]:
    return {(record.suite, record.case): record for record in file.records}


def _compared(old: BenchRecord, new: BenchRecord, contender: str) -> Compared | None:
    before, after = old.timing(contender), new.timing(contender)
    if before is None or after is None:
        return None
    drift = 0.0 if contender == REFERENCE else abs(_change(old, new) or 0.0)
    return Compared(
        suite=new.suite,
        case=new.case,
        contender=contender,
        old_s=before.median_s,
        new_s=after.median_s,
        verdict=verdict(after, before, math.expm1(drift)),
    )


def _change(old: BenchRecord, new: BenchRecord) -> float | None:
    """Return the logarithm of how many times faster cuBLAS was in the new record."""
    before, after = old.timing(REFERENCE), new.timing(REFERENCE)
    return math.log(before.median_s / after.median_s) if before and after else None


def _control(pairs: Sequence[tuple[BenchRecord, BenchRecord]]) -> float | None:
    changes = [change for old, new in pairs if (change := _change(old, new)) is not None]
    return math.exp(math.fsum(changes) / len(changes)) if changes else None


def _differences(old: BenchFile, new: BenchFile) -> tuple[str, ...]:
    """Return what else of the environments differs, one line each."""
    before, after = old.environment, new.environment
    names = ("driver", "nvrtc", "tilewright", "commit")
    return tuple(
        f"{name}: {getattr(before, name)} -> {getattr(after, name)}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    )
