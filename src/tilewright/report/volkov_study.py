"""Volkov and Demmel's argument in words: a verdict, four tables, and what each of them says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.report.ladder import Justify, Table
from tilewright.report.occupancy_study import occupancy_verdict
from tilewright.study.curve import ENOUGH
from tilewright.study.loops_2008 import LoopMix
from tilewright.study.speed_2008 import (
    AHEAD,
    ARITHMETIC_CYCLES,
    ISSUE_CYCLES,
    MEMORY_CYCLES,
    SHARED_ISSUE_CYCLES,
    turn_of,
)
from tilewright.study.volkov import (
    NOW,
    OTHER,
    PUBLISHED_GFLOPS,
    PUBLISHED_GPU,
    PUBLISHED_OCCUPANCY,
    PUBLISHED_RANGE,
    THEIRS,
    Design,
    VolkovStudy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One step of the argument: what it asks, its table if it has one, and what follows."""

    asks: str
    table: Table | None
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolkovTold:
    """The study told."""

    verdict: str
    parts: tuple[Part, ...]


def volkov_told(study: VolkovStudy) -> VolkovTold:
    """Tell the study."""
    return VolkovTold(
        verdict=_verdict(study),
        parts=(
            Part(
                asks="What are the main loops made of?",
                table=mix_table(study),
                says=tuple(_of_mixes(study)),
            ),
            Part(
                asks="What fits on a multiprocessor of 2008, and how fast is it?",
                table=reached_table(study),
                says=tuple(_of_reached(study)),
            ),
            Part(
                asks=f"How many warps does a multiprocessor need? ({study.old_gpu.name})",
                table=curve_table(study),
                says=tuple(_of_curve(study)),
            ),
            Part(
                asks=f"And today? ({study.today[0].gpu})",
                table=None,
                says=tuple(_of_today(study)),
            ),
        ),
    )


def _verdict(study: VolkovStudy) -> str:
    enough, most = study.enough, study.curve[-1]
    more = ", as many as fit" if enough == most else f", and all {most.blocks} that fit "
    more += "" if enough == most else f"{most.share:.0%}"
    return (
        f"On a {study.old_gpu.name} {enough.blocks} blocks of {study.theirs.kernel.threads} "
        f"threads, {enough.occupancy:.0%} occupancy, reach {enough.share:.0%} of the peak by the "
        f"model{more}; one alone reaches {study.curve[0].share:.0%}. What ends it is instructions, "
        "not warps: few warps that keep their sums in registers are enough."
    )


def mix_table(study: VolkovStudy) -> Table:
    """Lay out what the main loops are made of, then and now."""
    columns: dict[str, Justify] = {"kernel": "left", "loop": "left"}
    heads: tuple[str, ...] = (
        "multiply\nadds",
        "instruc-\ntions",
        "share",
        "publ.",
        "shared\nreads",
        "global\nloads",
    )
    heads += ("shared\nstores", "bar-\nriers", "others")
    columns |= dict.fromkeys(heads, "right")
    rows: list[tuple[str, ...]] = []
    for each in (study.theirs, study.other):
        published = f"{each.published_mix:.0%}"
        rows.append(_mix_row(each, "2008", each.kernel.mix, published))
        rows += [_mix_row(each, name, each.now[name], "-") for name in NOW]
    return Table(
        "Instructions of a warp in one turn of the main loop",
        columns,
        tuple(rows),
        (
            "2008: today's PTX, with a shared operand folded into its multiply-add as compute "
            "capability 1.x had it (derived). The others: today's machine code, counted (exact). "
            "publ.: the share of multiply-adds that the paper counted in the binaries of then.",
        ),
    )


def _mix_row(each: Design, loop: str, mix: LoopMix, published: str) -> tuple[str, ...]:
    counts = (
        mix.shared_reads,
        mix.staged_loads + mix.streamed_loads,
        mix.shared_stores,
        mix.barriers,
        mix.others,
    )
    head = (each.rung.name, loop, str(mix.multiply_adds), str(mix.instructions))
    return (*head, f"{mix.multiply_add_share:.1%}", published, *map(str, counts))


def _of_mixes(study: VolkovStudy) -> Iterator[str]:
    theirs, other = study.theirs, study.other
    yield (
        f"{other.rung.name} has both operands in shared memory and an instruction takes one from "
        f"there: {other.kernel.mix.shared_reads} moves for {other.kernel.mix.multiply_adds} "
        f"multiply-adds. {theirs.rung.name} has one operand in a register already: "
        f"{theirs.kernel.mix.shared_reads} moves. So {theirs.kernel.mix.multiply_add_share:.0%} "
        f"against {other.kernel.mix.multiply_add_share:.0%} of what is issued is work."
    )
    then, now = theirs.kernel.mix, theirs.now[NOW[-1]]
    yield (
        "Since then a load from shared memory is an instruction of its own again, but moves four "
        f"floats: {now.shared_reads} loads for {now.multiply_adds} multiply-adds, and "
        f"{now.multiply_add_share:.0%} where it was {then.multiply_add_share:.0%}. What raises the "
        "share today is a square of outputs a thread (05_register_2d), not a column."
    )


