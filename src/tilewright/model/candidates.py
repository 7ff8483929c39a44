"""What could be mended in a kernel, read from its counts: each with its line, and what it answers.

A candidate has what to change in the source, in a sentence; the stalls that the change would
shorten; the share of the cause that it takes away; and, for the time model, the changed inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.gpus import Gpu, Occupancy, hint
from tilewright.gpus.hint import leaner
from tilewright.model.operations import pipe_of
from tilewright.model.profile import Counted, Loop, Profile
from tilewright.model.sass_mix import LoopMix, inner_loops
from tilewright.model.summary import LineCounts, Summary
from tilewright.model.whatif import (
    Case,
    coalesced,
    prefetched,
    resized,
    without,
    without_barriers,
    without_conflicts,
)

# What a line must waste to be worth a word: this part of all the launch's sectors or wavefronts.
_WORTH = 0.05
_FULL = 0.5  # occupancy below which another block an SM is worth trying
# Loops worth a word: this part of all that is executed.
_HOT = 0.2
# Loads of a multiply-add from which reuse in registers pays, and instructions of a short loop.
_MANY_LOADS, _SHORT_LOOP, _OVERHEAD = 0.2, 64, 0.2
_UNROLL = 4
_HELPS = frozenset({"alu", "imad", "uniform", "branch"})
_LOADS = frozenset({"LDS", "LDG", "LD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One thing to mend. `change` gives the model's inputs without it, None where none shows it.

    `share` is the part of its cause that goes, and `place` the line that costs most.
    """

    kind: str
    text: str
    place: str | None
    stalls: frozenset[str]
    share: float
    change: Callable[[Case], Case] | None


def candidates(
    profile: Profile, summary: Summary, gpu: Gpu, occupancy: Occupancy
) -> list[Candidate]:
    """Return what stands out in the counts of a launch."""
    hot = next((m for m in inner_loops(profile) if m.share >= _HOT), None)
    found: list[Candidate] = [
        *_spills(profile),
        *_sectors(summary),
        *_wavefronts(summary),
        *_occupancy(profile, gpu, occupancy),
        *_barriers(profile),
        *_latency(profile, hot),
    ]
    if hot is not None:
        found += [*_reuse(profile, hot), *_overhead(profile, hot)]
    return found


def _spills(profile: Profile) -> Iterator[Candidate]:
    local = [i for i, c in enumerate(profile.counted) if c.instruction.opcode in ("LDL", "STL")]
    if not profile.spill_bytes:
        return
    yield Candidate(
        kind="spills",
        text=(
            f"{profile.spill_bytes} bytes a thread are in local memory (spilled registers, or "
            "arrays indexed at run time): fewer live values or a larger __launch_bounds__ would "
            "keep them in registers"
        ),
        place=_costliest(profile.counted[i] for i in local),
        stalls=frozenset({"long_scoreboard", "lg_throttle"}),
        share=1.0,
        change=lambda case: without(case, local),
    )


@dataclass(frozen=True, slots=True)
class _Waste:
    """Sectors or wavefronts above the ideal: the line with most, and shares of all there are."""

    worst: LineCounts
    of_worst: float
    of_all: float


def _waste(summary: Summary, unit: Literal["sectors", "wavefronts"]) -> _Waste | None:
    """Return what is wasted of a unit, None where no line's part is worth a word."""

    def excess(line: LineCounts) -> int:
        return max(int(getattr(line, unit) - getattr(line, f"ideal_{unit}")), 0)

    everything = sum(getattr(line, unit) for line in summary.lines)
    worst = max(summary.lines, key=excess, default=None)
    if worst is None or excess(worst) <= _WORTH * everything:
        return None
    wasted = sum(excess(line) for line in summary.lines)
    return _Waste(worst, excess(worst) / everything, wasted / everything)


def _sectors(summary: Summary) -> Iterator[Candidate]:
    waste = _waste(summary, "sectors")
    if waste is None:
        return
    worst = waste.worst
    needed = worst.ideal_sectors / worst.global_requests
    yield Candidate(
        kind="coalescing",
        text=(
            f"{_name(worst)} moves {worst.sectors_per_request:.3g} sectors a request where "
            f"{needed:.3g} would do ({waste.of_worst:.0%} of all sectors are excess): let "
            "the threads of a warp touch neighbouring addresses, or stage through shared memory"
        ),
        place=_name(worst),
        stalls=frozenset({"lg_throttle", "long_scoreboard", "drain"}),
        share=waste.of_all,
        change=coalesced,
    )


def _wavefronts(summary: Summary) -> Iterator[Candidate]:
    waste = _waste(summary, "wavefronts")
    if waste is None:
        return
    worst = waste.worst
    needed = worst.ideal_wavefronts / worst.shared_requests
    yield Candidate(
        kind="bank conflicts",
        text=(
            f"{_name(worst)} takes {worst.wavefronts_per_request:.3g} passes through the banks a "
            f"request where {needed:.3g} would do ({waste.of_worst:.0%} of all wavefronts are "
            "conflicts): pad or swizzle the tile, or read it in another order"
        ),
        place=_name(worst),
        stalls=frozenset({"mio_throttle", "short_scoreboard", "barrier"}),
        share=waste.of_all,
        change=without_conflicts,
    )


