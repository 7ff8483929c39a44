"""Kernels compiled ahead, in parallel processes, into the cache that all processes share."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tilewright.errors import CompileError
from tilewright.kernels.gemm.build import compile_for_gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.toolchain import resources
from tilewright.toolchain.resources import Resources

# Fewer kernels than this are compiled before processes for them have started.
_WORTH_PROCESSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """One kernel: the name it is compiled as, and what it takes or why it does not compile.

    `refused` says why its main loop is still ptxas's, where it should have been scheduled anew.
    """

    kernel: str
    expression: str
    found: Resources | None = None
    error: str | None = None
    refused: str = ""


def build_all(jobs: Iterable[tuple[Operation, Variant]], arch: str) -> Iterator[Built]:
    """Compile each kernel that the variants need once, and yield them as given.

    Raises:
        TileError: a variant that cannot run the operation.
    """
    wanted: dict[tuple[str, str], tuple[Operation, Variant]] = {}
    for operation, variant in jobs:
        expression = gemm_kernel(variant.kernel).expression(operation, variant)
        wanted.setdefault((variant.kernel, expression), (operation, variant))
    arguments = [(*key, *job, arch) for key, job in wanted.items()]
    if len(arguments) < _WORTH_PROCESSES:
        yield from map(_build, arguments)
        return
    # Spawned, not forked: a process that holds a CUDA context cannot be forked.
    context = multiprocessing.get_context("spawn")
    workers = min(len(arguments), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(_build, arguments)


def _build(job: tuple[str, str, Operation, Variant, str]) -> Built:
    kernel, expression, operation, variant, arch = job
    try:
        compiled = compile_for_gpu(operation, variant, arch)
    except CompileError as error:
        return Built(kernel=kernel, expression=expression, error=str(error))
    found = resources(compiled.artifact)
    return Built(kernel=kernel, expression=expression, found=found, refused=compiled.refused)
