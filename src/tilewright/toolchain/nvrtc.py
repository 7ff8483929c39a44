"""CUDA C++ to PTX and cubin, by NVRTC: no GPU, no driver, no CUDA toolkit.

A program whose device half NVRTC refuses goes to nvcc, where one is installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tilewright.errors import CompileError, TilewrightError, UnknownNameError, UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.cache import CompileCache, cache_key, default_cache
from tilewright.toolchain.device_half import DeviceHalf, device_half
from tilewright.toolchain.diagnostics import (
    NAME_FILE,
    Diagnostic,
    Files,
    format_diagnostics,
    parse_assembler_log,
    parse_log,
    show_lines,
)
from tilewright.toolchain.hostheaders import (
    IMPLICIT_HEADER,
    host_headers,
    host_headers_digest,
)
from tilewright.toolchain.includes import Includes, scan_includes
from tilewright.toolchain.lineinfo import locate, rename_files
from tilewright.toolchain.names import base_name, entries_in_ptx, kernels_in_cuda, pick_entry
from tilewright.toolchain.nvcc import find_nvcc, run_nvcc
from tilewright.toolchain.program import Outcome, run_nvrtc
from tilewright.toolchain.source import Source, file_name, read_source
from tilewright.toolchain.toolkit import Nvrtc, cuda_include_dirs, load_nvrtc

# Options that are not the caller's to give as such, and what to do instead.
_OWN_OPTIONS = {
    "--gpu-architecture": "give arch",
    "-arch": "give arch",
    "-I": "give include_dirs",
    "--include-path": "give include_dirs",
    "-include": "write the #include in the source",
    "--pre-include": "write the #include in the source",
    "-std": "the language is always C++20",
    "--std": "the language is always C++20",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One compile, checked: everything that decides what comes out."""

    source: Source
    kernel: str
    arch: str
    options: tuple[str, ...]
    include_dirs: tuple[Path, ...]
    toolkit_dirs: tuple[Path, ...]
    includes: Includes

    def path(self, file: str) -> str:
        """Return the path of a file as NVRTC names it; a stand-in has none but its name.

        NVRTC puts the working folder before the name of a header that it was given as text.
        """
        spelled = file.removeprefix(os.path.join(os.getcwd(), ""))
        for header in self.includes.headers.values():
            if header.own and header.spelled == spelled:
                return header.path
        return spelled if spelled in host_headers() else file

    def name(self, file: str) -> str:
        """Return what messages call a file, as NVRTC names it."""
        path = self.path(file)
        if path == self.source.path:
            return self.source.name
        return file_name(path, self.source.folder, [*self.include_dirs, *self.toolkit_dirs])

    def lines(self, file: str) -> list[str]:
        """Return the lines of a file, as NVRTC names it; none where it cannot be read."""
        path = self.path(file)
        if path == self.source.path:
            return self.source.text.splitlines()
        if os.path.normpath(path) not in self.includes.headers:
            return []  # a name that `#line` made up
        return Path(path).read_text(errors="replace").splitlines()


def compile_cuda(
    source: str | Path,
    kernel: str,
    *,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    include_dirs: Sequence[Path | str] = (),
    cache: CompileCache | Literal["default"] | None = "default",
) -> Artifact:
    """Return `kernel` of `source`, compiled for `arch` as C++20 with line information.

    `source` is CUDA C++ text or the path of a .cu or .cuh file; its `#include "…"` are looked up
    in its own folder, then in `include_dirs`, then among CUDA's headers where those are
    installed. `kernel` is a `__global__` name or a template name expression such as
    `gemm<Tile{.bm=128}>`. `options` go to NVRTC as they are. Without `cache` (None) every call
    compiles. Names of files in the result do not depend on where the files are. A file with host
    code whose device half NVRTC refuses is compiled by nvcc, if there is one: the artifact's
    `compiler` says so.

    Raises:
        CompileError: a missing file, a source or an option that NVRTC refuses; the message shows
            the lines.
        UnknownNameError: no such kernel in the source.
        UnsupportedError: an architecture that this NVRTC does not compile for.
        ToolchainError: NVRTC is not installed.
    """
    read = read_source(source, text_name="kernel.cu")
    nvrtc = load_nvrtc()
    folders = _check_folders(include_dirs)
    toolkit = cuda_include_dirs(nvrtc.version[0])
    job = _Job(
        source=read,
        kernel=_check_kernel(kernel, read),
        arch=_check_arch(arch, nvrtc),
        options=_check_options(options),
        include_dirs=folders,
        toolkit_dirs=toolkit,
        includes=scan_includes(read, folders, toolkit),
    )
    store = default_cache() if cache == "default" else cache
    if store is None or not job.includes.complete:
        return _compile(job, nvrtc)
    key = _key(job, nvrtc)
    found = store.get(key)
    if found is None:
        found = _compile(job, nvrtc)
        if found.compiler.startswith("NVRTC"):  # the key says nothing of nvcc
            store.put(key, found)
    return found


