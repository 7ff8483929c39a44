"""One kernel explained, laid out: the verdict, counters, occupancy, loops, the source by line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from tilewright.bench.explain import Explained
from tilewright.gpus import Occupancy
from tilewright.model.summary import InnerLoop, LineCounts, Summary
from tilewright.report.ladder import Justify, Table
from tilewright.report.time import time_sentence

WIDTH = 100
_MIX = 6  # opcodes of a loop that are named
_HOT = 0.01  # the part of all instructions, or of all memory traffic, from which a line is shown
_CONTEXT = 1  # lines shown on either side of a hot one


def verdict(explained: Explained) -> str:
    """Return the one sentence that comes first."""
    p, summary, occupancy = explained.profile, explained.summary, explained.occupancy
    subject = f"{p.kernel} on {explained.gpu.name}"
    if explained.estimate is not None:
        ffma = summary.value("FFMA thread instructions")
        return f"{subject}: {time_sentence(explained.estimate, ffma)}."
    blocks = f"{p.launch.blocks} blocks of {p.launch.threads} threads"
    return (
        f"{subject}: {blocks}, {_count(summary.value('warp instructions'))} warp instructions; "
        f"{occupancy.fraction:.0%} occupancy, limited by {' and '.join(occupancy.limiters)}. "
        "Counted, not timed."
    )


def counters_table(explained: Explained) -> Table:
    """Lay out the counters, with the profiler's names for them."""
    rows = tuple(
        (figure.name, _marked(figure.value, figure.provenance), figure.metric or "")
        for figure in explained.summary.counters
    )
    columns: dict[str, Justify] = {"counter": "left", "value": "right", "in ncu": "left"}
    p = explained.profile
    notes = [*_ratios(explained.summary)]
    if p.blocks_run < p.launch.blocks and "derived" not in p.provenance.values():
        notes.append(f"From {p.blocks_run} of the {p.launch.blocks} blocks, one of each kind.")
    if any(figure.provenance != "exact" for figure in explained.summary.counters):
        notes.append("~ derived; the others are what the profiler counts.")
    notes += [f"~ {gap}." for gap in p.gaps]
    return Table("Counters", columns, rows, tuple(notes))


def occupancy_table(found: Occupancy) -> Table:
    """Lay out what a block takes and what limits the blocks of an SM."""
    takes = {
        "warps": f"{found.warps_per_block} warps",
        "blocks": "1 block",
        "registers": f"{found.registers} registers a thread",
        "shared": f"{found.shared_bytes + found.dynamic_shared_bytes} bytes of shared memory",
    }
    rows = tuple(
        (
            takes[resource],
            "any" if fit is None else str(fit),
            "<- limits" if resource in found.limiters else "",
        )
        for resource, fit in found.limits.items()
    )
    title = (
        f"Occupancy {found.fraction:.0%}: {found.active_blocks} blocks, {found.active_warps} of "
        f"{found.max_warps} warps an SM"
    )
    columns: dict[str, Justify] = {"a block takes": "left", "blocks that fit": "right", "": "left"}
    return Table(title, columns, rows, ())


def loops_table(explained: Explained) -> Table:
    """Lay out the inner loops of the machine code, the busiest first."""
    columns: dict[str, Justify] = {
        "lines": "left",
        "of all\nexecuted": "right",
        "trips": "right",
        "instr": "right",
        "cycles\n/instr": "right",
        "FFMA": "right",
        "executed in it, by opcode": "left",
    }
    loops = [loop for loop in explained.summary.loops if loop.share >= _HOT]
    notes = (
        "cycles/instr: the stall counts that the compiler set, over the instructions: how far "
        "apart one warp alone issues them at best.",
    )
    return Table("Inner loops", columns, tuple(map(_loop_row, loops)), notes if loops else ())


