"""The time model run again on changed inputs: what a launch would cost if one thing were mended.

Each change returns a new `Case`; what it leaves as it is stays what the run counted. A change takes
away all of one cost and adds nothing for the mending, so its gain is the most that mending gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tilewright.gpus import Gpu
from tilewright.model.estimate import Estimate, estimates
from tilewright.model.profile import AccessCounts, Counted, Profile
from tilewright.model.traffic import SECTOR_BYTES, Hits
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass_flow import SassFlow

_LINE_SECTORS = 4
_WORD = 4
# How much of the loops is simulated where two launches are compared.
COMPARING = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the time model reads of one launch on one GPU."""

    profile: Profile
    flow: SassFlow
    control: Mapping[int, Control]
    gpu: Gpu
    hits: Hits

    def estimate(self, *, effort: float = 1.0) -> Estimate:
        """Return the modelled time. `effort` as of `model.estimate.estimates`."""
        return self.estimates(effort)[0]

    def estimates(self, *efforts: float) -> list[Estimate]:
        """Return the modelled time with each effort."""
        return estimates(self.profile, self.flow, self.control, self.gpu, self.hits, efforts)


def without_conflicts(case: Case) -> Case:
    """Let every access of shared memory take the fewest passes through the banks."""

    def mended(access: AccessCounts) -> AccessCounts:
        return replace(access, wavefronts=access.ideal) if access.space == "shared" else access

    return _with_accesses(case, mended)


