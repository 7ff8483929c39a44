"""What a compile gives. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One kernel, compiled for one architecture.

    `name` is the kernel as asked for (a plain name or a template name expression), `symbol` its
    lowered name in `ptx` and `cubin`. `cubin` is empty for an artifact made from PTX text.
    `source_name` is what error messages call the file; `source` its text (empty for PTX).
    """

    name: str
    symbol: str
    arch: str
    ptx: str
    cubin: bytes
    log: str
    compiler: str
    source_name: str
    source: str
