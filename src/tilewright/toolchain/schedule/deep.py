"""Loads of neighbours along k: each has a word for every one of four steps, not four for one.

Such a load's values last for four steps, in a quad of registers a row of accumulators. The quad is
free for the next four steps' values when the row's last multiply-add has been issued, so the rows
of the last of four steps go one after another, each followed by a load. Nothing may be in flight
where the turn ends, so some rows have second quads, and their loads need not wait for a row:

    rows       0   1   2   3         quads of rows 0 to 3 at the start: A B C D, second quads S T
    to S T     S   T   A   B         loads for 0 and 1 at once, for 2 behind row 0, for 3 behind 1
    and back   A   B   C   D         loads for 2 and 3 at once, for 0 behind row 2, for 1 behind 3
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.banks import cycles, reads_of
from tilewright.toolchain.schedule.loop import QUAD, Load, MainLoop, Product, Word
from tilewright.toolchain.schedule.style import Style

Rows = Sequence[Sequence[Load]]
RegisterOf = Callable[[Word], int]


def deep_rows(loop: MainLoop) -> Rows:
    """Return the loads of each row of accumulators, four steps after four; no rows without any.

    Raises:
        UnsupportedError: an odd number of them a turn: second quads would be where the first were.
    """
    rows: dict[frozenset[int], list[Load]] = {}
    for step in range(0, len(loop.steps), QUAD):
        chains: dict[int, set[int]] = defaultdict(set)
        for product in loop.steps[step]:
            chains[product.a.load].add(product.chain)
        for load in loop.deep_loads_of(step):
            rows.setdefault(frozenset(chains[load.index]), []).append(load)
    found = tuple(rows.values())
    lengths = sorted({len(row) for row in found})
    if len(lengths) > 1 or any(length % 2 for length in lengths):
        raise UnsupportedError(
            f"rows have {lengths} loads of neighbours along k in a turn: expected as many each, an "
            "even number"
        )
    return found


def most_ahead(rows: Rows) -> int:
    """Return how many rows a second quad is worth its registers for: half a step is time enough."""
    return len(rows) // 2


def deep_quads(rows: Rows, second: Sequence[int]) -> dict[int, int]:
    """Return the first register of every load's quad by the load's index."""
    home = [row[0].register for row in rows]
    away = [*second, *home][: len(rows)]
    return {
        load.index: (away if time % 2 else home)[number]
        for number, row in enumerate(rows)
        for time, load in enumerate(row)
    }


def deep_positions(loop: MainLoop, rows: Rows, ahead: int, style: Style) -> dict[int, int]:
    """Return which FFMA of the turn each load comes before, `ahead` rows having second quads."""
    size = len(loop.steps[0])
    found: dict[int, int] = {}
    for time in range(len(rows[0]) if rows else 0):
        step = (time * QUAD - 1) % len(loop.steps)
        turn = [row[time] for row in rows]
        if time % 2 == 0:  # the last rows' own quads are the free ones
            turn = turn[len(turn) - ahead :] + turn[: len(turn) - ahead]
        for number, load in enumerate(turn):
            at = (number - ahead + 1) * size // len(rows)
            if number < ahead:
                at = style.first_load + number * min(style.load_gap, size // len(rows)) // 2
            found[load.index] = step * size + at
    return found


def by_rows(loop: MainLoop, rows: Rows, ahead: int, of: RegisterOf) -> list[list[Product]]:
    """Return an order of every step's multiply-adds by rows, each behind those it waits for.

    A row goes along its columns, the next one back. What the banks are asked for between two rows
    is the new row's word, which lies in the same bank for all rows, and its accumulator in the
    column where it turns. So of some columns to turn in, the best are taken for each step.
    """
    row_of = {load.index: number for number, row in enumerate(rows) for load in row}
    found = []
    for step, products in enumerate(loop.steps):
        turn = list(range(len(rows)))
        if step % (2 * QUAD) == 2 * QUAD - 1:
            turn = turn[ahead:] + turn[:ahead]
        table: dict[tuple[int, Word], Product] = {(row_of[p.a.load], p.b): p for p in products}
        columns = sorted({product.b for product in products}, key=of)
        snakes = (
            [table[row, column] for n, row in enumerate(turn) for column in order[:: 1 - n % 2 * 2]]
            for order in _turning(columns)
        )
        found.append(min(snakes, key=lambda snake: _cycles(snake, of)))
    return found


def _turning(columns: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield orders of the columns that begin and end with others."""
    last = len(columns) - 1
    for ends in permutations(sorted({0, 1, last - 1, last}), 2):
        between = [n for n in range(last + 1) if n not in ends]
        yield [columns[n] for n in (ends[0], *between, ends[1])]


def _cycles(order: Sequence[Product], of: RegisterOf) -> int:
    """Return how long the banks take for these multiply-adds, shared factors kept."""
    reads = []
    kept: tuple[int, ...] = ()
    for product in order:
        factors = of(product.a), of(product.b)
        reads.append(reads_of([product.chain, *(r for r in factors if r not in kept)]))
        kept = factors
    return cycles((each, 1) for each in reads)


def deep_boards(rows: Rows, boards: Sequence[int]) -> Mapping[int, int]:
    """Return the scoreboard of each load by its index: rows that come later have later ones."""
    return {
        load.index: boards[number * len(boards) // len(rows)]
        for number, row in enumerate(rows)
        for load in row
    }
