"""The charts of a benchmark: times faster than cuBLAS by case, with spread; and of two compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.bench.baselines import REFERENCE
from tilewright.bench.compare import Comparison, verdict
from tilewright.bench.results import OURS, BenchFile, BenchRecord
from tilewright.errors import TilewrightError
from tilewright.report.bench import baselines_of
from tilewright.report.charts import INK, SETTINGS, png, svg

# A colour and a shape each, so that either is enough to tell them apart.
# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "bright": blue, red, green, yellow, purple.
_STYLES = {
    OURS: ("#4477aa", "o"),
    "cublaslt": ("#ee6677", "s"),
    "triton": ("#228833", "^"),
    "torch": ("#ccbb44", "D"),
}
_OTHER = ("#aa3377", "v")
_VERDICTS = {"faster": ("#4477aa", ">"), "slower": ("#ee6677", "<"), "even": (INK, "o")}
_ROW_INCHES = 0.2
_PANEL_INCHES = 6.3
_NARROW_INCHES = 4.5
_LABEL_INCHES = 2.0
# Rows above which the numbers of the axis stand above the rows as well.
_TALL = 25
# Numbers of a logarithmic axis: the coarsest that still gives a few of them.
_STEPS = (
    (1.0,), (1.0, 1.5), (1.0, 1.25, 1.5, 1.75), tuple(1 + n / 10 for n in range(10)),
    tuple(1 + n / 50 for n in range(50)), tuple(1 + n / 200 for n in range(200)),
)  # fmt: skip
_FEWEST_TICKS = 4
_NEAR = 0.05  # of an axis: nearer ticks would run into one another

Key = tuple[str, str]  # suite and case


@dataclass(frozen=True, slots=True)
class Dot:
    """One ratio with its spread: from the quartiles of both times, the least and the most.

    `even` says that the difference from cuBLAS is within the noise.
    """

    row: int
    ratio: float
    low: float
    high: float
    even: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows from top to bottom: labels, each suite's name above its cases, and where cases are."""

    labels: tuple[str, ...]
    places: Mapping[Key, int]

    @classmethod
    def of(cls, keys: Iterable[Key]) -> Rows:
        """Lay out cases, suite by suite."""
        labels: list[str] = []
        places: dict[Key, int] = {}
        cases = list(dict.fromkeys(keys))
        for suite in dict.fromkeys(suite for suite, _ in cases):
            labels.append(f"{suite}:")
            for key in cases:
                if key[0] == suite:
                    places[key] = len(labels)
                    labels.append(key[1])
        return cls(tuple(labels), places)

    @property
    def inches(self) -> float:
        """The height of a chart of them."""
        return 1.2 + _ROW_INCHES * len(self.labels)


def bench_png(file: BenchFile) -> bytes:
    """Return the ratios as an image.

    Raises:
        TilewrightError: nothing to draw.
    """
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        return png(_ratios([("", file)]))


def ratio_chart(files: Sequence[tuple[str, BenchFile]], label: str) -> str:
    """Return the ratios of files by their names, side by side, as SVG.

    Raises:
        TilewrightError: nothing to draw.
    """
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        return svg(_ratios(files), label)


