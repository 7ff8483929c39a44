"""What to run: a source, a kernel, a launch and its arguments, from a TOML file or from flags.

    source = "softmax_rows.cu"          # beside this file
    kernel = "softmax_rows"             # may be left out where the source has one kernel
    grid = 256                          # blocks: one to three numbers
    block = 128                         # threads a block: one to three numbers
    args = ["f32[256,1000]:normal", "f32[256,1000]", "i32=1000"]
    gpu = "H200"                        # and, where needed: shared_bytes, options, include_dirs

Paths in a file are relative to the file's folder. `parse_argument` says how arguments are written.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tilewright.errors import LaunchError
from tilewright.launch import Argument, Dim3, Launch, dim3
from tilewright.launchargs import ArgumentSpec, parse_argument

DEFAULT_GPU = "H200"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """One launch of one kernel, complete: the same values give the same run anywhere.

    `source` is the path of a .cu, .cuh or .ptx file; `kernel` a name or a template name
    expression, None where the file has one kernel only. `gpu` is a name of `tilewright gpus`.

    Units: `shared_bytes` is the dynamic shared memory of a block.
    """

    source: str
    kernel: str | None = None
    grid: Dim3
    block: Dim3
    shared_bytes: int = 0
    args: tuple[ArgumentSpec, ...] = ()
    gpu: str = DEFAULT_GPU
    options: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()

    @property
    def launch(self) -> Launch:
        """The shape of the launch."""
        return Launch(grid=self.grid, block=self.block, shared_bytes=self.shared_bytes)

    def make_arguments(self) -> list[Argument]:
        """Return fresh arguments: the arrays filled, the numbers as numpy scalars.

        Raises:
            LaunchError: more memory than this machine has.
        """
        return [arg.make(place) for place, arg in enumerate(self.args)]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values by field name; arguments in their text form."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        lists = {n: list(plain[n]) for n in ("grid", "block", "options", "include_dirs")}
        return plain | lists | {"args": [str(arg) for arg in self.args]}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> LaunchSpec:
        """Rebuild what `to_json` wrote.

        Raises:
            LaunchError: an unknown or missing key, or a value that does not fit, with its key.
        """
        return _spec(data, lambda key, item: key if item is None else f"{key}[{item}]", Path())


def read_launch_file(path: str | Path) -> LaunchSpec:
    """Return the launch that the TOML file at `path` describes.

    Raises:
        LaunchError: no such file, TOML that does not parse, an unknown or missing key, or a value
            that does not fit; with the file's name, the line and the key.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        near = difflib.get_close_matches(file.name, _names(file.parent), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise LaunchError(f"no such launch file: {path}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"cannot read launch file {path}: {error}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LaunchError(_syntax(file, text, str(error))) from None
    lines = _Lines(file.name, text)
    spec = _spec(data, lines.where, file.parent)
    if not Path(spec.source).is_file():
        near = difflib.get_close_matches(Path(spec.source).name, _names(file.parent), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise LaunchError(f"{lines.where('source', None)}: no such file {spec.source}{hint}")
    return spec


def launch_from_flags(
    source: str | Path,
    *,
    grid: str | None,
    block: str | None,
    args: Sequence[str] = (),
    rest: Mapping[str, object] | None = None,
) -> LaunchSpec:
    """Return the launch that command-line flags describe: `--grid 64,1 --arg f32[64]:normal`.

    `rest` are further fields of `LaunchSpec` by name, left out where None.

    Raises:
        LaunchError: a missing or malformed flag, named as it is written.
    """
    missing = [f"--{n}" for n, v in (("grid", grid), ("block", block)) if v is None]
    if missing:
        raise LaunchError(
            f"{' and '.join(missing)} missing: say how to launch {source}, such as --grid 64,1 "
            "--block 256 --arg f32[1048576]:normal --arg i32=1048576, or give --launch FILE.toml"
        )
    data = {name: value for name, value in (rest or {}).items() if value is not None}
    data |= {"source": str(source), "args": list(args)}
    data |= {"grid": _numbers(str(grid)), "block": _numbers(str(block))}
    return _spec(data, lambda key, _: flag_of(key), Path())


def flag_of(key: str) -> str:
    """Return the flag that gives the key of a launch file: `--include-dir` for `include_dirs`."""
    return "--" + _FLAGS.get(key, key).replace("_", "-")


def with_overrides(spec: LaunchSpec, changes: Mapping[str, object]) -> LaunchSpec:
    """Return `spec` with the fields of `changes` that are not None."""
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    return replace(spec, **given)


_FLAGS = {"args": "arg", "options": "option", "include_dirs": "include-dir", "source": "source"}
_Where = Callable[[str, int | None], str]


def _numbers(text: str) -> object:
    """Return the whole numbers of "64,1"; the text itself where it has others."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        return text


def _spec(data: Mapping[str, object], where: _Where, folder: Path) -> LaunchSpec:
    """Check each key and value; `where` says what a message calls a key, or an item of its list."""
    known = [f.name for f in fields(LaunchSpec)]
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise LaunchError(
                f"{where(key, None)}: unknown key {key}: {hint}known: {', '.join(known)}"
            )
    for key in ("source", "grid", "block"):
        if key not in data:
            raise LaunchError(f"{where(key, None)}: the key {key} is missing")
    shared = data.get("shared_bytes", 0)
    if not isinstance(shared, int) or isinstance(shared, bool) or shared < 0:
        raise LaunchError(
            f"{where('shared_bytes', None)}: {shared!r}: expected a whole number of bytes"
        )
    kernel = data.get("kernel")
    return LaunchSpec(
        source=str(folder / _text(data["source"], "source", where)),
        kernel=None if kernel is None else _text(kernel, "kernel", where),
        grid=_dim3(data["grid"], "grid", where),
        block=_dim3(data["block"], "block", where),
        shared_bytes=shared,
        args=_arguments(data.get("args", []), where),
        gpu=_text(data.get("gpu", DEFAULT_GPU), "gpu", where),
        options=tuple(_texts(data.get("options", []), "options", where)),
        include_dirs=_folders(data.get("include_dirs", []), folder, where),
    )


def _text(value: object, key: str, where: _Where) -> str:
    if not isinstance(value, str) or not value.strip():
        raise LaunchError(f"{where(key, None)}: {value!r}: expected a text in quotes")
    return value


def _texts(value: object, key: str, where: _Where) -> list[str]:
    items = list(value) if isinstance(value, list | tuple) else None
    if items is None or not all(isinstance(item, str) for item in items):
        raise LaunchError(f"{where(key, None)}: {value!r}: expected a list of texts in quotes")
    return [str(item) for item in items]


def _folders(value: object, folder: Path, where: _Where) -> tuple[str, ...]:
    found = []
    for place, name in enumerate(_texts(value, "include_dirs", where)):
        if not (folder / name).is_dir():
            raise LaunchError(f"{where('include_dirs', place)}: no such folder: {folder / name}")
        found.append(str(folder / name))
    return tuple(found)


def _dim3(value: object, key: str, where: _Where) -> Dim3:
    try:
        return dim3(value, key)  # type: ignore[arg-type]
    except LaunchError as error:
        raise LaunchError(f"{where(key, None)}: {error}") from None


def _arguments(value: object, where: _Where) -> tuple[ArgumentSpec, ...]:
    parsed = []
    for place, text in enumerate(_texts(value, "args", where)):
        try:
            parsed.append(parse_argument(text))
        except LaunchError as error:
            raise LaunchError(f"{where('args', place)}: {error}") from None
    return tuple(parsed)


class _Lines:
    """Where the keys of a TOML file stand: `tomllib` does not say."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.lines = name, text.splitlines()

    def where(self, key: str, item: int | None) -> str:
        """Return `file:line: key`, or `file: key` of a key that the file does not have."""
        pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*(=|\.|\])""")
        line = next((n for n, text in enumerate(self.lines, 1) if pattern.match(text)), None)
        if line is None:
            return self.name
        if item is not None:
            line = self._item(line, item)
        return f"{self.name}:{line}: {key}" + ("" if item is None else f"[{item}]")

    def _item(self, line: int, item: int) -> int:
        """Return the line of a list's text number `item`; the list begins on `line`."""
        strings = re.compile(r"""#.*|("(?:\\.|[^"\\])*"|'[^']*')""")
        for number, text in enumerate(self.lines[line - 1 :], line):
            for match in strings.finditer(text):
                if match[1] is None:
                    continue
                if item == 0:
                    return number
                item -= 1
        return line


def _syntax(file: Path, text: str, message: str) -> str:
    """Return a TOML parser's message in the form `file:line: what`, with the line below it."""
    match = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    if match is None:
        return f"{file.name}: {message}"
    lines = text.splitlines() or [""]
    number = int(match[2]) if match[2] else len(lines)
    shown = lines[min(number, len(lines)) - 1]
    return f"{file.name}:{number}: {match[1]}\n  > {number} | {shown}"


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
