"""Kinds of blocks and of warps: which do about the same, and how many of a block are of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tilewright.model.operations import pipe_of
from tilewright.model.profile import BlockKind, Profile, WarpKind
from tilewright.toolchain.sass_flow import SassFlow

# Warps are alike if each runs no stretch of code more than so much oftener than the other: 31 or
# 32 trips of a loop are, one part of a tile or two are not. Nor do they differ by stretches without
# barriers that make up no more than so much of what they execute. Assumed.
_ALIKE, _LITTLE = 0.1, 0.001
_MOST_KINDS = 6  # of blocks, each of which is simulated: what is alike is taken less strictly then
_MEETS = frozenset({"barrier", "membar"})
# Blocks take their work from a queue if some ask it so much oftener than others. Assumed.
_QUEUED = 8
_ASKS = frozenset({"ATOM", "ATOMG"})


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A block of the machine code: its instructions, and whether warps wait for others there."""

    length: int
    meets: bool


def merged(kinds: Iterable[BlockKind], flow: SassFlow) -> tuple[BlockKind, ...]:
    """Return the kinds of blocks with those that are alike put together, the longest first.

    None, if blocks take their work from a queue: the emulator's first block takes nearly all of it.
    """
    code = flow.function.instructions
    stretches = [
        _Stretch(
            block.end - block.start,
            any(pipe_of(ins) in _MEETS for ins in code[block.start : block.end]),
        )
        for block in flow.cfg.blocks
    ]
    found = [(joined(kind.warps), [*kind.warps]) for kind in kinds]
    if _queued([kind for kind, _ in found], flow):
        return ()
    found.sort(key=lambda each: -_instructions(each[0], stretches))
    loosely = 1.0
    found = _merged(found, stretches, loosely)
    while len(found) > _MOST_KINDS:
        loosely *= 2
        found = _merged(found, stretches, loosely)
    return tuple(BlockKind(warps=_merged_warps(warps, stretches, loosely)) for _, warps in found)


def _queued(kinds: Sequence[WarpKind], flow: SassFlow) -> bool:
    """Whether atomics that give back what they found are run by some blocks far more often."""
    code, blocks = flow.function.instructions, flow.cfg.blocks
    for number, block in enumerate(blocks):
        if any(ins.opcode in _ASKS for ins in code[block.start : block.end]):
            asked = [kind.executed[number] / kind.count for kind in kinds if kind.executed[number]]
            if asked and max(asked) > _QUEUED * min(asked):
                return True
    return False


def _merged(
    kinds: Sequence[tuple[WarpKind, list[WarpKind]]],
    stretches: Sequence[_Stretch],
    loosely: float,
) -> list[tuple[WarpKind, list[WarpKind]]]:
    """Merge kinds of blocks: each all its warps as one, and by their kinds."""
    found: list[tuple[WarpKind, list[WarpKind]]] = []
    for kind, warps in kinds:
        place = next(
            (n for n, (o, _) in enumerate(found) if _alike(kind, o, stretches, loosely)), None
        )
        if place is None:
            found.append((kind, warps))
        else:
            other, those = found[place]
            found[place] = joined([other, kind]), [*those, *warps]
    return found


def _merged_warps(
    warps: Sequence[WarpKind], stretches: Sequence[_Stretch], loosely: float
) -> tuple[WarpKind, ...]:
    """Return kinds of warps with those that are alike put together, the rarest first."""
    found: list[WarpKind] = []
    for warp in sorted(warps, key=lambda each: -each.count):
        place = next((n for n, o in enumerate(found) if _alike(warp, o, stretches, loosely)), None)
        if place is None:
            found.append(warp)
        else:
            found[place] = joined([found[place], warp])
    return tuple(sorted(found, key=lambda each: each.count))


def joined(warps: Sequence[WarpKind]) -> WarpKind:
    """Return several kinds of warps as one."""
    edges: dict[tuple[int, int], int] = {}
    for warp in warps:
        for edge, taken in warp.edges.items():
            edges[edge] = edges.get(edge, 0) + taken
    return WarpKind(
        count=sum(warp.count for warp in warps),
        executed=tuple(map(sum, zip(*(warp.executed for warp in warps), strict=True))),
        edges=edges,
    )


def _instructions(kind: WarpKind, stretches: Sequence[_Stretch]) -> float:
    """Return how many instructions a warp executes."""
    return sum(n * s.length for n, s in zip(kind.executed, stretches, strict=True)) / kind.count


def _alike(one: WarpKind, other: WarpKind, stretches: Sequence[_Stretch], loosely: float) -> bool:
    most, little = loosely * _ALIKE, loosely * _LITTLE * _instructions(other, stretches)
    for ours, theirs, stretch in zip(one.executed, other.executed, stretches, strict=True):
        a, b = ours / one.count, theirs / other.count
        small = not stretch.meets and abs(a - b) * stretch.length <= little
        if not small and abs(a - b) > most * max(a, b):
            return False
    return True


def parts_of(kinds: Sequence[BlockKind], flow: SassFlow) -> list[float]:
    """Return by instruction which part of the blocks of some kinds execute it, 1 if none does."""
    warps = sum(kind.count for kind in kinds)
    parts = [
        sum(k.count for k in kinds if any(w.executed[number] for w in k.warps)) / warps or 1.0
        for number in range(len(flow.cfg.blocks))
    ]
    return [parts[number] for number in flow.block_of]


def numbers_of(kind: BlockKind, warps: int) -> tuple[int, ...]:
    """Return how many of a block's `warps` are of each kind: its share, rounded."""
    shares = [warps * each.count / kind.count for each in kind.warps]
    numbers = [int(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda n: numbers[n] - shares[n])
    for place in order[: warps - sum(numbers)]:
        numbers[place] += 1
    return tuple(numbers)


def profile_of(kind: WarpKind, profile: Profile, flow: SassFlow) -> Profile:
    """Return the profile with what these warps executed in place of what all did.

    What accesses cost is the mean over all.
    """
    block_of = flow.block_of
    return replace(
        profile,
        counted=tuple(
            replace(counted, executed=kind.executed[block_of[index]])
            for index, counted in enumerate(profile.counted)
        ),
        edges=kind.edges,
    )
