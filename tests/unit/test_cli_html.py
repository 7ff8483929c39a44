"""`ladder --html` and `explain --html`: one file each, and what cannot be written said first."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tilewright.cli import app

EXAMPLES = Path(__file__).parents[2] / "examples"
CLIMB = ("ladder", "--size", "64", "--rungs", "02,03", "--backend", "emulator")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def loads_nothing(page: str) -> bool:
    """Whether a page has no address that a browser would fetch."""
    return not re.search(r"""(src|href)=["'](?!#)|@import|url\((?!#)""", page)


def test_the_climb_is_written_as_one_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "climb.html"
    done = call(*CLIMB, "--html", target)
    assert done.exit_code == 0, done.output
    page = target.read_text(encoding="utf-8")
    assert 'id="02_coalesced"' in page
    assert 'id="figure03_shared_tile"' in page
    assert "emulated for RTX A6000" in page
    assert loads_nothing(page)


def test_a_page_is_not_for_stdout() -> None:
    done = call(*CLIMB, "--html", "-")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--html -: --json alone writes to stdout" in done.stderr
    done = call("layout", "(8,8):(8,1)", "--svg", "-")
    assert (done.exit_code, done.stdout) == (2, "")


def test_an_explanation_is_written_as_one_file(tmp_path: Path) -> None:
    target = tmp_path / "told.html"
    done = call("explain", EXAMPLES / "transpose_naive.toml", "--html", target)
    assert done.exit_code == 0, done.output
    page = target.read_text(encoding="utf-8")
    assert "transpose_naive on H200" in page
    assert "transpose_naive.cu:8" in page
    assert loads_nothing(page)


@pytest.mark.parametrize("command", [CLIMB, ("explain", "01", "--size", "64")])
def test_what_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: object, **__: object) -> None:
        raise AssertionError("it went to work")

    monkeypatch.setattr("tilewright.bench.ladder.climb", ran)
    monkeypatch.setattr("tilewright.bench.explain.explain_rung", ran)
    for target, says in (
        (tmp_path, "that is a folder"),
        (Path(__file__) / "page.html", "test_cli_html.py is no folder; give another file"),
    ):
        done = call(*command, "--html", target)
        assert done.exit_code == 2
        assert f"--html {target}" in done.output.replace("\n", "")
        assert says in " ".join(done.output.split())


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = call(*CLIMB, "--html", tmp_path / "page.html")
    assert done.exit_code == 2
    assert "--html needs matplotlib" in done.output
    assert "pip install 'tilewright[plot]'" in done.output