def verdict_chart(found: Comparison, label: str) -> str:
    """Return how many times faster the new file is, with noise and verdicts, as SVG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    rows = Rows.of((each.suite, each.case) for each in found.cases)
    with mpl.rc_context(SETTINGS):
        size = (_LABEL_INCHES + _PANEL_INCHES, rows.inches)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        _verdicts(axes, found, rows)
        _label(axes, rows)
        return svg(figure, label)


def comparison_png(found: Comparison, old: BenchFile, new: BenchFile) -> bytes:
    """Return the verdicts as an image, and beside them both files where they time cuBLAS."""
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        return png(comparison_figure(found, old, new))


def comparison_figure(found: Comparison, old: BenchFile, new: BenchFile) -> Any:  # noqa: ANN401
    """Return that as a figure of matplotlib; it is to be drawn under `SETTINGS`."""
    from matplotlib.figure import Figure

    rows = Rows.of((each.suite, each.case) for each in found.cases)
    files = [("old", old), ("new", new)] if both_beside(old, new) else []
    size = (_LABEL_INCHES + _NARROW_INCHES * (1 + len(files)), rows.inches + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, 1 + len(files), sharey=True, squeeze=False)[0]
    _verdicts(panels[0], found, rows)
    for panel, (name, file) in zip(panels[1:], files, strict=True):
        _draw(panel, name, file, rows)
    _alike(panels[1:])
    _label(panels[0], rows)
    return figure


def both_beside(old: BenchFile, new: BenchFile) -> bool:
    """Return whether both files have something to draw beside cuBLAS."""
    return all(any(each.ratio() is not None for each in file.records) for file in (old, new))


def dots(
    records: Sequence[BenchRecord], contender: str, places: Mapping[Key, int]
) -> Iterator[Dot]:
    """Yield the dots of one contender, of the cases that have a place."""
    for each in records:
        ours, theirs = each.timing(contender), each.timing(REFERENCE)
        place = places.get((each.suite, each.case))
        if ours is not None and theirs is not None and place is not None:
            yield Dot(
                place,
                theirs.median_s / ours.median_s,
                theirs.p25_s / ours.p75_s,
                theirs.p75_s / ours.p25_s,
                verdict(ours, theirs).word == "even",
            )


def _ratios(files: Sequence[tuple[str, BenchFile]]) -> Any:  # noqa: ANN401 - a figure
    from matplotlib.figure import Figure

    rows = Rows.of((r.suite, r.case) for _, file in files for r in file.records)
    wide = _PANEL_INCHES if len(files) == 1 else _NARROW_INCHES
    size = (_LABEL_INCHES + wide * len(files), rows.inches)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(files), sharey=True, squeeze=False)[0]
    drawn = sum(
        _draw(panel, name, file, rows) for panel, (name, file) in zip(panels, files, strict=True)
    )
    if not drawn:
        raise TilewrightError(
            f"nothing to draw: no case is timed beside {REFERENCE}; measure with it among "
            "--baselines"
        )
    _alike(panels)
    _label(panels[0], rows)
    return figure


def _draw(axes: Any, name: str, file: BenchFile, rows: Rows) -> int:  # noqa: ANN401 - axes
    """Draw one file; return how many dots that took."""
    found = {
        contender: own
        for contender in (OURS, *baselines_of(file.records))
        if contender != REFERENCE and (own := list(dots(file.records, contender, rows.places)))
    }
    for contender, own in found.items():
        colour, marker = _STYLES.get(contender, _OTHER)
        axes.hlines(
            [dot.row for dot in own], [dot.low for dot in own], [dot.high for dot in own],
            color=colour, linewidth=1.5,
        )  # fmt: skip
        for even in (False, True):
            some = [dot for dot in own if dot.even == even]
            axes.plot(
                [dot.ratio for dot in some], [dot.row for dot in some], marker, color=colour,
                markersize=5, markerfacecolor="none" if even else colour,
                label=f"{contender}, within noise" if even else contender,
            )  # fmt: skip
    if len(found) == 1:
        _values(axes, [(dot.row, dot.ratio) for own in found.values() for dot in own])
    gpus = ", ".join(dict.fromkeys(each.gpu for each in file.records))
    where = f"{gpus}, {file.environment.date[:10]}"
    axes.set_xlabel(
        "times faster than cuBLAS in the same run; bars span quartiles\n"
        f"{name}{': ' if name else ''}{where}"
    )
    _frame(axes, rows)
    return sum(map(len, found.values()))


def _verdicts(axes: Any, found: Comparison, rows: Rows) -> None:  # noqa: ANN401 - axes
    """Draw each case's ratio, in the band of what would be noise."""
    places = [rows.places[each.suite, each.case] for each in found.cases]
    noise = [1 + each.verdict.noise for each in found.cases]
    axes.barh(
        places, [n - 1 / n for n in noise], left=[1 / n for n in noise], height=0.75, color=INK,
        alpha=0.18, linewidth=0, label="noise",
    )  # fmt: skip
    for word, (colour, marker) in _VERDICTS.items():
        own = [
            (place, each.verdict.ratio)
            for place, each in zip(places, found.cases, strict=True)
            if each.verdict.word == word
        ]
        axes.plot(
            [ratio for _, ratio in own], [place for place, _ in own], marker, color=colour,
            markersize=6, markerfacecolor="none" if word == "even" else colour,
            label={"even": "within noise"}.get(word, word),
        )  # fmt: skip
    ratios = [each.verdict.ratio for each in found.cases]
    _values(axes, list(zip(places, ratios, strict=True)))
    cards = "" if found.cards is None else f"\n{' → '.join(found.cards)}: different machines"
    axes.set_xlabel(f"times faster in the new file than in the old{cards}")
    _frame(axes, rows)
    _logarithmic([axes])


