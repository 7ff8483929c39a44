"""Every environment variable that tilewright reads: typed, documented, in this one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
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
    `store`, from TILEWRIGHT_STORE: the file of what `tilewright tune` measured; unset or empty:
    tuned.db in the user's data folder; 0: None, it is kept in memory and forgotten.
    `nvcc`, from TILEWRIGHT_NVCC: the nvcc for programs whose device half NVRTC refuses; unset or
    empty: None, the one on PATH, then CUDA_HOME's; 0: "never".
    `schedule`, from TILEWRIGHT_SCHEDULE: whether main loops are scheduled anew; 0: they stay as
    ptxas makes them.
    """

    cache_dir: Path | None
    cuda_home: Path | None
    tf32_forced: bool
    nvcc: str | None = None
    store: Path | None = None
    schedule: bool = True


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of `environ` (by default, of this process, as they stand now)."""
    env = os.environ if environ is None else environ
    cuda_home = env.get("CUDA_HOME") or env.get("CUDA_PATH")
    return Settings(
        cache_dir=_path(env.get("TILEWRIGHT_CACHE_DIR", ""), _user_cache),
        cuda_home=Path(cuda_home) if cuda_home else None,
        tf32_forced=env.get("NVIDIA_TF32_OVERRIDE") == "1",
        nvcc={"": None, "0": "never"}.get(nvcc := env.get("TILEWRIGHT_NVCC", ""), nvcc),
        store=_path(env.get("TILEWRIGHT_STORE", ""), _user_store),
        schedule=env.get("TILEWRIGHT_SCHEDULE") != "0",
    )


def _path(given: str, default: Callable[[], Path]) -> Path | None:
    if given == "0":
        return None
    return Path(given).expanduser().absolute() if given else default()


def _user_cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("tilewright", appauthor=False)


def _user_store() -> Path:
    import platformdirs

    return platformdirs.user_data_path("tilewright", appauthor=False) / "tuned.db"
