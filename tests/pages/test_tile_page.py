"""The live tile figure in a browser: it steps, follows a thread, and says what the data says."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pages.conftest import WIDTHS, Open
from tilewright.bench.tile_figure import TileFigure
from tilewright.bench.tile_steps import tile_figure
from tilewright.gpus import gpu
from tilewright.kernels import rung
from tilewright.problem import Problem
from tilewright.report.page import render
from tilewright.report.palette import QUALITATIVE


@cache
def made(name: str) -> TileFigure:
    return tile_figure(rung(name), gpu("RTX A6000"), problem=Problem(m=4096, n=4096, k=4096))


@pytest.fixture
def page(visit: Open, tmp_path: Path) -> Any:
    return shown(visit, tmp_path, "06_vectorized")


def shown(visit: Open, folder: Path, *names: str, **how: Any) -> Any:
    path = folder / "tile.html"
    figures = [made(name).to_json() for name in names]
    path.write_text(render("tile.html", title="Tiles", figures=figures), encoding="utf-8")
    opened = visit(path, **how)
    opened.wait_for_selector(".tf-title")
    return opened


def text(page: Any, selector: str) -> str:
    return page.locator(selector).first.inner_text()


def pixels(page: Any, selector: str) -> str:
    return page.locator(selector).first.evaluate("canvas => canvas.toDataURL()")


def test_the_caption_says_that_a_small_problem_stands_for_the_one_asked(page: Any) -> None:
    caption = " ".join(text(page, "figcaption").split())
    assert "m = 256, n = 256, k = 16" in caption
    assert "stands for 4096 × 4096 × 4096" in caption


@pytest.mark.parametrize("how", ["button", "keys", "slider"])
def test_stepping_goes_through_every_moment(page: Any, how: str) -> None:
    moments = made("06_vectorized").moments
    slider = page.locator("input[type=range]")
    before = pixels(page, ".tf-matrices canvas")
    for number, moment in enumerate(moments):
        title = text(page, ".tf-title")
        assert title.startswith(f"Moment {number + 1} of {len(moments)}, after {moment.phase} ")
        assert title.endswith(moment.title)
        assert slider.input_value() == str(number)
        if how == "button":
            page.get_by_role("button", name="Next step").click()
        elif how == "keys":
            page.locator(".tf-matrices canvas").press("ArrowRight")
        else:
            slider.press("ArrowRight")
    assert pixels(page, ".tf-matrices canvas") != before


def test_barriers_are_stops(page: Any) -> None:
    canvas = page.locator(".tf-matrices canvas")
    phases = [m.phase for m in made("06_vectorized").moments]
    starts = [n for n, phase in enumerate(phases) if n == 0 or phase != phases[n - 1]]
    for start in starts[1:]:
        canvas.press("Shift+ArrowRight")
        assert text(page, ".tf-title").startswith(f"Moment {start + 1} of")
    page.get_by_role("button", name="Previous barrier").click()
    canvas.press("Home")
    assert text(page, ".tf-title").startswith("Moment 1 of")
    canvas.press("End")
    assert text(page, ".tf-title").startswith(f"Moment {len(phases)} of")


def test_a_thread_says_what_it_moves_and_where(page: Any) -> None:
    """Thread 37 of 256 stages row 18 and column 4 of A's tile: rows of two threads, four floats."""
    figure = made("06_vectorized")
    page.locator("input[type=number]").fill("37")
    says = text(page, ".tf-says")
    byte = 4 * ((128 + 18) * figure.ld["A"] + 4)
    assert says.startswith("Thread 37 (warp 1, lane 5) loads A[146, 4] and 3 more ")
    assert f"(byte {byte} of A, sector {byte // 32})" in says
    # Transposed, its four floats go to the rows 4 to 7 of 132 words, column 18.
    assert (
        f"stores A[146, 4] (shared byte {4 * (4 * 132 + 18)}, bank {(4 * 132 + 18) % 32})" in says
    )
    page.locator(".tf-side canvas").first.press("ArrowDown")
    assert text(page, ".tf-says").startswith("Thread 38 (warp 1, lane 6)")
    page.locator(".tf-side canvas").first.press("Shift+ArrowUp")
    assert text(page, ".tf-says").startswith("Thread 6 (warp 0, lane 6)")


def test_pointing_at_an_output_shows_its_owner_until_one_leaves(page: Any) -> None:
    figure = made("06_vectorized")
    fit = page.evaluate("figures.get('figure1').fit()")
    box = page.locator(".tf-matrices canvas").bounding_box()
    # Row 9 and column 20 of the block's tile: the second row and third column of threads.
    x = box["x"] + fit["C"]["x"] + (figure.column + 20.5) * fit["C"]["w"]
    y = box["y"] + fit["C"]["y"] + (figure.row + 9.5) * fit["C"]["h"]
    page.mouse.move(x, y)
    assert text(page, ".tf-says").startswith("Thread 18 ")
    page.mouse.move(1, 1)
    assert text(page, ".tf-says").startswith("Thread 0 ")
    page.mouse.click(x, y)
    page.mouse.move(1, 1)
    assert text(page, ".tf-says").startswith("Thread 18 ")


