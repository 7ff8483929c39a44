"""The page of `layout --html` in a browser: keys and the pointer say where an element lies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tilewright.cli import app

SWIZZLED = ["(8,64):(64,1)", "--swizzle", "128B", "--bits", "16", "--by", "bank"]
# Walks the second grid by keys and points at a cell of the first; the results go to the title.
WALK = """<script>
const cells = document.querySelectorAll("td"), said = [];
const framedNow = () => document.querySelectorAll(".same").length;
const note = () => said.push(readout.textContent + " / " + framedNow());
cells[64].focus(); note();
for (const key of ["ArrowDown", "ArrowRight", "End", "ArrowRight", "ArrowUp", "Home"]) {
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  note();
}
cells[2].dispatchEvent(new MouseEvent("mouseover", {bubbles: true})); note();
cells[2].closest("table").dispatchEvent(new MouseEvent("mouseleave")); note();
document.activeElement.blur(); note();
document.title = JSON.stringify(said);
</script>"""


def test_keys_and_pointer_show_coordinate_index_and_bank(
    tmp_path: Path, visit: Callable[..., Any]
) -> None:
    target = tmp_path / "a.html"
    done = CliRunner().invoke(app, ["layout", *SWIZZLED, "--html", str(target)])
    assert done.exit_code == 0, done.output
    text = target.read_text(encoding="utf-8").replace("</body>", WALK + "</body>")
    target.write_text(text, encoding="utf-8")
    title = visit(target).title()
    assert json.loads(title) == [
        "(0,0) → index 0 → banks 0 to 3 / 8",
        "(1,0) → index 9 → banks 4 to 7 / 8",
        "(1,1) → index 8 → banks 0 to 3 / 8",
        "(1,7) → index 14 → banks 24 to 27 / 8",
        "(1,7) → index 14 → banks 24 to 27 / 8",
        "(0,7) → index 7 → banks 28 to 31 / 8",
        "(0,0) → index 0 → banks 0 to 3 / 8",
        "(0,2) → index 2 → banks 8 to 11 / 8",
        "(0,0) → index 0 → banks 0 to 3 / 8",
        "coordinate → index → bank / 0",
    ]
