"""A curve of performance against warps in words: a verdict, a table, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.report.ladder import Justify, Table
from tilewright.report.time import MEANING
from tilewright.study.curve import ENOUGH, Curve, Limiter, Modelled, Point

# A unit that works so much of the time leaves nothing for more warps to use.
FULL = 0.8
_UNITS = {
    "alu": "the integer pipes",
    "dram": "the DRAM",
    "fma": "the multiply-add pipes",
    "fp64": "the float64 pipes",
    "global": "the way to global memory",
    "imad": "the integer multiply pipes",
    "issue": "the issue slots",
    "l2": "the L2 cache",
    "lsu": "the load-store unit",
    "shared": "the way to shared memory",
    "tensor": "the tensor cores",
    "xu": "the special-function pipes",
}
_LIMITS: Mapping[Limiter, str] = {
    "added": "shared memory that was added",
    "blocks": "the number of blocks that an SM holds",
    "grid": "the size of the launch",
    "registers": "the register file",
    "shared": "shared memory",
    "warps": "the number of warps that an SM holds",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A curve told: one sentence, a table, and paragraphs that say why."""

    verdict: str
    table: Table
    why: tuple[str, ...]


def occupancy_study(curve: Curve) -> Study:
    """Tell a curve."""
    return Study(verdict=occupancy_verdict(curve), table=_table(curve), why=tuple(_reasons(curve)))


def occupancy_verdict(curve: Curve) -> str:
    """Return in one sentence how many warps are enough, and what took over there."""
    best, enough = curve.best, curve.enough
    where = f"{curve.rung} at {size(curve)} on {curve.gpu}"
    rate = f"{curve.rate(enough):.0f} GFLOP/s {kind(curve)}"
    if len(curve.ran) == 1:
        return f"{where} runs with {share(curve, enough)} only: {rate}."
    if enough == curve.ran[-1]:
        told = f"{where} gains from every warp, up to the most: {share(curve, enough)}, {rate}"
        return f"{told}; {_took_over(enough)}."
    least = curve.ran[0]
    start = "as few as " if enough == least else ""
    verdict = (
        f"{where} is within {ENOUGH:.0%} of its best with {start}{share(curve, enough)}: "
        f"{rate}{'' if enough == best else f', of {curve.rate(best):.0f} at best'}"
    )
    return f"{verdict}; {_took_over(enough)}."


def _took_over(point: Point) -> str:
    found = point.modelled
    if found is None:
        return "what took over was not modelled"
    if found.busy >= FULL:
        return f"there {unit_name(found.unit)} took over, busy {found.busy:.0%} of the time"
    return (
        f"no unit is full there ({unit_name(found.unit)}: {found.busy:.0%}), and warps wait most "
        f"for {stall_name(found.stall)}"
    )


def unit_name(unit: str) -> str:
    """Return what a unit of the model is called in a sentence."""
    return _UNITS.get(unit, f"the {unit} unit")


def stall_name(stall: str) -> str:
    """Return a stall with what it means."""
    return f"{stall} ({MEANING[stall]})" if stall in MEANING else stall


def size(curve: Curve) -> str:
    """Return the sizes of a curve's problem."""
    p = curve.problem
    return f"{p.m} x {p.n} x {p.k}"


def kind(curve: Curve) -> str:
    """Return where the rates come from that a curve is judged by."""
    return "measured" if curve.is_measured else "modelled"


def share(curve: Curve, point: Point) -> str:
    """Return a point's warps, of how many, and its blocks."""
    blocks = f"{point.blocks} block{'' if point.blocks == 1 else 's'}"
    of_most = f"{point.occupancy:.0%} occupancy, {blocks}"
    return f"{point.warps} of {curve.max_warps} warps an SM ({of_most})"


def forced_by(point: Point) -> str:
    """Return how a point's number of blocks came about."""
    if point.means == "own":
        return "as it is"
    if point.means == "shared":
        return f"+{point.shared_bytes_added / 1024:.1f} KiB"
    return "registers"


