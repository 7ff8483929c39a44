"""Where everything that is no multiply-add goes: between which FFMAs of the turn.

Fragments of a step are loaded during the step before it. The other instructions stay in their
order, and on their side of each load that they could disturb: barriers, waits, what computes a
load's address. Copies to shared memory stay behind the loads that they stood behind, in one go
with no load between them, as ptxas has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.code import Line
from tilewright.toolchain.schedule.deep import deep_positions, deep_rows
from tilewright.toolchain.schedule.loop import Load, MainLoop, Product
from tilewright.toolchain.schedule.operands import never_runs
from tilewright.toolchain.schedule.style import Style

Item = Product | int  # a multiply-add, or the index of any other instruction

_SYNC = frozenset({"BAR", "DEPBAR"})


def placed(
    loop: MainLoop, steps: Sequence[Sequence[Product]], style: Style, ahead: int = 0
) -> list[Item]:
    """Return all instructions of the turn in their new order, `steps` being those of the FFMAs.

    Of deep loads, `ahead` rows have second quads (`deep.py`).

    Raises:
        UnsupportedError: other instructions that do not fit between the loads.
    """
    loads = _load_positions(loop, steps, style)
    loads |= deep_positions(loop, deep_rows(loop), ahead, style)
    # The sort is stable: at one position, what is no load comes before the loads.
    where = sorted(
        [*_other_positions(loop, loads, style), *loads.items()], key=lambda each: each[1]
    )
    items: list[Item] = []
    products = [product for step in steps for product in step]
    done = 0
    for position, product in enumerate(products):
        while done < len(where) and where[done][1] <= position:
            items.append(where[done][0])
            done += 1
        items.append(product)
    return [*items, *(index for index, _ in where[done:]), *loop.moves, loop.others[-1]]


def _load_positions(
    loop: MainLoop, steps: Sequence[Sequence[Product]], style: Style
) -> dict[int, int]:
    size, count = len(loop.steps[0]), len(loop.steps)
    found: dict[int, int] = {}
    for step in range(count):
        loads = ordered_loads(loop, steps[(step + 1) % count], (step + 1) % count)
        room = size // 2 - style.first_load
        gap = max(1, min(style.load_gap, room // max(len(loads) - 1, 1)))
        for number, load in enumerate(loads):
            found[load.index] = step * size + min(style.first_load + number * gap, size - 1)
    return found


def ordered_loads(loop: MainLoop, products: Sequence[Product], step: int) -> list[Load]:
    """Return the loads of a step, those first whose words its products need first."""
    first: dict[int, int] = {}
    for number, product in enumerate(products):
        first.setdefault(product.a.load, number)
        first.setdefault(product.b.load, number)
    return sorted(loop.loads_of(step), key=lambda load: first[load.index])


def _other_positions(
    loop: MainLoop, loads: Mapping[int, int], style: Style
) -> list[tuple[int, int]]:
    """Return a position for every other instruction but the branch, in their order."""
    others = [loop.lines[index] for index in loop.others[:-1]]
    names = [line.ins.opcode for line in others]
    if names.count("BAR") != 1:
        raise UnsupportedError(f"{names.count('BAR')} barriers in a turn: expected one")
    bounds = [_bounds(loop, index, loads) for index in loop.others[:-1]]
    sync = range(next(n for n, name in enumerate(names) if name in _SYNC), names.index("BAR") + 1)
    copied = [n for n, line in enumerate(others) if _is_copy(line)]
    copies = range(copied[0], copied[-1] + 1) if copied else range(0)
    if set(copies) & set(sync):
        raise UnsupportedError("copies between a wait and its barrier are not understood")
    size, whole = len(loop.steps[0]), len(loop.steps[0]) * len(loop.steps)
    low, high = bounds[sync[-1]]
    at = max(low, min(high, whole) - style.first_load - min(style.barrier, size // 4))
    wanted: dict[int, float] = {}
    early = max(at - style.sync_gap * (len(sync) - 1), bounds[sync[0]][0], at - size // 4)
    _spread(sync, wanted, early, at, style.sync_gap, reach=True)
    if copies:
        start = max(bounds[copies[0]][0], at if copies[0] > sync[-1] else 0)
        end = min((p for p in loads.values() if p >= start), default=whole)
        _spread(copies, wanted, start, end, style.copy_gap)
    _fill(wanted, len(others), whole, style)
    result = []
    position = 0
    for n, index in enumerate(loop.others[:-1]):
        position = max(position, bounds[n][0], round(wanted[n]))
        if position > bounds[n][1]:
            raise UnsupportedError(f"{others[n]}: no place before the loads that it stood before")
        result.append((index, position))
    return result


def _is_copy(line: Line) -> bool:
    """Whether a line is a copy to shared memory or one of the idle loads that precede those."""
    return line.ins.opcode == "LDGSTS" or never_runs(line.ins)


def _bounds(loop: MainLoop, index: int, loads: Mapping[int, int]) -> tuple[int, int]:
    """Return the first and the last position of an instruction that keeps it beside its loads."""
    line = loop.lines[index]
    low, high = 0, len(loop.steps[0]) * len(loop.steps)
    for load, position in loads.items():
        ordered = line.ins.opcode in _SYNC or not {*line.ops.writes}.isdisjoint(
            loop.lines[load].ops.reads
        )
        if load < index and (ordered or _is_copy(line)):
            low = max(low, position + 1)
        elif load > index and ordered:
            high = min(high, position)
    return low, high


def _fill(wanted: dict[int, float], count: int, whole: int, style: Style) -> None:
    """Spread what has no position yet between what has."""
    for before, after in pairwise([-1, *sorted(wanted), count]):
        start = wanted[before] + style.other_gap if before >= 0 else style.first_other
        end = wanted.get(after, whole)
        _spread(range(before + 1, after), wanted, min(start, end), end, style.other_gap)


def _spread(
    run: range, wanted: dict[int, float], start: float, end: float, gap: int, *, reach: bool = False
) -> None:
    """Put a run of instructions from `start` on, `gap` apart, closer if the end comes first.

    The last one may `reach` the end.
    """
    step = min(gap, (end - start) / max(len(run) - reach, 1))
    for n, each in enumerate(run):
        wanted[each] = start + n * step
