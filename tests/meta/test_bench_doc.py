"""docs/bench.md: what it says of errors over many draws is the record's."""

import json
import math
from pathlib import Path

import h200_errors as tool

ROOT = Path(__file__).resolve().parents[2]
TEXT = " ".join((ROOT / "docs" / "bench.md").read_text(encoding="utf-8").split())
RECORD = json.loads(
    (ROOT / "benchmarks/results/errors_nvidia_h200.json").read_text(encoding="utf-8")
)


def ratios(who: str) -> list[float]:
    errors = [row["errors"] for row in RECORD["rows"]]
    return [a / b for e in errors for a, b in zip(e[who], e["cublas"], strict=True)]


def percent(part: float, digits: int = 0) -> str:
    return f"{100 * part:.{digits}f} %"


def share(found: list[float], low: float, high: float = math.inf) -> float:
    return sum(low < ratio < high for ratio in found) / len(found)


def test_its_shares_are_in_the_record() -> None:
    ours, theirs = ratios("tilewright"), ratios("cublas_transposed")
    mean = math.prod(ratio ** (1 / len(ours)) for ratio in ours)
    assert f"Of these {len(ours)} draws our largest error is above twice cuBLAS's in " in TEXT
    assert f"in {percent(share(ours, 2), 1)}, below half of it in " in TEXT
    assert f"{percent(share(ours, 0, 0.5), 1)}, and {mean:.2f} of it in geometric mean" in TEXT
    assert f"equal in {percent(theirs.count(1) / len(theirs))} of the draws" in TEXT
    differ = [ratio for ratio in theirs if ratio != 1]
    assert f"above twice the first in {percent(share(differ, 2))}, up to {max(differ):.1f}" in TEXT
    assert f"below half of it in {percent(share(differ, 0, 0.5))}. Where" in TEXT
    differ = [ratio for ratio in ours if ratio != 1]
    above, below = percent(share(differ, 2)), percent(share(differ, 0, 0.5))
    assert f"it is above twice it in {above} and below half of it in {below}." in TEXT


def test_the_summary_is_that_of_the_draws() -> None:
    assert RECORD["summary"] == tool.summary(RECORD["rows"])
    for found in RECORD["summary"]:
        rows = [r for r in RECORD["rows"] if found["kernel"] in ("all", r["kernel"])]
        assert found["ratios"] == tool.SEEDS * len(rows)
    for who in ("tilewright", "cublas_transposed"):
        (found,) = (s for s in RECORD["summary"] if (s["kernel"], s["of"]) == ("all", who))
        assert abs(found["above"] - share(ratios(who), 2)) < 1e-4
        assert abs(found["equal"] - ratios(who).count(1) / len(ratios(who))) < 1e-4
