"""Which general registers may still be read: what a schedule must not overwrite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tilewright.toolchain.sass_flow import flow
from tilewright.toolchain.schedule.code import Code, Line

# What may still be read: by register, the guards under which, None for always.
_Live: TypeAlias = dict[str, frozenset[str | None]]
_NEVER: frozenset[str | None] = frozenset()


def live_around(code: Code) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers, of every kind, that are live where the loop starts, and behind it.

    A register is live where a way leads to an instruction that may read it, with none before that
    writes it whenever this one reads it.
    """
    blocks = flow(code.function).cfg.blocks
    live: list[_Live] = [{} for _ in blocks]
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            block = blocks[number]
            new = _before(code.lines[block.start : block.end], [live[s] for s in block.successors])
            if new != live[number]:
                live[number], changed = new, True
    at = {block.start: number for number, block in enumerate(blocks) if number}
    behind = live[at[code.end]] if code.end in at else {}
    return frozenset(live[at[code.start]]), frozenset(behind)


def _before(lines: Sequence[Line], behind: Iterable[_Live]) -> _Live:
    """Return what is live before a stretch of code."""
    live: _Live = {}
    for each in behind:
        for register, guards in each.items():
            live[register] = live.get(register, _NEVER) | guards
    for line in reversed(lines):
        guard = line.ins.predicate
        for register in line.ops.writes:
            guards = live.pop(register, _NEVER)
            if guard is not None and (left := guards - {guard}):
                live[register] = left
            if "P" in register:
                # Whoever reads under this predicate's new value may do so under either old one.
                old = {register, f"!{register}"}
                for other, under in live.items():
                    if under & old:
                        live[other] = under - old | {None}
        for register in line.ops.all_reads:
            live[register] = live.get(register, _NEVER) | {guard}
    return live
