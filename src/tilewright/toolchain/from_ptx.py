"""PTX that was written or made elsewhere, as an artifact."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.errors import CompileError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.names import entries_in_ptx, pick_entry
from tilewright.toolchain.source import read_source

_TARGET = re.compile(r"^[ \t]*\.target[ \t]+(sm_\w+)", re.MULTILINE)


def artifact_from_ptx(source: str | Path, kernel: str) -> Artifact:
    """Return `kernel` of PTX text or of a .ptx file, for the architecture of its `.target`.

    `kernel` is a symbol of the text or, where only one fits, the name that is mangled in it
    (`naive` for `_Z5naivePf`). The artifact has no cubin: nothing here assembles PTX.

    Raises:
        CompileError: a missing file, no `.target`, no kernel, or several that fit.
        UnknownNameError: no such kernel; lists those there are.
    """
    read = read_source(source, text_name="kernel.ptx")
    target = _TARGET.search(read.text)
    if target is None:
        raise CompileError(f"{read.name} is no PTX: expected a line `.target sm_…`, such as sm_90")
    return Artifact(
        name=kernel,
        symbol=pick_entry(entries_in_ptx(read.text), kernel, read.name),
        arch=target.group(1),
        ptx=read.text,
        cubin=b"",
        log="",
        compiler="",
        source_name=read.name,
        source="",
    )
