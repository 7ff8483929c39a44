"""From a source and a launch to what runs: compiled, and checked against the limits of a GPU.

What `emulate`, `explain` and the commands share: whatever is refused here is refused before
anything is launched, with the limit and the most that fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.emulator.program import layout_of
from tilewright.errors import CompileError, LaunchError, UnsupportedError
from tilewright.gpus import Gpu
from tilewright.gpus import gpu as find_gpu
from tilewright.gpus.occupancy import most_registers
from tilewright.launch import MAX_BLOCK, MAX_GRID, Launch
from tilewright.launchfile import LaunchSpec
from tilewright.toolchain import Artifact, artifact_from_ptx, compile_cuda, resources
from tilewright.toolchain.names import entries_in_ptx, kernels_in_cuda
from tilewright.toolchain.source import is_path, read_source

_CUDA_SUFFIXES = (".cu", ".cuh")
_PTX_VERSION = re.compile(r"^[ \t]*\.version[ \t]+\d", re.MULTILINE)
_TARGET = re.compile(r"sm_(\d+)(\d)([af]?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A launch that its GPU would take."""

    artifact: Artifact
    launch: Launch
    gpu: Gpu


def prepare(
    source: str | Path,
    kernel: str | None,
    launch: Launch,
    gpu: str | Gpu,
    *,
    options: Sequence[str] = (),
    include_dirs: Sequence[str | Path] = (),
) -> Prepared:
    """Compile `kernel` of `source` (None: its only one) for `gpu`, and check that it fits there.

    Raises:
        LaunchError: a limit of the GPU passed, or PTX that is not for this GPU.
        CompileError: a missing file, a source that does not compile, or several kernels and no
            name.
        UnknownNameError: no such GPU or kernel; suggests the nearest.
        UnsupportedError: a GPU that no compiler reaches.
    """
    chosen = gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    _check_shape(launch, chosen)
    artifact = _artifact(source, kernel, chosen, options, include_dirs)
    _check_resources(artifact, launch, chosen)
    return Prepared(artifact=artifact, launch=launch, gpu=chosen)


def prepare_launch(spec: LaunchSpec) -> Prepared:
    """Prepare what a launch file or flags describe. Raises what `prepare` does."""
    return prepare(
        Path(spec.source),
        spec.kernel,
        spec.launch,
        spec.gpu,
        options=spec.options,
        include_dirs=spec.include_dirs,
    )


def _artifact(
    source: str | Path,
    kernel: str | None,
    gpu: Gpu,
    options: Sequence[str],
    include_dirs: Sequence[str | Path],
) -> Artifact:
    """Compile CUDA C++ for `gpu`, or take PTX that runs on it."""
    ptx = _is_ptx(source)
    name = _only_kernel(source, ptx=ptx) if kernel is None else kernel
    if not ptx:
        return compile_cuda(
            source, name, arch=gpu.require_arch(), options=options, include_dirs=include_dirs
        )
    if options or include_dirs:
        raise CompileError(
            "options and include_dirs are for CUDA C++, and this source is PTX: leave them out"
        )
    artifact = artifact_from_ptx(source, name)
    _check_target(artifact, gpu)
    return artifact


def _is_ptx(source: str | Path) -> bool:
    """Whether a source is PTX; by the suffix of a path, by `.version` in a text."""
    if not isinstance(source, str | Path):
        raise CompileError(
            f"source: expected CUDA C++ or PTX, as text or as a path, got {type(source).__name__}"
        )
    if not is_path(source):
        return _PTX_VERSION.search(str(source)) is not None
    suffix = Path(source).suffix
    if suffix not in (*_CUDA_SUFFIXES, ".ptx"):
        raise CompileError(f"source {str(source)!r}: expected a path to a .cu, .cuh or .ptx file")
    return suffix == ".ptx"


def _only_kernel(source: str | Path, *, ptx: bool) -> str:
    read = read_source(source, text_name="kernel.ptx" if ptx else "kernel.cu")
    names = entries_in_ptx(read.text) if ptx else kernels_in_cuda(read.text)
    if len(names) == 1:
        return names[0]
    if not names:
        raise CompileError(f"{read.name} has no {'.entry' if ptx else '__global__ function'}")
    raise CompileError(
        f"{read.name} has {len(names)} kernels: name the one to run: {', '.join(names)}"
    )


def _check_target(artifact: Artifact, gpu: Gpu) -> None:
    """Refuse PTX that `gpu` could not run.

    Source: PTX ISA, Module Directives, .target: PTX runs on its target and on newer ones; with
    the suffix a on that one alone, with f on those of its family (same major number).
    """
    match = _TARGET.fullmatch(artifact.arch)
    if match is None:
        raise UnsupportedError(f"{artifact.source_name}: unknown .target {artifact.arch}")
    major, minor, suffix = int(match[1]), int(match[2]), match[3]
    target, have = (major, minor), gpu.compute_capability
    exact = {"a": target == have, "f": major == have[0]}.get(suffix, True)
    if target > have or not exact:
        raise LaunchError(
            f"{artifact.source_name} is for {artifact.arch}, and {gpu.name} is {gpu.arch}: "
            "choose a GPU that can run it, or compile the PTX for this one"
        )


def _check_shape(launch: Launch, gpu: Gpu) -> None:
    """Refuse a grid or block that `gpu` does not take."""
    for what, given, most in (
        ("grid", launch.grid, MAX_GRID),
        ("block", launch.block, MAX_BLOCK),
    ):
        if any(g > m for g, m in zip(given, most, strict=True)):
            raise LaunchError(f"{what} {given}: a {what} is at most {most} in x, y, z")
    limit = gpu.limits.max_threads_per_block
    if launch.threads > limit:
        raise LaunchError(
            f"block {launch.block} has {launch.threads} threads: {gpu.name} takes at most {limit} "
            "threads a block"
        )
    _check_shared(0, launch.shared_bytes, gpu)


def _check_shared(static: int, dynamic: int, gpu: Gpu) -> None:
    own = gpu.limits
    if static > own.shared_bytes_static_max:
        raise LaunchError(
            f"the kernel declares {static} bytes of shared memory: at most "
            f"{own.shared_bytes_static_max} bytes a block can be static; declare it `extern "
            "__shared__` and pass shared_bytes"
        )
    most = own.shared_bytes_per_block_max
    if static + dynamic > most:
        beside = f" beside the {static} that the kernel declares" if static else ""
        raise LaunchError(
            f"shared_bytes {dynamic}: {gpu.name} has {most} bytes of shared memory a block, so at "
            f"most {max(most - static, 0)} can be dynamic{beside}"
        )


def _check_resources(artifact: Artifact, launch: Launch, gpu: Gpu) -> None:
    """Refuse a kernel whose shared memory or registers do not fit in one SM of `gpu`."""
    if not artifact.cubin:
        _check_shared(layout_of(artifact, launch).static_shared, launch.shared_bytes, gpu)
        return
    needs = resources(artifact)
    _check_shared(needs.shared_bytes, launch.shared_bytes, gpu)
    fits = most_registers(gpu.limits, launch.threads, 1)
    if needs.registers > fits:
        raise LaunchError(
            f"kernel {artifact.name} takes {needs.registers} registers a thread: blocks of "
            f"{launch.threads} threads leave {fits} on {gpu.name}; launch smaller blocks, or "
            f"declare __launch_bounds__({launch.threads})"
        )
