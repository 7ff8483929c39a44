"""Which general registers may still be read: what a schedule must not overwrite."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.toolchain.sass_flow import flow
from tilewright.toolchain.schedule.code import Code, Line


def live_around(code: Code) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers, of every kind, that are live where the loop starts, and behind it.

    A register is live where a way leads to an instruction that may read it, with none before that
    writes it whenever this one reads it.
    """
    blocks = flow(code.function).cfg.blocks
    read: list[set[str]] = []
    written: list[set[str]] = []
    for block in blocks:
        reads, writes = _effect(code.lines[block.start : block.end])
        read.append(reads)
        written.append(writes)
    live = [set(reads) for reads in read]
    changed = True
    while changed:
        changed = False
        for number in range(len(blocks) - 1, -1, -1):
            onward = set().union(*(live[s] for s in blocks[number].successors))
            new = read[number] | (onward - written[number])
            if new != live[number]:
                live[number], changed = new, True
    at = {block.start: number for number, block in enumerate(blocks) if number}
    behind = live[at[code.end]] if code.end in at else set()
    return frozenset(live[at[code.start]]), frozenset(behind)


def _effect(lines: Iterable[Line]) -> tuple[set[str], set[str]]:
    """Return what a block may read that it has not written, and what it always writes.

    What it reads under a predicate it may have written under the same.
    """
    reads: set[str] = set()
    always: set[str] = set()
    under: dict[str, set[str]] = {}
    for line in lines:
        guard = line.ins.predicate
        known = always | under.get(guard or "", set())
        reads.update(register for register in line.ops.all_reads if register not in known)
        for register in line.ops.writes:
            under.pop(register, None)
            under.pop(f"!{register}", None)
        (under.setdefault(guard, set()) if guard else always).update(line.ops.writes)
    return reads, always
