"""The README's tables of `tilewright bench`: how fast, and with which errors, beside others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from page_text import paragraph, table

from tilewright.bench.baselines import BASELINES, REFERENCE
from tilewright.bench.operands import KINDS
from tilewright.bench.results import OURS, BenchFile, BenchRecord, read_bench, summaries
from tilewright.bench.suites import suite as cases_of
from tilewright.report.bench import baselines_of

RECORDS = "bench_*_nvidia_h200.json"


def _read(results: Path) -> tuple[list[BenchFile], list[BenchRecord]]:
    """Return the files and all records; a suite may be in several (`h200_bench.py --skip`)."""
    files = [read_bench(path) for path in sorted(results.glob(RECORDS))]
    return files, [record for file in files for record in file.records]


def speeds(results: Path) -> list[str]:
    """Return each suite's mean and lowest ratio beside each baseline; nothing without a record."""
    files, records = _read(results)
    if not files:
        return []
    names = [name for name in BASELINES if name in baselines_of(records)]
    found = {name: {s.suite: s for s in summaries(records, other=name)} for name in names}
    rows = []
    for suite in dict.fromkeys(record.suite for record in records):
        cells = [found[name].get(suite) for name in names]
        measured = sum(record.suite == suite for record in records)
        whole = len(cases_of(suite).cases)
        count = str(whole) if measured == whole else f"{measured} of {whole}"
        rows.append([suite, count, *(f"{s.mean:.2f} ({s.worst:.2f})" if s else "-" for s in cells)])
    days = " and ".join(sorted({file.environment.date[:10] for file in files}))
    labels = {run.contender: run.label for record in records for run in record.runs}
    where = (
        "How many times faster than each, in geometric mean (and on the worst case), on an H200 in "
        f"float32, with a cold L2 (`benchmarks/results/{RECORDS}`, {days}, driver "
        f"{files[0].environment.driver}, {'; '.join(labels[name] for name in names)}):"
    )
    return [*paragraph(where), "", *table(["suite", "cases", *names], rows)]


def errors(results: Path) -> list[str]:
    """Return each suite's mean and largest ratio of our errors to cuBLAS's; nothing without."""
    _, records = _read(results)
    if not records:
        return []
    rows = [
        [suite, *(_ratios([r for r in records if r.suite == suite], kind) for kind in KINDS)]
        for suite in dict.fromkeys(record.suite for record in records)
    ]
    where = (
        "The largest error of each of these products over cuBLAS's, in geometric mean (and at "
        "most), on four kinds of data ([docs/bench.md](docs/bench.md) says what they are, and why "
        "on wide data the ratio of a single product is luck):"
    )
    return [*paragraph(where), "", *table(["suite", *KINDS], rows)]


def _ratios(records: Sequence[BenchRecord], kind: str) -> str:
    pairs = [
        (ours.max_errors.get(kind), theirs.max_errors.get(kind))
        for ours, theirs in ((r.run(OURS), r.run(REFERENCE)) for r in records)
        if ours and theirs
    ]
    found = [our / their for our, their in pairs if our and their]
    return f"{statistics.geometric_mean(found):.2f} ({max(found):.2f})" if found else "-"
