"""Loads and stores of neighbouring words, one by one, that one wide instruction could do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.model.profile import AccessCounts, Counted, Profile
from tilewright.toolchain.sass_flow import SassFlow

_ADDRESS = re.compile(
    r"\[(?P<base>R\d+(?:\.64|\.U32|\.X\d+)*(?:\+UR\d+)?)(?:\+(?P<offset>-?0x\w+))?\]"
)
_WIDEST = 16  # bytes a lane
_OPCODES = frozenset({"LDG", "STG", "LDS", "STS"})
_STORES = frozenset({"STG", "STS"})


def runs_of_neighbours(profile: Profile, flow: SassFlow) -> list[tuple[int, ...]]:
    """Return runs of accesses, by index, whose words lie side by side for every lane.

    Two or four of one basic block, with one base register and offsets that a wide access could
    begin at, in the order of their offsets. Accesses of which neighbouring lanes take
    neighbouring words are none: a wide access would begin between its own boundaries.
    """
    found: list[tuple[int, ...]] = []
    for block in flow.cfg.blocks:
        groups: dict[tuple[str, int, str, int], dict[int, int]] = {}
        written: dict[str, int] = {}
        for index in range(block.start, block.end):
            counted = profile.counted[index]
            place = _place(counted)
            if place is not None:
                opcode, size, base, offset = place
                key = (opcode, size, base, written.get(_register(base), 0))
                groups.setdefault(key, {}).setdefault(offset, index)
            for name in _written(counted):
                written[name] = written.get(name, 0) + 1
        for (_, size, _, _), by_offset in groups.items():
            found += _runs(by_offset, size)
    return found


def _place(counted: Counted) -> tuple[str, int, str, int] | None:
    """Return opcode, bytes a lane, base and offset of an access that could be wider."""
    ins, access = counted.instruction, counted.access
    if ins.opcode not in _OPCODES or access is None or not _own_words(access):
        return None
    match = next((m for o in ins.operands if (m := _ADDRESS.search(o)) is not None), None)
    if match is None or access.size not in (4, 8):
        return None
    return ins.opcode, access.size, match["base"], int(match["offset"] or "0", 16)


def _own_words(access: AccessCounts) -> bool:
    """Whether the lanes' words lie apart, or are one: then each lane's neighbours are its own."""
    if not access.requests:
        return False
    if access.space == "global":
        return access.sectors >= 1.9 * access.ideal or access.sectors <= 1.01 * access.requests
    return access.wavefronts >= 1.9 * access.ideal


def _runs(by_offset: dict[int, int], size: int) -> Iterator[tuple[int, ...]]:
    for length in (_WIDEST // size, 2):
        if length < 2:
            continue
        for offset in sorted(by_offset):
            words = range(offset, offset + length * size, size)
            if offset % (length * size) == 0 and all(w in by_offset for w in words):
                yield tuple(by_offset.pop(w) for w in words)


def _register(base: str) -> str:
    return base.split(".")[0].split("+")[0]


def _written(counted: Counted) -> Iterator[str]:
    """Yield the registers that an instruction writes: those of its first operand."""
    ins = counted.instruction
    if ins.opcode in _STORES or not ins.operands:
        return
    first = next((o for o in ins.operands if not re.fullmatch(r"!?U?P[T\d]", o)), "")
    match = re.fullmatch(r"R(\d+)(\.64)?", first)
    if match is None:
        return
    wide = {"64": 2, "128": 4, "WIDE": 2}
    count = max((wide[m] for m in ins.modifiers if m in wide), default=1)
    for number in range(int(match[1]), int(match[1]) + count):
        yield f"R{number}"
