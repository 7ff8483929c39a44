"""What stands out in the counts, in words: the lines that move more than they need, and why."""

from __future__ import annotations

from tilewright.gpus import Gpu, Occupancy, hint
from tilewright.model.profile import Profile
from tilewright.model.summary import LineCounts, Summary

MOST = 3
# What a line must waste to be worth a word: this part of all the launch's sectors or wavefronts.
_WORTH = 0.05
_FULL = 0.5  # occupancy below which another block an SM is worth trying


def findings(profile: Profile, summary: Summary, gpu: Gpu, occupancy: Occupancy) -> list[str]:
    """Return up to three remarks, those that concern most of the memory traffic first."""
    found = [*_spills(profile), *_sectors(summary), *_wavefronts(summary)]
    remarks = [text for _, text in sorted(found, key=lambda each: -each[0])]
    if occupancy.fraction < _FULL:
        remarks.append(f"occupancy is {occupancy.fraction:.0%}: {hint(gpu, occupancy)}")
    return remarks[:MOST]


def _spills(profile: Profile) -> list[tuple[float, str]]:
    if not profile.spill_bytes:
        return []
    text = (
        f"{profile.spill_bytes} bytes a thread are in local memory (spilled registers, or arrays "
        "indexed at run time): fewer live values or a larger __launch_bounds__ would keep them in "
        "registers"
    )
    return [(1.0, text)]


def _sectors(summary: Summary) -> list[tuple[float, str]]:
    everything = sum(line.sectors for line in summary.lines)
    found = []
    for line in summary.lines:
        excess = line.sectors - line.ideal_sectors
        if everything and excess > _WORTH * everything:
            needed = line.ideal_sectors / line.global_requests
            text = (
                f"{_place(line)} moves {line.sectors_per_request:.3g} sectors a request where "
                f"{needed:.3g} would do ({excess / everything:.0%} of all sectors are excess): let "
                "the threads of a warp touch neighbouring addresses, or stage through shared memory"
            )
            found.append((excess / everything, text))
    return found


def _wavefronts(summary: Summary) -> list[tuple[float, str]]:
    everything = sum(line.wavefronts for line in summary.lines)
    found = []
    for line in summary.lines:
        excess = line.wavefronts - line.ideal_wavefronts
        if everything and excess > _WORTH * everything:
            needed = line.ideal_wavefronts / line.shared_requests
            text = (
                f"{_place(line)} takes {line.wavefronts_per_request:.3g} passes through the banks "
                f"a request where {needed:.3g} would do ({excess / everything:.0%} of all "
                "wavefronts are conflicts): pad or swizzle the tile, or read it in another order"
            )
            found.append((excess / everything, text))
    return found


def _place(line: LineCounts) -> str:
    return f"{line.file}:{line.line}"
