"""The library face: the calls that `import tilewright` offers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.bench.explain import SAMPLED_BLOCKS, Explained, explain_kernel
from tilewright.emulator import run
from tilewright.emulator.prepare import prepare
from tilewright.errors import LaunchError
from tilewright.gpus import Gpu
from tilewright.launch import Argument, Launch, Run, dim3
from tilewright.toolchain.source import is_path


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

    `source` is CUDA C++ text, the path of a .cu or .cuh file, PTX text, or the path of a .ptx file;
    host code in it (`main`, launches `<<<…>>>`, host headers) is left out. `kernel` is a
    `__global__` name or a template name expression such as `gemm<Tile{.bm=128}>`; in PTX, a symbol
    or the name mangled in it. `args` has one item for each parameter: a numpy array is device
    memory, which the kernel gets the address of and writes in place (a view keeps its alignment in
    the array it is a view of); a numpy scalar is passed by value, with the width of its dtype, and
    a structured scalar as a struct. `gpu` says what to compile for and which limits the launch must
    keep. `options` and `include_dirs` are for the compiler. `__device__` variables start anew in
    every run. `sample` lists the blocks to run, by number (x + y·grid.x + z·grid.x·grid.y); None
    runs all.

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
    launch = Launch(grid=dim3(grid, "grid"), block=dim3(block, "block"), shared_bytes=shared_bytes)
    _check_list(args)
    ready = prepare(source, kernel, launch, gpu, options=options, include_dirs=include_dirs)
    return run(ready.artifact, launch, args, sample=sample, count=True)


def explain(
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
    blocks: int | None = SAMPLED_BLOCKS,
    timed: bool = True,
) -> Explained:
    """Run a CUDA kernel on the CPU and say what a profiler would count of it, and where.

    The parameters are those of `emulate`, but that `blocks` is how many blocks to run at most
    (fewer where they are long), spread over the grid, whose counts then stand for all; None runs
    all. `timed` asks the time model how long the launch takes. PTX is assembled by nvJitLink, where
    that is installed.

    Returns:
        Counters, inner loops and source lines (`.summary`), every machine instruction with its
        counts (`.profile`), `.occupancy`, the modelled time (`.estimate`) and where that puts the
        launch under the GPU's roofs (`.roofline`), and `.suggestions`, each with the gain that the
        model predicts; `.to_json()` has all of it.

    Raises:
        ToolchainError: PTX, and nothing to assemble it with.
        Others as `emulate` does.

    Example:
        >>> import numpy as np
        >>> import tilewright
        >>> code = '''
        ... __global__ void column(float* x, const float* y) {
        ...   x[threadIdx.x * 32] = y[threadIdx.x];
        ... }'''
        >>> x, y = np.zeros(1024, np.float32), np.ones(32, np.float32)
        >>> told = tilewright.explain(code, "column", grid=1, block=32, args=[x, y])
        >>> told.summary.value("global store sectors")
        32
        >>> first = told.suggestions[0]
        >>> first.kind, first.place, first.basis
        ('idle SMs', None, 'what-if')
    """
    launch = Launch(grid=dim3(grid, "grid"), block=dim3(block, "block"), shared_bytes=shared_bytes)
    _check_list(args)
    ready = prepare(source, kernel, launch, gpu, options=options, include_dirs=include_dirs)
    beside = [Path(source).parent] if is_path(source) else []
    folders = [*beside, *include_dirs]
    return explain_kernel(ready, args, blocks=blocks, folders=folders, timed=timed)


def _check_list(args: Sequence[Argument]) -> None:
    if isinstance(args, np.ndarray | np.generic | str) or not isinstance(args, Sequence):
        raise LaunchError(
            f"args: expected a list with one numpy array or scalar for each parameter, got one "
            f"{type(args).__name__}"
        )