def _key(job: _Job, nvrtc: Nvrtc) -> str:
    headers = sorted((header.name, header.digest) for header in job.includes.headers.values())
    return cache_key(
        {
            "source_name": job.source.name,
            "source": job.source.text,
            "headers": headers,
            "kernel": job.kernel,
            "arch": job.arch,
            "options": job.options,
            "nvrtc": nvrtc.version,
            "host_headers": host_headers_digest(),
        }
    )


def _check_kernel(kernel: str, source: Source) -> str:
    expression = kernel.strip()
    if not expression or "\n" in expression:
        raise CompileError(
            f"kernel {kernel!r}: expected the name of a __global__ function of {source.name}"
        )
    return expression


def _check_arch(arch: str, nvrtc: Nvrtc) -> str:
    match = re.fullmatch(r"sm_(\d+)([af]?)", arch)
    if match is None:
        raise CompileError(f"arch {arch!r}: expected sm_ and a number, such as sm_90")
    number = int(match.group(1))
    # Source: CUDA C++ Programming Guide, "Feature set": `a` exists from 9.0 on, `f` from 10.0 on.
    if number not in nvrtc.archs or number < {"": 0, "a": 90, "f": 100}[match.group(2)]:
        known = ", ".join(f"sm_{number}" for number in nvrtc.archs)
        raise UnsupportedError(
            f"{nvrtc.label} does not compile for {arch}; it does for {known} "
            "(and with a feature suffix for sm_90a, sm_100a, sm_100f and the like)"
        )
    return arch


def _check_options(options: Sequence[str]) -> tuple[str, ...]:
    if isinstance(options, str):
        raise CompileError(f"options {options!r}: expected a sequence of options, not one string")
    for option in options:
        name = "-I" if option.startswith("-I") else option.split("=")[0]
        if name in _OWN_OPTIONS:
            raise CompileError(f"option {option!r} is not taken here: {_OWN_OPTIONS[name]}")
    return tuple(options)


def _check_folders(include_dirs: Sequence[Path | str]) -> tuple[Path, ...]:
    if isinstance(include_dirs, str | Path):
        raise CompileError(f"include_dirs {str(include_dirs)!r}: expected a sequence of folders")
    folders = tuple(Path(folder).absolute() for folder in include_dirs)
    for folder in folders:
        if not folder.is_dir():
            raise CompileError(f"include_dirs: no such folder {folder}")
    return folders


def _compile(job: _Job, nvrtc: Nvrtc) -> Artifact:
    source = job.source
    half = device_half(source, job.includes)
    # A file with host code in it: without that. Any other: as it is, if it compiles so.
    first, second = (half, None) if half.splits_source else (None, half)
    outcome = _run(job, nvrtc, first)
    if outcome.verdict == "refused" and not outcome.ptx:
        other = _run(job, nvrtc, second)
        if other.verdict == "compiled" or first is None:
            outcome = other
    if outcome.verdict == "bad option":
        message = outcome.log.strip().removeprefix("nvrtc: error: ")
        raise CompileError(f"{nvrtc.label} refused the options {list(job.options)}: {message}")
    if outcome.verdict == "refused":
        refusal = _refusal(job, nvrtc, outcome, half.left_out)
        if not half.splits_source or isinstance(refusal, UnknownNameError):
            raise refusal
        return _by_nvcc(job, refusal)
    build = re.search(r"^// Cuda compilation tools.*\bV([\d.]+)", outcome.ptx, re.MULTILINE)
    return Artifact(
        name=job.kernel,
        symbol=outcome.symbol,
        arch=job.arch,
        ptx=rename_files(outcome.ptx, job.name),
        cubin=outcome.cubin,
        log=outcome.log.replace(source.path, source.name).strip(),
        compiler=f"NVRTC {build.group(1)}" if build else nvrtc.label,
        source_name=source.name,
        source=source.text,
    )


def _run(job: _Job, nvrtc: Nvrtc, half: DeviceHalf | None) -> Outcome:
    """Run NVRTC on the source as it is, or on its device half."""
    # What no word marks is for the device: constants and constexpr functions, to nvcc too, and
    # generic lambdas in kernels, which NVRTC 13.0 takes for host code.
    default = half is not None or nvrtc.version < (13, 5)
    return run_nvrtc(
        nvrtc,
        text=job.source.text if half is None else half.text,
        path=job.source.path,
        expression=job.kernel,
        options=[
            "--std=c++20",
            f"--gpu-architecture={job.arch}",
            "--generate-line-info",
            *(["--device-as-default-execution-space"] if default else []),
            *([] if half is None else [f"--pre-include={IMPLICIT_HEADER}"]),
            *(f"--include-path={folder}" for folder in (*job.include_dirs, *job.toolkit_dirs)),
            *job.options,
        ],
        headers={} if half is None else half.headers,
    )


