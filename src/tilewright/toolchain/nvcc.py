"""CUDA C++ to PTX and cubin by an installed nvcc: for programs whose device half NVRTC refuses.

nvcc reads host and device code together, with the host's own headers, so it takes what is written
for it; it needs a CUDA toolkit and a host compiler, which tilewright does not bring.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import ToolchainError
from tilewright.settings import read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvcc:
    """An nvcc: its path, and its release such as "13.0.88"."""

    path: Path
    release: str

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"nvcc {self.release}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvccOutcome:
    """What a run gave: PTX and cubin, or `log` alone where nvcc refused."""

    log: str
    ptx: str = ""
    cubin: bytes = b""


def find_nvcc() -> Nvcc | None:
    """Return the nvcc that TILEWRIGHT_NVCC, PATH or CUDA_HOME name, None where there is none.

    Raises:
        ToolchainError: TILEWRIGHT_NVCC names a file that cannot be run.
    """
    settings = read_settings()
    if settings.nvcc == "never":
        return None
    if settings.nvcc is not None:
        found = shutil.which(settings.nvcc)
        if found is None:
            raise ToolchainError(
                f"TILEWRIGHT_NVCC={settings.nvcc}: no such program; give the path of nvcc, or 0 "
                "to do without"
            )
        return _named(found)
    home = settings.cuda_home
    at_home = str(home / "bin" / "nvcc") if home is not None else ""
    found = shutil.which("nvcc") or shutil.which(at_home)
    return _named(found) if found is not None else None


def run_nvcc(
    nvcc: Nvcc,
    *,
    source: Path,
    expression: str,
    arch: str,
    options: Sequence[str] = (),
    include_dirs: Sequence[Path] = (),
) -> NvccOutcome:
    """Compile a source file, with a template kernel `expression` instantiated, to PTX and cubin.

    The cubin is assembled from that PTX, so that its line table speaks of it.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        ptx, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        read = source
        if "<" in expression:  # to take its address is to instantiate it
            read = Path(folder) / "instance.cu"
            read.write_text(
                f'#include "{source}"\n'
                "__attribute__((used)) static const void* const tilewright_instance =\n"
                f"    reinterpret_cast<const void*>(&{expression});\n"
            )
        common = [str(nvcc.path), "-lineinfo", f"-arch={arch}"]
        first = [*common, "-ptx", "-std=c++20", *(f"-I{d}" for d in include_dirs), *options]
        log = ""
        for command in (
            [*first, "-o", str(ptx), str(read)],
            [*common, "-cubin", "-o", str(cubin), str(ptx)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            log += (done.stderr + done.stdout).replace(f"{read.parent}{os.sep}", "")
            if done.returncode != 0:
                return NvccOutcome(log=log.strip())
        return NvccOutcome(log=log.strip(), ptx=ptx.read_text(), cubin=cubin.read_bytes())


@functools.lru_cache(maxsize=8)
def _named(path: str) -> Nvcc:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    release = re.search(r"\bV(\d[\d.]*)", done.stdout)
    if done.returncode != 0 or release is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ToolchainError(
            f"{path} --version failed{': ' + said[0] if said else ''}; TILEWRIGHT_NVCC names "
            "another nvcc, or 0 to do without"
        )
    return Nvcc(path=Path(path), release=release[1])
