"""The tables of docs/study.md, from the records of h200_study.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from page_text import table

from tilewright.report.occupancy_study import FULL, unit_name
from tilewright.study.curve import Curve
from tilewright.study.records import read_curves

CURVES = "study_occupancy_h200.json"
_HEADS = ("kernel", "size", "warps as it is", "enough, modelled", "enough, measured")
_HEADS += ("GFLOP/s there, modelled", "measured", "error of the points", "busiest there")


def curves(results: Path) -> list[str]:
    """Return where more warps stop to matter, by the model and on the GPU."""
    found = read_curves(results / CURVES)
    where = found.environment.card or "no GPU: modelled only"
    said = f"`benchmarks/results/{CURVES}`, NVRTC {found.environment.nvrtc}, {where}."
    return [said, "", *table(_HEADS, map(_row, found.curves))]


def _row(curve: Curve) -> Sequence[str]:
    plain = replace(curve, points=tuple(replace(p, measured=None) for p in curve.points))
    point = curve.enough
    unit = "-"
    if point.modelled is not None:
        full = "" if point.modelled.busy >= FULL else ", not full"
        unit = f"{unit_name(point.modelled.unit)}, {point.modelled.busy:.0%}{full}"
    errors = [
        abs(predicted / measured - 1)
        for p in curve.points
        if (predicted := p.predicted_gflops) and (measured := p.measured_gflops)
    ]
    return (
        curve.rung,
        str(curve.problem.m),
        str(curve.own.warps),
        str(plain.enough.warps),
        str(point.warps) if curve.is_measured else "-",
        f"{point.predicted_gflops:.0f}",
        f"{point.measured_gflops:.0f}" if point.measured_gflops else "-",
        f"{sum(errors) / len(errors):.0%}" if errors else "-",
        unit,
    )