def _by_nvcc(job: _Job, refusal: TilewrightError) -> Artifact:
    """Compile a program with host code by nvcc, where there is one; else raise `refusal`."""
    source = job.source
    if source.folder is None:
        raise refusal
    nvcc = find_nvcc()
    if nvcc is None:
        raise CompileError(
            f"{refusal}\n{source.name} has host code, which was left out for NVRTC; nvcc takes "
            "such programs whole, but there is none on PATH: TILEWRIGHT_NVCC can name one"
        )
    outcome = run_nvcc(
        nvcc,
        source=Path(source.path),
        expression=job.kernel,
        arch=job.arch,
        options=job.options,
        include_dirs=job.include_dirs,
    )
    if not outcome.cubin:
        first = next((line for line in outcome.log.splitlines() if "error" in line), outcome.log)
        raise CompileError(f"{refusal}\n{nvcc.label}, which was asked then, says: {first}")
    symbols = entries_in_ptx(outcome.ptx)
    return Artifact(
        name=job.kernel,
        symbol=pick_entry(symbols, base_name(job.kernel), source.name),
        arch=job.arch,
        ptx=rename_files(outcome.ptx, job.name),
        cubin=outcome.cubin,
        log=f"{outcome.log}\n{nvcc.label} compiled it: NVRTC refused its device half".strip(),
        compiler=nvcc.label,
        source_name=source.name,
        source=source.text,
    )


def _refusal(
    job: _Job, nvrtc: Nvrtc, outcome: Outcome, left_out: Mapping[str, str]
) -> TilewrightError:
    """Return the error that tells what NVRTC's log says."""
    errors = parse_log(outcome.log)
    in_source = [error for error in errors if error.file != NAME_FILE]
    if errors and not in_source:
        return _no_such_kernel(job, errors)
    title = f"{nvrtc.label} refused {job.source.name} for {job.arch}"
    if in_source:
        files = Files(name=job.name, lines=job.lines, chain=job.includes.chain)
        told = [_with_host_note(replace(e, file=job.path(e.file)), left_out) for e in in_source]
        return CompileError(f"{title}\n\n{format_diagnostics(told, files)}")
    assembler = parse_assembler_log(outcome.log)
    if not assembler:
        return CompileError(f"{title}: {outcome.log.strip()}")
    parts = [f"{nvrtc.label}'s assembler (ptxas) refused {job.source.name} for {job.arch}"]
    for error in assembler[:3]:
        parts.append(error.message)
        if error.ptx_line is None:
            continue
        ptx_text = outcome.ptx.splitlines()[error.ptx_line - 1].strip()
        parts.append(f"  PTX line {error.ptx_line}: {ptx_text}")
        where = locate(outcome.ptx, error.ptx_line)
        if where is not None:
            parts.append(f"  from {job.name(where.file)}:{where.line}")
            parts.append(show_lines(job.lines(where.file), where.line, None))
    return CompileError("\n".join(parts))


def _with_host_note(error: Diagnostic, left_out: Mapping[str, str]) -> Diagnostic:
    """Add where an undefined name was left out as host code, if it was."""
    named = [name for name in re.findall(r'"(\w+)[^"]*"', error.message) if name in left_out]
    notes = [
        f"{name} ({left_out[name]}) is host code, which is left out: to use it in a kernel, mark "
        "it __device__ (or a constant constexpr)"
        for name in named[:1]
    ]
    return replace(error, notes=(*error.notes, *notes))


def _no_such_kernel(job: _Job, errors: Sequence[Diagnostic]) -> TilewrightError:
    """Return the error for a name expression that does not name a kernel of the source."""
    texts = [job.source.text]
    for header in job.includes.headers.values():
        if not any(Path(header.path).is_relative_to(folder) for folder in job.toolkit_dirs):
            texts.append(Path(header.path).read_text(errors="replace"))
    known = [name for text in texts for name in kernels_in_cuda(text)]
    where = job.source.name
    if not known:
        return CompileError(f"{where} has no __global__ function, so no kernel {job.kernel!r}")
    if base_name(job.kernel) not in known:
        return UnknownNameError(f"kernel of {where}", job.kernel, known)
    first = errors[0]
    parts = [f"kernel {job.kernel!r} does not fit {where}: {first.message}"]
    # The log shows the expression behind a pragma; the caret is counted from there.
    before = first.echo.find(job.kernel)
    if before >= 0 and first.column is not None and first.column > before:
        parts += [f"  {job.kernel}", f"  {' ' * (first.column - before)}^"]
    parts.append(f"  its __global__ functions: {', '.join(known)}")
    parts.append("  a template needs its arguments, and a name in a namespace its namespace::")
    return CompileError("\n".join(parts))
