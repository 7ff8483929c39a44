"""A curve of performance against warps as a page: verdict, picture, points to step through, why."""

from __future__ import annotations

from tilewright.report.ladder import Table
from tilewright.report.occupancy_chart import occupancy_chart
from tilewright.report.occupancy_study import (
    forced_by,
    kind,
    occupancy_study,
    size,
    stall_name,
    unit_name,
)
from tilewright.report.page import render
from tilewright.study.curve import Curve, Point


def occupancy_page(curve: Curve) -> str:
    """Return the page of a curve."""
    told = occupancy_study(curve)
    return render(
        "occupancy_study.html",
        title=f"{curve.rung} by occupancy on {curve.gpu}",
        verdict=told.verdict,
        chart=occupancy_chart(curve, "curve-says"),
        curve_says=curve_text(curve),
        points=[point_data(curve, point) for point in curve.ran],
        chosen=curve.ran.index(curve.enough),
        table=_plain(told.table),
        why=told.why,
        data=curve.to_json(),
    )


def curve_text(curve: Curve) -> str:
    """Return what the picture shows, for who does not see it."""
    rates = ", ".join(f"{p.warps} warps {curve.rate(p):.0f}" for p in curve.ran)
    return f"{curve.rung}, {size(curve)}, GFLOP/s {kind(curve)} by warps an SM: {rates}."


def point_data(curve: Curve, point: Point) -> dict[str, object]:
    """Return what the page says of a point: lines of a name and a text."""
    rate, best = curve.rate(point) or 0.0, curve.rate(curve.best) or 1.0
    lines = {
        "warps an SM": f"{point.warps} of {curve.max_warps}, {point.occupancy:.0%} occupancy",
        "blocks an SM": f"{point.blocks}, forced by: {forced_by(point)}",
        "registers a thread": f"{point.registers}, {point.spill_bytes} bytes spilled",
        "shared memory a block": f"{point.shared_bytes} bytes, {point.shared_bytes_added} of them "
        "used by nobody",
        f"speed ({kind(curve)})": f"{rate:.0f} GFLOP/s, {rate / best:.0%} of the best",
    }
    if point.measured is not None and point.predicted_gflops is not None:
        lines["speed (modelled)"] = f"{point.predicted_gflops:.0f} GFLOP/s"
    if point.modelled is not None:
        found = point.modelled
        busiest = unit_name(found.unit).removeprefix("the ")
        lines["busiest (modelled)"] = f"{busiest}, {found.busy:.0%} of the time"
        lines["warps wait most for (modelled)"] = stall_name(found.stall)
        lines["rounds of blocks on an SM (modelled)"] = f"{found.waves:.3g}"
    return {"warps": point.warps, "lines": lines}


def _plain(table: Table) -> Table:
    """Return a table whose numbers have no blank for a mark."""
    rows = tuple(tuple(cell.strip() for cell in row) for row in table.rows)
    return Table(table.title, table.columns, rows, table.notes)
