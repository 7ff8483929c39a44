"""The page of searches in a browser: dots, bars and tables are those of the record's JSON."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages.conftest import WIDTHS, Open
from tilewright.records import read_text
from tilewright.report.tuning_page import tuning_page
from tilewright.tuning.replay import Recording, read_recordings
from tilewright.tuning.review import Review, review
from tuning.synthetic import H200, SQUARE, trial

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FILES = ("tuning_drawn_nvidia_h200.json.gz", "tuning_common_nvidia_h200.json.gz")
COMMON = FILES[1]
MOST_BYTES = 2_000_000
BLUE = "#4477aa"


@cache
def reviews(file: str) -> tuple[Review, ...]:
    return tuple(review(each) for each in read_recordings(RESULTS / file))


@cache
def content(file: str, place: int | None = None) -> str:
    found = reviews(file)
    return tuning_page(found if place is None else found[place : place + 1])


@cache
def raw(file: str) -> list[dict[str, Any]]:
    return list(json.loads(read_text(RESULTS / file))["searches"])


def shown(visit: Open, folder: Path, text: str, **how: Any) -> Any:
    path = folder / "tune.html"
    path.write_text(text, encoding="utf-8")
    return visit(path, **how)


def cells(rows: Any) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def microseconds(seconds: float) -> float:
    return pytest.approx(1e6 * seconds, rel=5e-3)  # type: ignore[return-value]


@pytest.mark.parametrize("place", [0, 4])
def test_tables_are_the_records(visit: Open, tmp_path: Path, place: int) -> None:
    page = shown(visit, tmp_path, content(COMMON, place))
    trials = raw(COMMON)[place]["trials"]
    page.locator("summary").press("Enter")  # by keyboard
    rows = cells(page.locator(".candidates tbody tr"))
    assert [row[0] for row in rows] == [str(n) for n in range(1, len(trials) + 1)]
    for row, each in zip(rows, trials, strict=True):
        if each["state"] == "timed":
            assert float(row[1]) == microseconds(each["median_s"])
            assert row[2] == f"{each['spread']:.1%}"
        else:
            assert row[1] == each["state"]
        tile = each["variant"]["tile"]
        assert row[4].startswith(each["variant"]["kernel"])
        assert f"bm={tile['bm']}, bn={tile['bn']}" in row[4]
    times = sorted(each["median_s"] for each in trials if "median_s" in each)
    best = cells(page.get_by_role("region", name="The 10 fastest").locator("tbody tr"))
    assert [float(row[1]) for row in best] == [microseconds(t) for t in times[:10]]
    assert [row[3] for row in best] == [f"{times[0] / t:.1%}" for t in times[:10]]


def test_what_the_ten_fastest_share_is_in_all_of_them(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, content(COMMON, 4))
    trials = sorted(
        (each for each in raw(COMMON)[4]["trials"] if "median_s" in each),
        key=lambda each: float(each["median_s"]),
    )[:10]
    said = page.get_by_text("All of these have").inner_text()
    told = dict(re.findall(r"(\w+) = (\d+)", said))
    assert told == {"bm": "64"}
    assert {each["variant"]["tile"]["bm"] for each in trials} == {64}
    for name in ("bn", "bk", "tm", "stages"):
        assert len({each["variant"]["tile"][name] for each in trials}) > 1


def test_dots_and_bars_stand_where_the_record_says() -> None:
    """One kernel's dots, in order: x is the number, y is affine in the speed, and so the bars."""
    trials = raw(COMMON)[0]["trials"]
    flops = 2 * 4096**3
    timed = [(n, each) for n, each in enumerate(trials, start=1) if "median_s" in each]
    chart = content(COMMON, 0).split("<svg ")[1]
    marks = re.findall(rf'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="fill: {BLUE}', chart)
    dots = np.array(marks[: len(timed)], dtype=float)  # one more is the legend's
    assert len(marks) == len(timed) + 1
    numbers = np.array([n for n, _ in timed])
    speeds = np.array([flops / each["median_s"] for _, each in timed])
    for drawn, meant in ((dots[:, 0], numbers), (dots[:, 1], speeds)):
        scale = np.polyfit(meant, drawn, 1)
        assert drawn == pytest.approx(np.polyval(scale, meant), abs=0.02)
    bars = re.search(rf'<path d="([^"]*)"[^>]*stroke: {BLUE}; stroke-width: 1.2', chart)
    assert bars is not None
    ends = np.array(re.findall(r"M ([\d.]+) ([\d.]+)\s*L ([\d.]+) ([\d.]+)", bars[1]), dtype=float)
    scale = np.polyfit(speeds, dots[:, 1], 1)
    times = np.array([each["median_s"] for _, each in timed])
    half = np.array([each["spread"] for _, each in timed]) / 2
    assert len(ends) == len(timed)
    for column, sign in ((1, 1), (3, -1)):
        meant = np.polyval(scale, flops / (times * (1 + sign * half)))
        assert ends[:, column] == pytest.approx(meant, abs=0.03)