def _values(axes: Any, rows: Sequence[tuple[int, float]]) -> None:  # noqa: ANN401 - axes
    """Write the ratios at the right end of their rows."""
    for place, ratio in rows:
        axes.annotate(
            f"{ratio:.3f}", (1, place), xycoords=axes.get_yaxis_transform(), xytext=(6, 0),
            textcoords="offset points", va="center", fontsize=8,
        )  # fmt: skip


def _frame(axes: Any, rows: Rows) -> None:  # noqa: ANN401 - axes of matplotlib
    """Draw what all panels have: the line of even speed, and a light line a row."""
    axes.axvline(1, color=INK, linewidth=1)
    axes.grid(axis="x", color=INK, alpha=0.15)
    axes.grid(axis="y", color=INK, alpha=0.07)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if len(rows.labels) > _TALL:
        axes.tick_params(axis="x", labeltop=True)
    handles, _ = axes.get_legend_handles_labels()
    some = [h for h in handles if not hasattr(h, "get_xdata") or len(h.get_xdata())]
    axes.legend(
        handles=some, loc="lower left", bbox_to_anchor=(0, 1), frameon=False,
        ncols=3 if len(some) > 4 else 4, borderaxespad=2 if len(rows.labels) > _TALL else 0.5,
    )  # fmt: skip


def _label(axes: Any, rows: Rows) -> None:  # noqa: ANN401 - axes of matplotlib
    axes.set_yticks(range(len(rows.labels)), rows.labels)
    axes.set_ylim(len(rows.labels) - 0.5, -0.5)


def _alike(panels: Sequence[Any]) -> None:
    """Give panels the same logarithmic axis."""
    limits = [panel.get_xlim() for panel in panels]
    for panel in panels:
        panel.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
    _logarithmic(panels)


def _logarithmic(panels: Sequence[Any]) -> None:
    """Make axes logarithmic, with plain numbers."""
    for axes in panels:
        axes.set_xscale("log", base=2)
        least, most = axes.get_xlim()
        exponents = range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1)
        for steps in _STEPS:
            ticks = [2.0**e * step for e in exponents for step in steps]
            ticks = [tick for tick in ticks if least <= tick <= most]
            if len(ticks) >= _FEWEST_TICKS:
                break
        ticks = _apart(ticks, (most / least) ** _NEAR)
        axes.set_xticks(ticks, [f"{tick:.4g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlim(least, most)


def _apart(ticks: Sequence[float], ratio: float) -> list[float]:
    """Leave ticks out, so that neighbours are `ratio` apart: of two near ones the lower."""
    kept: list[float] = []
    for tick in reversed(ticks):
        if not kept or kept[-1] / tick >= ratio:
            kept.append(tick)
    return kept[::-1]
