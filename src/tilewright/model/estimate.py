"""How long a launch takes on a GPU: the SM simulated, the rest by its waves of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.gpus import Gpu, occupancy
from tilewright.model.kinds import parts_of
from tilewright.model.machine import machine
from tilewright.model.operations import operations
from tilewright.model.profile import Profile
from tilewright.model.runs import Launched, Runs
from tilewright.model.sm import PARTITIONS, Simulated
from tilewright.model.traffic import Hits
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass_flow import SassFlow

_STARTING, _FULL = "blocks", 0.95  # the unit that starts them, and when it is what binds
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

    @property
    def is_starting(self) -> bool:
        """Whether most of the time goes into starting blocks, one after the other."""
        share = self.demand.get(_STARTING, 0.0)
        return share > _FULL and self.cycles / self.clock_hz > self.seconds / 2


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
    together = busiest <= resident
    by_kind = together and sum(len(kind.warps) for kind in profile.kinds) > 1
    code = operations(profile, control)
    if by_kind:
        parts = parts_of(profile.kinds, flow)
        code = [replace(op, blocks=part) for op, part in zip(code, parts, strict=True)]
    launched = Launched(
        operations=code,
        machine=m,
        hits=hits,
        sms=min(gpu.sm_count, profile.launch.blocks),
        together=together,
    )
    if by_kind:
        wholes = _of_kinds(profile, flow, launched, busiest, efforts)
    else:
        wholes = Runs(profile, flow, launched).simulate(min(resident, busiest), efforts)
    rests = (
        Runs(profile, flow, launched).simulate(rest, efforts)
        if rounds and rest
        else [None] * len(wholes)
    )
    found = []
    for whole, last in zip(map(_drained, wholes), rests, strict=True):
        running = whole.cycles * max(rounds, 1) + (_drained(last).cycles if last else 0)
        starting = profile.launch.blocks * m.clock_hz / m.blocks_per_s
        cycles = max(running, starting)
        share = running / cycles
        stalls = {k: v / whole.issued for k, v in whole.stalls.items()}
        found.append(
            Estimate(
                gpu=gpu.name,
                seconds=cycles / m.clock_hz + m.launch_s,
                cycles=cycles,
                clock_hz=m.clock_hz,
                waves=busiest / resident,
                resident_blocks=resident,
                issue_active=share * whole.issued / whole.cycles / PARTITIONS,
                stalls=dict(sorted(stalls.items(), key=lambda item: -item[1])),
                demand={
                    _STARTING: starting / cycles,
                    **{
                        unit: share * busy / whole.cycles / (1 if unit in _WHOLE_SM else PARTITIONS)
                        for unit, busy in whole.busy.items()
                    },
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


def _of_kinds(
    profile: Profile, flow: SassFlow, launched: Launched, blocks: int, efforts: Sequence[float]
) -> list[Simulated]:
    """Return the run of a launch all of whose blocks run at once, `blocks` of one kind on each SM.

    It lasts as long as the longest kind's; the rest is the mean over the SMs. Roughly, the kind
    that executes most stands for all.
    """
    first, *others = profile.kinds
    by_effort: list[list[Simulated]] = [
        [run] for run in Runs(profile, flow, launched, first).simulate(blocks, efforts)
    ]
    well = [number for number, effort in enumerate(efforts) if effort >= 1]
    for kind in others if well else ():
        runs = Runs(profile, flow, launched, kind).simulate(blocks, [efforts[n] for n in well])
        for number, run in zip(well, runs, strict=True):
            by_effort[number].append(run)
    counts = [kind.count for kind in profile.kinds]
    return [_mean([_drained(run) for run in runs], counts[: len(runs)]) for runs in by_effort]


def _mean(runs: Sequence[Simulated], counts: Sequence[int]) -> Simulated:
    """Return the mean of several runs, `counts` times each, and the longest one's cycles."""
    shares = [count / sum(counts) for count in counts]

    def means(name: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for run, share in zip(runs, shares, strict=True):
            for key, value in getattr(run, name).items():
                found[key] = found.get(key, 0.0) + share * value
        return found

    return Simulated(
        cycles=max(run.cycles for run in runs),
        issued=round(sum(share * run.issued for run, share in zip(runs, shares, strict=True))),
        stalls=means("stalls"),
        busy=means("busy"),
    )
