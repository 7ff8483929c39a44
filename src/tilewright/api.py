"""The library face: the calls that `import tilewright` offers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.emulator import run
from tilewright.emulator.program import build
from tilewright.errors import CompileError, LaunchError, UnsupportedError
from tilewright.gpus import Gpu
from tilewright.gpus import gpu as find_gpu
from tilewright.gpus.occupancy import most_registers
from tilewright.launch import MAX_BLOCK, MAX_GRID, Argument, Launch, Run, dim3
from tilewright.toolchain import Artifact, artifact_from_ptx, compile_cuda, resources
from tilewright.toolchain.source import is_path

_CUDA_SUFFIXES = (".cu", ".cuh")
_PTX_VERSION = re.compile(r"^[ \t]*\.version[ \t]+\d", re.MULTILINE)
_TARGET = re.compile(r"sm_(\d+)(\d)([af]?)")


def emulate(
    source: str | Path,
    kernel: str,
    *,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: Sequence[Argument],
    gpu: str | Gpu = "H200",
    shared_bytes: int = 0,
    options: Sequence[str] = (),
    include_dirs: Sequence[str | Path] = (),
    sample: Sequence[int] | None = None,
) -> Run:
    """Run a CUDA kernel on the CPU, as a GPU would, and count what it does.

    No GPU, driver or CUDA toolkit is needed. Every memory access is checked; a stray one ends the
    run with its source line, block, thread and address.

    `source` is CUDA C++ text, the path of a .cu or .cuh file, PTX text, or the path of a .ptx
    file. `kernel` is a `__global__` name or a template name expression such as
    `gemm<Tile{.bm=128}>`; in PTX, a symbol or the name mangled in it. `args` has one item for each
    parameter: a numpy array is device memory, which the kernel gets the address of and writes in
    place (a view keeps its alignment in the array it is a view of); a numpy scalar is passed by
    value, with the width of its dtype, and a structured scalar as a struct. `gpu` says what to
    compile for and which limits the launch must keep. `options` and `include_dirs` are for the
    compiler. `__device__` variables start anew in every run. `sample` lists the blocks to run,
    by number (x + y·grid.x + z·grid.x·grid.y); None runs all.

    Shapes:
        grid, block: one to three numbers of blocks and of threads a block: x, y, z.

    Units:
        shared_bytes: dynamic shared memory a block, in bytes.

    Returns:
        The run, with `counters` in the profiler's terms for the blocks that ran.

    Raises:
        LaunchError: a limit of the GPU passed, or arguments that do not fit the kernel.
        CompileError: a missing file, or a source that does not compile; shows the lines.
        UnknownNameError: no such GPU or kernel; suggests the nearest.
        UnsupportedError: a GPU that no compiler reaches, or an instruction the emulator lacks.
        EmulationError: a fault of the kernel, with its source line, block and thread; the arrays
            hold what was written until then. All other errors come before anything is launched.

    Example:
        >>> import numpy as np
        >>> import tilewright
        >>> code = '''
        ... __global__ void scale(float* x, float by, int n) {
        ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...   if (i < n) x[i] *= by;
        ... }'''
        >>> x = np.arange(100, dtype=np.float32)
        >>> run = tilewright.emulate(
        ...     code, "scale", grid=4, block=32, args=[x, np.float32(2), np.int32(100)]
        ... )
        >>> x[:4].tolist()
        [0.0, 2.0, 4.0, 6.0]
        >>> run.counters.global_load_requests, run.counters.global_load_sectors
        (4, 13)
    """
    chosen = gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    launch = Launch(grid=dim3(grid, "grid"), block=dim3(block, "block"), shared_bytes=shared_bytes)
    _check_shape(launch, chosen)
    _check_list(args)
    artifact = _artifact(source, kernel, chosen, options, include_dirs)
    _check_resources(artifact, launch, chosen)
    return run(artifact, launch, args, sample=sample, count=True)


def _artifact(
    source: str | Path,
    kernel: str,
    gpu: Gpu,
    options: Sequence[str],
    include_dirs: Sequence[str | Path],
) -> Artifact:
    """Compile CUDA C++ for `gpu`, or take PTX that runs on it."""
    if not _is_ptx(source):
        return compile_cuda(
            source, kernel, arch=gpu.require_arch(), options=options, include_dirs=include_dirs
        )
    if options or include_dirs:
        raise CompileError(
            "options and include_dirs are for CUDA C++, and this source is PTX: leave them out"
        )
    artifact = artifact_from_ptx(source, kernel)
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


# --- limits of a launch -----------------------------------------------------------------------


def _check_list(args: Sequence[Argument]) -> None:
    if isinstance(args, np.ndarray | np.generic | str) or not isinstance(args, Sequence):
        raise LaunchError(
            f"args: expected a list with one numpy array or scalar for each parameter, got one "
            f"{type(args).__name__}"
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
        static = build(artifact, launch, counting=True).layout.static_shared
        _check_shared(static, launch.shared_bytes, gpu)
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
