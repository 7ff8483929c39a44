"""PTX to machine code by NVIDIA's linker (nvJitLink), which holds ptxas: no GPU, no driver.

Only PTX that came from elsewhere needs it: NVRTC assembles what it compiles.
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any

from tilewright.errors import CompileError, ToolchainError
from tilewright.toolchain.artifact import Artifact

_FAMILY = re.compile(r"sm_\d+[af]")


def with_machine_code(artifact: Artifact, arch: str) -> Artifact:
    """Return an artifact made from PTX with a cubin for `arch`, such as sm_90, and its line table.

    PTX for one architecture alone (sm_90a) is assembled for that.

    Raises:
        ToolchainError: nvJitLink is not installed.
        CompileError: PTX that ptxas refuses; shows what it says.
    """
    target = artifact.arch if _FAMILY.fullmatch(artifact.arch) else arch
    cubin = _assemble(artifact.ptx, artifact.source_name, target)
    return replace(artifact, arch=target, cubin=cubin)


@functools.lru_cache(maxsize=32)
def _assemble(ptx: str, name: str, arch: str) -> bytes:
    api = load_nvjitlink()
    options = [f"-arch={arch}", "-lineinfo"]
    handle = api.create(len(options), options)
    data = ptx.encode()
    try:
        api.add_data(handle, api.InputType.PTX, data, len(data), name)
        api.complete(handle)
        cubin = bytearray(api.get_linked_cubin_size(handle))
        api.get_linked_cubin(handle, cubin)
    except api.nvJitLinkError as error:
        log = bytearray(api.get_error_log_size(handle))
        api.get_error_log(handle, log)
        said = log.decode(errors="replace").rstrip("\0").strip() or str(error)
        raise CompileError(f"ptxas refused {name} for {arch}:\n{said}") from None
    finally:
        api.destroy(handle)
    return bytes(cubin)


@functools.cache
def load_nvjitlink() -> Any:  # noqa: ANN401 - the binding has no types
    """Return the binding of nvJitLink.

    Raises:
        ToolchainError: it is not installed.
    """
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ToolchainError(
            f"nvJitLink, which assembles PTX, cannot be loaded: {reason}\n"
            "  install its wheel: pip install nvidia-nvjitlink"
        ) from error
    return nvjitlink
