"""Drawing a layout: its grid of cells, with indices, banks and owners.

Rows are the coordinates of mode 0, columns those of the other modes; a layout of one mode is a
row. A thread-value layout is drawn in the tile that its indices are places of, as CuTe does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.errors import LayoutError
from tilewright.layouts.drawing import CLASSES, Cell, Colouring, Drawing
from tilewright.layouts.int_tuple import IntTuple, elements, idx2crd, leaves, product, text
from tilewright.layouts.layout import Layout
from tilewright.layouts.legend import bank_notes, legend, number_range, size_note
from tilewright.layouts.memory import Memory
from tilewright.layouts.recast import recast
from tilewright.layouts.swizzle import AnyLayout

MAX_CELLS = 1 << 14


def draw(
    layout: AnyLayout,
    *,
    by: Colouring = "index",
    memory: Memory | None = None,
    access: int | None = None,
    caption: str = "",
) -> Drawing:
    """Draw a layout: at each coordinate the index, or with `by="bank"` the banks it lies in.

    With `access` the grid shows the pieces that an access of so many bits takes: the layout recast.

    >>> picture = draw(Layout((2, 4), (4, 1)), by="bank")
    >>> [cell.label for cell in picture.cells], picture.cells[6].sentence
    (['0', '1', '2', '3', '4', '5', '6', '7'], '(1,2) → index 6 → bank 6')

    Units: bits an access.

    Raises:
        LayoutError: colours by thread or value, which a layout of memory does not have; more than
            16384 cells; a layout that does not recast.
    """
    memory = memory or Memory()
    if by in ("thread", "value"):
        raise LayoutError(
            f"colour by {by}: {layout} maps coordinates to indices and names no {by}s; draw it as "
            "a thread-value layout, or colour by index or bank"
        )
    name, what = str(layout), "cells"
    if access is not None:
        layout = recast(layout, memory.bits, access)
        memory = Memory(bits=access, banks=memory.banks)
        what = f"pieces of {access} bits, {layout}"
    grid = _Grid.of(layout)
    span = max(grid.indices) + 1
    cells = []
    for place in grid.places():
        banks = memory.banks_of(place.index)
        index_class, bank_class = _classes(place.index, span, banks[0], memory)
        cells.append(
            Cell(
                row=place.row,
                column=place.column,
                coordinate=place.coordinate,
                index=place.index,
                banks=banks,
                label=number_range(*banks) if by == "bank" else str(place.index),
                colour=bank_class if by == "bank" else index_class,
            )
        )
    notes = [size_note(grid.rows, grid.columns, grid.indices, what)]
    if len(elements(layout.shape)) > 2:
        notes.append("Rows: mode 0. Columns: the other modes, the first of them fastest.")
    if by == "bank":
        notes += bank_notes(cells, memory)
    return grid.drawing(cells, by, legend(cells, by, memory), notes, caption, name)


def draw_thread_value(
    layout: AnyLayout,
    tile: Layout,
    *,
    by: Colouring = "thread",
    memory: Memory | None = None,
    caption: str = "",
) -> Drawing:
    """Draw who holds what: mode 0 of the layout counts threads, the others their values.

    The layout's indices are those of `tile`, which places them in rows and columns.

    >>> picture = draw_thread_value(Layout((4, 2), (2, 1)), Layout((2, 4), (4, 1)))
    >>> [cell.label for cell in picture.cells]
    ['T0 V0', 'T0 V1', 'T1 V0', 'T1 V1', 'T2 V0', 'T2 V1', 'T3 V0', 'T3 V1']

    Raises:
        LayoutError: a layout of one mode, an index that is no place of the tile, a tile that has an
            index twice, or more than 16384 cells.
    """
    memory = memory or Memory()
    grid = _Grid.of(tile)
    owners = _owners(layout, tile, grid.indices)
    span = max(grid.indices) + 1
    cells = []
    for place in grid.places():
        if place.index not in owners:
            continue
        (thread, value), *more = owners[place.index]
        banks = memory.banks_of(place.index)
        index_class, bank_class = _classes(place.index, span, banks[0], memory)
        colours: dict[Colouring, int] = {
            "index": index_class,
            "bank": bank_class,
            "thread": thread % CLASSES,
            "value": value % CLASSES,
        }
        cells.append(
            Cell(
                row=place.row,
                column=place.column,
                coordinate=place.coordinate,
                index=place.index,
                banks=banks,
                owners=((thread, value), *more),
                label=f"T{thread} V{value}" + (f"+{len(more)}" if more else ""),
                colour=colours[by],
            )
        )
    threads = layout[0].size
    notes = [
        f"{threads} threads with {layout.size // threads} values each in {grid.rows} × "
        f"{grid.columns} places: {grid.rows * grid.columns - len(cells)} held by none, "
        f"{sum(len(cell.owners) > 1 for cell in cells)} by several."
    ]
    name = f"{layout} in {tile}"
    return grid.drawing(cells, by, legend(cells, by, memory), notes, caption, name)


@dataclass(frozen=True, slots=True)
class _Place:
    """A coordinate of a grid."""

    row: int
    column: int
    coordinate: str
    index: int


@dataclass(frozen=True, slots=True)
class _Grid:
    """The coordinates of a layout in rows and columns, and their indices in flat order."""

    shape: IntTuple
    row_shape: IntTuple
    column_shape: IntTuple
    indices: list[int]

    @classmethod
    def of(cls, layout: AnyLayout) -> _Grid:
        if layout.size > MAX_CELLS:
            raise LayoutError(
                f"{layout} has {layout.size} cells, a drawing at most {MAX_CELLS}: draw one tile "
                "of it, or pieces of more bits"
            )
        first, *rest = elements(layout.shape)
        if not rest:
            return cls(layout.shape, 1, first, layout.indices())
        columns = rest[0] if len(rest) == 1 else tuple(rest)
        return cls(layout.shape, first, columns, layout.indices())

    @property
    def rows(self) -> int:
        return product(self.row_shape)

    @property
    def columns(self) -> int:
        return product(self.column_shape)

    def places(self) -> Iterator[_Place]:
        """Yield the places row by row."""
        rows = self.rows
        for row in range(rows):
            for column in range(self.columns):
                at = row + rows * column
                yield _Place(row, column, text(idx2crd(at, self.shape)), self.indices[at])

    def drawing(
        self,
        cells: list[Cell],
        by: Colouring,
        colours: tuple[tuple[int, str], ...],
        notes: list[str],
        caption: str,
        layout: str,
    ) -> Drawing:
        return Drawing(
            caption=caption,
            layout=layout,
            by=by,
            rows=self.rows,
            columns=self.columns,
            row_breaks=_breaks(self.row_shape),
            column_breaks=_breaks(self.column_shape),
            cells=tuple(cells),
            legend=colours,
            notes=tuple(notes),
        )


def _classes(index: int, span: int, bank: int, memory: Memory) -> tuple[int, int]:
    """Return the colour class of an index, by its place in 0 to span - 1, and of a bank."""
    return index * CLASSES // span, bank * CLASSES // memory.banks


def _breaks(shape: IntTuple) -> tuple[int, ...]:
    """Return where tiles end along a mode that is made of several."""
    step = product(elements(shape)[0])
    return tuple(range(step, product(shape), step)) if len(leaves(shape)) > 1 else ()


def _owners(layout: AnyLayout, tile: Layout, places: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Return the (thread, value) pairs that hold each index, and check that the tile has it."""
    if layout.rank < 2:
        raise LayoutError(
            f"{layout} has one mode: a thread-value layout has threads in mode 0 and values in "
            "mode 1, as in ((4,8),2):((2,8),1)"
        )
    known = set(places)
    if len(known) < len(places):
        raise LayoutError(f"tile {tile} has an index twice: give one that has each index once")
    if layout.size > MAX_CELLS:
        raise LayoutError(f"{layout} has {layout.size} values, a drawing at most {MAX_CELLS}")
    owners: dict[int, list[tuple[int, int]]] = {}
    threads = layout[0].size
    for at, index in enumerate(layout.indices()):
        value, thread = divmod(at, threads)
        if index not in known:
            raise LayoutError(
                f"thread {thread}, value {value} of {layout} has index {index}, which is no place "
                f"of the tile {tile}: give the tile that the indices count in"
            )
        owners.setdefault(index, []).append((thread, value))
    return owners
