"""Searches as one page: how fast each candidate was, and how good predictions and strategies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.report.bench import us
from tilewright.report.ladder import Table
from tilewright.report.page import render
from tilewright.report.tuning import best_table, review_table, strategies_table
from tilewright.report.tuning_charts import (
    over_all,
    predicted_chart,
    products_chart,
    strategies_chart,
    tried_chart,
)
from tilewright.tuning.review import Course, Review

# What searches in detail may take together: a page of many is to stay under 2 MB.
_MOST_CHARACTERS = 1_600_000
# What a row of a table has beside its text.
_ROW_CHARACTERS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """What strategies find, of one product or over several: as text, as picture, as table."""

    says: str
    chart: str
    table: Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """One search as the page has it; `candidates` are rows in the order tried.

    Strategies are here where it is alone; of several the page has them once, over all.
    """

    key: str
    says: str
    order: str
    tried: str
    predicted: str
    strategies: Strategies | None
    best: Table | None
    candidates: tuple[tuple[str, ...], ...]

    @property
    def characters(self) -> int:
        """About how many it takes in the page."""
        rows = sum(_ROW_CHARACTERS + len("".join(row)) for row in self.candidates)
        return len(self.tried) + len(self.predicted) + rows


def tuning_page(reviews: Sequence[Review]) -> str:
    """Return the page of searches; several have an overview first."""
    gpus = ", ".join(dict.fromkeys(each.machine.gpu for each in reviews))
    several = len(reviews) > 1
    what = f"{len(reviews)} products" if several else reviews[0].recording.operation.key
    courses = over_all(reviews)
    searches = _that_fit(reviews)
    return render(
        "tune.html",
        title=f"{what}, tuned on {gpus}",
        overview=review_table(reviews),
        products=products_chart(reviews, "products") if several else None,
        strategies=_strategies(courses, "all") if several and courses else None,
        searches=searches,
        left_out=len(reviews) - len(searches),
    )


def _that_fit(reviews: Sequence[Review]) -> list[Searched]:
    """Return searches in detail, the first ones, until the page is full."""
    found: list[Searched] = []
    room = _MOST_CHARACTERS
    for each in reviews:
        searched = _searched(each, alone=len(reviews) == 1)
        room -= searched.characters
        if room < 0:
            break
        found.append(searched)
    return found


def _searched(found: Review, *, alone: bool) -> Searched:
    key = found.recording.operation.key
    return Searched(
        key=key,
        says=_says(found),
        order=_order(found),
        tried=tried_chart(found, f"tried-{key}"),
        predicted=predicted_chart(found, f"predicted-{key}"),
        strategies=_strategies(found.courses, key) if alone and found.courses else None,
        best=best_table(found) if found.first is not None else None,
        candidates=tuple(_candidates(found)),
    )


def _says(found: Review) -> str:
    """Return what came of a search, in a sentence or two."""
    recording, best = found.recording, found.best
    tried = f"{len(recording.trials)} of {recording.space} variants were tried"
    if best is None or best.median_s is None:
        return f"{tried}, and none was right."
    rate = recording.operation.flops / best.median_s / 1e9
    text = f"{us(best.median_s)} µs, {rate:,.0f} GFLOP/s: {best.variant}. {tried}."
    if found.first is None:
        return text
    if found.first.variant == best.variant:
        return f"{text} It is the one that was predicted to be the fastest."
    return (
        f"{text} The one that was predicted to be the fastest has "
        f"{found.share(found.first):.1%} of the fastest's speed."
    )


def _order(found: Review) -> str:
    """Return how the predictions did, for the caption."""
    if found.rank is None:
        return "Too few were timed for a rank correlation."
    return (
        f"The rank correlation of both is {found.rank:.2f}: 1 would be the same order, 0 none in "
        "common."
    )


def _strategies(courses: Mapping[str, Course], name: str) -> Strategies:
    shares = "; ".join(
        f"{each} ends with {course.chosen:.1%} after {len(course.shares)}"
        for each, course in courses.items()
    )
    return Strategies(
        says=f"{shares}.",
        chart=strategies_chart(courses, f"strategies-{name}"),
        table=strategies_table(courses),
    )


def _candidates(found: Review) -> Sequence[tuple[str, ...]]:
    rows = []
    for place, (trial, predicted) in enumerate(
        zip(found.recording.trials, found.predicted, strict=True), start=1
    ):
        took = trial.state if trial.median_s is None else us(trial.median_s)
        spread = "" if trial.spread is None else f"{trial.spread:.1%}"
        rows.append((str(place), took, spread, us(predicted), str(trial.variant)))
    return rows
