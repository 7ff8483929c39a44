"""The ladder as one page: each rung with its speed, what it changed and moved, and its tile."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.bench.tile_figure import TileFigure
from tilewright.kernels import PUBLISHED_CUBLAS_GFLOPS, Rung
from tilewright.kernels import rung as find_rung
from tilewright.records import LadderRecord
from tilewright.report.ladder import ladder_table, ladder_title, mark, per_fma
from tilewright.report.page import render
from tilewright.report.speed_chart import speed_chart
from tilewright.report.time import MEANING

_INCLUDE = re.compile(r'^#include "(?P<file>[^"]+)"', re.MULTILINE)
_MOVED = 1.02  # times that a counter fell, from which it is said to have moved
_CONTEXT = 3  # lines around a change
# Shown, but not what a rung is judged by: it grows with the bytes that a load moves.
_WIDTH = "sectors a global load"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A rate of a rung, in GFLOP/s, where it comes from, and its share of cuBLAS where known."""

    kind: str
    gflops: float
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a diff: "+", "-", " ", or "@" where lines are left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A counter of a rung beside the rung before; `fell` is how many times it is less."""

    name: str
    before: str
    after: str
    fell: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rung as the page has it.

    `says` is the idea in a sentence, `header` the rest of what the kernel's file says of itself,
    `diff` what changed in its code and `added` the files of shared code that it includes and the
    rung before did not.
    """

    record: LadderRecord
    rung: Rung
    before: str | None
    speeds: tuple[Speed, ...]
    says: str
    header: str
    diff: tuple[Line, ...]
    tiles: str | None
    added: tuple[tuple[str, str], ...]
    measures: tuple[Measure, ...]
    moved: str
    odds: str


def ladder_page(records: Sequence[LadderRecord], figures: Mapping[str, TileFigure]) -> str:
    """Return the page of the records of one problem on one GPU, with figures by rung."""
    steps = []
    for place, record in enumerate(records):
        steps.append(_step(record, records[place - 1] if place else None))
    speeds = [(step.rung.name, step.speeds) for step in steps]
    baseline = next((r.baseline_gflops for r in records if r.baseline_gflops is not None), None)
    return render(
        "ladder.html",
        title=ladder_title(records[0]),
        gpu=records[0].gpu,
        steps=steps,
        kinds={speed.kind for step in steps for speed in step.speeds},
        stalls=MEANING,
        table=ladder_table(records, PUBLISHED_CUBLAS_GFLOPS),
        chart=speed_chart(
            [(name, {s.kind: s.gflops for s in each}) for name, each in speeds],
            {"measured": baseline, "published": PUBLISHED_CUBLAS_GFLOPS.get(records[0].gpu)},
            "speeds",
        ),
        figures={name: figure.to_json() for name, figure in figures.items()},
    )


def _step(record: LadderRecord, before: LadderRecord | None) -> Step:
    rung = find_rung(record.rung)
    last = None if before is None else find_rung(before.rung)
    says, header, code = _parts(rung)
    same = last is not None and last.source == rung.source
    measures = _measures(record, before)
    return Step(
        record=record,
        rung=rung,
        before=None if before is None else before.rung,
        speeds=_speeds(record),
        says=f"The kernel of {last.name} with another tile." if last and same else says,
        header=header,
        diff=tuple(_diff(code, "" if last is None else _parts(last)[-1])),
        tiles=_tiles(record, before) if same else None,
        added=_added(rung, last),
        measures=measures,
        moved=_moved(measures, record, before),
        odds=_odds(record, before),
    )


def _speeds(r: LadderRecord) -> tuple[Speed, ...]:
    published = PUBLISHED_CUBLAS_GFLOPS.get(r.gpu)
    rates = {
        "measured": (r.measured_gflops, r.baseline_gflops),
        "modelled": (r.predicted_gflops, None),
        "published": (r.published_gflops, published),
    }
    return tuple(
        Speed(kind=kind, gflops=rate, share=rate / cublas if cublas else None)
        for kind, (rate, cublas) in rates.items()
        if rate is not None
    )


def _parts(rung: Rung) -> tuple[str, str, str]:
    """Return the idea of a kernel's file, the rest of what it says of itself, and its code."""
    lines = rung.source.read_text(encoding="utf-8").splitlines()
    end = next(n for n, line in enumerate(lines) if not line.startswith("//"))
    header = "\n".join(line.removeprefix("//").removeprefix(" ") for line in lines[:end])
    idea, _, rest = header.partition("\n\n")
    _, _, sentence = idea.replace("\n", " ").partition(": ")
    return sentence[:1].upper() + sentence[1:], rest, "\n".join(lines[end:])


