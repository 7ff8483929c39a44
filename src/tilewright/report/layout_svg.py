"""Drawings of layouts as one SVG: self-contained, light or dark as the reader's screen is.

Text lies in a column of 368 px, so that it reads on a screen of 400; a grid may be wider. Every
picture has a title and a description, and every cell the sentence that says where it leads.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from tilewright.layouts.drawing import Cell, Drawing
from tilewright.report.palette import fills

_MARGIN = 16
_TEXT_WIDTH = 368
_LINE = 17  # from one line of text to the next
_CODE_CHARACTERS = 46  # that fit _TEXT_WIDTH in the code font, 13 px
_NOTE_CHARACTERS = 56  # … in the text font, 12 px
_LABEL_CHARACTER = 6.1  # the width of a digit in a cell, 10 px
_CELL_LEAST = 24
_CELL_HEIGHT = 24
_TWO_LINES = 32
_SWATCH = 12

_STYLE = """
svg { color-scheme: light dark; background: #ffffff; }
.page { fill: #ffffff; }
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1a1a1a; }
.code { font: 600 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.head { font-size: 10px; fill: #595959; text-anchor: middle; }
.cell rect { stroke: #ffffff; stroke-width: 1; }
.cell text { font: 10px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  text-anchor: middle; }
.empty { fill: none; stroke: #b0b0b0; stroke-dasharray: 2 3; }
.tile { stroke: #1a1a1a; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  svg { background: #14171c; }
  .page { fill: #14171c; }
  text { fill: #e8e8e8; }
  .head { fill: #a8adb5; }
  .cell rect { stroke: #14171c; }
  .empty { stroke: #5a616b; }
  .tile { stroke: #14171c; stroke-width: 4; }
}
"""


def svg_picture(drawings: Sequence[Drawing]) -> str:
    """Return an SVG document with the drawings below one another."""
    parts: list[str] = []
    top, width = float(_MARGIN), float(_TEXT_WIDTH)
    for drawing in drawings:
        panel, height, across = _panel(drawing, top)
        parts += panel
        top += height + _MARGIN
        width = max(width, across)
    wide, high = round(width + 2 * _MARGIN), round(top)
    names = "; ".join(f"{drawing.caption}: {drawing.layout}" for drawing in drawings)
    words = " ".join(_described(drawing) for drawing in drawings)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" '
            f'viewBox="0 0 {wide} {high}" role="img" aria-labelledby="name words">',
            f'<title id="name">{escape(names)}</title>',
            f'<desc id="words">{escape(words)}</desc>',
            f"<style>{_STYLE}{_fills(drawings)}</style>",
            f'<rect class="page" width="{wide}" height="{high}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _described(drawing: Drawing) -> str:
    """Return the notes, and the labels of the first rows, as a text of moderate length."""
    lines = [
        f"Row {number}: {', '.join(cell.label if cell else 'empty' for cell in line)}."
        for number, line in enumerate(drawing.grid()[:16])
        if drawing.columns <= 32
    ]
    return " ".join([f"{drawing.caption}.", *drawing.notes, *lines])


def _fills(drawings: Sequence[Drawing]) -> str:
    rules = []
    for by in sorted({drawing.by for drawing in drawings}):
        for number, fill in enumerate(fills(by)):
            rules.append(f".{by}{number} {{ fill: {fill.ground}; }}")
            rules.append(f".cell .{by}{number}t {{ fill: {fill.ink}; }}")
    return "\n".join([*rules, ""])


def _panel(drawing: Drawing, top: float) -> tuple[list[str], float, float]:
    """Return the elements of one drawing, and the height and width that they take."""
    parts = []
    y = top + 12
    for line in textwrap.wrap(f"{drawing.caption}: {drawing.layout}", _CODE_CHARACTERS):
        parts.append(f'<text class="code" x="{_MARGIN}" y="{y:g}">{escape(line)}</text>')
        y += _LINE
    grid, height, width = _grid(drawing, y)
    parts += grid
    y += height + _LINE
    legend, height = _legend(drawing, y)
    parts += legend
    y += height
    for note in drawing.notes:
        for line in textwrap.wrap(note, _NOTE_CHARACTERS):
            parts.append(f'<text x="{_MARGIN}" y="{y:g}">{escape(line)}</text>')
            y += _LINE
    return parts, y - top, width


def _grid(drawing: Drawing, top: float) -> tuple[list[str], float, float]:
    words = [part for cell in drawing.cells for part in cell.label.split()]
    longest = max(map(len, words), default=1)
    wide = max(round(longest * _LABEL_CHARACTER + 8), _CELL_LEAST)
    two = any(" " in cell.label for cell in drawing.cells)
    high = _TWO_LINES if two else _CELL_HEIGHT
    left = _MARGIN + 7 * len(str(drawing.rows - 1)) + 6
    top += 8
    parts = [
        f'<text class="head" x="{left + (column + 0.5) * wide:g}" y="{top:g}">{column}</text>'
        for column in range(drawing.columns)
    ]
    top += 6
    for row, line in enumerate(drawing.grid()):
        y = top + row * high
        x = _MARGIN + (left - _MARGIN) / 2 - 2
        parts.append(f'<text class="head" x="{x:g}" y="{y + high / 2 + 3.5:g}">{row}</text>')
        for column, cell in enumerate(line):
            parts.append(_cell(cell, drawing, left + column * wide, y, wide, high))
    parts += _tile_lines(drawing, left, top, wide, high)
    return parts, 14 + drawing.rows * high, left - _MARGIN + drawing.columns * wide


def _cell(cell: Cell | None, drawing: Drawing, x: float, y: float, wide: float, high: float) -> str:
    box = f'x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}"'
    if cell is None:
        return f'<rect class="empty" {box}/>'
    lines = cell.label.split()
    first = y + high / 2 + 3.5 - 6 * (len(lines) - 1)
    middle = x + wide / 2
    colour = f"{drawing.by}{cell.colour}"
    labels = "".join(
        f'<text class="{colour}t" x="{middle:g}" y="{first + 12 * number:g}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return (
        f'<g class="cell"><title>{escape(cell.sentence)}</title>'
        f'<rect class="{colour}" {box}/>{labels}</g>'
    )


def _tile_lines(
    drawing: Drawing, left: float, top: float, wide: float, high: float
) -> Iterator[str]:
    right, bottom = left + drawing.columns * wide, top + drawing.rows * high
    for column in drawing.column_breaks:
        x = left + column * wide
        yield f'<path class="tile" d="M{x:g} {top:g}V{bottom:g}"/>'
    for row in drawing.row_breaks:
        y = top + row * high
        yield f'<path class="tile" d="M{left:g} {y:g}H{right:g}"/>'


def _legend(drawing: Drawing, top: float) -> tuple[list[str], float]:
    across = 6.6 * max(len(words) for _, words in drawing.legend) + _SWATCH + 18
    columns = max(int(_TEXT_WIDTH // across), 1)
    parts = []
    for number, (colour, words) in enumerate(drawing.legend):
        x = _MARGIN + number % columns * across
        y = top + number // columns * _LINE
        parts.append(
            f'<rect class="{drawing.by}{colour}" x="{x:g}" y="{y - 10:g}" '
            f'width="{_SWATCH}" height="{_SWATCH}"/>'
            f'<text x="{x + _SWATCH + 6:g}" y="{y:g}">{escape(words)}</text>'
        )
    return parts, -(-len(drawing.legend) // columns) * _LINE + 4
