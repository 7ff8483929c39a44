"""The charts of a search: speeds in the order tried, predictions, strategies; and of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.report.charts import INK, SETTINGS, png, spread_bars, svg
from tilewright.tuning.review import Course, Review, together
from tilewright.tuning.trial import Trial

# A colour and a shape each, so that either is enough to tell them apart.
# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "bright": blue, red, green, yellow, cyan, purple.
_KERNELS = (
    ("#4477aa", "o"), ("#ee6677", "s"), ("#228833", "^"), ("#ccbb44", "D"), ("#66ccee", "v"),
    ("#aa3377", "P"),
)  # fmt: skip
# The widest first, so that where two go the same way both are seen.
_STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "random": {"color": "#aa3377", "linestyle": "-", "linewidth": 1.4, "marker": "v"},
    "exhaustive": {"color": "#4477aa", "linestyle": "-", "linewidth": 4, "marker": "s"},
    "halving": {"color": "#ccbb44", "linestyle": "-", "linewidth": 1.8, "marker": "D"},
    "model": {"color": "#ee6677", "linestyle": "--", "linewidth": 1.8, "marker": "o"},
}
_REFUSED = "x"
_INCHES = (8.2, 3.3)
_ROW_INCHES = 0.2


def tried_chart(found: Review, label: str) -> str:
    """Return speeds by candidate as SVG; `label` is the id of the text that says the same."""
    return _alone(lambda axes: _tried(axes, found), label)


def predicted_chart(found: Review, label: str) -> str:
    """Return measured over predicted times as SVG."""
    return _alone(lambda axes: _predicted(axes, found), label)


def strategies_chart(courses: Mapping[str, Course], label: str) -> str:
    """Return what strategies find by how much they measure, as SVG."""
    return _alone(lambda axes: _strategies(axes, courses), label)


def products_chart(reviews: Sequence[Review], label: str) -> str:
    """Return how good choices are by product, as SVG."""
    return _alone(lambda axes: _products(axes, reviews), label, _height(reviews))


def tuning_png(reviews: Sequence[Review]) -> bytes:
    """Return one search with its three charts, or several: by product, and strategies over all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    courses = over_all(reviews)
    draws: list[tuple[float, Any]]
    if len(reviews) == 1:
        draws = [
            (_INCHES[1], lambda axes: _tried(axes, reviews[0])),
            (_INCHES[1], lambda axes: _predicted(axes, reviews[0])),
        ]
    else:
        draws = [(_height(reviews), lambda axes: _products(axes, reviews))]
    if courses:
        draws.append((_INCHES[1], lambda axes: _strategies(axes, courses)))
    heights = [height for height, _ in draws]
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(_INCHES[0], sum(heights) + 0.5), layout="constrained")
        gpus = ", ".join(dict.fromkeys(each.machine.gpu for each in reviews))
        what = f"{len(reviews)} products"
        figure.suptitle(
            f"{reviews[0].recording.operation.key if len(reviews) == 1 else what}, tuned on {gpus}"
        )
        panels = figure.subplots(len(draws), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (_, draw) in zip(panels, draws, strict=True):
            draw(axes)
        return png(figure)


def over_all(reviews: Sequence[Review]) -> dict[str, Course]:
    """Return each strategy's course over the products whose whole space was measured."""
    whole = [each for each in reviews if each.courses]
    names = whole[0].courses if whole else ()
    return {name: together([each.courses[name] for each in whole]) for name in names}


def _alone(draw: Any, label: str, height: float = _INCHES[1]) -> str:  # noqa: ANN401 - a function
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(_INCHES[0], height), layout="constrained")
        draw(figure.subplots())
        return svg(figure, label)


def _height(reviews: Sequence[Review]) -> float:
    return 1.1 + _ROW_INCHES * len(reviews)


def _kernels(found: Review) -> dict[str, tuple[str, str]]:
    names = sorted({trial.variant.kernel for trial in found.recording.trials})
    return {name: _KERNELS[place % len(_KERNELS)] for place, name in enumerate(names)}


def _tried(axes: Any, found: Review) -> None:  # noqa: ANN401 - axes of matplotlib
    flops = found.recording.operation.flops
    trials = list(enumerate(found.recording.trials, start=1))
    for kernel, (colour, marker) in _kernels(found).items():
        own = [(n, t) for n, t in trials if t.variant.kernel == kernel and t.median_s is not None]
        places = [n for n, _ in own]
        quartiles = [_quartiles(t) for _, t in own]
        low = [flops / most / 1e9 for _, most in quartiles]
        high = [flops / least / 1e9 for least, _ in quartiles]
        spread_bars(axes, places, low, high, colour)
        speeds = [flops / t.median_s / 1e9 for _, t in own if t.median_s is not None]
        axes.plot(places, speeds, marker, color=colour, markersize=4, label=kernel)
    _best_so_far(axes, trials, flops)
    refused = [n for n, t in trials if t.median_s is None]
    if refused:
        axes.plot(
            refused, [0.02] * len(refused), _REFUSED, color=INK, markersize=5, linestyle="none",
            transform=axes.get_xaxis_transform(), label="wrong or failed",
        )  # fmt: skip
    if found.best is not None and found.best.median_s is not None:
        place = next(n for n, t in trials if t.variant == found.best.variant)
        _ring(axes, place, flops / found.best.median_s / 1e9, "kept")
    axes.set_xlabel("candidate, in the order tried; bars are as long as the interquartile range")
    axes.set_ylabel("GFLOP/s")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.margins(y=0.12)
    _finish(axes)


