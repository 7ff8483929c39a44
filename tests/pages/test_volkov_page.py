"""The page of Volkov and Demmel's argument in a browser: sliders, figures, what it says."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pages.conftest import WIDTHS, Open
from study.curves import made
from tilewright.bench.tile_figure import TileFigure
from tilewright.bench.tile_steps import tile_figure
from tilewright.gpus import gpu, occupancy
from tilewright.kernels import HISTORY
from tilewright.report.volkov_page import volkov_page, whatif_data
from tilewright.report.volkov_study import volkov_told
from tilewright.study.speed_2008 import OLD_GPUS, old_point
from tilewright.study.volkov import VolkovStudy, volkov_study

MOST_BYTES = 2_000_000


@cache
def study(name: str = "GTX 280") -> VolkovStudy:
    return volkov_study(gpu(name), (made(100.0, 160.0, 200.0), made(50.0, 70.0, 80.0)))


@cache
def figures() -> tuple[TileFigure, ...]:
    return tuple(tile_figure(each, gpu("H200")) for each in HISTORY.values())


def shown(visit: Open, folder: Path, **how: Any) -> Any:
    path = folder / "volkov.html"
    path.write_text(volkov_page(study(), figures()), encoding="utf-8")
    return visit(path, **how)


def slide(page: Any, name: str, value: int) -> str:
    """Move a slider, as its user would, and return what the page says then."""
    page.locator(f"#{name}").fill(str(value))
    return page.locator("#whatif .found").inner_text()


def test_it_says_what_the_command_says(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    told = volkov_told(study())
    assert page.locator(".verdict").inner_text() == told.verdict
    for place, part in enumerate(told.parts):
        section = page.locator("main > section").nth(place)
        assert section.locator("h2").inner_text() == part.asks
        assert [text for text in part.says if text not in section.inner_text()] == []
        if part.table is not None:
            cells = [
                row.locator("td").all_inner_texts() for row in section.locator("tbody tr").all()
            ]
            assert cells == [list(row) for row in part.table.rows]
    inside = json.loads(page.locator("#study").evaluate("e => e.textContent"))
    assert inside == json.loads(json.dumps(study().to_json()))


def test_each_picture_has_its_text(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    pictures = page.locator("svg[role=img]").all()
    assert len(pictures) == 3
    texts = [
        page.locator(f"#{picture.get_attribute('aria-labelledby')}").inner_text()
        for picture in pictures
    ]
    assert "Published of 2008: volkov_2008, 2008 82%, both_shared_2008, 2008 56%." in texts[0]
    assert "modelled: 1 34%, 2 51%, 3 57%, 4 59%" in texts[1]
    assert "Published: 1 32%, 2 49%, 3 58%, 4 59%." in texts[1]
    assert "8 warps 100, 16 warps 160, 24 warps 200" in texts[2]


def test_the_sliders_start_with_the_kernel_and_recompute(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    start = page.locator("#whatif .found").inner_text()
    assert start.startswith("Room for 8 blocks (blocks, registers). With 8, 50.0 % occupancy: 59.1")
    # 60 registers: a block takes 3840, rounded to 4096 by 512; four fit.
    assert slide(page, "registers", 60).startswith("Room for 4 blocks (registers). With 4, 25.0 %")
    assert "58.8 % of the peak" in slide(page, "registers", 60)
    # By hand of one block: 3464 cycles of issue and 17 waits of 500 for 2048 of work.
    slide(page, "blocks", 1)
    assert f"{100 * 2048 / (3464 + 17 * 500):.1f} % of the peak" in slide(page, "ahead", 1)
    assert page.locator("output[for=ahead]").inner_text() == "1"


def test_the_keyboard_moves_a_slider(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    page.locator("#blocks").focus()
    page.keyboard.press("Home")
    assert "With 1," in page.locator("#whatif .found").inner_text()
    page.keyboard.press("ArrowRight")
    assert "With 2," in page.locator("#whatif .found").inner_text()


def test_the_pages_model_is_the_librarys(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    pick = random.Random(8)
    for card in OLD_GPUS:
        kernel, data = study().theirs.kernel, whatif_data(study(card.name))
        for _ in range(60):
            blocks, ahead = pick.randint(1, 8), pick.randint(1, 16)
            memory = pick.randrange(100, 1001, 20)
            found = page.evaluate("a => oldShare(...a)", [data, blocks, memory, ahead])
            point = old_point(kernel, card, blocks, memory_cycles=memory, ahead=ahead)
            assert found == pytest.approx(point.share, rel=1e-12)
        for registers in range(16, 125):
            asked = {"threads": 64, "registers": registers, "shared": kernel.shared_bytes}
            found = page.evaluate("a => occupancy(...a)", [data["limits"], asked])
            fits = occupancy(
                gpu=card, threads=64, registers=registers, shared_bytes=kernel.shared_bytes
            )
            assert found["active_blocks"] == fits.active_blocks


def test_both_kernels_step(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path)
    for name in HISTORY:
        figure = page.locator(f"#figure{name}")
        figure.scroll_into_view_if_needed()
        figure.locator(".tf-title").wait_for()
        figure.get_by_role("button", name="Next step").click()
        assert figure.locator(".tf-title").inner_text().startswith("Moment 2 ")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_small_and_fits(visit: Open, tmp_path: Path, width: int, dark: bool) -> None:
    page = shown(visit, tmp_path, width=width, dark=dark)
    assert (tmp_path / "volkov.html").stat().st_size < MOST_BYTES
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#whatif .found").is_visible()
