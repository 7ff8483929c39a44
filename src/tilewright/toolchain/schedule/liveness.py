"""Which general registers may still be read: what a schedule must not overwrite."""

from __future__ import annotations

from tilewright.toolchain.sass_flow import flow
from tilewright.toolchain.schedule.code import Code


def live_around(code: Code) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers, of every kind, that are live where the loop starts, and behind it.

    A register is live where a way leads to an instruction that may read it with no instruction
    before that writes it, whatever its predicate.
    """
    blocks = flow(code.function).cfg.blocks
    read: list[set[str]] = []
    written: list[set[str]] = []
    for block in blocks:
        reads: set[str] = set()
        writes: set[str] = set()
        for line in code.lines[block.start : block.end]:
            reads.update(r for r in line.ops.all_reads if r not in writes)
            if line.ins.predicate is None:
                writes.update(line.ops.writes)
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
