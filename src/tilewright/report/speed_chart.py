"""The climb as bars: each rung's rate, measured, modelled or published, and cuBLAS as a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.report.charts import INK, PAGE, SETTINGS, svg

# A colour and a hatch each, so that either is enough to tell them apart.
# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "bright": blue, yellow, green.
_STYLES = {
    "measured": ("#4477aa", ""),
    "modelled": ("#ccbb44", "////"),
    "published": ("#228833", "...."),
}
_INCHES = (8.2, 0.9)
_BAR_INCHES = 0.19


def speed_chart(
    rungs: Sequence[tuple[str, Mapping[str, float]]],
    cublas: Mapping[str, float | None],
    label: str,
) -> str:
    """Return the chart as SVG: rates in GFLOP/s by kind, of each rung; `label` is its text's id."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    kinds = [kind for kind in _STYLES if any(kind in rates for _, rates in rungs)]
    high = _INCHES[1] + _BAR_INCHES * len(rungs) * (len(kinds) + 0.6)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(_INCHES[0], high), layout="constrained")
        axes = figure.subplots()
        for place, kind in enumerate(kinds):
            colour, hatch = _STYLES[kind]
            offset = (place - (len(kinds) - 1) / 2) * 0.85 / len(kinds)
            found = [(n, rates[kind]) for n, (_, rates) in enumerate(rungs) if kind in rates]
            bars = axes.barh(
                [n + offset for n, _ in found], [rate for _, rate in found],
                height=0.8 / len(kinds), color=colour, hatch=hatch, edgecolor=INK, linewidth=0.6,
                label=kind,
            )  # fmt: skip
            axes.bar_label(
                bars, fmt="{:,.0f}", padding=3, color=INK, fontsize=8,
                bbox={"facecolor": PAGE, "edgecolor": "none", "pad": 0.5},
            )  # fmt: skip
            rate = cublas.get(kind)
            if rate is not None:
                axes.axvline(
                    rate, color=colour, linestyle="--", linewidth=1.5, label=f"cuBLAS, {kind}"
                )
        axes.set_yticks(range(len(rungs)), [name for name, _ in rungs])
        axes.invert_yaxis()
        axes.set_xlabel("GFLOP/s")
        axes.margins(x=0.1)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper left", ncols=5, frameon=False)
        return svg(figure, label)
