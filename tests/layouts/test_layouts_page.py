"""docs/layouts.md: its examples hold, and its pictures are what its commands draw."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli import app

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "layouts.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^tilewright (layout .* --svg docs/pictures/.*)$", TEXT, re.MULTILINE)


def test_the_examples_hold() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted > 40
    assert not found.failed


@pytest.mark.parametrize("command", COMMANDS)
def test_a_picture_is_what_its_command_draws(command: str, tmp_path: Path) -> None:
    *arguments, name = shlex.split(command)
    target = tmp_path / "picture.svg"
    done = CliRunner().invoke(app, [*arguments, str(target)])
    assert done.exit_code == 0, done.output
    assert target.read_bytes() == (ROOT / name).read_bytes(), f"run: tilewright {command}"


def test_every_picture_has_a_command_and_is_shown() -> None:
    made = {command.split()[-1].removeprefix("docs/") for command in COMMANDS}
    shown = set(re.findall(r"\]\((pictures/[^)]+)\)", TEXT))
    assert len(made) >= 2
    assert made == shown


def test_every_operation_of_the_table_is_an_option() -> None:
    options = re.findall(r"^\| `.*\| `(--\w+)` \|$", TEXT, re.MULTILINE)
    text = CliRunner().invoke(app, ["layout", "--help"]).stdout
    assert len(options) == 7
    assert all(f"{option} " in text for option in options)