def _table(curve: Curve) -> Table:
    """Lay out the points that ran; the longer table of a measured curve has no stalls."""
    columns: dict[str, Justify] = {"warps": "right", "of\nmost": "right", "blocks": "right"}
    columns |= {"forced by": "left", "regs": "right", "spilled\nbytes": "right"}
    columns |= {"model\nGFLOP/s": "right"}
    if curve.is_measured:
        columns |= {"measured\nGFLOP/s": "right", "spread": "right"}
    columns |= {"of\nbest": "right", "busiest": "left"}
    if not curve.is_measured:
        columns |= {"warps wait for": "left"}
    rows = tuple(_row(curve, point) for point in curve.points if point.runs)
    title = f"{curve.rung} by warps an SM, {size(curve)}, {curve.gpu}"
    return Table(title, columns, rows, tuple(_notes(curve)))


def _row(curve: Curve, point: Point) -> tuple[str, ...]:
    found, done = point.modelled, point.measured
    rate, best = curve.rate(point), curve.rate(curve.best) or 1.0
    head = (
        f"{point.warps}{'*' if point == curve.enough else ' '}",
        f"{point.occupancy:.0%}",
        str(point.blocks),
        forced_by(point),
        str(point.registers),
        str(point.spill_bytes) if point.spill_bytes else "-",
        f"{found.gflops:.0f}" if found else "-",
    )
    timed = (f"{done.gflops:.0f}", f"{done.timing.spread:.1%}") if done else ("-", "-")
    tail = (
        "-" if rate is None else f"{rate / best:.0%}",
        f"{found.unit} {found.busy:.0%}" if found else "-",
    )
    if curve.is_measured:
        return (*head, *timed, *tail)
    return (*head, *tail, found.stall if found else "-")


def _notes(curve: Curve) -> Iterator[str]:
    yield (
        f"* the fewest warps within {ENOUGH:.0%} of the best. Forced by: shared memory that nobody "
        "uses, added to each block, keeps others away; fewer registers a thread let more in."
    )
    if curve.is_measured:
        yield (
            "measured: median of launches with a cold L2, all points in the same rounds; spread is "
            "the interquartile range. The busiest unit is the time model's."
        )
    else:
        yield "model: what the time model says (docs/model.md has its errors); nothing is measured."


def _reasons(curve: Curve) -> Iterator[str]:
    """Yield why: what few warps lack, what more would need, and what keeps them away."""
    yield f"As it is, {_LIMITS[curve.own.limiter]} keeps one more block away."
    enough, ran = curve.enough, curve.ran
    place = ran.index(enough)
    if place and (before := ran[place - 1]).modelled is not None:
        yield _fewer(before, before.modelled)
    if curve.little is not None:
        yield little_text(curve)
    for point in ran:
        if point.means == "registers":
            yield _squeezed(curve, point)
    yield from (f"{p.reason[0].upper()}{p.reason[1:]}." for p in curve.points if not p.runs)
    yield from (f"The model: {gap}." for gap in curve.gaps)


def _fewer(point: Point, found: Modelled) -> str:
    busy = f"{unit_name(found.unit)}, {found.busy:.0%} of the time"
    full = "one unit is full already" if found.busy >= FULL else "no unit is full yet"
    stall = stall_name(found.stall)
    return f"With {point.warps} warps {full} ({busy}), and warps wait most for {stall}."


def little_text(curve: Curve) -> str:
    """Return Little's law with the curve's figures; it has some."""
    law = curve.little
    if law is None:
        return ""
    return (
        f"Little's law: the best rate of this code, {law.rate:.2f} instructions of warps a cycle, "
        f"times the {law.latency:.1f} cycles that one takes on average, has "
        f"{law.in_flight:.1f} in flight. {law.few_warps} warps issue {law.few_rate:.2f} a cycle, "
        f"so each has {law.each:.2f} in flight: it takes {law.warps:.1f} warps at least (modelled)."
    )


def _squeezed(curve: Curve, point: Point) -> str:
    own = curve.own
    before, after = curve.rate(own) or 1.0, curve.rate(point) or 0.0
    spilled = (
        f"{point.spill_bytes} bytes a thread are spilled"
        if point.spill_bytes
        else "nothing is spilled"
    )
    return (
        f"{point.warps} warps take {point.registers} registers a thread instead of "
        f"{own.registers}: {spilled}, {after / before:.2f} times as fast as {own.warps} warps."
    )
