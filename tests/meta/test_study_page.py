"""docs/study.md: its table of curves is the record's, read here past the code that makes it."""

import json
import re
from pathlib import Path

import readme as tool

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
RECORD = json.loads(
    (ROOT / "benchmarks/results/study_occupancy_h200.json").read_text(encoding="utf-8")
)


def test_the_page_is_what_the_record_says() -> None:
    made = tool.rewritten(TEXT, tables=tool.STUDY_TABLES, page="study.md")
    assert made == TEXT, "run python benchmarks/readme.py"


def test_its_curves_are_in_the_record() -> None:
    body = TEXT.split("<!-- begin curves -->")[1].split("<!-- end curves -->")[0]
    lines = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line] for line in lines[2:]]
    assert len(rows) == len(RECORD["curves"])
    for row, curve in zip(rows, RECORD["curves"], strict=True):
        assert row[:2] == [curve["rung"], str(curve["problem"]["m"])]
        points = [point for point in curve["points"] if not point["reason"]]
        (own,) = (point for point in points if point["means"] == "own")
        assert row[2] == str(own["warps"])
        for column, rate in ((3, "predicted_gflops"), (4, "measured_gflops")):
            rates = [point[rate] for point in points]
            if None in rates:
                assert row[column] == "-"
                continue
            enough = next(p for p in points if p[rate] >= 0.98 * max(rates))
            assert row[column] == str(enough["warps"])


def test_every_file_that_the_page_names_is_there() -> None:
    names = set(re.findall(r"[`/ ]((?:\w+/)*\w+\.(?:py|json))\b", TEXT))
    assert names
    bases = (ROOT, ROOT / "src/tilewright", ROOT / "benchmarks", ROOT / "benchmarks/results")
    for name in names:
        assert any((base / name).exists() for base in bases), name
