"""What the loops of a kernel execute: the share of each opcode, and how wide they load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.accesses import Space, Way
from tilewright.model.profile import Counted, Loop, Profile

# What multiplies and adds: the work that a matrix kernel is there for.
_MULTIPLY_ADDS = frozenset({"FFMA", "DFMA", "HFMA2", "HMMA", "IMMA", "DMMA", "HGMMA"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMix:
    """A loop's instructions, those of the loops inside it included.

    Units: `executed` are warp instructions, `share` of all that the kernel executes; `opcodes` and
    `multiply_add_share` are shares of the loop's own. `widths` are the executed accesses by space,
    way and bytes a lane.
    """

    loop: Loop
    executed: int
    share: float
    opcodes: Mapping[str, float]
    multiply_add_share: float
    widths: Mapping[tuple[Space, Way, int], int]

    @property
    def trips(self) -> float | None:
        """Mean trips an entry; None for a loop that was never entered."""
        return self.loop.trips / self.loop.entries if self.loop.entries else None


def mix(profile: Profile, loop: Loop) -> LoopMix:
    """Return what a loop of the profile executes."""
    inside = [profile.counted[index] for index in loop.body]
    opcodes: Counter[str] = Counter()
    widths: Counter[tuple[Space, Way, int]] = Counter()
    for each in inside:
        opcodes[each.instruction.opcode] += each.executed
        if each.access is not None:
            widths[each.access.space, each.access.way, each.access.size] += each.executed
    executed = opcodes.total()
    everything = _executed(profile.counted)
    return LoopMix(
        loop=loop,
        executed=executed,
        share=executed / everything if everything else 0.0,
        opcodes={name: n / executed for name, n in opcodes.most_common() if n},
        multiply_add_share=sum(opcodes[name] for name in _MULTIPLY_ADDS) / executed
        if executed
        else 0.0,
        widths={key: n for key, n in widths.most_common() if n},
    )


def inner_loops(profile: Profile) -> tuple[LoopMix, ...]:
    """Return the loops that ran and have no loop inside that did, the most executed first."""
    ran = [loop for loop in profile.loops if loop.trips]
    inner = [
        loop
        for loop in ran
        if not any(set(other.body) < set(loop.body) for other in ran if other is not loop)
    ]
    return tuple(sorted((mix(profile, loop) for loop in inner), key=lambda m: -m.executed))


def _executed(counted: tuple[Counted, ...]) -> int:
    return sum(each.executed for each in counted)
