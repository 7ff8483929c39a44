"""Blocks that are alike, simulated: their long loops for some trips, and what is missing added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.model.kinds import joined, numbers_of, profile_of
from tilewright.model.machine import Machine
from tilewright.model.operations import Operation
from tilewright.model.path import typical_path
from tilewright.model.profile import BlockKind, Profile
from tilewright.model.sm import Simulated, Sm
from tilewright.model.together import Ways, simulate_ways
from tilewright.model.traffic import Hits
from tilewright.toolchain.ptx.cfg import Loop
from tilewright.toolchain.sass_flow import SassFlow

# A long loop is simulated for a few trips, then for more: the difference is what trips cost. They
# are as many as give about so many instructions of all warps together, or so many trips. With twice
# as many of both the times of rungs 02 to 08 at 4096 change by 1.4 % at most.
_FIRST_INSTRUCTIONS, _MORE_INSTRUCTIONS = 20_000, 400_000
_LEAST_TRIPS, _MOST_TRIPS = 2, 1024
_MOST_PATH = 600_000  # instructions of one warp
_MOST_TRIP = 15_000  # instructions of a trip of a loop that is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What all SMs of a launch have in common. `sms` and `together` as of `Sm`."""

    operations: Sequence[Operation]
    machine: Machine
    hits: Hits
    sms: int
    together: bool


