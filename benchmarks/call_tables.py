"""The README's table of what a call costs the host."""

from __future__ import annotations

import json
from pathlib import Path

from page_text import paragraph, table

RECORD = "calls_nvidia_h200.json"


def host_calls(results: Path) -> list[str]:
    """Return microseconds a call, ours beside torch's; nothing without a record."""
    path = results / RECORD
    if not path.exists():
        return []
    record = json.loads(path.read_text(encoding="utf-8"))
    environment = record["environment"]
    where = (
        "What a call costs the host of an H200, in microseconds, beside the same of torch "
        f"(`benchmarks/results/{RECORD}`, {environment['date'][:10]}):"
    )
    rows = [
        [row["case"], f"{row['tilewright_us']:.1f}", f"{row['torch_us']:.1f}"]
        for row in record["rows"]
    ]
    return [*paragraph(where), "", *table(["product", "tilewright", "torch"], rows)]
