"""The curve of performance against warps an SM, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.report.charts import INK, SETTINGS, svg
from tilewright.study.curve import ENOUGH, Curve, Means, Point

# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "bright": blue, yellow. Lines differ in dashes too, and kinds of points in their shapes.
_MEASURED, _MODELLED = "#4477aa", "#ccbb44"
_MARKERS: dict[Means, tuple[str, str]] = {
    "shared": ("v", "forced down: shared memory added"),
    "own": ("*", "as it is"),
    "registers": ("^", "forced up: fewer registers"),
}
_INCHES = (7.6, 4.0)


def occupancy_chart(curve: Curve, label: str) -> str:
    """Return the curve as SVG; `label` is the id of the text that says the same."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        _line(axes, curve, [p.predicted_gflops for p in curve.ran], _MODELLED, "modelled", "--")
        if curve.is_measured:
            rates = [p.measured_gflops for p in curve.ran]
            _line(axes, curve, rates, _MEASURED, "measured", "-")
        best = curve.rate(curve.best) or 0.0
        axes.axhspan(
            (1 - ENOUGH) * best, best, color=INK, alpha=0.12, linewidth=0,
            label=f"within {ENOUGH:.0%} of the best",
        )  # fmt: skip
        axes.axvline(curve.enough.warps, color=INK, linestyle=":", linewidth=1)
        axes.annotate(
            f"{curve.enough.warps} warps are enough", (curve.enough.warps, 0), xytext=(4, 6),
            textcoords="offset points", rotation=90,
        )  # fmt: skip
        for means, (marker, name) in _MARKERS.items():
            if any(point.means == means for point in curve.ran):
                axes.plot([], [], marker, color=INK, label=name)
        axes.set_xlabel(f"warps an SM (of {curve.max_warps} at most)")
        axes.set_ylabel("GFLOP/s")
        axes.set_xlim(0, curve.max_warps * 1.03)
        axes.set_ylim(bottom=0)
        axes.margins(y=0.12)
        axes.set_xticks(range(0, curve.max_warps + 1, max(curve.max_warps // 8, 1)))
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=INK, alpha=0.12)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        return svg(figure, label)


def _line(
    axes: object, curve: Curve, rates: Sequence[float | None], colour: str, name: str, dashes: str
) -> None:
    """Draw the rates of the points that ran, a marker by what forced each."""
    found: list[tuple[Point, float]] = [
        (point, rate) for point, rate in zip(curve.ran, rates, strict=True) if rate is not None
    ]
    draw = axes.plot  # type: ignore[attr-defined]
    draw(
        [point.warps for point, _ in found], [rate for _, rate in found], dashes, color=colour,
        linewidth=2, label=name,
    )  # fmt: skip
    for means, (marker, _) in _MARKERS.items():
        there = [(point.warps, rate) for point, rate in found if point.means == means]
        if there:
            x, y = zip(*there, strict=True)
            draw(
                x, y, marker, color=colour, markersize=13 if means == "own" else 7,
                markeredgecolor=INK, markeredgewidth=0.6,
            )  # fmt: skip
