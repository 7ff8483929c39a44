"""The pages of a benchmark and of two compared: marks, bars and tables are the record's."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.bench_files import bench_file, whole_suite
from pages.conftest import WIDTHS, Open
from tilewright.bench.compare import compare
from tilewright.bench.results import BenchFile, read_bench
from tilewright.report.bench_page import bench_page, comparison_page

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FILES = sorted(path.name for path in RESULTS.glob("bench_*.json"))
SQUARES = "bench_squares_nvidia_h200.json"
BLUE, RED = "#4477aa", "#ee6677"


def raw(file: str) -> list[dict[str, Any]]:
    return list(json.loads((RESULTS / file).read_text(encoding="utf-8"))["records"])


def timings(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {run["contender"]: run["timing"] for run in record["runs"] if run["timing"]}


def marks(chart: str, colour: str) -> np.ndarray:
    found = re.findall(rf'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="[^"]*stroke: {colour}', chart)
    return np.array(found, dtype=float)


@cache
def compared(card: str = "NVIDIA H200", cublas: bool = True) -> str:
    """A page of two files: half as fast, the same within noise, faster, in turn."""
    theirs = {"cublas": 1.5} if cublas else {}
    old = whole_suite("squares", {"tilewright": 1.2, **theirs})
    made = [
        whole_suite("squares", {"tilewright": 1.2 * factor, **theirs}) for factor in (2, 1.005, 0.5)
    ]
    new = [made[place % 3][place] for place in range(len(old))]
    before, after = bench_file(*old), bench_file(*new, card=card)
    return comparison_page(compare(before, after), before, after)


def shown(visit: Open, folder: Path, text: str, **how: Any) -> Any:
    path = folder / "bench.html"
    path.write_text(text, encoding="utf-8")
    return visit(path, **how)


def cells(rows: Any) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in rows.all()]


@pytest.mark.parametrize("file", FILES)
def test_tables_and_numbers_at_the_rows_are_the_records(
    visit: Open, tmp_path: Path, file: str
) -> None:
    page = shown(visit, tmp_path, bench_page(read_bench(RESULTS / file)))
    rows = {row[0]: row for row in cells(page.locator("table").last.locator("tbody tr"))}
    drawn = page.locator("svg text").all_text_contents()
    beside = set(drawn)
    assert len(rows) == len(raw(file))
    for record in raw(file):
        took = timings(record)
        ours, theirs = took["tilewright"], took["cublas"]
        ratio = f"{theirs['median_s'] / ours['median_s']:.3f}"
        row = rows[record["case"]]
        assert float(row[1]) == pytest.approx(1e6 * ours["median_s"], rel=5e-3)
        assert row[5] == ratio
        # Of several baselines' marks in a row the numbers are in the table alone.
        numbers = {ratio} if len(took) == 2 else set()
        assert {record["case"], *numbers} <= beside


def test_marks_and_bars_stand_where_the_record_says() -> None:
    """x is affine in the logarithm of the ratio, for the medians and for the quartiles."""
    chart = bench_page(read_bench(RESULTS / SQUARES)).split("<svg ")[1].split("</svg>")[0]
    records = [timings(record) for record in raw(SQUARES)]
    medians = np.log([t["cublas"]["median_s"] / t["tilewright"]["median_s"] for t in records])
    low = np.log([t["cublas"]["p25_s"] / t["tilewright"]["p75_s"] for t in records])
    high = np.log([t["cublas"]["p75_s"] / t["tilewright"]["p25_s"] for t in records])
    dots = marks(chart, BLUE)[: len(records)]
    dots = dots[np.argsort(dots[:, 1])]
    scale = np.polyfit(medians, dots[:, 0], 1)
    assert dots[:, 0] == pytest.approx(np.polyval(scale, medians), abs=0.02)
    bars = re.findall(
        rf'<path d="M ([\d.]+) ([\d.]+)\s*L ([\d.]+) [\d.]+\s*" [^>]*stroke: {BLUE}; '
        r"stroke-width: 1.5",
        chart,
    )
    ends = np.array(bars, dtype=float)
    ends = ends[np.argsort(ends[:, 1])]
    assert ends[:, 0] == pytest.approx(np.polyval(scale, low), abs=0.03)
    assert ends[:, 2] == pytest.approx(np.polyval(scale, high), abs=0.03)


def test_a_mark_within_the_noise_is_hollow() -> None:
    noisy = whole_suite("squares", {"tilewright": 1.2, "cublas": 1.25}, spread=0.1)
    steady = whole_suite("squares", {"tilewright": 1.2, "cublas": 1.25}, spread=0.01)
    for records, hollow in ((noisy, True), (steady, False)):
        chart = bench_page(bench_file(*records)).split("<svg ")[1].split("</svg>")[0]
        styles = set(re.findall(rf'<use [^>]*style="([^"]*stroke: {BLUE}[^"]*)"', chart))
        assert [("fill-opacity: 0" in s or "fill: none" in s) for s in styles] == [hollow]


def test_verdicts_are_marks_with_shapes_of_their_own(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, compared())
    words = [row[-1] for row in cells(page.locator("tbody tr"))]
    assert words == [
        "slower",
        "within noise",
        "faster",
        "slower",
        "within noise",
        "faster",
        "slower",
    ]
    chart = compared().split("<svg ")[1].split("</svg>")[0]
    for colour, word in ((RED, "slower"), (BLUE, "faster")):
        assert len(marks(chart, colour)) == words.count(word) + 1  # and the legend's
    shapes = set()
    for colour in (RED, BLUE):
        used = re.search(rf'<use xlink:href="#(\w+)"[^>]*stroke: {colour}', chart)
        assert used is not None
        shape = re.search(rf'<path id="{used[1]}" d="([^"]*)"', chart)
        assert shape is not None
        shapes.add(shape[1])
    assert len(shapes) == 2
    told = page.inner_text("main")
    assert "2 faster, 3 slower, 2 within noise, of 7." in told
    assert told.index("2 faster") < told.index("case")
    legend = page.locator("svg").first.locator("text").all_text_contents()
    assert {"faster", "slower", "within noise", "noise"} <= set(legend)


def test_both_files_stand_side_by_side(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, compared())
    assert page.locator("svg").count() == 2
    beside = page.locator("svg").last.locator("text").all_text_contents()
    assert {"old: H200, 2026-11-30", "new: H200, 2026-11-30"} <= set(beside)
    assert beside.count("1.250") == 7  # all of the old file's
    assert beside.count("0.625") == 3
    assert shown(visit, tmp_path, compared(cublas=False)).locator("svg").count() == 1


def test_different_machines_are_said_in_text_and_picture(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, compared(card="NVIDIA A100"))
    first = page.locator("main p").first.inner_text()
    assert first.startswith("The files are of different machines, NVIDIA H200 and NVIDIA A100")
    drawn = page.locator("svg").first.locator("text").all_text_contents()
    assert "NVIDIA H200 → NVIDIA A100: different machines" in drawn
    assert "different machines" not in compared()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_window_and_pictures_have_texts(
    visit: Open, tmp_path: Path, width: int, dark: bool
) -> None:
    largest: BenchFile = max((read_bench(RESULTS / f) for f in FILES), key=lambda f: len(f.records))
    for text in (bench_page(largest), compared()):
        assert len(text.encode()) < 2_000_000
        page = shown(visit, tmp_path, text, width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for picture in page.get_by_role("img").all():
            label = page.locator(f"[id='{picture.get_attribute('aria-labelledby')}']")
            assert len(label.inner_text()) > 40
        assert page.locator(".scroll:not([tabindex='0'])").count() == 0