def source_text(explained: Explained) -> Iterator[str]:
    """Yield the source with its counts, the lines that matter and their neighbours."""
    everything = explained.summary.value("warp instructions") or 1
    memory = sum(line.sectors + line.wavefronts for line in explained.summary.lines)
    files = dict.fromkeys(line.file for line in explained.summary.lines)
    for file in files:
        text = explained.sources.get(file)
        lines = {line.line: line for line in explained.summary.lines if line.file == file}
        hot = {
            n
            for n, line in lines.items()
            if line.executed >= _HOT * everything
            or (memory and line.sectors + line.wavefronts >= _HOT * memory)
        }
        if not hot:
            continue
        yield ""
        title = f"{file}: what each line costs (in brackets, the least that its bytes could take)"
        yield from textwrap.wrap(title, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        yield f" line  instr {'sectors/req':>13} {'waves/req':>13} |"
        yield from _numbered(text, lines, hot, everything)


def _numbered(
    text: str | None, lines: Mapping[int, LineCounts], hot: set[int], everything: int
) -> Iterator[str]:
    source = text.splitlines() if text is not None else []
    near = {n for line in hot for n in range(line - _CONTEXT, line + _CONTEXT + 1)}
    shown = sorted(n for n in near if 1 <= n <= len(source)) or sorted(hot)
    before = shown[0] - 1
    for number in shown:
        if number > before + 1:
            yield "     ⋮"
        before = number
        code = source[number - 1].rstrip() if number <= len(source) else ""
        counts = _line_counts(lines.get(number), everything)
        yield f"{number:>5} {counts} | {code}".expandtabs(4)[:WIDTH].rstrip()


def _line_counts(line: LineCounts | None, everything: int) -> str:
    """Return the columns of one line: its part of the instructions, sectors and wavefronts."""
    if line is None or not (line.executed or line.global_requests or line.shared_requests):
        return " " * 34
    sectors = _needed(line.sectors_per_request, line.ideal_sectors, line.global_requests)
    waves = _needed(line.wavefronts_per_request, line.ideal_wavefronts, line.shared_requests)
    return f"{line.executed / everything:6.1%} {sectors:>13} {waves:>13}"


def _needed(each: float | None, ideal: int, requests: int) -> str:
    """Return what a request takes, and what it needs where that is less."""
    if each is None:
        return ""
    needed = ideal / requests
    return f"{each:.3g} ({needed:.3g})" if each > needed * 1.005 else f"{each:.3g}"


def _loop_row(loop: InnerLoop) -> tuple[str, ...]:
    where = "-"
    if loop.lines is not None:
        first, last = loop.lines
        where = f"{loop.file}:{first}" + (f"-{last}" if last > first else "")
    named = list(loop.mix.items())[:_MIX]
    rest = 1 - sum(share for _, share in named)
    apart = loop.cycles_per_instruction
    mix = ", ".join(f"{opcode} {share:.0%}" for opcode, share in named)
    return (
        where,
        f"{loop.share:.1%}",
        "-" if loop.trips is None else f"{loop.trips:.4g}",
        str(loop.instructions),
        "-" if apart is None else f"{apart:.2f}",
        f"{loop.mix.get('FFMA', 0):.0%}",
        mix + (f", others {rest:.0%}" if rest > 0.005 else ""),
    )


def _ratios(summary: Summary) -> Iterator[str]:
    for way in ("load", "store"):
        requests = summary.value(f"global {way} requests")
        if requests:
            each = summary.value(f"global {way} sectors") / requests
            yield f"Sectors a global {way} request: {each:.4g}."
    wavefronts = summary.value("shared wavefronts")
    if wavefronts:
        excess = wavefronts - summary.value("  the fewest possible")
        yield f"Bank conflicts: {excess} of {wavefronts} wavefronts, {excess / wavefronts:.1%}."


def _marked(value: int, provenance: str) -> str:
    return f"{value:,}" if provenance == "exact" else f"~{value:,}"


def _count(value: int) -> str:
    for scale, unit in ((10**9, "billion"), (10**6, "million")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:,}"
