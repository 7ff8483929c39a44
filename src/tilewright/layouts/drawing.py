"""A layout as a grid of labelled, coloured cells: the data behind every picture of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Colouring: TypeAlias = Literal["index", "thread", "value", "bank"]

CLASSES = 8  # colours that a reader can tell apart, also with a colour vision deficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One place of a grid.

    `index` is counted in what the grid draws: elements, or the pieces of an access. `banks` are the
    first and the last bank of those bytes. `owners` are (thread, value), all of them where several
    hold the place; empty in a picture of memory. `colour` is a class from 0 to 7.
    """

    row: int
    column: int
    coordinate: str
    index: int
    banks: tuple[int, int]
    owners: tuple[tuple[int, int], ...] = ()
    label: str
    colour: int

    @property
    def sentence(self) -> str:
        """Coordinate → owner → index → bank, in words."""
        shown = ", ".join(f"thread {thread} value {value}" for thread, value in self.owners)
        owner = f" → {shown}" if shown else ""
        first, last = self.banks
        bank = f"bank {first}" if first == last else f"banks {first} to {last}"
        return f"{self.coordinate}{owner} → index {self.index} → {bank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A grid of cells and what a reader needs with it.

    `caption` says how the layout came about. `cells` go row by row; a place that nothing maps to
    has none. `row_breaks` and `column_breaks` are the lines before which a tile ends. `legend`
    says what each colour class in use stands for.
    """

    caption: str
    layout: str
    by: Colouring
    rows: int
    columns: int
    row_breaks: tuple[int, ...]
    column_breaks: tuple[int, ...]
    cells: tuple[Cell, ...]
    legend: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]

    def grid(self) -> list[list[Cell | None]]:
        """Return the cells by row and column, None where there is none."""
        lines: list[list[Cell | None]] = [[None] * self.columns for _ in range(self.rows)]
        for cell in self.cells:
            lines[cell.row][cell.column] = cell
        return lines

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self)