def coalesced(case: Case) -> Case:
    """Let every access of global memory touch the fewest sectors."""

    def mended(access: AccessCounts) -> AccessCounts:
        if access.space != "global" or access.sectors <= access.ideal:
            return access
        lines = max(-(-access.ideal // _LINE_SECTORS), access.requests)
        passes = access.requests * max(1, access.size // _WORD)
        return replace(
            access,
            sectors=access.ideal,
            lines=min(access.lines, lines),
            wavefronts=min(access.wavefronts, passes),
        )

    hits = dict(case.hits.by_index)
    for index, counted in enumerate(case.profile.counted):
        access = counted.access
        if index in hits and access is not None and access.requests:
            least = access.ideal / access.requests
            hits[index] = replace(hits[index], sectors=min(hits[index].sectors, least))
    return _with_accesses(replace(case, hits=Hits(by_index=hits)), mended)


def prefetched(case: Case) -> Case:
    """Let data of global memory be there before it is asked for.

    What the L2 and the DRAM take for it is not seen any more: `most_by_bandwidth` bounds the gain.
    """
    code = case.profile.counted
    hits = {
        index: hit
        for index, hit in case.hits.by_index.items()
        if (access := code[index].access) is not None and access.way != "load"
    }
    return replace(case, hits=Hits(by_index=hits))


def most_by_bandwidth(before: Estimate) -> float:
    """Return the gain at which the L2 or the DRAM has no time left."""
    busy = max(before.demand.get("l2", 0.0), before.demand.get("dram", 0.0))
    return 1 / busy if 0 < busy < 1 else 1.0 if busy else float("inf")


def narrowed(case: Case) -> Case:
    """Let global memory hold half the bytes."""
    hits = {i: replace(h, sectors=h.sectors / 2) for i, h in case.hits.by_index.items()}

    def mended(access: AccessCounts) -> AccessCounts:
        if access.space != "global":
            return access
        return replace(access, sectors=access.sectors // 2, ideal=access.ideal // 2)

    return _with_accesses(replace(case, hits=Hits(by_index=hits)), mended)


def without_barriers(case: Case) -> Case:
    """Let no warp wait for another at a barrier."""
    counted = tuple(
        replace(c, instruction=replace(c.instruction, opcode="NOP"))
        if c.instruction.opcode == "BAR"
        else c
        for c in case.profile.counted
    )
    return replace(case, profile=replace(case.profile, counted=counted))


def resized(case: Case, *, registers: int, shared_bytes: int) -> Case:
    """Let a thread take so many registers, and a block so much shared memory."""
    profile = replace(case.profile, registers=registers, shared_bytes=shared_bytes)
    return replace(case, profile=profile)


def without(case: Case, gone: Collection[int]) -> Case:
    """Take instructions out, by index; what they waited for the next one waits for.

    The last instruction of a basic block stays, whether it is named or not.
    """
    blocks = case.flow.cfg.blocks
    leave = set(gone) - {block.end - 1 for block in blocks}
    if not leave:
        return case
    place, kept = [], 0  # where each instruction goes
    for index in range(len(case.profile.counted)):
        place.append(kept)
        kept += index not in leave
    place.append(kept)
    return Case(
        profile=replace(
            case.profile,
            counted=tuple(c for i, c in enumerate(case.profile.counted) if i not in leave),
            loops=tuple(
                replace(
                    loop,
                    header=place[loop.header],
                    body=tuple(place[i] for i in loop.body if i not in leave),
                )
                for loop in case.profile.loops
            ),
        ),
        flow=_flow_without(case.flow, leave, place),
        control=_control_without(case, leave),
        gpu=case.gpu,
        hits=Hits(by_index={place[i]: h for i, h in case.hits.by_index.items() if i not in leave}),
    )


def widened(case: Case, runs: Collection[tuple[int, ...]]) -> Case:
    """Let each run of neighbouring accesses, by index, be one access of all their words."""
    counted = list(case.profile.counted)
    hits = dict(case.hits.by_index)
    for first, *others in runs:
        members = [a for i in (first, *others) if (a := counted[i].access) is not None]
        own = members[0]
        joined = replace(
            own,
            size=sum(a.size for a in members),
            sectors=max(sum(a.ideal for a in members), own.requests)
            if own.space == "global"
            else own.sectors,
            wavefronts=min(own.wavefronts, len(members) * own.requests),
            ideal=sum(a.ideal for a in members),
        )
        counted[first] = replace(counted[first], access=joined)
        if first in hits and own.requests:
            hit = hits[first]
            hits[first] = replace(hit, sectors=max(hit.sectors, joined.sectors / own.requests))
    wide = replace(
        case, profile=replace(case.profile, counted=tuple(counted)), hits=Hits(by_index=hits)
    )
    return without(wide, {i for run in runs for i in run[1:]})


def dram_bytes(case: Case) -> float:
    """Return the bytes that a launch moves to and from the DRAM, as the traffic model has it."""
    total = 0.0
    for index, counted in enumerate(case.profile.counted):
        hit, access = case.hits.of(index), counted.access
        if access is not None and access.space == "global":
            total += access.requests * hit.missing * hit.sectors * hit.dram * SECTOR_BYTES
    return total


def _with_accesses(case: Case, change: Callable[[AccessCounts], AccessCounts]) -> Case:
    def mended(counted: Counted) -> Counted:
        access, beside = (
            None if a is None else change(a) for a in (counted.access, counted.beside)
        )
        return replace(counted, access=access, beside=beside)

    profile = replace(case.profile, counted=tuple(map(mended, case.profile.counted)))
    return replace(case, profile=profile)


def _flow_without(flow: SassFlow, leave: Collection[int], place: list[int]) -> SassFlow:
    code = flow.function.instructions
    kept = tuple(ins for index, ins in enumerate(code) if index not in leave)
    blocks = tuple(
        replace(block, start=place[block.start], end=place[block.end]) for block in flow.cfg.blocks
    )
    return replace(
        flow,
        function=replace(flow.function, instructions=kept),
        cfg=replace(flow.cfg, blocks=blocks),
        calls={place[index]: block for index, block in flow.calls.items()},
    )


def _control_without(case: Case, leave: Collection[int]) -> dict[int, Control]:
    """Hand the scoreboards that an instruction waited for on to the next that stays."""
    control, owed = dict(case.control), 0
    for index, counted in enumerate(case.profile.counted):
        address = counted.instruction.address
        if index in leave:
            owed |= control[address].wait
        elif owed:
            control[address] = replace(control[address], wait=control[address].wait | owed)
            owed = 0
    return control
