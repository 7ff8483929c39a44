"""`tilewright doctor`: what works on this machine, what is missing, and how to get it."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from tilewright.cli.output import JsonOption, check_json, output_json, print_table
from tilewright.errors import TilewrightError

_TRIVIAL_KERNEL = 'extern "C" __global__ void trivial(float* p) { p[threadIdx.x] = 1.0f; }'
_GPU_EXTRA = "pip install 'tilewright[gpu]'"
_CUDA_EXTRA = "pip install 'tilewright[cuda]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One part of the machine: whether it works, what was found, what it is for.

    `base` marks what every use of tilewright needs; without the rest, some of it works less far.
    `remedy` says how to get a part that does not work.
    """

    name: str
    works: bool
    found: str
    purpose: str
    base: bool
    remedy: str | None = None


def doctor(json: JsonOption = None) -> None:
    """Say what works on this machine, what is missing, and how to get it.

    Exit code 0 where the base works (a machine without a GPU is fine), 1 where it does not.

    Example: tilewright doctor
    """
    check_json(json)
    checks = examine()
    works = all(check.works for check in checks if check.base)
    if json is not None:
        output_json({"base_works": works, "checks": [asdict(check) for check in checks]}, json)
    if json != "-":
        _print(checks, works)
    if not works:
        raise typer.Exit(1)


def examine() -> tuple[Check, ...]:
    """Return every check, the base first. Never raises: what fails is a check's result."""
    base: tuple[tuple[str, str, Callable[[], str], str], ...] = (
        ("Python", "everything", _python, "install Python 3.11 or later"),
        ("numpy", "arrays", lambda: _version("numpy"), "pip install numpy"),
        (
            "NVRTC",
            "compiling kernels",
            _nvrtc,
            "pip install cuda-bindings nvidia-cuda-nvrtc",
        ),
        ("nvdisasm", "reading machine code", _nvdisasm, "pip install nvidia-cuda-nvdisasm"),
        ("LLVM", "the emulator", _llvm, "pip install llvmlite"),
        ("emulator", "running without a GPU", _emulator, "mend what is broken above"),
    )
    extra: tuple[tuple[str, str, Callable[[], str], str], ...] = (
        (
            "compile cache",
            "compiling once",
            _cache,
            "set TILEWRIGHT_CACHE_DIR to a folder that you may write to",
        ),
        (
            "NVIDIA GPU",
            "running on a GPU",
            _gpu,
            "a machine with an NVIDIA GPU and its driver; without one, the emulator runs",
        ),
        ("cuda-core", "running on a GPU", _cuda_core, _GPU_EXTRA),
        ("cuBLAS", "the baseline on a GPU", _cublas, _GPU_EXTRA),
        (
            "CUDA headers",
            "kernels that include them",
            _headers,
            _CUDA_EXTRA,
        ),
        ("nvJitLink", "explaining PTX", _nvjitlink, _CUDA_EXTRA),
        ("g++", "some of the tests", _compiler, "install a C++ compiler, such as g++"),
    )
    return (
        *(_check(*part, base=True) for part in base),
        *(_check(*part, base=False) for part in extra),
    )


class _Missing(Exception):
    """A part that is not there; the text says what was looked for."""


def _check(name: str, purpose: str, look: Callable[[], str], remedy: str, *, base: bool) -> Check:
    try:
        found = look()
    except (
        _Missing,
        TilewrightError,
        ImportError,
        OSError,
        RuntimeError,
        subprocess.SubprocessError,
    ) as error:
        # The first line of a message says what is wrong; what to do is said by the remedy.
        text = (str(error).splitlines() or [type(error).__name__])[0]
        return Check(name=name, works=False, found=text, purpose=purpose, base=base, remedy=remedy)
    return Check(name=name, works=True, found=found, purpose=purpose, base=base)


def _python() -> str:
    return ".".join(map(str, sys.version_info[:3]))


def _nvrtc() -> str:
    from tilewright.toolchain import compile_cuda, load_nvrtc, supported_archs

    label, archs = load_nvrtc().label, supported_archs()
    # A library that loads may still not work (a partial install lacks its built-ins): try it.
    compile_cuda(_TRIVIAL_KERNEL, "trivial", arch=archs[0], cache=None)
    return f"{label}, {archs[0]} to {archs[-1]}"


def _nvdisasm() -> str:
    from tilewright.toolchain import find_nvdisasm

    path = find_nvdisasm()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    lines = [line for line in done.stdout.splitlines() if "release" in line]
    if done.returncode != 0 or not lines:
        raise _Missing(f"{path} does not run")
    return lines[0].split("release")[-1].strip()


def _llvm() -> str:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    width = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    version = ".".join(map(str, binding.llvm_version_info))
    return f"LLVM {version}, {binding.get_host_cpu_name()}, {width}-bit vectors"


def _emulator() -> str:
    import numpy as np

    from tilewright import emulate

    out = np.zeros(32, np.float32)
    emulate(_TRIVIAL_KERNEL, "trivial", grid=1, block=32, args=[out])
    if not (out == 1).all():
        raise _Missing("a trivial kernel computes wrongly: please report it")
    return "a trivial kernel runs"


def _cache() -> str:
    from tilewright.settings import read_settings

    folder = read_settings().cache_dir
    if folder is None:
        return "off (TILEWRIGHT_CACHE_DIR=0)"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _Missing(f"{folder}: {error.strerror}; compiles are kept in memory only") from error
    return str(folder)


def _gpu() -> str:
    from tilewright.device import NoDevice, probe
    from tilewright.gpus import by_device_name

    found = probe()
    if isinstance(found, NoDevice):
        raise _Missing(found.reason)
    known = by_device_name(found.name)
    place = f"{known.name} of `tilewright gpus`" if known else "not in `tilewright gpus`"
    driver = f"driver {found.driver}, " if found.driver else ""
    return f"{found.name} ({found.arch}, {place}), {driver}CUDA {found.cuda}"


def _cuda_core() -> str:
    from tilewright.device.session import load_core

    load_core()
    return _version("cuda-core")


def _cublas() -> str:
    from tilewright.bench.cublas import find_cublas

    library = find_cublas()
    if library is None:
        raise _Missing("no libcublas in wheels, a CUDA toolkit or the system")
    return f"{Path(library.path).name} ({library.provider})"


def _headers() -> str:
    from tilewright.toolchain.toolkit import cuda_include_dirs, load_nvrtc

    major, _ = load_nvrtc().version
    folders = cuda_include_dirs(major)
    if not folders:
        raise _Missing(f"no headers of CUDA {major}")
    return f"CUDA {major}"


def _nvjitlink() -> str:
    from tilewright.toolchain.assembler import load_nvjitlink

    major, minor = load_nvjitlink().version()
    return f"nvJitLink {major}.{minor}"


def _compiler() -> str:
    path = shutil.which("g++")
    if path is None:
        raise _Missing("not on PATH")
    return path


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise _Missing(f"{package} is not installed") from error


def _print(checks: tuple[Check, ...], works: bool) -> None:
    rows = [
        (
            check.name,
            "ok" if check.works else "BROKEN" if check.base else "missing",
            check.found,
            check.purpose,
        )
        for check in checks
    ]
    print_table({"part": "left", "state": "left", "found": "left", "for": "left"}, rows)
    for check in checks:
        if not check.works:
            typer.echo(f"{check.name}: {check.remedy}")
    if works:
        typer.echo("The base works: kernels compile and run on the emulator.")
    else:
        typer.echo("The base does not work: install the parts marked BROKEN first.")
