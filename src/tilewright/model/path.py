"""The way of one typical warp through the machine code, cut short where loops repeat.

The simulation of an SM needs the instructions of a warp in order; a profile has only how often each
was executed and each edge taken. The walk takes each branch as often as its share says, and leaves
a loop after its mean number of trips, or fewer where it is cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tilewright.model.profile import Profile
from tilewright.toolchain.ptx.cfg import Cfg
from tilewright.toolchain.sass_flow import SassFlow

_ALMOST = 1 - 1e-6  # a share that has come due, but for rounding
_END = -1  # where a warp goes that exits
_MOST_BLOCKS = 200_000  # ends a walk whose counts lead nowhere


class _Exit(NamedTuple):
    """A way out of a loop, and its share of what comes to its block.

    The ways out of one loop come due together: `loop`, its header, stands for all of them.
    """

    loop: int
    share: float


def typical_path(
    profile: Profile, flow: SassFlow, most_trips: Mapping[int, int], most_instructions: int
) -> list[int]:
    """Return indices of instructions in the order of execution, of one warp of the launch.

    `most_trips` are the trips after which a loop is cut, by the block of its header. The walk ends
    with the block in which it comes to more than `most_instructions`.
    """
    cfg = flow.cfg
    counts = [
        profile.counted[block.start].executed if block.end > block.start else 0
        for block in cfg.blocks
    ]
    counts[0] = counts[1] if len(counts) > 1 else 0  # the outside enters the first block
    edges = _one_way(cfg, _edges(cfg, counts, profile.edges), counts)
    leaving = _leaving(cfg, edges, counts, most_trips)
    path: list[int] = []
    credit: dict[tuple[int, int] | int, float] = {}  # of edges, and of the ways out of a loop
    returns: list[int] = []
    here = 1
    for _ in range(_MOST_BLOCKS):
        block = cfg.blocks[here]
        path.extend(range(block.start, block.end))
        if len(path) > most_instructions:
            break
        last = block.end - 1
        if last in flow.calls:
            returns.append(here + 1)
            here = flow.calls[last]
            continue
        if returns and profile.counted[last].instruction.opcode == "RET":
            here = returns.pop()
            continue
        onward = [s for s in (*block.successors, _END) if edges.get((here, s), 0) > 0]
        here = _choose(here, onward, edges, leaving, credit) if onward else _END
        if here == _END:
            break
    return path


def _choose(
    here: int,
    onward: Sequence[int],
    edges: Mapping[tuple[int, int], int],
    leaving: Mapping[tuple[int, int], _Exit],
    credit: dict[tuple[int, int] | int, float],
) -> int:
    """Pick the next block: the edge whose share has come due, most overdue first."""
    if len(onward) == 1:
        return onward[0]
    for successor in onward:  # an exit of a loop, after the loop's trips
        way_out = leaving.get((here, successor))
        if way_out is not None:
            due = credit.get(way_out.loop, 0.0) + way_out.share
            credit[way_out.loop] = 0.0 if due >= _ALMOST else due
            if due >= _ALMOST:
                return successor
    staying = [s for s in onward if (here, s) not in leaving] or list(onward)
    total = sum(edges[here, s] for s in staying)
    for successor in staying:
        edge = (here, successor)
        credit[edge] = credit.get(edge, 0.0) + edges[edge] / total
    chosen = max(staying, key=lambda s: credit[here, s])
    credit[here, chosen] -= 1.0
    return chosen


def _one_way(
    cfg: Cfg, edges: Mapping[tuple[int, int], int], counts: Sequence[int]
) -> dict[tuple[int, int], int]:
    """Return edges that a warp takes one after the other.

    Where its lanes part they take several at once, so that more come out of a block than came in.
    The warp's way is then through what some of them do on their own, to where all meet: that has
    the most ways in, and the one from here is passed over.
    """
    found = dict(edges)
    for number, block in enumerate(cfg.blocks):
        ways = [s for s in block.successors if found.get((number, s), 0) > 0]
        over = sum(found[number, s] for s in ways) - counts[number]
        if len(ways) < 2 or over <= 0 or not number:
            continue
        meeting = max(ways, key=lambda s: len(cfg.blocks[s].predecessors))
        found[number, meeting] = max(found[number, meeting] - over, 0)
    return found


def _leaving(
    cfg: Cfg,
    edges: Mapping[tuple[int, int], int],
    counts: Sequence[int],
    most_trips: Mapping[int, int],
) -> dict[tuple[int, int], _Exit]:
    """Return every edge out of a loop, as it is once the loop is cut."""
    found = {}
    for loop in cfg.loops:
        inside = frozenset(loop.blocks)
        entries = sum(n for (a, b), n in edges.items() if b == loop.header and a not in inside)
        if entries <= 0 or not counts[loop.header]:
            continue
        trips = counts[loop.header] / entries
        cut = min(1.0, most_trips.get(loop.header, trips) / trips)
        for (a, b), taken in edges.items():
            if a in inside and b not in inside and taken > 0 and (a, b) not in found:
                share = min(1.0, taken / (counts[a] * cut))
                found[a, b] = _Exit(loop.header, share)
    return found


def _edges(
    cfg: Cfg, counts: Sequence[int], known: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Return how often every edge was taken: those not known are what is left of their blocks."""
    edges = dict(known)
    missing = [(a, b) for a, block in enumerate(cfg.blocks) for b in block.successors]
    missing = [edge for edge in missing if edge not in edges]
    while missing:
        solved = {}
        for a, b in missing:
            out = [(a, c) for c in cfg.blocks[a].successors]
            into = [(c, b) for c in cfg.blocks[b].predecessors]
            for others, count, exact in (
                (into, counts[b], True),
                (out, counts[a], not cfg.blocks[a].leaves),
            ):
                if exact and all(e in edges for e in others if e != (a, b)):
                    rest = count - sum(edges[e] for e in others if e != (a, b))
                    solved[a, b] = max(rest, 0)
                    break
        if not solved:
            solved = dict.fromkeys(missing, 0)
        edges.update(solved)
        missing = [edge for edge in missing if edge not in edges]
    for number, block in enumerate(cfg.blocks):
        if block.leaves:
            onward = sum(edges[number, successor] for successor in block.successors)
            edges[number, _END] = max(counts[number] - onward, 0)
    return edges