def reached_table(study: VolkovStudy) -> Table:
    """Lay out what both kernels reach on the four GPUs."""
    columns: dict[str, Justify] = {"GPU": "left", "kernel": "left"}
    heads = ("blocks", "warps", "occu-\npancy", "of peak,\nmodelled", "GFLOP/s,\nmodelled")
    columns |= dict.fromkeys(heads, "right")
    columns |= {"of peak,\npublished": "right", "fits by": "left"}
    rows: list[tuple[str, ...]] = []
    for place in range(len(study.theirs.reached)):
        for each in (study.theirs, study.other):
            found = each.reached[place]
            fits, point = found.occupancy, found.point
            published = "-" if found.published is None else f"{found.published:.1%}"
            numbers = (str(fits.active_blocks), str(fits.active_warps), f"{fits.fraction:.0%}")
            speed = (f"{point.share:.1%}", f"{point.gflops:.0f}", published)
            rows.append(
                (found.gpu.name, each.rung.name, *numbers, *speed, ", ".join(fits.limiters))
            )
    ranges = "; ".join(
        f"{name} {low:.0%} to {high:.0%}" for name, (low, high) in PUBLISHED_RANGE.items()
    )
    return Table(
        "As many blocks as fit on a multiprocessor",
        columns,
        tuple(rows),
        (f"Published of four GPUs: {ranges} of the peak. Of one: Volkov, GTC 2010, slide 3.",),
    )


def _of_reached(study: VolkovStudy) -> Iterator[str]:
    theirs, other = study.theirs.kernel, study.other.kernel
    few, many = PUBLISHED_OCCUPANCY[THEIRS], PUBLISHED_OCCUPANCY[OTHER]
    faster = PUBLISHED_GFLOPS[THEIRS] / PUBLISHED_GFLOPS[OTHER]
    fits = study.fits
    yield (
        f"Registers decide: {theirs.registers} a thread and {theirs.threads} threads leave room for"
        f" {fits.active_blocks} blocks on a {study.old_gpu.name}, {fits.fraction:.0%} of its warps;"
        f" {other.registers} a thread and {other.threads} threads were the advice of the time. On "
        f"the {PUBLISHED_GPU} these rules give the published occupancies, {few:.0%} and {many:.0%}:"
        f" with half the warps theirs was {faster:.1f} times as fast."
    )


def curve_table(study: VolkovStudy) -> Table:
    """Lay out the speed by blocks, and what other assumptions would give."""
    columns: dict[str, Justify] = dict.fromkeys(
        ("blocks", "warps", "occu-\npancy", "mod-\nelled", "publ.", "error,\npoints"), "right"
    )
    columns |= {"bound by": "left"}
    names = {name: name.replace(" loads", "").replace(" to memory", "") for name in study.others}
    columns |= {short.replace(" ", "\n"): "right" for short in names.values()}
    rows = []
    for point in study.curve:
        published = study.published_curve.get(point.blocks)
        error = "-" if published is None else f"{100 * (point.share - published):+.1f}"
        rows.append(
            (
                str(point.blocks),
                str(point.warps),
                f"{point.occupancy:.0%}",
                f"{point.share:.1%}",
                "-" if published is None else f"{published:.0%}",
                error,
                point.bound,
                *(f"{points[point.blocks - 1].share:.1%}" for points in study.others.values()),
            )
        )
    return Table(
        f"{study.theirs.rung.name} on a {study.old_gpu.name}: share of the peak by resident blocks",
        columns,
        tuple(rows),
        (
            f"Modelled: {ISSUE_CYCLES} cycles an instruction, {SHARED_ISSUE_CYCLES} with a shared "
            f"operand, {MEMORY_CYCLES} from memory, which a turn waits for once for its tile and "
            f"once for each {AHEAD} loads that it streams. Only these {AHEAD} are an assumption, "
            "made with the published curve in sight: the last columns are the curve with others. "
            "Where it ends does not depend on it.",
        ),
    )


def _of_curve(study: VolkovStudy) -> Iterator[str]:
    kernel = study.theirs.kernel
    turn = turn_of(kernel)
    rule = ARITHMETIC_CYCLES // ISSUE_CYCLES
    need = -(-ARITHMETIC_CYCLES // (kernel.sums * SHARED_ISSUE_CYCLES))
    yield (
        f"Far less is worse: alone, a block issues {turn.issue:.0f} cycles and then waits "
        f"{turn.wait:.0f} for memory. More is not better: from {study.enough.blocks} blocks on "
        "another one nearly always has something to issue, and the port is full at "
        f"{turn.least / turn.issue:.0%} of the peak: that limit is the instruction mix."
    )
    yield (
        f"Arithmetic needs few warps too. The rule of the time was {rule} ({32 * rule} threads), "
        f"{ARITHMETIC_CYCLES} cycles of latency over {ISSUE_CYCLES} of issue; with {kernel.sums} "
        f"sums a thread that do not wait for each other it is {need}."
    )


def _of_today(study: VolkovStudy) -> Iterator[str]:
    for curve in study.today:
        yield occupancy_verdict(curve)
    theirs, other = study.today
    last, best = theirs.ran[-1], theirs.rate(theirs.best) or 0.0
    rate = theirs.rate(last) or 0.0
    if last.means == "registers" and rate < (1 - ENOUGH) * best:
        yield (
            f"More is not better today either: {last.warps} warps leave {last.registers} registers "
            f"a thread of {theirs.own.registers}, and reach {rate / best:.0%} of the best."
        )
    few, many = theirs.enough, other.best
    mine, both = theirs.rate(few) or 0.0, other.rate(many) or 0.0
    first, second = (mine, both) if mine > both else (both, mine)
    yield (
        f"{few.warps} warps of {theirs.rung} are {first / second:.1f} times as "
        f"{'fast' if mine > both else 'slow'} as {many.warps} of {other.rung}. "
        "tilewright study occupancy has both curves point by point."
    )
