"""Drawings of layouts as one page: a grid to point into or walk through, with no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from tilewright.layouts.drawing import Cell, Colouring, Drawing
from tilewright.report.palette import fills

_PAGE = Path(__file__).with_name("layout_page.html")


def html_page(drawings: Sequence[Drawing]) -> str:
    """Return the page of the drawings, the first one's layout as its title."""
    colourings = sorted({drawing.by for drawing in drawings})
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=escape(f"Layout {drawings[0].layout}"),
        same=escape(" or ".join("bank" if by == "index" else by for by in colourings)),
        fills="\n".join(_rules(by) for by in colourings),
        sections="\n".join(_section(number, drawing) for number, drawing in enumerate(drawings)),
    )


def _rules(by: Colouring) -> str:
    return "\n".join(
        f".{by}{number} {{ background: {fill.ground}; color: {fill.ink}; }}"
        for number, fill in enumerate(fills(by))
    )


def _section(number: int, drawing: Drawing) -> str:
    legend = "".join(
        f'<li><span class="{drawing.by}{colour}"></span>{escape(words)}</li>'
        for colour, words in drawing.legend
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in drawing.notes)
    head = "".join(f'<th scope="col">{column}</th>' for column in range(drawing.columns))
    longest = max((len(p) for cell in drawing.cells for p in cell.label.split()), default=1)
    first = drawing.cells[0] if drawing.cells else None
    rows = "\n".join(_row(row, line, drawing, first) for row, line in enumerate(drawing.grid()))
    return (
        f'<section aria-labelledby="drawing{number}">\n'
        f'<h2 id="drawing{number}">{escape(drawing.caption)}: '
        f"<code>{escape(drawing.layout)}</code></h2>\n"
        f'<div class="scroll"><table role="grid" aria-labelledby="drawing{number}" '
        f'style="--label: {longest}">\n'
        f"<thead><tr><th></th>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n"
        f"<ul>{legend}</ul>\n{notes}\n</section>"
    )


def _row(row: int, line: Sequence[Cell | None], drawing: Drawing, first: Cell | None) -> str:
    top = ' class="tile-top"' if row in drawing.row_breaks else ""
    cells = "".join(
        _cell(cell, drawing, column, reachable=cell is not None and cell is first)
        for column, cell in enumerate(line)
    )
    return f'<tr{top}><th scope="row">{row}</th>{cells}</tr>'


def _cell(cell: Cell | None, drawing: Drawing, column: int, *, reachable: bool) -> str:
    """Return a cell; one of each grid is in the tab order, the arrow keys reach the others."""
    left = "tile-left" if column in drawing.column_breaks else ""
    if cell is None:
        says = "held by no thread"
        return f'<td role="gridcell" tabindex="-1" class="{left}" data-says="{says}">·</td>'
    keys = {
        "index": cell.banks[0],
        "bank": cell.banks[0],
        "thread": cell.owners[0][0] if cell.owners else 0,
        "value": cell.owners[0][1] if cell.owners else 0,
    }
    classes = f"{drawing.by}{cell.colour} {left}".rstrip()
    label = escape(cell.label).replace(" ", "\n")
    return (
        f'<td role="gridcell" tabindex="{0 if reachable else -1}" class="{classes}" '
        f'data-same="{keys[drawing.by]}" data-says="{escape(cell.sentence)}">{label}</td>'
    )
