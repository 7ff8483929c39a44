"""Volkov and Demmel's argument as a page: loops, curves, what-if, and both kernels at work."""

from __future__ import annotations

from tilewright.bench.tile_figure import TileFigure
from tilewright.report.explain_page import limits_data
from tilewright.report.page import render
from tilewright.report.volkov_charts import mix_chart, old_chart, today_chart
from tilewright.report.volkov_study import volkov_told
from tilewright.study import speed_2008
from tilewright.study.loops_2008 import LoopMix
from tilewright.study.speed_2008 import MEMORY_RANGE
from tilewright.study.volkov import Design, VolkovStudy


def volkov_page(study: VolkovStudy, figures: tuple[TileFigure, ...] = ()) -> str:
    """Return the page of a study, with figures of its kernels at work."""
    told = volkov_told(study)
    slow, fast = (study.others[f"{cycles} cycles to memory"] for cycles in reversed(MEMORY_RANGE))
    charts = (
        mix_chart(_loops(study), _published(study), "says0"),
        None,
        old_chart(study.curve, (slow, fast), study.published_curve, "says2"),
        today_chart(study.today, "says3"),
    )
    return render(
        "volkov.html",
        title="Few warps are enough: Volkov and Demmel, 2008",
        verdict=told.verdict,
        parts=list(zip(told.parts, charts, _captions(study), strict=True)),
        whatif=whatif_data(study),
        figures=[figure.to_json() for figure in figures],
        data=study.to_json(),
    )


def whatif_data(study: VolkovStudy) -> dict[str, object]:
    """Return what volkov.js needs to work out what fits and how fast that is, as the model does."""
    kernel, gpu = study.theirs.kernel, study.old_gpu
    return {
        "gpu": gpu.name,
        "bytes_a_cycle": gpu.dram_bytes_per_s / gpu.boost_clock_hz / gpu.sm_count,
        "lanes": speed_2008.LANES,
        "limits": limits_data(gpu),
        "cycles": {
            "issue": speed_2008.ISSUE_CYCLES,
            "shared": speed_2008.SHARED_ISSUE_CYCLES,
            "arithmetic": speed_2008.ARITHMETIC_CYCLES,
            "memory": speed_2008.MEMORY_CYCLES,
        },
        "ahead": speed_2008.AHEAD,
        "kernel": {
            "threads": kernel.threads,
            "registers": kernel.registers,
            "shared_bytes": kernel.shared_bytes,
            "sums": kernel.sums,
            "turn_bytes": kernel.turn_bytes,
            "mix": kernel.mix.to_json(),
        },
    }


def _loops(study: VolkovStudy) -> dict[str, LoopMix]:
    return {
        _loop_name(each, age): mix
        for each in (study.theirs, study.other)
        for age, mix in {"2008": each.kernel.mix, **each.now}.items()
    }


def _loop_name(each: Design, age: str) -> str:
    return f"{each.rung.name}, {age}"


def _published(study: VolkovStudy) -> dict[str, float]:
    return {_loop_name(each, "2008"): each.published_mix for each in (study.theirs, study.other)}


def _captions(study: VolkovStudy) -> tuple[str, str, str, str]:
    """Return what each picture shows, for who does not see it."""
    loops = ", ".join(f"{name} {mix.multiply_add_share:.0%}" for name, mix in _loops(study).items())
    old = ", ".join(f"{point.blocks} {point.share:.0%}" for point in study.curve)
    told = ", ".join(f"{blocks} {share:.0%}" for blocks, share in study.published_curve.items())
    today = "; ".join(
        f"{curve.rung} "
        + ", ".join(f"{point.warps} warps {curve.rate(point):.0f}" for point in curve.ran)
        for curve in study.today
    )
    return (
        f"What each loop is made of; multiply-adds: {loops}. Published of 2008: "
        + ", ".join(f"{name} {share:.0%}" for name, share in _published(study).items())
        + ".",
        "",
        f"Share of the peak on a {study.old_gpu.name} by resident blocks, modelled: {old}."
        + (f" Published: {told}." if told else ""),
        f"GFLOP/s by warps an SM on a {study.today[0].gpu}: {today}.",
    )