def traffic(figure: TileFigure, number: int) -> dict[str, dict[str, int]]:
    """What a moment moves, by space and way."""
    found: dict[str, dict[str, int]] = {}
    for access in figure.moments[number].accesses:
        site = figure.sites[access.site]
        sums = found.setdefault(
            f"{site.space} {site.way}", dict.fromkeys(("requests", "bytes", "cost", "least"), 0)
        )
        sums["requests"] += len(access.warps)
        sums["cost"] += sum(access.cost)
        sums["least"] += sum(access.least)
        for pattern, places in zip(access.pattern, access.places, strict=True):
            pairs = zip(figure.patterns[pattern], figure.patterns[places], strict=True)
            sums["bytes"] += site.bytes * sum(a is not None and b is not None for a, b in pairs)
    return found


@pytest.mark.parametrize(
    "name", ["01_naive", "03_shared_tile", "04_register_1d", "08_warptiled", "09_pipelined"]
)
def test_traffic_of_each_moment_is_that_of_the_data(visit: Open, tmp_path: Path, name: str) -> None:
    page, figure = shown(visit, tmp_path, name), made(name)
    expected = [traffic(figure, number) for number in range(len(figure.moments))]
    found = page.evaluate(
        "(() => { const { model, data } = figures.get('figure1');"
        "return data.moments.map((_, number) => model.traffic(number)); })()"
    )
    assert found == expected
    for number in (0, 1, len(figure.moments) - 1):
        page.evaluate(f"figures.get('figure1').go({number})")
        cells = page.locator(".tf-moves").all_inner_texts()
        for key, sums in expected[number].items():
            space, way = key.split()
            row = cells[0 if space == "global" else 1]
            assert f"{way}: {sums['requests']:,} request" in row
            assert f"{sums['bytes']:,} bytes, {sums['cost']:,} " in row


def test_a_colour_a_warp(page: Any) -> None:
    """Warps 0 to 7 own 16 rows of C each, in the eight colours of the palette."""
    page.get_by_label("a colour a warp").check()
    figure = made("06_vectorized")
    colours = page.evaluate(
        """([row, column]) => {
          const view = figures.get("figure1"), f = view.fit().C, sharp = devicePixelRatio;
          const context = view.canvas.getContext("2d");
          return [...Array(8).keys()].map((warp) => {
            const x = f.x + (column + 100) * f.w, y = f.y + (row + 16 * warp + 8) * f.h;
            const [r, g, b] = context.getImageData(x * sharp, y * sharp, 1, 1).data;
            return `#${[r, g, b].map((n) => n.toString(16).padStart(2, "0")).join("")}`;
          });
        }""",
        [figure.row, figure.column],
    )
    assert colours == [fill.ground for fill in QUALITATIVE]


def test_the_rows_of_accesses_are_the_warps(page: Any) -> None:
    figure = made("06_vectorized")
    page.locator(".tf-matrices canvas").press("ArrowRight")
    rows = page.locator(".tf-list tbody tr")
    assert rows.count() == sum(1 for _ in figure.moments[1].accesses)
    first = figure.moments[1].accesses[0]
    site = figure.sites[first.site]
    assert text(page, ".tf-list tbody td").startswith(f"{site.bytes} B shared load of")
    assert rows.first.locator(".tf-strip i").count() == 32
    assert f"{first.cost[0]} wavefronts" in rows.first.inner_text()


def test_sums_grow_with_k(page: Any) -> None:
    figure = made("06_vectorized")
    page.locator(".tf-matrices canvas").press("End")
    cells = page.locator(".tf-outer td").all_inner_texts()[1:]
    assert cells == [str(figure.k)] * 64
    assert f"each of {figure.k} of {figure.k} products" in text(page, ".tf-places")


def test_shared_memory_holds_the_tiles_once_they_are_copied(page: Any) -> None:
    label = page.locator(".tf-shared canvas").get_attribute("aria-label")
    assert label == "Shared memory holds 1024 floats of A and 1024 floats of B."


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_the_window_and_takes_its_colours(
    visit: Open, tmp_path: Path, width: int, dark: bool
) -> None:
    page = shown(visit, tmp_path, "08_warptiled", width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")


def test_the_keyboard_reaches_everything(page: Any) -> None:
    reached = []
    for _ in range(9):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('aria-label')"))
    for label in ("Previous barrier", "Next step", "Moment", "Thread"):
        assert label in reached
    assert any(label and label.startswith("A, B and C. Moment 1") for label in reached)


def test_nothing_that_a_kernel_says_ends_the_data(visit: Open, tmp_path: Path) -> None:
    figure = made("06_vectorized").to_json() | {"idea": "</script><b>&", "rung": "<i>6"}
    path = tmp_path / "odd.html"
    path.write_text(render("tile.html", title="a < b", figures=[figure]), encoding="utf-8")
    page = visit(path)
    page.wait_for_selector(".tf-title")
    told = json.loads(page.locator(".live-data").inner_text())
    assert told["idea"] == "</script><b>&"
    assert "a tile of <i>6 lives" in text(page, "figcaption")


def test_a_wide_list_scrolls_by_keyboard_in_a_narrow_window(visit: Open, tmp_path: Path) -> None:
    page = shown(visit, tmp_path, "08_warptiled", width=400)
    frame = page.locator(".tf-scroll").last
    moment = text(page, ".tf-title")
    frame.focus()
    frame.press("ArrowRight")
    page.wait_for_function("document.querySelectorAll('.tf-scroll')[1].scrollLeft > 0")
    assert text(page, ".tf-title") == moment
