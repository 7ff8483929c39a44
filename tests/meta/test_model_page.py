"""docs/model.md: its tables are the record's, and the tool that makes them sees a difference."""

import json
import re
from pathlib import Path

import pytest
import readme as tool

from tilewright.errors import TilewrightError

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "model.md"
TEXT = PAGE.read_text(encoding="utf-8")
RECORD = json.loads((ROOT / "benchmarks/results/model_errors.json").read_text(encoding="utf-8"))


def rows(name: str) -> list[list[str]]:
    body = TEXT.split(f"<!-- begin {name} -->")[1].split(f"<!-- end {name} -->")[0]
    table = [line.strip("|").split("|") for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in table[2:]]


def test_the_page_is_what_the_record_says() -> None:
    made = tool.rewritten(TEXT, tables=tool.MODEL_TABLES, page="model.md")
    assert made == TEXT, "run python benchmarks/readme.py"


def test_its_errors_are_in_the_record() -> None:
    found = rows("errors")
    assert [row[0] for row in found] == list(RECORD["summary"])
    for name, kernels, mean, largest, tau in found:
        each = RECORD["summary"][name]
        assert int(kernels) == each["kernels"]
        assert float(mean.rstrip("%")) == pytest.approx(100 * each["mean_absolute_error"], abs=0.06)
        assert float(largest.rstrip("%")) == pytest.approx(100 * each["largest_error"], abs=0.6)
        assert float(tau) == pytest.approx(each["kendall_tau"], abs=0.006)


def test_its_stalls_are_in_the_record() -> None:
    found = rows("stalls")
    assert [row[0] for row in found] == list(RECORD["first_stalls"])
    for rung, *both in found:
        for kind, cell in zip(("measured", "modelled"), both, strict=True):
            kept = RECORD["first_stalls"][rung][f"{kind}_stalls"]
            shown = dict(part.split() for part in cell.split(", "))
            assert list(shown) == list(kept)[:3]
            for name, value in shown.items():
                assert float(value) == pytest.approx(kept[name], rel=0.006)


def test_an_edited_figure_is_found_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme, page = tmp_path / "README.md", tmp_path / "model.md"
    readme.write_text(tool.rewritten(tool.README.read_text(encoding="utf-8")), encoding="utf-8")
    line = next(line for line in TEXT.splitlines() if line.startswith("| H200, all |"))
    page.write_text(TEXT.replace(line, re.sub(r"\d+\.\d%", "0.1%", line)), encoding="utf-8")
    assert tool.main(["--check"], readme, page) == 1
    assert "model.md differs from the records" in capsys.readouterr().out
    assert tool.main([], readme, page) == 0
    assert page.read_text(encoding="utf-8") == TEXT
    assert tool.main(["--check"], readme, page) == 0


def test_a_page_without_its_tables_is_refused() -> None:
    with pytest.raises(TilewrightError, match=r"model\.md has the tables none.*errors, stalls"):
        tool.rewritten("no table", tables=tool.MODEL_TABLES, page="model.md")


def test_every_file_that_the_page_names_is_there() -> None:
    names = set(re.findall(r"`([\w/.]+\.(?:py|json))`", TEXT))
    assert len(names) > 8
    model = ROOT / "src" / "tilewright"
    for name in names:
        assert any((base / name).exists() for base in (ROOT, model, model / "model")), name
