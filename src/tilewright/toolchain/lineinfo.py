"""Line information in PTX text: the `.file` table and the `.loc` before each instruction."""

from __future__ import annotations

import re
from collections.abc import Callable

from tilewright.toolchain.ptx.ir import Location

_FILE = re.compile(r'^([ \t]*\.file[ \t]+)(\d+)([ \t]+)"([^"\n]*)"', re.MULTILINE)
_LOC = re.compile(r"[ \t]*\.loc[ \t]+(\d+)[ \t]+(\d+)")


def rename_files(ptx: str, name_of: Callable[[str], str]) -> str:
    """Return `ptx` with each path of its `.file` table replaced by `name_of(path)`.

    Lines stay where they are: the cubin refers to PTX lines by number.
    """

    def renamed(match: re.Match[str]) -> str:
        directive, index, gap, path = match.groups()
        return f'{directive}{index}{gap}"{name_of(path)}"'

    return _FILE.sub(renamed, ptx)


def file_table(ptx: str) -> dict[int, str]:
    """Return the `.file` table of `ptx`: index to name."""
    return {int(index): name for _, index, _, name in _FILE.findall(ptx)}


def locate(ptx: str, line: int) -> Location | None:
    """Return the source line of line `line` (from 1) of `ptx`, or None where it has none."""
    files = file_table(ptx)
    for text in reversed(ptx.splitlines()[:line]):
        match = _LOC.match(text)
        if match is not None and (name := files.get(int(match.group(1)))):
            return Location(name, int(match.group(2)))
    return None
