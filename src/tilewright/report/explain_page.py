"""One kernel explained, as a page: verdict, source by line, roofs, units, accesses, occupancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from tilewright.bench.explain import Explained, StaticHalf
from tilewright.emulator.samples import Sampled
from tilewright.gpus import Gpu, Occupancy
from tilewright.model.summary import LineCounts
from tilewright.report.advice import roofline_text, suggestion_texts
from tilewright.report.explain import counters_table, loops_table, verdict
from tilewright.report.explain_charts import bar_chart, roofline_chart
from tilewright.report.page import render
from tilewright.report.static import machine_code_table
from tilewright.report.time import time_table

# What of a GPU's limits the page needs to work occupancy out as gpus/occupancy.py does.
_NOT_NEEDED = frozenset({"sources", "compute_capability", "fp32_lanes", "shared_bytes_static_max"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the source with what it costs; shares are of the whole launch.

    `cost` orders lines: the greater of its shares of instructions and of memory traffic. `accesses`
    are numbers of the page's accesses.
    """

    file: str
    line: int
    code: str
    executed: int
    share: float
    sectors: float | None
    least_sectors: float | None
    wavefronts: float | None
    least_wavefronts: float | None
    conflicts: int
    cost: float
    accesses: tuple[int, ...]


def explain_page(explained: Explained, samples: Sequence[Sampled]) -> str:
    """Return the page of a kernel that was run; `samples` are accesses to draw."""
    estimate, roof = explained.estimate, explained.roofline
    lines = source_lines(explained, samples)
    name = explained.profile.kernel
    return render(
        "explain.html",
        title=_title(name, explained.gpu),
        verdict=verdict(explained),
        suggestions=list(suggestion_texts(explained.suggestions)),
        lines=lines,
        has_source=any(each.code for each in lines),
        accesses=access_data(samples),
        roofline=None if roof is None else roofline_text(roof, explained.gpu.name),
        roof_chart=None if roof is None else roofline_chart(roof, "roof"),
        time=None if estimate is None else time_table(estimate),
        demand_chart=None
        if estimate is None
        else bar_chart(estimate.demand, "% of the time that it is busy", "demand", percent=True),
        stall_chart=None
        if estimate is None
        else bar_chart(estimate.stalls, "warps an issued instruction", "stalls", percent=False),
        occupancy=occupancy_data(explained.gpu, explained.occupancy),
        tables=[counters_table(explained), loops_table(explained)],
        reason=None,
    )


def static_page(half: StaticHalf) -> str:
    """Return the page of a kernel that cannot be run here."""
    return render(
        "explain.html",
        title=_title(half.code.kernel, half.gpu),
        verdict="Not run, so nothing is counted or timed: this is what its machine code says.",
        suggestions=[],
        lines=[],
        has_source=False,
        accesses=access_data(()),
        roofline=None,
        roof_chart=None,
        time=None,
        demand_chart=None,
        stall_chart=None,
        occupancy=occupancy_data(half.gpu, half.occupancy),
        tables=[machine_code_table(half.code)],
        reason=half.reason,
    )


def _title(kernel: str, gpu: Gpu) -> str:
    """Return the kernel without its template arguments, which the verdict has, and the GPU."""
    return f"{kernel.split('<')[0]} on {gpu.name}"


def source_lines(explained: Explained, samples: Sequence[Sampled]) -> list[Line]:
    """Return the lines that were executed, the worst first."""
    everything = explained.summary.value("warp instructions") or 1
    lines = explained.summary.lines
    moved = sum(line.sectors + line.wavefronts for line in lines) or 1
    texts = {file: text.splitlines() for file, text in explained.sources.items()}
    found = [_line(each, everything, moved, texts, samples) for each in lines]
    used = [each for each in found if each.executed or each.sectors or each.wavefronts]
    return sorted(used, key=lambda each: -each.cost)


def _line(
    each: LineCounts,
    everything: int,
    moved: int,
    texts: Mapping[str, Sequence[str]],
    samples: Sequence[Sampled],
) -> Line:
    text = texts.get(each.file, ())
    share = each.executed / everything
    requests, shared = each.global_requests, each.shared_requests
    return Line(
        file=each.file,
        line=each.line,
        code=text[each.line - 1].strip() if 1 <= each.line <= len(text) else "",
        executed=each.executed,
        share=share,
        sectors=each.sectors_per_request,
        least_sectors=each.ideal_sectors / requests if requests else None,
        wavefronts=each.wavefronts_per_request,
        least_wavefronts=each.ideal_wavefronts / shared if shared else None,
        conflicts=each.wavefronts - each.ideal_wavefronts,
        cost=max(share, (each.sectors + each.wavefronts) / moved),
        accesses=tuple(
            number
            for number, sample in enumerate(samples)
            if (sample.file, sample.line) == (each.file, each.line)
            or (
                sample.file is None and sample.ptx_line == each.line
            )  # PTX without lines of a source
        ),
    )


def access_data(samples: Sequence[Sampled]) -> list[dict[str, object]]:
    """Return the accesses as heat.js reads them."""
    return [
        {
            **{f.name: getattr(each, f.name) for f in fields(each)},
            "executions": [asdict(execution) for execution in each.executions],
        }
        for each in samples
    ]


def occupancy_data(gpu: Gpu, found: Occupancy) -> dict[str, object]:
    """Return the launch and the GPU's limits as occupancy.js reads them."""
    return {
        "gpu": gpu.name,
        "limits": limits_data(gpu),
        "threads": found.threads,
        "registers": found.registers,
        "shared": found.shared_bytes + found.dynamic_shared_bytes,
        "carveout": found.carveout_bytes,
    }


def limits_data(gpu: Gpu) -> dict[str, object]:
    """Return the limits of a GPU that decide occupancy."""
    names = (f.name for f in fields(gpu.limits))
    return {name: getattr(gpu.limits, name) for name in names if name not in _NOT_NEEDED}