def test_the_overview_has_every_product_and_links_to_it(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, content(COMMON))
    rows = cells(page.locator(".overview tbody tr"))
    for row, each, found in zip(rows, raw(COMMON), reviews(COMMON), strict=True):
        fastest = [t for t in each["trials"] if t.get("measure_s") == 0.1]
        kept = min(t["median_s"] for t in fastest)
        assert row[0] == found.recording.operation.key
        assert float(row[1]) == microseconds(kept)
        assert row[5] == f"{found.rank:.2f}"
        assert row[6] == f"{len(each['trials'])} of {each['space']}"
    link = page.locator("nav a").nth(3)
    link.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == f"#{rows[3][0]}"
    assert abs(page.locator("section.search h2").nth(3).bounding_box()["y"]) < 50


def test_strategies_end_where_the_table_says(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, content(COMMON, 4))
    rows = cells(page.get_by_role("region", name="What each strategy finds").locator("tbody tr"))
    assert [row[0] for row in rows] == ["model", "halving", "random", "exhaustive"]
    timed = sum("median_s" in each for each in raw(COMMON)[4]["trials"])
    assert [row[1] for row in rows] == ["20", "20", str(timed), str(timed)]
    said = page.locator("figcaption").last.inner_text()
    for row in rows:
        assert f"{row[0]} ends with {row[-1]} after {row[1]}" in said


@pytest.mark.parametrize("file", FILES)
def test_a_page_of_many_is_small_and_says_what_it_left_out(file: str) -> None:
    text = content(file)
    assert len(text.encode()) < MOST_BYTES
    detailed = text.count('<section class="search"')
    left = len(reviews(file)) - detailed
    assert (f"{left} more products are in the table only" in text) == (left > 0)
    assert detailed >= 13


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_the_window(visit: Open, tmp_path: Path, width: int, dark: bool) -> None:
    page = shown(visit, tmp_path, content(COMMON, 4), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = page.evaluate(
        "[getComputedStyle(document.querySelector('svg text')).fill,"
        " getComputedStyle(document.body).backgroundColor]"
    )
    light = [sum(map(int, re.findall(r"\d+", each)[:3])) for each in (ink, paper)]
    assert abs(light[0] - light[1]) > 450


def test_pictures_have_texts_and_everything_is_reached_by_keyboard(
    visit: Open, tmp_path: Path
) -> None:
    page = shown(visit, tmp_path, content(COMMON, 4))
    pictures = page.get_by_role("img").all()
    assert len(pictures) == 3
    for picture in pictures:
        label = page.locator(f"[id='{picture.get_attribute('aria-labelledby')}']")
        assert len(label.inner_text()) > 40
    assert page.locator(".scroll:not([tabindex='0'])").count() == 0
    ids = page.evaluate("[...document.querySelectorAll('h2[id], figcaption[id]')].map(e => e.id)")
    assert len(set(ids)) == len(ids)


def test_a_search_with_nothing_right_and_one_of_a_part(visit: Open, tmp_path: Path) -> None:
    some = [each.variant for each in reviews(COMMON)[2].recording.trials]
    wrong = tuple(trial(SQUARE, v, None, state="wrong") for v in some[:6])
    right = tuple(trial(SQUARE, v, 1e-3 * (1 + n)) for n, v in enumerate(some[:6]))
    found = [
        review(Recording(operation=SQUARE, trials=wrong, space=6), H200),
        review(Recording(operation=SQUARE, trials=right, space=99), H200),
    ]
    page = shown(visit, tmp_path, tuning_page(found[:1]))
    assert "none was right" in page.inner_text("main")
    page = shown(visit, tmp_path, tuning_page(found[1:]))
    told = page.inner_text("main")
    assert "6 of 99 variants were tried" in told
    assert "1 of 1 searches did not measure the whole space" in told
    assert "What each strategy finds" not in told
