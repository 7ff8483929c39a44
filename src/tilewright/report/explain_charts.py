"""The charts of an explained kernel: its place under the roofs, what its units do, its stalls."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.model.roofline import Roofline
from tilewright.report.charts import INK, SETTINGS, svg
from tilewright.report.time import NO_WAIT

# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "bright": blue, red.
_ROOF, _KERNEL = "#4477aa", "#ee6677"
_INCHES = (7.0, 3.4)
_BAR_INCHES = 0.24
_DECADES = 1.5  # of intensity that are drawn around the ridge and the kernel
_MOST_BARS = 10


def roofline_chart(found: Roofline, label: str) -> str | None:
    """Return the roofs with the kernel below them as SVG; None where it has no place there."""
    if found.intensity is None or not found.flops:
        return None
    import matplotlib as mpl
    import numpy as np
    from matplotlib.figure import Figure

    low = min(found.intensity, found.ridge) / 10**_DECADES
    high = max(found.intensity, found.ridge) * 10**_DECADES
    along = np.geomspace(low, high, 200)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        roof = np.minimum(along * found.peak_bytes_per_s, found.peak_flops_per_s)
        axes.loglog(along, roof, color=_ROOF, linewidth=2)
        axes.axvline(found.ridge, color=INK, linewidth=0.8, linestyle=":")
        axes.vlines(
            found.intensity,
            found.flops_per_s,
            found.roof_flops_per_s,
            color=_KERNEL,
            linestyle="--",
        )
        axes.plot(found.intensity, found.flops_per_s, "o", color=_KERNEL, markersize=8)
        axes.annotate(
            f"this kernel: {found.flops_per_s / 1e12:.3g} TFLOP/s, {found.share:.0%} of its roof",
            (found.intensity, found.flops_per_s), xytext=(0, -16), textcoords="offset points",
            ha="center",
        )  # fmt: skip
        axes.annotate(
            f"float32 arithmetic, {found.peak_flops_per_s / 1e12:.3g} TFLOP/s",
            (high, found.peak_flops_per_s), xytext=(0, 5), textcoords="offset points", ha="right",
        )  # fmt: skip
        axes.annotate(
            f"DRAM, {found.peak_bytes_per_s / 1e9:.4g} GB/s",
            (low, low * found.peak_bytes_per_s), xytext=(12, 4), textcoords="offset points",
        )  # fmt: skip
        axes.set_xlabel("float32 operations a byte of DRAM traffic (modelled)")
        axes.set_ylabel("operations a second")
        axes.set_ylim(top=found.peak_flops_per_s * 2.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=INK, alpha=0.12)
        return svg(figure, label)


def bar_chart(shares: Mapping[str, float], axis: str, label: str, *, percent: bool) -> str:
    """Return bars, the longest first, as SVG; the first that is no ready warp stands out."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    found = sorted(shares.items(), key=lambda item: -item[1])[:_MOST_BARS]
    first = next((name for name, _ in found if name not in NO_WAIT), None)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(_INCHES[0], 0.7 + _BAR_INCHES * len(found)), layout="constrained")
        axes = figure.subplots()
        scale = 100 if percent else 1
        bars = axes.barh(
            [name for name, _ in found], [scale * value for _, value in found],
            color=[_KERNEL if name == first else _ROOF for name, _ in found],
            edgecolor=INK, linewidth=0.6,
        )  # fmt: skip
        axes.bar_label(bars, fmt="{:.0f} %" if percent else "{:.2f}", padding=3, color=INK)
        axes.invert_yaxis()
        axes.set_xlabel(axis)
        if percent:
            axes.set_xlim(0, 110)
        else:
            axes.margins(x=0.12)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return svg(figure, label)
