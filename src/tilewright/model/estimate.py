"""How long a launch takes on a GPU: the SM simulated, the rest by its waves of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.gpus import Gpu, occupancy
from tilewright.model.machine import Machine, machine
from tilewright.model.operations import Operation, operations
from tilewright.model.path import typical_path
from tilewright.model.profile import Profile
from tilewright.model.sm import PARTITIONS, Simulated, Sm
from tilewright.model.traffic import Hits
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass_flow import SassFlow

# A long loop is simulated for a few trips, then for more: the difference is what trips cost. How many
# is a matter of so many instructions of all warps together.
_FIRST_INSTRUCTIONS, _MORE_INSTRUCTIONS = 20_000, 60_000
_LEAST_TRIPS, _MOST_TRIPS = 2, 24
_MOST_PATH = 60_000  # instructions of one warp


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the model says of a launch. All of it is modelled.

    Units: seconds; cycles of the SM; `stalls` warps waiting an issued instruction, by the profiler's
    reasons (as its `..._per_issue_active`), most first; `demand` the share of the time that each
    unit is busy; `issue_active` the share of cycles in which a partition issues. `waves` are rounds of
    resident blocks on the busiest SM.
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


def estimate(
    profile: Profile, flow: SassFlow, control: Mapping[int, Control], gpu: Gpu, hits: Hits
) -> Estimate:
    """Return the modelled time of a profiled launch.

    Raises:
        LaunchError: a kernel of which no block fits in an SM.
    """
    m = machine(gpu)
    held = occupancy(
        gpu=gpu,
        threads=profile.launch.threads,
        registers=profile.registers,
        shared_bytes=profile.shared_bytes,
    )
    blocks = profile.launch.blocks
    resident = max(held.active_blocks, 1)
    busiest = -(-blocks // gpu.sm_count)
    runs = _Runs(profile, flow, control, m, hits)
    rounds, rest = divmod(busiest, resident)
    whole = runs.simulate(min(resident, busiest))
    cycles = whole.cycles * max(rounds, 1)
    if rounds and rest:
        cycles += runs.simulate(rest).cycles
    issue = whole.issued / whole.cycles / PARTITIONS
    stalls = {k: v / whole.issued for k, v in whole.stalls.items()}
    return Estimate(
        gpu=gpu.name,
        seconds=cycles / m.clock_hz + m.launch_s,
        cycles=cycles,
        clock_hz=m.clock_hz,
        waves=busiest / resident,
        resident_blocks=resident,
        issue_active=issue,
        stalls=dict(sorted(stalls.items(), key=lambda item: -item[1])),
        demand={k: v / whole.cycles for k, v in whole.busy.items()},
    )


class _Runs:
    """Simulations of one launch with several numbers of resident blocks."""

    def __init__(
        self,
        profile: Profile,
        flow: SassFlow,
        control: Mapping[int, Control],
        m: Machine,
        hits: Hits,
    ) -> None:
        self.profile, self.flow, self.machine, self.hits = profile, flow, m, hits
        self.operations: Sequence[Operation] = operations(profile, control)
        self.warps = -(-profile.launch.threads // 32)
        self.sms = min(m.gpu.sm_count, profile.launch.blocks)
        self.long = _long_loops(profile, flow)

    def simulate(self, blocks: int) -> Simulated:
        """Return the whole run of `blocks` resident blocks, its long loops extrapolated."""
        trips, more = {}, {}
        for header, loop in self.long.items():
            of_all = loop.instructions * self.warps * blocks
            trips[header] = min(_trips(_FIRST_INSTRUCTIONS, of_all), int(loop.trips))
            more[header] = min(_trips(_MORE_INSTRUCTIONS, of_all), int(loop.trips) - trips[header])
        base = self._run(trips, blocks)
        result = base
        for header, loop in self.long.items():
            if more[header] > 0:
                longer = self._run(trips | {header: trips[header] + more[header]}, blocks)
                times = (loop.trips - trips[header]) / more[header] * loop.entries
                result = _grown(result, base, longer, times)
        return result

    def _run(self, trips: Mapping[int, int], blocks: int) -> Simulated:
        path = typical_path(self.profile, self.flow, trips, _MOST_PATH)
        return Sm(
            self.machine,
            self.operations,
            path,
            self.hits,
            blocks=blocks,
            warps_per_block=self.warps,
            sms=self.sms,
        ).run()


def _trips(instructions: float, of_one: float) -> int:
    return max(_LEAST_TRIPS, min(_MOST_TRIPS, round(instructions / max(of_one, 1))))


@dataclass(frozen=True, slots=True)
class _LongLoop:
    """An outermost loop: mean trips, entries and instructions a trip of a warp."""

    trips: float
    entries: float
    instructions: float


def _long_loops(profile: Profile, flow: SassFlow) -> dict[int, _LongLoop]:
    """Return the outermost loops that are too long to simulate whole, by header."""
    warps = profile.launch.blocks * -(-profile.launch.threads // 32)
    found = {}
    for loop in flow.cfg.loops:
        if loop.depth != 1:
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
        if entries and turns / entries > 2 * _LEAST_TRIPS:
            found[loop.header] = _LongLoop(turns / entries, entries / warps, executed / turns)
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
