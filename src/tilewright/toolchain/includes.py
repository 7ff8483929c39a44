"""Which files a compile can reach through `#include`, found without compiling.

The cache key needs them before NVRTC runs. The scan does not evaluate `#if`, so it finds a
superset; a file that does not exist (a host header behind a guard, say) is left out.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tilewright.toolchain.source import Source, file_name

_INCLUDE = re.compile(
    rb'^[ \t]*#[ \t]*(?:include|include_next)\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([^\s"<]))',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class _Directive:
    """One `#include`: the path as written (None for a macro), quoted or not, and its line."""

    target: str | None
    quoted: bool
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A file that the compile can reach; `includer` and `line` say where it is first included.

    `spelled` is how that `#include` writes its name; `own` says that it and all before it on the
    way from the source stand in quotes, as files of a project do and a library's do not.
    """

    path: str
    name: str
    digest: str
    includer: str
    line: int
    spelled: str
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Includes:
    """Every reachable header, by full path.

    `complete` is False where an `#include` names its file by a macro: what such a compile reads
    cannot be known without running the preprocessor.
    """

    headers: dict[str, Header]
    complete: bool

    def chain(self, path: str) -> tuple[tuple[str, int], ...]:
        """Return (full path, line) of each `#include` from `path` up to the source itself."""
        links: list[tuple[str, int]] = []
        header = self.headers.get(os.path.normpath(path))
        while header is not None and len(links) < len(self.headers):
            links.append((header.includer, header.line))
            header = self.headers.get(header.includer)
        return tuple(links)


_Scan: TypeAlias = tuple[str, tuple[_Directive, ...]]


def scan_includes(
    source: Source, include_dirs: Sequence[Path], toolkit_dirs: Sequence[Path] = ()
) -> Includes:
    """Return what `source` can include.

    Names are looked up as NVRTC does: quoted ones in the includer's folder first, then all in
    `include_dirs`, then in `toolkit_dirs`. Headers of the toolkit are read once a process, as they
    do not change under a running program; all others each time.
    """
    toolkit = tuple(os.path.normpath(folder) for folder in toolkit_dirs)
    search = [*(os.path.normpath(folder) for folder in include_dirs), *toolkit]
    queue = [(source.path, directive) for directive in _directives(source.text.encode())]
    headers: dict[str, Header] = {}
    complete = True
    for includer, directive in queue:  # breadth first: the chain that is kept is the shortest
        if directive.target is None:
            complete = False
            continue
        path = _resolve(directive, os.path.dirname(includer), search)
        if path is None or path in headers or path == source.path:
            continue
        digest, inner = _read(path, toolkit)
        headers[path] = Header(
            path=path,
            name=file_name(path, source.folder, [*include_dirs, *toolkit_dirs]),
            digest=digest,
            includer=includer,
            line=directive.line,
            spelled=directive.target,
            own=directive.quoted and (includer == source.path or headers[includer].own),
        )
        queue.extend((path, found) for found in inner)
    return Includes(headers=headers, complete=complete)


def _resolve(directive: _Directive, folder: str, search: Sequence[str]) -> str | None:
    assert directive.target is not None
    for root in [folder, *search] if directive.quoted else search:
        path = os.path.normpath(os.path.join(root, directive.target))
        if os.path.isfile(path) and os.access(path, os.R_OK):
            return path
    return None


def _read(path: str, toolkit: Sequence[str]) -> _Scan:
    if any(path.startswith(root + os.sep) for root in toolkit):
        status = os.stat(path)
        return _read_toolkit_header(path, status.st_mtime_ns, status.st_size)
    return _scan_file(path)


@functools.lru_cache(maxsize=4096)
def _read_toolkit_header(path: str, mtime_ns: int, size: int) -> _Scan:
    return _scan_file(path)


def _scan_file(path: str) -> _Scan:
    data = Path(path).read_bytes()
    return hashlib.sha256(data).hexdigest(), _directives(data)


def _directives(data: bytes) -> tuple[_Directive, ...]:
    found = []
    for match in _INCLUDE.finditer(data):
        quoted, angled, _macro = match.groups()
        name = quoted if quoted is not None else angled
        target = None if name is None else name.decode("utf-8", "surrogateescape")
        line = data.count(b"\n", 0, match.start()) + 1
        found.append(_Directive(target, quoted is not None, line))
    return tuple(found)
