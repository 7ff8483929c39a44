"""Compiling with a scheduled main loop, kept in the compile cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.cache import CompileCache, cache_key, default_cache
from tilewright.toolchain.nvrtc import compile_cuda
from tilewright.toolchain.schedule.main_loop import schedule_main_loop
from tilewright.toolchain.schedule.style import BEST, Style

_REASON = "not scheduled: "  # in the log of a kept artifact

# Raised whenever the scheduler makes other code of the same input.
SCHEDULER_VERSION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled kernel; `refused` says why its main loop is still ptxas's, empty if it is not."""

    artifact: Artifact
    refused: str


def compile_scheduled(
    source: str | Path,
    kernel: str,
    *,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    include_dirs: Sequence[Path | str] = (),
    style: Style = BEST,
    cache: CompileCache | Literal["default"] | None = "default",
) -> Compiled:
    """Return `compile_cuda`'s artifact with its main loop scheduled, where that can be.

    Otherwise it is the plain one, with the reason. The PTX, which the emulator runs, is the same.

    Raises:
        What `compile_cuda` raises.
    """
    plain = compile_cuda(
        source, kernel, arch=arch, options=options, include_dirs=include_dirs, cache=cache
    )
    store = default_cache() if cache == "default" else cache
    key = cache_key(
        {
            "scheduler": SCHEDULER_VERSION,
            "style": asdict(style),
            "arch": plain.arch,
            "symbol": plain.symbol,
            "cubin": hashlib.sha256(plain.cubin).hexdigest(),
        }
    )
    found = store.get(key) if store is not None else None
    if found is None:
        try:
            found = _scheduled(plain, style)
        except ToolchainError as error:  # no nvdisasm: the next call may find one
            return Compiled(artifact=plain, refused=str(error))
        if store is not None:
            store.put(key, found)
    refused = found.log.removeprefix(plain.log).removeprefix(_REASON)
    return Compiled(artifact=replace(found, log=plain.log), refused=refused)


def _scheduled(plain: Artifact, style: Style) -> Artifact:
    """Return the scheduled kernel, or the plain one with the reason at the end of its log."""
    try:
        return schedule_main_loop(plain, style).artifact
    except UnsupportedError as error:
        return replace(plain, log=f"{plain.log}{_REASON}{error}")