def _diff(code: str, before: str) -> list[Line]:
    """Return the lines that changed, with some around them; all of them without a before."""
    if not before:
        return [Line(sign=" ", text=line) for line in code.splitlines()]
    found = []
    pieces = difflib.unified_diff(before.splitlines(), code.splitlines(), n=_CONTEXT, lineterm="")
    for line in list(pieces)[2:]:  # after the two names
        sign, text = line[0], line[1:]
        found.append(Line(sign=sign, text="" if sign == "@" else text))
    return found


def _tiles(record: LadderRecord, before: LadderRecord | None) -> str | None:
    """Return what became of the tile."""
    if before is None or record.tile is None or before.tile is None:
        return None
    changed = [
        f"{name} = {before.tile.get(name)} becomes {value}"
        for name, value in record.tile.items()
        if before.tile.get(name) != value
    ]
    return "; ".join(changed) or "nothing: this GPU has the same tile for both"


def _added(rung: Rung, last: Rung | None) -> tuple[tuple[str, str], ...]:
    """Return the files, and their texts, that a kernel includes and the one before does not."""
    old = set() if last is None else set(_INCLUDE.findall(last.source.read_text("utf-8")))
    names = [n for n in _INCLUDE.findall(rung.source.read_text("utf-8")) if n not in old]
    found = []
    for name in names:
        path = next(folder / name for folder in rung.include_dirs if (folder / name).is_file())
        found.append((name, path.read_text(encoding="utf-8")))
    return tuple(found)


def _measures(record: LadderRecord, before: LadderRecord | None) -> tuple[Measure, ...]:
    """Return the counters of a rung, each beside the rung before."""
    now, then = _values(record), {} if before is None else _values(before)
    found = []
    for name, (value, counter) in now.items():
        old = then.get(name)
        fell = old[0] / value if old is not None and value and old[0] else None
        was = "" if old is None or before is None else mark(before, f"{old[0]:.3g}", counter)
        text = mark(record, f"{value:.3g}", counter)
        found.append(Measure(name=name, before=was, after=text, fell=fell))
    return tuple(found)


def _values(r: LadderRecord) -> dict[str, tuple[float, str]]:
    """Return the counters that tell rungs apart, with the one that each is made of."""
    found: dict[str, tuple[float, str]] = {}
    each = per_fma(r)
    if each is not None:
        found["bytes of global memory a multiply-add"] = (each[0], "global_load_sectors")
        found["wavefronts of shared memory a warp's multiply-add"] = (
            each[1],
            "shared_load_wavefronts",
        )
        found["instructions a warp's multiply-add"] = (each[2], "warp_instructions")
    if r.sectors_per_request is not None:
        found[_WIDTH] = (r.sectors_per_request, "global_load_sectors")
    return found


def _moved(measures: Sequence[Measure], record: LadderRecord, before: LadderRecord | None) -> str:
    """Return the counter that moved most, in a sentence."""
    if before is None:
        return "The first rung: what follows is measured against it."
    fallen = [m for m in measures if m.fell is not None and m.fell >= _MOVED and m.name != _WIDTH]
    if not fallen and not _faster(record, before):
        return f"None of these counters fell, and here it is no faster than {before.rung}."
    if not fallen:
        return (
            "None of these counters fell: what it gains is time that warps no longer wait, or a "
            "better fit of the tiles to this GPU."
        )
    most = max(fallen, key=lambda m: m.fell or 0)
    return (
        f"{most.name.capitalize()}: {most.before} became {most.after}, {most.fell:.3g} times less."
    )


def _odds(record: LadderRecord, before: LadderRecord | None) -> str:
    """Return a sentence where the model and a measurement disagree on which rung is faster."""
    if before is None or record.predicted_gflops is None or before.predicted_gflops is None:
        return ""
    for kind in ("measured", "published"):
        now, then = (getattr(r, f"{kind}_gflops") for r in (record, before))
        if now is not None and then is not None:
            up = record.predicted_gflops > before.predicted_gflops
            if up == (now > then):
                return ""
            above = "above" if up else "below"
            return (
                f"The model ranks it {above} {before.rung}, what was {kind} does not: "
                "docs/model.md has the model's errors."
            )
    return ""


def _faster(record: LadderRecord, before: LadderRecord) -> bool:
    """Return whether a rung is faster than the one before, as measured or else as modelled."""
    if record.measured_gflops is not None and before.measured_gflops is not None:
        return record.measured_gflops > before.measured_gflops
    return (record.predicted_gflops or 0.0) > (before.predicted_gflops or 0.0)
