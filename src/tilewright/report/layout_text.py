"""A drawing of a layout in the terminal: numbers in a grid, coloured where the terminal can."""

from __future__ import annotations

from collections.abc import Iterator

from rich.style import Style
from rich.text import Text

from tilewright.layouts.drawing import Cell, Drawing
from tilewright.report.palette import fills

# What a screen shows of a large grid; the files show all of it.
MAX_ROWS = 64
MAX_COLUMNS = 64

_HEADER = Style(dim=True)


def layout_lines(drawing: Drawing, width: int) -> Iterator[Text]:
    """Yield the lines of the grid, its columns in bands that fit `width` characters."""
    grid = drawing.grid()
    rows, columns = min(drawing.rows, MAX_ROWS), min(drawing.columns, MAX_COLUMNS)
    shown = [cell for line in grid[:rows] for cell in line[:columns] if cell]
    wide = max(len(cell.label) for cell in shown) if shown else 1
    wide = max(wide, len(str(columns - 1)))
    margin = len(str(rows - 1)) + 1
    for first, last in _bands(drawing, columns, wide, width - margin):
        yield Text("")
        yield _header(drawing, range(first, last), wide, margin)
        for row in range(rows):
            if row in drawing.row_breaks:
                yield Text(" " * margin + _rule(drawing, range(first, last), wide), _HEADER)
            line = Text()
            line.append(f"{row:>{margin - 1}} ", _HEADER)
            for column in range(first, last):
                if column > first and column in drawing.column_breaks:
                    line.append("│", _HEADER)
                _append(line, grid[row][column], wide, drawing)
            yield line
    if rows < drawing.rows or columns < drawing.columns:
        yield Text(
            f"rows 0 to {rows - 1} of {drawing.rows}, columns 0 to {columns - 1} of "
            f"{drawing.columns}; --svg and --html draw all"
        )


def legend_line(drawing: Drawing) -> Text:
    """Return the colours in use and what they stand for, to be wrapped."""
    line = Text()
    for colour, words in drawing.legend:
        fill = fills(drawing.by)[colour]
        line.append("  ", Style(bgcolor=fill.ground))
        line.append(f" {words}   ".replace(" ", "\N{NO-BREAK SPACE}", len(words.split())))
    return line


def _append(line: Text, cell: Cell | None, wide: int, drawing: Drawing) -> None:
    if cell is None:
        line.append(f"{'·':>{wide + 1}} ", _HEADER)
        return
    fill = fills(drawing.by)[cell.colour]
    # A space on either side: neighbours stay apart without colours as well.
    line.append(f" {cell.label:>{wide}} ", Style(color=fill.ink, bgcolor=fill.ground))


def _header(drawing: Drawing, columns: range, wide: int, margin: int) -> Text:
    line = Text(" " * margin, _HEADER)
    for column in columns:
        if column > columns.start and column in drawing.column_breaks:
            line.append("│")
        line.append(f" {column:>{wide}} ")
    return line


def _rule(drawing: Drawing, columns: range, wide: int) -> str:
    parts = []
    for column in columns:
        if column > columns.start and column in drawing.column_breaks:
            parts.append("┼")
        parts.append("─" * (wide + 2))
    return "".join(parts)


def _bands(drawing: Drawing, columns: int, wide: int, room: int) -> Iterator[tuple[int, int]]:
    """Yield the (first, past the last) column of each band: whole tiles where one fits."""
    tile = drawing.column_breaks[0] if drawing.column_breaks else columns
    cell = wide + 2
    tiles = (room + 1) // (tile * cell + 1)  # one more for the line between tiles
    if tiles:
        step = tiles * tile
    else:
        step = max(room // cell, 1)
        step = next((s for s in range(step, step // 2, -1) if tile % s == 0), step)
    for first in range(0, columns, step):
        yield first, min(first + step, columns)
