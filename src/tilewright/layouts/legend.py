"""The words beside a drawing: what its colours mean, and what its cells do to the banks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.layouts.drawing import CLASSES, Cell, Colouring
from tilewright.layouts.memory import Memory


def number_range(first: int, last: int) -> str:
    """Return "3" or "3-7"."""
    return str(first) if first == last else f"{first}-{last}"


def size_note(rows: int, columns: int, indices: Sequence[int], what: str) -> str:
    """Say how large the grid is, and whether its indices repeat or leave holes."""
    distinct, top = len(set(indices)), max(indices)
    parts = [f"{rows} × {columns} {what}: indices {min(indices)} to {top}"]
    if distinct < len(indices):
        parts.append(f"only {distinct} of them distinct")
    if holes := top + 1 - distinct:
        parts.append(f"{holes} not reached")
    return ", ".join(parts) + "."


def bank_notes(cells: Sequence[Cell], memory: Memory) -> Iterator[str]:
    """Say how many words one bank has to give for a column, and for a row, of cells."""
    for name, attribute in (("Down a column", "column"), ("Along a row", "row")):
        groups: dict[int, list[int]] = {}
        for cell in cells:
            groups.setdefault(getattr(cell, attribute), []).append(cell.index)
        if max(map(len, groups.values())) == 1:
            continue
        loads = [memory.load(group) for group in groups.values()]
        most, least = max(loads, key=lambda load: (load[0] - load[1], load[0]))
        if most == least:
            yield f"{name}: {most} word{'s' * (most > 1)} a bank at most, as few as can be."
        else:
            yield f"{name}: up to {most} words in one bank, where {least} would do."


def legend(cells: Sequence[Cell], by: Colouring, memory: Memory) -> tuple[tuple[int, str], ...]:
    """Return each colour class in use, and what it stands for."""
    if by == "bank":
        return _bank_legend(cells, memory)
    if by == "index":
        return _index_legend(cells)
    place = 0 if by == "thread" else 1
    numbers: dict[int, set[int]] = {}
    for cell in cells:
        numbers.setdefault(cell.colour, set()).add(cell.owners[0][place])
    return tuple((colour, f"{by} {_listed(numbers[colour])}") for colour in sorted(numbers))


def _listed(numbers: set[int]) -> str:
    first, *rest = sorted(numbers)
    if len(rest) < 3:
        return ", ".join(map(str, (first, *rest)))
    return f"{first}, {rest[0]}, … {rest[-1]}"


def _bank_legend(cells: Sequence[Cell], memory: Memory) -> tuple[tuple[int, str], ...]:
    spans: dict[int, list[int]] = {}
    for bank in range(memory.banks):
        spans.setdefault(bank * CLASSES // memory.banks, []).append(bank)
    used = sorted({cell.colour for cell in cells})
    return tuple(
        (colour, f"bank {number_range(spans[colour][0], spans[colour][-1])}") for colour in used
    )


def _index_legend(cells: Sequence[Cell]) -> tuple[tuple[int, str], ...]:
    spans: dict[int, list[int]] = {}
    for cell in cells:
        spans.setdefault(cell.colour, []).append(cell.index)
    return tuple(
        (colour, f"index {number_range(min(spans[colour]), max(spans[colour]))}")
        for colour in sorted(spans)
    )
