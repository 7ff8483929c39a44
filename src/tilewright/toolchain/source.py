"""Source text and the names of its files: what every message and every `.file` calls them.

A file's full path differs from machine to machine; its name does not: it is the path below the
source's own folder or below an include folder, such as `01_naive.cuh` or `lib/copy.cuh`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import CompileError

# Text that came from no file gets this path: absolute, so that no working folder leaks into PTX.
_TEXT_FOLDER = "/tilewright"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source text, its name, and the full path that the compiler knows it by.

    `folder` is None for text that came from no file.
    """

    name: str
    path: str
    folder: Path | None
    text: str


def is_path(source: str | Path) -> bool:
    """Whether `source` is a path: a `Path`, or one line without the signs that all code has."""
    if isinstance(source, Path):
        return True
    return bool(source.strip()) and not any(sign in source for sign in "\n{};")


def read_source(source: str | Path, *, text_name: str) -> Source:
    """Return the text of a path, or the text itself, under the name `text_name`.

    Raises:
        CompileError: no such file, a folder, or bytes that are not UTF-8 text.
    """
    if not is_path(source):
        text = str(source)
        _refuse_nul(text, text_name)
        path = f"{_TEXT_FOLDER}/{text_name}"
        return Source(name=text_name, path=path, folder=None, text=text)
    path_given = Path(source)
    path_full = path_given.absolute()
    try:
        text = path_full.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise CompileError(f"no such source file: {path_given}{_nearest(path_full)}") from None
    except UnicodeDecodeError as error:
        raise CompileError(
            f"{path_given}: expected UTF-8 text, but byte {error.start} is not; save it as UTF-8"
        ) from None
    except OSError as error:
        raise CompileError(f"cannot read source file {path_given}: {error.strerror}") from None
    _refuse_nul(text, str(path_given))
    return Source(
        name=path_full.name, path=os.path.normpath(path_full), folder=path_full.parent, text=text
    )


def file_name(path: str, folder: Path | None, include_dirs: Sequence[Path]) -> str:
    """Return what messages call the file at `path`: its path below the nearest known folder.

    Of a file below none: the shorter of the ways from `folder` and from the root.
    """
    full = os.path.normpath(path)
    roots = [*([folder] if folder is not None else []), *include_dirs]
    for root in roots:
        prefix = os.path.normpath(root) + os.sep
        if full.startswith(prefix):
            return full.removeprefix(prefix)
    if folder is not None and os.path.isabs(full):
        return min(os.path.relpath(full, folder), full, key=len)
    return os.path.basename(full)


def _refuse_nul(text: str, name: str) -> None:
    # NVRTC reads up to the first NUL: the rest of the text would be dropped in silence.
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CompileError(f"{name}:{line}: a NUL character in the source; remove it")


def _nearest(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return f" (and no folder {path.parent})"
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""
