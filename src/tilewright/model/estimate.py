"""How long a launch takes on a GPU: the SM simulated, the rest by its waves of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tilewright.gpus import Gpu, occupancy
from tilewright.model.machine import Machine, machine
from tilewright.model.operations import operations
from tilewright.model.path import typical_path
from tilewright.model.profile import Profile
from tilewright.model.sm import PARTITIONS, Simulated, Sm
from tilewright.model.together import Path, simulate_paths
from tilewright.model.traffic import Hits
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass_flow import SassFlow

# A long loop is simulated for a few trips, then for more: the difference is what trips cost. They
# are as many as give about so many instructions of all warps together.
_FIRST_INSTRUCTIONS, _MORE_INSTRUCTIONS = 20_000, 90_000
_LEAST_TRIPS, _MOST_TRIPS = 2, 48
_MOST_PATH = 60_000  # instructions of one warp
_MOST_TRIP = _MOST_PATH // 4  # of a loop that is cut
_WHOLE_SM = frozenset({"lsu", "l2", "dram"})  # units that the partitions share


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the model says of a launch. All of it is modelled.

    Units: seconds; cycles of the SM; `stalls` warps waiting an issued instruction, by the
    profiler's reasons (as its `..._per_issue_active`), most first; `demand` the share of the time
    that each unit is busy, a pipe's the mean over the partitions; `issue_active` the share of
    cycles in which a partition issues. `waves` are rounds of resident blocks on the busiest SM.
    """

    gpu: str
    seconds: float
    cycles: float
    clock_hz: float
    waves: float
    resident_blocks: int
    issue_active: float
    stalls: Mapping[str, float]
    demand: Mapping[str, float]

    @property
    def first_stall(self) -> str:
        """What warps wait for most, of what keeps them from being ready."""
        waits = (name for name in self.stalls if name != "not_selected")
        return next(waits, "not_selected")