def _occupancy(profile: Profile, gpu: Gpu, found: Occupancy) -> Iterator[Candidate]:
    more = leaner(gpu, found)
    if more is None:
        if found.fraction < _FULL:
            yield Candidate(
                kind="occupancy",
                text=f"occupancy is {found.fraction:.0%}: {hint(gpu, found)}",
                place=None,
                stalls=_LATENCIES,
                share=0.1,
                change=None,
            )
        return
    if profile.launch.blocks <= found.active_blocks * gpu.sm_count:
        return  # there is no other block to put beside them
    how = ""
    if "registers" in found.limiters:
        blocks = found.active_blocks + 1
        how = f"; __launch_bounds__({found.threads}, {blocks}) makes the compiler try"
    yield Candidate(
        kind="occupancy",
        text=f"occupancy is {found.fraction:.0%}: {hint(gpu, found)}{how}",
        place=None,
        stalls=_LATENCIES,
        share=1 - found.active_blocks / (found.active_blocks + 1),
        change=lambda case: resized(case, registers=more.registers, shared_bytes=more.shared_bytes),
    )


_LATENCIES = frozenset({"long_scoreboard", "short_scoreboard", "wait", "barrier"})


def _barriers(profile: Profile) -> Iterator[Candidate]:
    found = [c for c in profile.counted if c.instruction.opcode == "BAR" and c.executed]
    if not found:
        return
    place = _costliest(found)
    where = f"{place}: " if place else ""
    most = max(c.executed for c in found)
    longer = "a longer step needs fewer barriers"
    if sum(2 * c.executed > most for c in found) > 1:  # of those in a step
        longer = f"two buffers of shared memory need one barrier a step instead of two, {longer}"
    yield Candidate(
        kind="barriers",
        text=f"{where}warps wait here for one another: {longer}",
        place=place,
        stalls=frozenset({"barrier"}),
        share=1.0,
        change=without_barriers,
    )


def _latency(profile: Profile, hot: LoopMix | None) -> Iterator[Candidate]:
    loads = [
        c
        for c in profile.counted
        if c.access is not None and (c.access.space, c.access.way) == ("global", "load")
    ]
    if not any(c.executed for c in loads):
        return
    place = _costliest(loads)
    where = f"{place}: " if place else ""
    how = (
        "load what the next step needs into registers, or with cp.async, before this step's work"
        if hot is not None
        else "let each thread load several elements before it uses the first"
    )
    yield Candidate(
        kind="prefetching",
        text=f"{where}warps wait for this data from global memory: {how}",
        place=place,
        stalls=frozenset({"long_scoreboard"}),
        share=1.0,
        change=prefetched,
    )


def _reuse(profile: Profile, hot: LoopMix) -> Iterator[Candidate]:
    """Give each thread more outputs: the loads of a multiply-add halve."""
    loads = [i for i in hot.loop.body if profile.counted[i].instruction.opcode in _LOADS]
    times = sum(profile.counted[i].executed for i in loads)
    work = hot.opcodes.get("FFMA", 0.0) * hot.executed
    if not work or times < _MANY_LOADS * work or len(loads) < 2:
        return
    place = _costliest(profile.counted[i] for i in loads)
    yield Candidate(
        kind="reuse in registers",
        text=(
            f"{place or 'the inner loop'} issues {times / work:.2g} loads for each multiply-add: "
            "let a thread compute a square of outputs (2x2 or more), so that it uses what it "
            "loads several times"
        ),
        place=place,
        stalls=frozenset({"mio_throttle", "lg_throttle", "short_scoreboard", "long_scoreboard"}),
        share=0.5,
        change=lambda case: without(case, _every_other(profile, loads)),
    )


def _every_other(profile: Profile, loads: Sequence[int]) -> set[int]:
    """Return half of the loads of each opcode and width."""
    seen: Counter[str] = Counter()
    gone = set()
    for index in loads:
        name = profile.counted[index].instruction.mnemonic
        if seen[name] % 2:
            gone.add(index)
        seen[name] += 1
    return gone


def _overhead(profile: Profile, hot: LoopMix) -> Iterator[Candidate]:
    """Unroll a short loop: one in four of its counters, addresses and branches stays."""
    loop: Loop = hot.loop
    helps = [i for i in loop.body if pipe_of(profile.counted[i].instruction) in _HELPS]
    share = sum(profile.counted[i].executed for i in helps) / max(hot.executed, 1)
    trips = hot.trips or 0
    if len(loop.body) > _SHORT_LOOP or trips < _UNROLL or share < _OVERHEAD:
        return
    place = _costliest(profile.counted[i] for i in loop.body)
    gone = {index for n, index in enumerate(helps) if n % _UNROLL}
    yield Candidate(
        kind="loop overhead",
        text=(
            f"{place or 'the inner loop'}: {share:.0%} of the loop's instructions are counters, "
            "addresses and branches: unroll it (#pragma unroll) and move what does not change "
            "out of it"
        ),
        place=place,
        stalls=frozenset({"not_selected", "wait", "math_pipe_throttle", "dispatch_stall"}),
        share=share * (1 - 1 / _UNROLL),
        change=lambda case: without(case, gone),
    )


def _costliest(found: Iterable[Counted]) -> str | None:
    """Return the line of the most sectors, wavefronts and executions, in this order of weight."""
    costs: Counter[str] = Counter()
    for each in found:
        place, access = each.instruction.location, each.access
        if place is not None:
            moved = access.sectors + access.wavefronts if access is not None else 0
            costs[f"{place.file}:{place.line}"] += each.executed + moved
    return costs.most_common(1)[0][0] if costs else None


def _name(line: LineCounts) -> str:
    return f"{line.file}:{line.line}"
