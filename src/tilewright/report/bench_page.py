"""A benchmark as one page: its chart and its tables; and two compared, with the verdicts first."""

from __future__ import annotations

from dataclasses import replace

from tilewright.bench.compare import Comparison
from tilewright.bench.results import BenchFile
from tilewright.report.bench import bench_table, comparison_table, summary_table
from tilewright.report.bench_charts import both_beside, ratio_chart, verdict_chart
from tilewright.report.page import render


def bench_page(file: BenchFile) -> str:
    """Return the page of one file.

    Raises:
        TilewrightError: nothing is timed beside cuBLAS.
    """
    return render(
        "bench.html",
        title=f"tilewright beside cuBLAS on {_gpus(file)}",
        says=(),
        verdicts=None,
        ratios=ratio_chart([("", file)], "ratios"),
        tables=[summary_table(file), bench_table(file)],
    )


def comparison_page(found: Comparison, old: BenchFile, new: BenchFile) -> str:
    """Return the page of two files: verdicts, and both side by side where they time cuBLAS."""
    beside = ratio_chart([("old", old), ("new", new)], "ratios") if both_beside(old, new) else None
    gpus = dict.fromkeys((_gpus(old), _gpus(new)))
    table = comparison_table(found)
    return render(
        "bench.html",
        title=f"tilewright, old and new, on {' and '.join(gpus)}",
        says=table.notes,
        verdicts=verdict_chart(found, "verdicts"),
        ratios=beside,
        tables=[replace(table, notes=())],
    )


def _gpus(file: BenchFile) -> str:
    return ", ".join(dict.fromkeys(each.gpu for each in file.records))
