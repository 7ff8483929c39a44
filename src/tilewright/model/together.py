"""Several ways through the same code, simulated together: what they have in common once.

A long loop is simulated for a few trips and for more, roughly and well. All those ways are equal
up to the end of the shortest one's loop, so the simulation goes that far once and parts there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from tilewright.model.sm import LOOKAHEAD, Simulated, Sm

Path = tuple[int, ...]
Ways = tuple[Path, ...]  # the paths of the warps of a block


def simulate_ways(ways: Iterable[Ways], start: Callable[[Ways], Sm]) -> dict[Ways, Simulated]:
    """Return what `start(ways).run()` gives of each, exactly."""
    found: dict[Ways, Simulated] = {}
    distinct = sorted(set(ways))
    if distinct:
        _part(start(distinct[0]), distinct, found)
    return found


def _part(sm: Sm, paths: Sequence[Ways], found: dict[Ways, Simulated]) -> None:
    """Run a simulation that is on the first of `paths`, in order, on all of them."""
    while len(paths) > 1:
        # The path that has least in common with its neighbour parts first.
        common = [_common(one, other) for one, other in pairwise(paths)]
        least = min(common)
        sm.run_to(least - LOOKAHEAD)
        place = common.index(least) + 1
        others = paths[place:]
        _part(sm.on(others[0]), others, found)
        paths = paths[:place]
    found[paths[0]] = sm.run()


def _common(one: Ways, other: Ways) -> int:
    """Return how many instructions from the start each warp has in common on two ways."""
    pairs = {(id(a), id(b)): (a, b) for a, b in zip(one, other, strict=True)}
    return min(_same(a, b) for a, b in pairs.values())


def _same(one: Path, other: Path) -> int:
    end = min(len(one), len(other))
    return next((i for i in range(end) if one[i] != other[i]), end)
