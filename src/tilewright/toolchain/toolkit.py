"""Where the parts of the CUDA toolchain are: NVRTC, CUDA's own headers, nvdisasm.

Each comes from NVIDIA's wheels, or from an installed toolkit where there is no wheel.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import ToolchainError
from tilewright.settings import read_settings

_INSTALLED = Path("/usr/local/cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvrtc:
    """The loaded NVRTC: its binding, its version and the architectures it compiles for."""

    api: Any
    version: tuple[int, int]
    archs: tuple[int, ...]

    @property
    def label(self) -> str:
        """The compiler as messages name it, such as `NVRTC 13.5`."""
        return f"NVRTC {self.version[0]}.{self.version[1]}"


@functools.cache
def load_nvrtc() -> Nvrtc:
    """Return NVRTC, loaded. Needs no driver and no GPU.

    Raises:
        ToolchainError: the binding or the library is not installed.
    """
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
        _, archs = nvrtc.nvrtcGetSupportedArchs()
    except (ImportError, RuntimeError, OSError) as error:
        raise ToolchainError(
            f"NVRTC, the CUDA compiler, cannot be loaded: {error}\n"
            "  install its wheels: pip install cuda-bindings nvidia-cuda-nvrtc"
        ) from error
    return Nvrtc(api=nvrtc, version=(major, minor), archs=tuple(sorted(archs)))


def supported_archs() -> tuple[str, ...]:
    """Return the architectures that the installed NVRTC compiles for, such as `sm_90`.

    Raises:
        ToolchainError: NVRTC is not installed.
    """
    return tuple(f"sm_{arch}" for arch in load_nvrtc().archs)


@functools.cache
def cuda_include_dirs(major: int) -> tuple[Path, ...]:
    """Return the folders of CUDA's own headers (cuda_fp16.h and the like), empty without any.

    Only headers of CUDA `major` are taken: those of another version do not fit the compiler.
    They come with the wheel nvidia-cuda-runtime or with an installed toolkit; no kernel of
    tilewright needs them.
    """
    for root in _roots():
        include = root / "include"
        if _header_major(include) == major:
            # CUDA's C++ library (cuda/std, cub) has its own folder since CUDA 13.
            return tuple(folder for folder in (include, include / "cccl") if folder.is_dir())
    return ()


@functools.cache
def find_nvdisasm() -> Path:
    """Return NVIDIA's disassembler.

    Raises:
        ToolchainError: there is none in the wheels, in a CUDA toolkit or on PATH.
    """
    places = [root / "bin" / "nvdisasm" for root in _roots()]
    on_path = shutil.which("nvdisasm")
    for place in [*places, *([Path(on_path)] if on_path else [])]:
        if place.is_file() and os.access(place, os.X_OK):
            return place
    raise ToolchainError(
        "nvdisasm, which reads machine code (SASS), is not installed\n"
        "  install its wheel: pip install nvidia-cuda-nvdisasm\n"
        "  or set CUDA_HOME to a CUDA toolkit"
    )


def _roots() -> list[Path]:
    """Folders with an `include` or `bin` of CUDA: the wheels' first, then an installed toolkit."""
    spec = importlib.util.find_spec("nvidia")
    packages = spec.submodule_search_locations if spec is not None else None
    wheels = sorted(
        (folder for place in packages or () for folder in Path(place).glob("*") if folder.is_dir()),
        reverse=True,  # nvidia/cu13 before nvidia/cu12
    )
    cuda_home = read_settings().cuda_home
    return [*wheels, *([cuda_home] if cuda_home is not None else []), _INSTALLED]


def _header_major(include: Path) -> int | None:
    try:
        text = (include / "cuda_runtime_api.h").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return int(match.group(1)) // 1000 if match else None
