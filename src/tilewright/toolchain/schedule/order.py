"""The order of a step's multiply-adds: each shares a factor with the one before it.

A pair that shares a factor reads two registers, the accumulator and the other factor, and two
banks give two a cycle. So a step takes as many cycles as it has FFMAs if the banks are as busy as
one another at any time, which is up to the order: accumulators lie where ptxas put them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.banks import issue, reads_of
from tilewright.toolchain.schedule.deep import by_rows, deep_rows
from tilewright.toolchain.schedule.loop import MainLoop, Product
from tilewright.toolchain.schedule.registers import Registers
from tilewright.toolchain.schedule.style import Style

_WIDTHS = (8, 24)  # how many ways the search keeps: more take longer, and need not find better

Cell = tuple[int, int]


class Grid(NamedTuple):
    """The registers of a step: factors along both sides, and the accumulator of each pair."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    chains: tuple[tuple[int, ...], ...]


def orders(loop: MainLoop, registers: Registers, style: Style) -> Iterator[list[list[Product]]]:
    """Yield orders of the products worth trying: for every step, each step's alike.

    So two FFMAs of one accumulator are a whole step apart, and one search serves all steps: the
    registers of their fragments lie in the same banks. Deep loads leave one order, by rows.

    Raises:
        UnsupportedError: steps that are not alike.
    """
    if rows_of_loads := deep_rows(loop):
        yield by_rows(loop, rows_of_loads, registers.ahead, registers.of)
        return
    cell, grid = _grid(loop.steps[0], registers)
    tables = []
    for number, step in enumerate(loop.steps):
        table = {cell[product.chain]: product for product in step}
        if not _fits(table, grid, registers):
            table = {at: Product(p.chain, p.b, p.a) for at, p in table.items()}
            if not _fits(table, grid, registers):
                raise UnsupportedError(
                    f"step {number} pairs accumulators and banks as no other does"
                )
        tables.append(table)
    ways = [rows(grid)]
    if style.order == "balanced":
        ways += [columns(grid), *(balanced(grid, width) for width in _WIDTHS)]
    for way in ways:
        yield [[table[at] for at in way] for table in tables]


def _grid(step: Sequence[Product], registers: Registers) -> tuple[dict[int, Cell], Grid]:
    """Return the cell of every accumulator, and the registers of a step."""
    a = sorted({registers.of(product.a) for product in step})
    b = sorted({registers.of(product.b) for product in step})
    cell = {
        product.chain: (a.index(registers.of(product.a)), b.index(registers.of(product.b)))
        for product in step
    }
    chain = {at: register for register, at in cell.items()}
    chains = tuple(tuple(chain[i, j] for j in range(len(b))) for i in range(len(a)))
    return cell, Grid(tuple(a), tuple(b), chains)


def _fits(table: Mapping[Cell, Product], grid: Grid, registers: Registers) -> bool:
    """Whether a step has one factor for each row and column of the grid, in the same bank."""
    a: dict[int, int] = {}
    b: dict[int, int] = {}
    for (i, j), product in table.items():
        x, y = registers.of(product.a), registers.of(product.b)
        if a.setdefault(i, x) != x or b.setdefault(j, y) != y:
            return False
        if (x - grid.a[i]) % 2 or (y - grid.b[j]) % 2:
            return False
    return True


class _Way(NamedTuple):
    """The beginning of an order: its time, what the banks are behind, where it is, what is left."""

    time: int
    banks: tuple[int, int]
    row: int
    column: int
    left: int
    before: _Way | None


def rows(grid: Grid) -> list[Cell]:
    """Return a snake: along a row of `b`, back along the next."""
    width = len(grid.b)
    return [
        (i, j if i % 2 == 0 else width - 1 - j) for i in range(len(grid.a)) for j in range(width)
    ]


def columns(grid: Grid) -> list[Cell]:
    """Return a snake: down a column of `a`, up the next."""
    height = len(grid.a)
    return [
        (i if j % 2 == 0 else height - 1 - i, j) for j in range(len(grid.b)) for i in range(height)
    ]


def balanced(grid: Grid, width: int) -> list[Cell]:
    """Return the fastest order that a beam search of this width finds."""
    height, length = len(grid.a), len(grid.b)
    in_row = [sum(1 << i * length + j for j in range(length)) for i in range(height)]
    in_column = [sum(1 << i * length + j for i in range(height)) for j in range(length)]
    everything = (1 << height * length) - 1
    first = grid.a[0], grid.b[0], grid.chains[0][0]
    time, banks = issue((0, 0), reads_of(first))
    ways = [_Way(time, banks, 0, 0, everything & ~1, None)]
    alone = [[reads_of((c,)) for c in line] for line in grid.chains]
    by_a = [
        [_sum(alone[i][j], reads_of((grid.a[i],))) for j in range(length)] for i in range(height)
    ]
    by_b = [
        [_sum(alone[i][j], reads_of((grid.b[j],))) for j in range(length)] for i in range(height)
    ]
    for _ in range(height * length - 1):
        found: dict[tuple[int, int, int], tuple[tuple[int, int, int], _Way]] = {}
        for way in ways:
            near = (in_row[way.row] | in_column[way.column]) & way.left
            for cell in _bits(near or way.left):
                i, j = divmod(cell, length)
                if i == way.row:
                    reads = by_b[i][j]
                elif j == way.column:
                    reads = by_a[i][j]
                else:
                    reads = _sum(by_a[i][j], reads_of((grid.b[j],)))
                taken, banks = issue(way.banks, reads)
                left = way.left & ~(1 << cell)
                onward = ((in_row[i] | in_column[j]) & left).bit_count()
                score = (way.time + taken, banks[0] + banks[1], onward)
                key = (left, i, j)
                if key not in found or score < found[key][0]:
                    found[key] = score, _Way(way.time + taken, banks, i, j, left, way)
        best = sorted(found.values(), key=lambda each: each[0])[:width]
        ways = [way for _, way in best]
    return _cells(min(ways, key=lambda way: way.time))


def _cells(way: _Way | None) -> list[Cell]:
    found: list[Cell] = []
    while way is not None:
        found.append((way.row, way.column))
        way = way.before
    return found[::-1]


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def _sum(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    return x[0] + y[0], x[1] + y[1]
