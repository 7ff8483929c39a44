"""NVRTC's log, read and told again: each error with the lines of the kernel that it is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

_MAX_SHOWN = 3
_CONTEXT = 2

# NVRTC compiles each name expression in a file of this name, made up on the spot.
NAME_FILE = "__nv_name_map"

_HEAD = re.compile(
    r"(?P<file>\S.*?)\((?P<line>\d+)\): (?P<kind>catastrophic error|error|warning|note|remark)"
    r"(?: #\d+(?:-D)?)?: (?P<message>.*)"
)
_PTXAS = re.compile(
    r"ptxas (?:.*?, line (?P<line>\d+); )?\s*(?P<kind>error|fatal)\s*: (?P<message>.*)"
)
# What ends the log, not the diagnostic before it.
_TAIL = re.compile(r"\d+ (?:catastrophic )?errors? detected|Compilation terminated")
_CUDA_HEADERS = re.compile(
    r"cuda_\w+\.h|mma\.h|cuda\.h|cooperative_groups.*|vector_types\.h|math_constants\.h|cuComplex\.h"
)
_CCCL_HEADERS = re.compile(r"(?:cuda/(?:std/)?|cub/|thrust/|nv/)\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One error of the compiler.

    `file` is the path as the compiler knows it, `column` counts characters from 0 (None where the
    log has no caret), `echo` is the source line as the log repeats it, `notes` what it adds.
    """

    file: str
    line: int
    message: str
    column: int | None
    echo: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblerError:
    """One error of ptxas; `ptx_line` is None where it concerns the whole kernel."""

    message: str
    ptx_line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """How a message finds its way around the sources, all by full path.

    `name` is what to call a file, `lines` its text (empty where it cannot be read), `chain` the
    (path, line) of each `#include` that leads to it.
    """

    name: Callable[[str], str]
    lines: Callable[[str], Sequence[str]]
    chain: Callable[[str], Sequence[tuple[str, int]]]


def parse_log(log: str) -> tuple[Diagnostic, ...]:
    """Return the errors in NVRTC's log, each with the notes that follow it."""
    blocks: list[tuple[re.Match[str], list[str]]] = []
    for line in log.splitlines():
        head = _HEAD.fullmatch(line)
        if head is not None:
            blocks.append((head, []))
        elif blocks and line.strip() and not _TAIL.match(line):
            blocks[-1][1].append(line)
    errors: list[Diagnostic] = []
    in_error = False
    for head, rest in blocks:
        if head["kind"].endswith("error"):
            errors.append(_diagnostic(head, rest))
            in_error = True
        elif head["kind"] == "note" and in_error:
            note = _diagnostic(head, rest)
            last = errors[-1]
            where = f" (line {note.line})" if note.file == last.file else ""
            errors[-1] = replace(last, notes=(*last.notes, note.message + where, *note.notes))
        else:
            in_error = False
    return tuple(errors)


def parse_assembler_log(log: str) -> tuple[AssemblerError, ...]:
    """Return the errors of ptxas in NVRTC's log."""
    errors = []
    for match in map(_PTXAS.match, log.splitlines()):
        if match is not None and not match["message"].startswith("Ptx assembly aborted"):
            line = match["line"]
            errors.append(
                AssemblerError(message=match["message"], ptx_line=int(line) if line else None)
            )
    return tuple(errors)


def format_diagnostics(errors: Sequence[Diagnostic], files: Files) -> str:
    """Return the first errors, each with its lines; the rest only counted."""
    parts = [_format(error, files) for error in errors[:_MAX_SHOWN]]
    if len(errors) > _MAX_SHOWN:
        more = len(errors) - _MAX_SHOWN
        parts.append(f"and {more} more error{'s' if more > 1 else ''}")
    return "\n\n".join(parts)


def show_lines(lines: Sequence[str], line: int, column: int | None) -> str:
    """Return line `line` (from 1) with its neighbours, numbered, and a caret below `column`."""
    first, last = max(1, line - _CONTEXT), min(len(lines), line + _CONTEXT)
    width = len(str(last))
    shown = []
    for number in range(first, last + 1):
        text = lines[number - 1].rstrip()
        mark = ">" if number == line else " "
        shown.append(f"  {mark} {number:{width}} | {text}".rstrip())
        if number == line and column is not None:
            # A tab stays a tab, so that the caret stands right however wide it is shown.
            pad = "".join("\t" if char == "\t" else " " for char in text[:column])
            shown.append(f"    {'':{width}} | {pad}^")
    return "\n".join(shown)


def _diagnostic(head: re.Match[str], rest: Sequence[str]) -> Diagnostic:
    caret = next((i for i, line in enumerate(rest) if i and line.strip() == "^"), None)
    message, echo, column, notes = head["message"], "", None, rest
    if caret is not None:
        # The log indents its copy of the line by two, and counts the caret's column in bytes.
        echo = rest[caret - 1][2:]
        byte = len(rest[caret]) - 3
        column = len(echo.encode()[:byte].decode(errors="ignore"))
        message = "; ".join([message, *(line.strip() for line in rest[: caret - 1])])
        notes = rest[caret + 1 :]
    return Diagnostic(
        file=head["file"],
        line=int(head["line"]),
        message=message,
        column=column,
        echo=echo,
        notes=tuple(_joined(notes)),
    )


def _joined(notes: Iterable[str]) -> list[str]:
    """Return the trailing lines of a diagnostic, a heading ("detected during:") with its first."""
    found: list[str] = []
    for line in notes:
        if found and found[-1].endswith(":"):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def _format(error: Diagnostic, files: Files) -> str:
    parts = [f"{files.name(error.file)}:{error.line}: {error.message}"]
    lines = files.lines(error.file)
    if 0 < error.line <= len(lines):
        parts.append(show_lines(lines, error.line, error.column))
    elif error.echo:
        parts.append(f"  > {error.line} | {error.echo}")
    parts.extend(
        f"  included from {files.name(path)}:{line}" for path, line in files.chain(error.file)
    )
    parts.extend(f"  {note}" for note in error.notes)
    remedy = _remedy(error.message)
    if remedy:
        parts.append(f"  {remedy}")
    return "\n".join(parts)


def _remedy(message: str) -> str:
    """Return what to do about a missing header, or nothing."""
    missing = re.search(r'(?:could not|cannot) open source file "([^"]+)"', message)
    if missing is None:
        return ""
    header = missing.group(1)
    if _CCCL_HEADERS.fullmatch(header):
        return "CUDA's C++ library is not installed: pip install nvidia-cuda-cccl"
    if _CUDA_HEADERS.fullmatch(header):
        return "CUDA's headers are not installed: pip install nvidia-cuda-runtime"
    return "give the folder that has it in include_dirs"
