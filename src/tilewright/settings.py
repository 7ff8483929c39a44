"""Every environment variable that tilewright reads: typed, documented, in this one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says.

    `cache_dir`, from TILEWRIGHT_CACHE_DIR: the folder of the compile cache; unset or empty: the
    user's cache folder; 0: None, nothing is kept on disk.
    `cuda_home`, from CUDA_HOME or else CUDA_PATH: an installed CUDA toolkit, asked where no wheel
    has a header or a tool; None where unset.
    `tf32_forced`, from NVIDIA_TF32_OVERRIDE, which is cuBLAS's own: with 1 it rounds float32 to
    TF32 whatever its math mode, and is not measured.
    `nvcc`, from TILEWRIGHT_NVCC: the nvcc for programs whose device half NVRTC refuses; unset or
    empty: None, the one on PATH, then CUDA_HOME's; 0: "never".
    """

    cache_dir: Path | None
    cuda_home: Path | None
    tf32_forced: bool
    nvcc: str | None = None


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of `environ` (by default, of this process, as they stand now)."""
    env = os.environ if environ is None else environ
    cuda_home = env.get("CUDA_HOME") or env.get("CUDA_PATH")
    return Settings(
        cache_dir=_cache_dir(env.get("TILEWRIGHT_CACHE_DIR", "")),
        cuda_home=Path(cuda_home) if cuda_home else None,
        tf32_forced=env.get("NVIDIA_TF32_OVERRIDE") == "1",
        nvcc={"": None, "0": "never"}.get(nvcc := env.get("TILEWRIGHT_NVCC", ""), nvcc),
    )


def _cache_dir(given: str) -> Path | None:
    if given == "0":
        return None
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("tilewright", appauthor=False)
