"""docs/tuning.md: its table is what the shipped model chooses in the recorded searches."""

import re
import statistics
from pathlib import Path

import pytest
import readme as tool

from tilewright.gpus import gpu
from tilewright.tuning.predict import predict
from tilewright.tuning.replay import read_recordings

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.split("<!-- begin choices -->")[1].split("<!-- end")[0].splitlines()
    if line.startswith("| `")
]


def test_the_page_is_what_the_records_say() -> None:
    made = tool.rewritten(TEXT, tables=tool.TUNING_TABLES, page="tuning.md")
    assert made == TEXT, "run python benchmarks/readme.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_choice_costs_what_the_table_says(row: list[str]) -> None:
    name = row[0].split("`")[1]
    qualities = []
    for each in read_recordings(ROOT / "benchmarks" / "results" / name):
        variants = list(each.times)
        if len(variants) > 1:
            predicted = predict(each.operation, variants, gpu("H200"))
            chosen = variants[predicted.index(min(predicted))]
            qualities.append(each.best_s / each.times[chosen])
    assert int(row[1]) == len(qualities)
    assert float(row[2].rstrip("%")) == pytest.approx(
        100 * statistics.geometric_mean(qualities), abs=0.06
    )
    assert float(row[3].rstrip("%")) == pytest.approx(100 * min(qualities), abs=0.06)


def test_every_file_that_the_page_names_is_there() -> None:
    names = set(re.findall(r"[`/ ]((?:\w+/)*\w+\.py)\b", TEXT))
    assert len(names) > 6
    bases = (ROOT, ROOT / "src/tilewright", ROOT / "benchmarks")
    for name in names:
        assert any((base / name).exists() for base in bases), name
