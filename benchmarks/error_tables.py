"""The README's table of errors: our largest beside cuBLAS's, by kind of data."""

from __future__ import annotations

import statistics
import textwrap
from pathlib import Path

from tilewright.bench.baselines import REFERENCE
from tilewright.bench.operands import KINDS
from tilewright.bench.results import OURS, read_bench

BENCHES = "bench_*_nvidia_h200.json"


def errors(results: Path) -> list[str]:
    """Return by suite the mean and the largest ratio of both's errors; nothing without a record."""
    records = [
        record for path in sorted(results.glob(BENCHES)) for record in read_bench(path).records
    ]
    rows = []
    for suite in dict.fromkeys(record.suite for record in records):
        pairs = [(r.run(OURS), r.run(REFERENCE)) for r in records if r.suite == suite]
        cells = []
        for kind in KINDS:
            ratios = [
                ours.max_errors[kind] / theirs.max_errors[kind]
                for ours, theirs in pairs
                if ours and theirs and ours.max_errors.get(kind) and theirs.max_errors.get(kind)
            ]
            mean = statistics.geometric_mean(ratios) if ratios else 1.0
            cells.append(f"{mean:.2f} ({max(ratios):.2f})" if ratios else "-")
        rows.append(f"| {suite} | {' | '.join(cells)} |")
    where = (
        "The largest error of each of these products over cuBLAS's, in geometric mean (and at "
        "most), on four kinds of data ([docs/bench.md](docs/bench.md) says what they are, and why "
        "on wide data the ratio of a single product is luck):"
    )
    if not rows:
        return []
    lines = textwrap.wrap(where, 100, break_long_words=False, break_on_hyphens=False)
    head = [f"| suite | {' | '.join(KINDS)} |", f"|---|{'---|' * len(KINDS)}"]
    return [*lines, "", *head, *rows]