class Runs:
    """Simulations of blocks that are alike, with several numbers of them resident.

    They are of a kind of the profile's, whose warps each take the way of their own kind; without
    one all take the typical warp's.
    """

    def __init__(
        self,
        profile: Profile,
        flow: SassFlow,
        launched: Launched,
        kind: BlockKind | None = None,
    ) -> None:
        self._flow, self._launched = flow, launched
        self._warps = -(-profile.launch.threads // 32)
        self._typical = profile_of(joined(kind.warps), profile, flow) if kind else profile
        self._of_warp: tuple[Profile, ...] = (self._typical,)  # again and again
        if kind is not None:
            numbers = numbers_of(kind, self._warps)
            each = [profile_of(warp, profile, flow) for warp in kind.warps]
            self._of_warp = tuple(p for p, n in zip(each, numbers, strict=True) for _ in range(n))
        self._long = _long_loops(self._typical, flow)
        each_kind = {id(found): found for found in self._of_warp}.values()
        # Of warps that differ, those that stay longest in a loop.
        self._longest = {
            loop.header: max(int(_trips_of(loop, found, flow)) for found in each_kind)
            for loop in flow.cfg.loops
            if loop.header in self._long
        }

    def simulate(self, blocks: int, efforts: Sequence[float]) -> list[Simulated]:
        """Return the whole run of `blocks` resident blocks, its long loops extrapolated."""
        cuts = [self._cuts(blocks, effort) for effort in efforts]
        runs = simulate_ways(
            [ways for each in cuts for ways in (each.ways, *each.longer.values())],
            partial(self._sm, blocks),
        )
        return [self._extrapolated(each, runs) for each in cuts]

    def _cuts(self, blocks: int, effort: float) -> _Cuts:
        """Return the path with every long loop cut short, and with each for some trips more."""
        trips, more = {}, {}
        least = _LEAST_TRIPS if effort >= 1 else 1
        for header, loop in self._long.items():
            first, wanted = (
                max(least, round(effort * _trips(loop, instructions) / (self._warps * blocks)))
                for instructions in (_FIRST_INSTRUCTIONS, _MORE_INSTRUCTIONS)
            )
            trips[header] = min(first, self._longest[header])
            more[header] = min(wanted, self._longest[header] - trips[header])
        try:
            return self._cut(trips, more)
        except _NoMeetingError:  # of warps that are made up of several; one stands for all then
            self._of_warp = (self._typical,)
            return self._cut(trips, more)

    def _cut(self, trips: Mapping[int, int], more: Mapping[int, int]) -> _Cuts:
        base = self._ways(trips)
        longer = {
            header: self._ways({**trips, header: trips[header] + extra})
            for header, extra in more.items()
            if extra > 0
        }
        # All trips that the ways leave out, by those that the longer ones have more.
        times = {}
        for header, other in longer.items():
            loop, start = self._long[header], self._flow.cfg.blocks[header].start
            few, many = (sum(way.count(start) for way in ways) for ways in (base, other))
            missing = len(base) * loop.entries * loop.trips - few
            times[header] = max(missing, 0.0) / max(many - few, 1)
        return _Cuts(ways=base, longer=longer, times=times)

    def _extrapolated(self, cuts: _Cuts, runs: Mapping[Ways, Simulated]) -> Simulated:
        base = result = runs[cuts.ways]
        for header, ways in cuts.longer.items():
            result = _grown(result, base, runs[ways], cuts.times[header])
        return result

    def _ways(self, trips: Mapping[int, int]) -> Ways:
        """Return the path of each warp of a block, as far as they differ."""
        found = {
            id(profile): tuple(typical_path(profile, self._flow, trips, _MOST_PATH))
            for profile in self._of_warp
        }
        operations = self._launched.operations
        barriers = {sum(operations[i].pipe == "barrier" for i in way) for way in found.values()}
        if len(barriers) > 1:
            raise _NoMeetingError
        return tuple(found[id(profile)] for profile in self._of_warp)

    def _sm(self, blocks: int, ways: Ways) -> Sm:
        launched = self._launched
        return Sm(
            launched.machine,
            launched.operations,
            ways,
            launched.hits,
            blocks=blocks,
            warps_per_block=self._warps,
            sms=launched.sms,
            together=launched.together,
        )


class _NoMeetingError(Exception):
    """Warps of a block come to different numbers of barriers: they would wait for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cuts:
    """Ways to simulate: `ways`, and by a long loop's header those that take it more often.

    `times` the difference of the two is what is missing of the loop.
    """

    ways: Ways
    longer: Mapping[int, Ways]
    times: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class _LongLoop:
    """A loop: mean trips, entries and instructions a trip of a warp."""

    trips: float
    entries: float
    instructions: float


def _entries_of(loop: Loop, profile: Profile) -> int:
    return sum(
        count
        for (source, target), count in profile.edges.items()
        if target == loop.header and source not in loop.blocks
    )


def _turns_of(loop: Loop, profile: Profile, flow: SassFlow) -> int:
    return profile.counted[flow.cfg.blocks[loop.header].start].executed


def _trips_of(loop: Loop, profile: Profile, flow: SassFlow) -> float:
    return _turns_of(loop, profile, flow) / max(_entries_of(loop, profile), 1)


def _trips(loop: _LongLoop, instructions: float) -> float:
    """Return how many trips of all warps make up so many instructions, if not too many."""
    return min(instructions / max(loop.instructions, 1), _MOST_TRIPS)


def _long_loops(profile: Profile, flow: SassFlow) -> dict[int, _LongLoop]:
    """Return the loops that are too long to simulate whole, by header: the outermost.

    One whose trips are too long themselves, as where a block computes tile after tile, is left
    whole, for the sake of the loops in it.
    """
    warps = profile.counted[flow.cfg.blocks[1].start].executed  # each enters once
    found: dict[int, _LongLoop] = {}
    cut: set[int] = set()
    for loop in sorted(flow.cfg.loops, key=lambda loop: loop.depth):
        if loop.header in cut:
            continue
        entries, turns = _entries_of(loop, profile), _turns_of(loop, profile, flow)
        executed = sum(
            profile.counted[index].executed
            for number in loop.blocks
            for index in range(flow.cfg.blocks[number].start, flow.cfg.blocks[number].end)
        )
        if not entries or turns / entries <= 2 * _LEAST_TRIPS or executed / turns > _MOST_TRIP:
            continue
        found[loop.header] = _LongLoop(turns / entries, entries / warps, executed / turns)
        cut.update(loop.blocks)
    return found


def _grown(total: Simulated, base: Simulated, longer: Simulated, times: float) -> Simulated:
    """Add `times` the difference of two runs."""

    def sums(name: str) -> dict[str, float]:
        one, two = getattr(base, name), getattr(longer, name)
        old = getattr(total, name)
        return {
            key: old.get(key, 0.0) + times * max(two.get(key, 0.0) - one.get(key, 0.0), 0.0)
            for key in {**old, **two}
        }

    return Simulated(
        cycles=total.cycles + times * max(longer.cycles - base.cycles, 0.0),
        issued=total.issued + round(times * (longer.issued - base.issued)),
        stalls=sums("stalls"),
        busy=sums("busy"),
    )
