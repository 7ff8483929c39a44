"""Take the pictures of the README and docs: a tile at work, an explained kernel, studies.

    python benchmarks/pictures.py   # writes docs/pictures/{live_tile,explain_page,tuned,volkov}.png

Needs Chromium on PATH, and the `dev` extra. Half a minute.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.bench.access_samples import sample_rung
from tilewright.bench.explain import explain_rung
from tilewright.bench.ladder import CHAPTER_GPU, CHAPTER_SIZE
from tilewright.bench.tile_steps import tile_figure
from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu, gpu
from tilewright.kernels import rung
from tilewright.problem import Problem
from tilewright.records import write_bytes
from tilewright.report.explain_page import explain_page
from tilewright.report.page import render
from tilewright.report.tuning_charts import tuning_png
from tilewright.report.volkov_page import volkov_page
from tilewright.study.occupancy import occupancy_curve
from tilewright.study.volkov import OTHER, THEIRS, VolkovStudy, volkov_study
from tilewright.tuning.replay import read_recordings
from tilewright.tuning.review import review

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SEARCHES = PICTURES.parents[1] / "benchmarks" / "results" / "tuning_common_nvidia_h200.json.gz"
SEARCHED = "f32-nn-64x4096x4096-b1-v44"
WIDTH = 1280
SHARPNESS = 1.25  # pixels of the picture a pixel of the page
# Of 08_warptiled: a moment between the first two barriers, and a thread in a warp's middle.
MOMENT, THREAD = 6, 45


def main(arguments: Sequence[str] | None = None) -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=PICTURES, help="the folder to write to")
    options = parser.parse_args(arguments)
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise TilewrightError("no browser: install chromium")
    from playwright.sync_api import sync_playwright

    (search,) = [s for s in read_recordings(SEARCHES) if s.operation.key == SEARCHED]
    write_bytes(options.out / "tuned.png", tuning_png([review(search)]))
    chapter = gpu(CHAPTER_GPU)
    problem = Problem(m=CHAPTER_SIZE, n=CHAPTER_SIZE, k=CHAPTER_SIZE)
    figure = tile_figure(rung("08"), chapter, problem=problem)
    told = explain_rung(rung("05"), problem, chapter, tries=0)
    samples = sample_rung(rung("05"), problem, chapter)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 900}, device_scale_factor=SHARPNESS
        )
        tile = render("tile.html", title="Where a tile lives", figures=[figure.to_json()])
        _open(page, Path(folder), tile)
        page.wait_for_selector(".tf-title")
        page.evaluate(
            f"(() => {{ const view = figures.get('figure1'); view.go({MOMENT}); "
            f"view.choose({THREAD}); }})()"
        )
        page.locator(".live-here").screenshot(path=options.out / "live_tile.png")
        _open(page, Path(folder), explain_page(told, samples))
        heat = page.locator("#heat").bounding_box()
        page.screenshot(
            path=options.out / "explain_page.png",
            full_page=True,
            clip={"x": 0, "y": 0, "width": WIDTH, "height": heat["y"] + heat["height"] + 10},
        )
        _open(page, Path(folder), volkov_page(_study(problem, chapter)))
        page.locator("figure:has(#says2) svg").screenshot(path=options.out / "volkov.png")
        browser.close()


def _study(problem: Problem, card: Gpu) -> VolkovStudy:
    theirs, other = (occupancy_curve(rung(name), problem, card) for name in (THEIRS, OTHER))
    return volkov_study(gpu("GTX 280"), (theirs, other))


def _open(page: Any, folder: Path, text: str) -> None:  # noqa: ANN401 - of playwright
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    page.goto(path.as_uri())


if __name__ == "__main__":
    main()