def estimates(
    profile: Profile,
    flow: SassFlow,
    control: Mapping[int, Control],
    gpu: Gpu,
    hits: Hits,
    efforts: Sequence[float],
) -> list[Estimate]:
    """Return the modelled times of a profiled launch, one for each of `efforts`.

    An effort scales how much of long loops is simulated: less than 1 is enough to compare launches
    with one another. Several together cost little more than the greatest.

    Raises:
        LaunchError: a kernel of which no block fits in an SM.
        UnsupportedError: a GPU that no compiler reaches.
    """
    m = machine(gpu)
    resident = resident_blocks(profile, gpu)
    busiest = -(-profile.launch.blocks // gpu.sm_count)
    rounds, rest = divmod(busiest, resident)
    runs = _Runs(profile, flow, control, m, hits, together=busiest <= resident)
    wholes = runs.simulate(min(resident, busiest), efforts)
    rests = runs.simulate(rest, efforts) if rounds and rest else [None] * len(wholes)
    found = []
    for whole, last in zip(map(_drained, wholes), rests, strict=True):
        cycles = whole.cycles * max(rounds, 1) + (_drained(last).cycles if last else 0)
        stalls = {k: v / whole.issued for k, v in whole.stalls.items()}
        found.append(
            Estimate(
                gpu=gpu.name,
                seconds=cycles / m.clock_hz + m.launch_s,
                cycles=cycles,
                clock_hz=m.clock_hz,
                waves=busiest / resident,
                resident_blocks=resident,
                issue_active=whole.issued / whole.cycles / PARTITIONS,
                stalls=dict(sorted(stalls.items(), key=lambda item: -item[1])),
                demand={
                    unit: busy / whole.cycles / (1 if unit in _WHOLE_SM else PARTITIONS)
                    for unit, busy in whole.busy.items()
                },
            )
        )
    return found


def _drained(run: Simulated) -> Simulated:
    """Let a round last as long as what its stores left to the shared units to do."""
    longest = max((run.busy.get(unit, 0.0) for unit in _WHOLE_SM), default=0.0)
    return replace(run, cycles=max(run.cycles, longest))


def resident_blocks(profile: Profile, gpu: Gpu) -> int:
    """Return the blocks of a launch that an SM runs at a time.

    Raises:
        LaunchError: none fits.
    """
    return occupancy(
        gpu=gpu,
        threads=profile.launch.threads,
        registers=profile.registers,
        # Static or not makes no difference to how many fit, and only static memory ends at 48 KiB.
        dynamic_shared_bytes=profile.shared_bytes,
    ).active_blocks


class _Runs:
    """Simulations of one launch with several numbers of resident blocks."""

    def __init__(
        self,
        profile: Profile,
        flow: SassFlow,
        control: Mapping[int, Control],
        m: Machine,
        hits: Hits,
        *,
        together: bool,
    ) -> None:
        self._together = together
        self._profile, self._flow, self._machine, self._hits = profile, flow, m, hits
        self._operations = operations(profile, control)
        self._warps = -(-profile.launch.threads // 32)
        self._sms = min(m.gpu.sm_count, profile.launch.blocks)
        self._long = _long_loops(profile, flow)

    def simulate(self, blocks: int, efforts: Sequence[float]) -> list[Simulated]:
        """Return the whole run of `blocks` resident blocks, its long loops extrapolated."""
        cuts = [self._cuts(blocks, effort) for effort in efforts]
        runs = simulate_paths(
            [path for each in cuts for path in (each.path, *each.longer.values())],
            partial(self._sm, blocks),
        )
        return [self._extrapolated(each, runs) for each in cuts]

    def _cuts(self, blocks: int, effort: float) -> _Cuts:
        """Return the path with every long loop cut short, and with each for some trips more."""
        trips, more = {}, {}
        least = _LEAST_TRIPS if effort >= 1 else 1
        for header, loop in self._long.items():
            of_all = loop.instructions * self._warps * blocks
            first = _trips(effort * _FIRST_INSTRUCTIONS, of_all, least)
            wanted = _trips(effort * _MORE_INSTRUCTIONS, of_all, least)
            trips[header] = min(first, int(loop.trips))
            more[header] = min(wanted, int(loop.trips) - trips[header])
        return _Cuts(
            path=self._path(trips),
            longer={
                header: self._path(trips | {header: trips[header] + extra})
                for header, extra in more.items()
                if extra > 0
            },
            times={
                header: (loop.trips - trips[header]) / more[header] * min(loop.entries, 1.0)
                for header, loop in self._long.items()
                if more[header] > 0
            },
        )

    def _extrapolated(self, cuts: _Cuts, runs: Mapping[Path, Simulated]) -> Simulated:
        base = result = runs[cuts.path]
        for header, path in cuts.longer.items():
            result = _grown(result, base, runs[path], cuts.times[header])
        return result

    def _path(self, trips: Mapping[int, int]) -> Path:
        return tuple(typical_path(self._profile, self._flow, trips, _MOST_PATH))

    def _sm(self, blocks: int, path: Path) -> Sm:
        return Sm(
            self._machine,
            self._operations,
            path,
            self._hits,
            blocks=blocks,
            warps_per_block=self._warps,
            sms=self._sms,
            together=self._together,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cuts:
    """Paths to simulate: `path`, and by a long loop's header one that takes it more often.

    `times` the difference of the two is what is missing of the loop.
    """

    path: Path
    longer: Mapping[int, Path]
    times: Mapping[int, float]


def _trips(instructions: float, of_one: float, least: int) -> int:
    """Return how many trips of so many instructions each make up so many in all."""
    return max(least, min(_MOST_TRIPS, round(instructions / max(of_one, 1))))


@dataclass(frozen=True, slots=True)
class _LongLoop:
    """A loop: mean trips, entries and instructions a trip of a warp.

    A path has all of a warp's entries, and one where there are fewer.
    """

    trips: float
    entries: float
    instructions: float


def _long_loops(profile: Profile, flow: SassFlow) -> dict[int, _LongLoop]:
    """Return the loops that are too long to simulate whole, by header: the outermost.

    One whose trips are too long themselves, as where a block computes tile after tile, is left
    whole, for the sake of the loops in it.
    """
    warps = profile.launch.blocks * -(-profile.launch.threads // 32)
    found: dict[int, _LongLoop] = {}
    cut: set[int] = set()
    for loop in sorted(flow.cfg.loops, key=lambda loop: loop.depth):
        if loop.header in cut:
            continue
        entries = sum(
            count
            for (source, target), count in profile.edges.items()
            if target == loop.header and source not in loop.blocks
        )
        turns = profile.counted[flow.cfg.blocks[loop.header].start].executed
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
