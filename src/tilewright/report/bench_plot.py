"""The picture of a benchmark: times faster than cuBLAS by case, with the spread; PNG, or a page.

The page holds the picture as SVG, whose text and axes take the page's colours (dark or light), and
the tables that say the same in text. It loads nothing.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from tilewright.bench.baselines import REFERENCE
from tilewright.bench.results import OURS, BenchFile, BenchRecord
from tilewright.errors import TilewrightError
from tilewright.records import write_bytes, write_text
from tilewright.report.bench import baselines_of, bench_table, summary_table
from tilewright.report.charts import INK, SETTINGS, require_matplotlib, svg
from tilewright.report.ladder import Table

_PAGE = Path(__file__).with_name("bench_page.html")
# A colour and a shape each, so that either is enough to tell them apart.
# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "bright": blue, red, green, yellow.
_STYLES = {
    OURS: ("#4477aa", "o"),
    "cublaslt": ("#ee6677", "s"),
    "triton": ("#228833", "^"),
    "torch": ("#ccbb44", "D"),
}
_OTHER = ("#aa3377", "v")
_ROW_INCHES = 0.2
_PANEL_INCHES = 7.5
_DPI = 110


@dataclass(frozen=True, slots=True)
class Dot:
    """One ratio with its spread: from the quartiles of both times, the least and the most."""

    row: int
    ratio: float
    low: float
    high: float


def write_plot(files: Mapping[str, BenchFile], path: str | Path) -> None:
    """Draw one file, or several side by side by their names, to a .png or .html.

    Raises:
        TilewrightError: nothing to draw, no matplotlib, or a path that cannot be written.
    """
    require_matplotlib("--plot")
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        drawn = _figure(files)
        if str(path).lower().endswith(".png"):
            image = io.BytesIO()
            drawn.savefig(image, format="png", dpi=_DPI, facecolor="white")
            write_bytes(path, image.getvalue())
        else:
            write_text(path, _page(files, svg(drawn, "says")))


def rows(records: Sequence[BenchRecord]) -> list[str]:
    """Return the labels from top to bottom: each suite's name above its cases."""
    labels: list[str] = []
    for suite in dict.fromkeys(each.suite for each in records):
        labels += [f"{suite}:", *(each.case for each in records if each.suite == suite)]
    return labels


def dots(
    records: Sequence[BenchRecord], contender: str, places: Mapping[tuple[str, str], int]
) -> Iterator[Dot]:
    """Yield the dots of one contender."""
    for each in records:
        ours, theirs = each.timing(contender), each.timing(REFERENCE)
        if ours is not None and theirs is not None:
            yield Dot(
                places[each.suite, each.case],
                theirs.median_s / ours.median_s,
                theirs.p25_s / ours.p75_s,
                theirs.p75_s / ours.p25_s,
            )


def _figure(files: Mapping[str, BenchFile]) -> Any:  # noqa: ANN401 - a figure of matplotlib
    from matplotlib.figure import Figure

    merged = list({(r.suite, r.case): r for file in files.values() for r in file.records}.values())
    labels = rows(merged)
    places = _places(merged)
    figure = Figure(
        figsize=(1.5 + _PANEL_INCHES * len(files), 1.6 + _ROW_INCHES * len(labels)),
        layout="constrained",
    )
    panels = figure.subplots(1, len(files), sharex=True, sharey=True, squeeze=False)[0]
    drawn = 0
    for panel, (name, file) in zip(panels, files.items(), strict=True):
        drawn += _draw(panel, name, file, places)
    if not drawn:
        raise TilewrightError(
            f"nothing to draw: no case is timed beside {REFERENCE}; measure with it among "
            "--baselines"
        )
    panels[0].set_yticks(range(len(labels)), labels)
    panels[0].set_ylim(len(labels) - 0.5, -0.5)
    _logarithmic(panels[0])
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
    return figure


def _places(records: Sequence[BenchRecord]) -> dict[tuple[str, str], int]:
    """Return the row of each case, by suite and name."""
    places: dict[tuple[str, str], int] = {}
    row = 0
    for suite in dict.fromkeys(each.suite for each in records):
        row += 1
        for each in records:
            if each.suite == suite:
                places[suite, each.case] = row
                row += 1
    return places


def _draw(
    panel: Any,  # noqa: ANN401 - axes of matplotlib
    name: str,
    file: BenchFile,
    places: Mapping[tuple[str, str], int],
) -> int:
    """Draw one file; return how many dots that took."""
    drawn = 0
    for contender in (OURS, *baselines_of(file.records)):
        found = list(dots(file.records, contender, places))
        if contender == REFERENCE or not found:
            continue
        drawn += len(found)
        colour, marker = _STYLES.get(contender, _OTHER)
        low = [dot.ratio - dot.low for dot in found]
        high = [dot.high - dot.ratio for dot in found]
        panel.errorbar(
            [dot.ratio for dot in found], [dot.row for dot in found], xerr=[low, high],
            color=colour, marker=marker, markersize=5, linestyle="none", elinewidth=1.5,
            capsize=2, label=contender,
        )  # fmt: skip
    panel.axvline(1, color=INK, linewidth=1)
    panel.grid(axis="x", color=INK, alpha=0.15)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    gpus = ", ".join(dict.fromkeys(each.gpu for each in file.records))
    where = f"{gpus}, {file.environment.date[:10]}"
    panel.set_xlabel("times faster than cuBLAS in the same run; bars span the quartiles")
    panel.set_title(f"{name}\n{where}\n" if name else f"{where}\n", loc="right", fontsize=9)
    return drawn


def _logarithmic(panel: Any) -> None:  # noqa: ANN401 - axes of matplotlib
    """Make the axis logarithmic, with plain numbers at powers of two and, if few, between."""
    panel.set_xscale("log", base=2)
    least, most = panel.get_xlim()
    exponents = range(math.floor(math.log2(least)), math.ceil(math.log2(most)) + 1)
    ticks = [2.0**e for e in exponents]
    if len(ticks) < 4:
        ticks = sorted({tick * step for tick in ticks for step in (1, 1.1, 1.25, 1.5, 1.75)})
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.set_xticks([], minor=True)
    panel.set_xlim(least, most)


def _page(files: Mapping[str, BenchFile], picture: str) -> str:
    sections = []
    for name, file in files.items():
        tables = (summary_table(file), bench_table(file))
        heading = f"<h2>{escape(name)}</h2>" if name else ""
        sections.append(heading + "\n".join(_table(table) for table in tables))
    gpus = dict.fromkeys(each.gpu for file in files.values() for each in file.records)
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=escape(f"tilewright bench, {', '.join(gpus)}"),
        picture=picture,
        tables="\n".join(sections),
    )


def _table(table: Table) -> str:
    def cell(tag: str, text: str, side: str) -> str:
        return f'<{tag} class="{side}">{escape(text)}</{tag}>'

    sides = list(table.columns.values())
    head = "".join(cell("th", name.replace("\n", " "), s) for name, s in table.columns.items())
    body = "\n".join(
        f"<tr>{''.join(cell('td', text, s) for text, s in zip(row, sides, strict=True))}</tr>"
        for row in table.rows
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes)
    return (
        f'<div class="scroll"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n{notes}"
    )