def _best_so_far(axes: Any, trials: Sequence[tuple[int, Trial]], flops: int) -> None:  # noqa: ANN401
    """Draw the steps at which something faster was found."""
    x: list[float] = []
    y: list[float] = []
    for n, trial in trials:
        speed = 0.0 if trial.median_s is None else flops / trial.median_s / 1e9
        if speed > (y[-1] if y else 0.0):
            x.append(n)
            y.append(speed)
    if x:
        axes.step(
            [*x, trials[-1][0]], [*y, y[-1]], where="post", color=INK, linewidth=1,
            label="best so far",
        )  # fmt: skip


def _predicted(axes: Any, found: Review) -> None:  # noqa: ANN401 - axes of matplotlib
    pairs = list(zip(found.predicted, found.recording.trials, strict=True))
    for kernel, (colour, marker) in _kernels(found).items():
        own = [(p, t) for p, t in pairs if t.variant.kernel == kernel and t.median_s is not None]
        places = [1e6 * p for p, _ in own]
        quartiles = [_quartiles(t) for _, t in own]
        low, high = [1e6 * least for least, _ in quartiles], [1e6 * most for _, most in quartiles]
        spread_bars(axes, places, low, high, colour)
        times = [1e6 * t.median_s for _, t in own if t.median_s is not None]
        axes.plot(places, times, marker, color=colour, markersize=4, label=kernel)
    axes.set_xscale("log")
    axes.set_yscale("log")
    seen = [1e6 * each for p, t in pairs if (s := t.median_s) is not None for each in (p, s)]
    ends = [min(seen, default=1), max(seen, default=1)]
    axes.plot(ends, ends, color=INK, linewidth=1, linestyle=":", label="as predicted")
    where = {t.variant: (1e6 * p, 1e6 * t.median_s) for p, t in pairs if t.median_s is not None}
    for trial, name, size in ((found.first, "predicted fastest", 15), (found.best, "kept", 9)):
        if trial is not None:
            _ring(axes, *where[trial.variant], name, size)
    rank = "" if found.rank is None else f"; rank correlation {found.rank:.2f}"
    axes.set_xlabel(f"µs predicted{rank}")
    axes.set_ylabel("µs measured")
    _plain_ticks(axes.xaxis)
    _plain_ticks(axes.yaxis)
    _finish(axes)


def _strategies(axes: Any, courses: Mapping[str, Course]) -> None:  # noqa: ANN401 - axes
    for name, style in _STRATEGIES.items():
        course = courses[name]
        measured = range(1, len(course.shares) + 1)
        if course.low != course.high:
            axes.fill_between(
                measured, [100 * s for s in course.low], [100 * s for s in course.high],
                color=style["color"], alpha=0.2, linewidth=0,
            )  # fmt: skip
        shares = [100 * share for share in course.shares]
        axes.plot(
            measured, shares, markevery=[len(shares) - 1], markersize=7, markeredgecolor=INK,
            drawstyle="steps-post", label=name, **style,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("candidates measured; the band has the quartiles of random orders")
    axes.set_ylabel("% of the fastest's speed")
    axes.set_ylim(top=102)
    _plain_ticks(axes.xaxis)
    _finish(axes)


def _products(axes: Any, reviews: Sequence[Review]) -> None:  # noqa: ANN401 - axes of matplotlib
    """Draw a row a product: what the model alone would choose, and what strategies find."""
    rows = list(enumerate(reviews))
    first = [(n, each.share(each.first)) for n, each in rows if each.first is not None]
    axes.plot(
        [100 * share for _, share in first], [n for n, _ in first], "|", color=INK, markersize=9,
        markeredgewidth=2, label="predicted fastest",
    )  # fmt: skip
    for name, aside in (("halving", -0.16), ("model", 0.16)):
        style = _STRATEGIES[name]
        own = [(n, each.courses[name].chosen) for n, each in rows if each.courses]
        axes.plot(
            [100 * share for _, share in own], [n + aside for n, _ in own], style["marker"],
            color=style["color"], markersize=5, linestyle="none", label=name,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [each.recording.operation.key for each in reviews])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("% of the speed of the fastest measured")
    axes.tick_params(axis="y", length=0)
    _finish(axes)


def _quartiles(trial: Trial) -> tuple[float, float]:
    """Return the ends of a bar around the median, as long as the interquartile range, in s."""
    assert trial.median_s is not None
    half = (trial.spread or 0.0) / 2
    return trial.median_s * (1 - half), trial.median_s * (1 + half)


def _ring(axes: Any, x: float, y: float, name: str, size: float = 9) -> None:  # noqa: ANN401
    axes.plot(
        [x], [y], "o", color=INK, markerfacecolor="none", markersize=size, markeredgewidth=1.5,
        linestyle="none", label=name,
    )  # fmt: skip


def _plain_ticks(axis: Any) -> None:  # noqa: ANN401 - an axis of matplotlib
    """Put plain numbers on a logarithmic axis, at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _finish(axes: Any) -> None:  # noqa: ANN401 - axes of matplotlib
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=INK, alpha=0.12)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False)
