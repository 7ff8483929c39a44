"""The page of a curve in a browser: its figures are the JSON's, a slider steps through points."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pages.conftest import WIDTHS, Open
from study.curves import made
from tilewright.report.occupancy_page import occupancy_page
from tilewright.study.curve import Curve
from tilewright.study.little import Little

LAW = Little(rate=2.5, few_rate=1.0, few_warps=8, latency=12.0)
MODELLED = replace(made(12345, 25000, 30000, 29000, own=3), little=LAW)
MEASURED = made(12345, 25000, 30000, 29000, own=3, measured=(11000, 31000, 28000, 27000))


def shown(visit: Open, folder: Path, curve: Curve, **how: Any) -> Any:
    path = folder / "occupancy.html"
    path.write_text(occupancy_page(curve), encoding="utf-8")
    assert path.stat().st_size < 2_000_000
    return visit(path, **how)


@pytest.mark.parametrize("curve", [MODELLED, MEASURED], ids=["modelled", "measured"])
def test_its_figures_are_those_of_the_json(visit: Open, tmp_path: Path, curve: Curve) -> None:
    page = shown(visit, tmp_path, curve)
    data = json.loads(page.locator("#curve").inner_text())
    assert Curve.from_json(data) == curve
    rows = [row.locator("td").all_inner_texts() for row in page.locator("tbody tr").all()]
    for row, point in zip(rows, data["points"], strict=True):
        enough = "*" if point["blocks"] == data["enough"]["blocks"] else ""
        assert row[0] == f"{point['warps']}{enough}"
        assert row[4] == str(point["registers"])
        assert row[6] == f"{point['predicted_gflops']:.0f}"
        if point["measured_gflops"] is not None:
            assert row[7] == f"{point['measured_gflops']:.0f}"
    said = page.locator("#curve-says").inner_text()
    kind = "measured_gflops" if curve.is_measured else "predicted_gflops"
    assert re.findall(r"(\d+) warps (\d+)", said) == [
        (str(point["warps"]), f"{point[kind]:.0f}") for point in data["points"]
    ]
    assert page.locator("svg").get_attribute("aria-labelledby") == "curve-says"
    legend = page.locator("svg").text_content()
    assert "modelled" in legend
    assert ("measured" in legend) == curve.is_measured


def test_the_slider_steps_with_the_keyboard(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, MEASURED)
    slider = page.get_by_label("warps", exact=True)

    def told() -> tuple[str, str, str | None]:
        chosen = page.locator("tr.chosen td").first.inner_text()
        return (
            page.locator("#point dl").inner_text(),
            chosen,
            slider.get_attribute("aria-valuetext"),
        )

    text, chosen, value = told()  # the fewest that are enough
    assert "16 of 64, 25% occupancy" in text
    assert (chosen, value) == ("16*", "16 warps")
    slider.press("ArrowLeft")
    text, chosen, value = told()
    assert (chosen, value) == ("8", "8 warps")
    assert "11000 GFLOP/s, 35% of the best" in text
    assert "12345 GFLOP/s" in text
    assert "58192 bytes, 50000 of them used by nobody" in text
    slider.press("End")
    text, chosen, value = told()
    assert (chosen, value) == ("32", "32 warps")
    assert "96, 40 bytes spilled" in text


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_can_be_read(visit: Open, tmp_path: Path, width: int, *, dark: bool) -> None:
    page = shown(visit, tmp_path, MODELLED, width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".verdict").inner_text().startswith("05_register_2d at 1024 x 1024 x 1024")
    assert "it takes 20.0 warps at least" in page.locator("main").inner_text()
    ink = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
    assert ink == page.evaluate("getComputedStyle(document.body).color")
    page.reload()
    entry = "performance.getEntriesByName('first-contentful-paint')[0]"
    assert page.wait_for_function(f"{entry}?.startTime").json_value() < 1000
