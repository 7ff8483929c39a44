"""The pictures of Volkov and Demmel's argument: loops as bars, and both curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.report.charts import INK, SETTINGS, svg
from tilewright.study.curve import Curve
from tilewright.study.loops_2008 import LoopMix, shares
from tilewright.study.speed_2008 import MEMORY_RANGE, OldPoint

# Colours differ in lightness and bars in hatches, lines in dashes and markers, so that either is
# enough. Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), scheme "bright".
_BARS = (
    ("#4477aa", ""),
    ("#ccbb44", "////"),
    ("#66ccee", "...."),
    ("#228833", "xx"),
    ("#aa3377", "||"),
    ("#bbbbbb", ""),
)
_LINES = (("#4477aa", "-", "o"), ("#ee6677", "--", "s"))
_INCHES = (7.6, 3.6)
_BAR_INCHES = 0.36


def mix_chart(loops: Mapping[str, LoopMix], published: Mapping[str, float], label: str) -> str:
    """Return loops as bars of what they are made of; `published` are marks on bars, by name."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = list(loops)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(_INCHES[0], 1.1 + _BAR_INCHES * len(names)), layout="constrained")
        axes = figure.subplots()
        left = [0.0] * len(names)
        for kind, (colour, hatch) in zip(shares(loops[names[0]]), _BARS, strict=True):
            widths = [100 * shares(loops[name])[kind] for name in names]
            axes.barh(
                range(len(names)), widths, left=left, height=0.7, color=colour, hatch=hatch,
                edgecolor=INK, linewidth=0.5, label=kind,
            )  # fmt: skip
            left = [at + width for at, width in zip(left, widths, strict=True)]
        for place, name in enumerate(names):
            if name in published:
                share = 100 * published[name]
                axes.plot(
                    [share, share], [place - 0.45, place + 0.45], color=INK, linewidth=3,
                    label="published" if name == next(iter(published)) else None,
                )  # fmt: skip
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of a turn's instructions")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        return svg(figure, label)


def old_chart(
    points: Sequence[OldPoint],
    band: tuple[Sequence[OldPoint], Sequence[OldPoint]],
    published: Mapping[int, float],
    label: str,
) -> str:
    """Return shares of the peak by resident blocks; `band` is what lies between two assumptions."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colour, dashes, marker = _LINES[0]
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        blocks = [point.blocks for point in points]
        low, high = ([100 * point.share for point in edge] for edge in band)
        axes.fill_between(
            blocks, low, high, color=colour, alpha=0.2, linewidth=0,
            label="modelled, {} to {} cycles to memory".format(*MEMORY_RANGE),
        )  # fmt: skip
        axes.plot(
            blocks, [100 * point.share for point in points], dashes, color=colour, marker=marker,
            linewidth=2, label="modelled",
        )  # fmt: skip
        if published:
            axes.plot(
                list(published), [100 * share for share in published.values()], "x", color=INK,
                markersize=9, markeredgewidth=2, label="published",
            )  # fmt: skip
        axes.set_xticks(blocks, [f"{p.blocks}\n{p.occupancy:.0%}" for p in points])
        axes.set_xlabel("blocks of 64 threads a multiprocessor, and its occupancy")
        axes.set_ylabel("% of the peak")
        axes.set_ylim(0, 70)
        _finish(axes)
        figure.legend(loc="outside upper left", ncols=3, frameon=False)
        return svg(figure, label)


def today_chart(curves: Sequence[Curve], label: str) -> str:
    """Return rates by warps an SM, measured where they are."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        for curve, (colour, dashes, marker) in zip(curves, _LINES, strict=True):
            axes.plot(
                [point.warps for point in curve.ran],
                [curve.rate(point) or 0.0 for point in curve.ran],
                dashes, color=colour, marker=marker, linewidth=2,
                label=f"{curve.rung}, {'measured' if curve.is_measured else 'modelled'}",
            )  # fmt: skip
        axes.set_xlabel(f"warps an SM (of {curves[0].max_warps} at most)")
        axes.set_ylabel("GFLOP/s")
        axes.set_xlim(0, curves[0].max_warps * 1.03)
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(0, curves[0].max_warps + 1, max(curves[0].max_warps // 8, 1)))
        _finish(axes)
        figure.legend(loc="outside upper left", ncols=2, frameon=False)
        return svg(figure, label)


def _finish(axes: object) -> None:
    axes.spines[["top", "right"]].set_visible(False)  # type: ignore[attr-defined]
    axes.grid(color=INK, alpha=0.12)  # type: ignore[attr-defined]
