"""A kernel explained: run on the CPU and counted, its counts put on the machine code."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, reduce

import numpy as np

from tilewright.accesses import PtxCounts
from tilewright.bench.classes import BlockClass, block_classes
from tilewright.counters import Provenance
from tilewright.emulator.counting import count_lines
from tilewright.emulator.engine import build_for
from tilewright.errors import LaunchError
from tilewright.gpus import Gpu
from tilewright.kernels import Rung, Tile
from tilewright.launch import Argument, Launch
from tilewright.model.binding import bind
from tilewright.model.profile import Profile
from tilewright.model.widths import Images, images
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda

# Of blocks that share tiles, as many are run as compute so many operations together, about a
# second's worth on one core. Where those are fewer than four, each has several whole tiles, and
# what they share is little.
_SHARING_FLOPS = 3.5e9
_LEAST_SHARING = 4


def profile_kernel(
    artifact: Artifact,
    launch: Launch,
    args: Sequence[Argument],
    *,
    sample: Sequence[int] | None = None,
    enough: int | None = None,
    workers: int | None = None,
) -> Profile:
    """Run a kernel and return its counts by machine instruction. Arrays in `args` are written.

    `sample` are the blocks to run, whose counts then stand for all; None runs all. Part of them do
    where those execute `enough` instructions. `workers` as of `count_lines`.

    Raises:
        UnsupportedError: an artifact without machine code, or an instruction that the emulator
            lacks.
        LaunchError: an empty sample, or arguments that do not fit the kernel.
        EmulationError: a fault of the kernel.
    """
    if sample is not None and not len(sample):
        raise LaunchError("sample is empty: name at least one block to run, or None for all")
    found = _images_and_program(artifact, launch, args)
    counts = count_lines(
        artifact, launch, args, widths=found.widths(), sample=sample, enough=enough, workers=workers
    )
    whole = counts.scaled(launch.blocks)
    sampled = counts.blocks < launch.blocks
    return bind(artifact, found, whole, launch, blocks_run=counts.blocks, sampled=sampled)


def profile_rung(rung: Rung, problem: Problem, gpu: Gpu, tile: Tile | None = None) -> Profile:
    """Return the counts of a rung by machine instruction, as `profile_launch` does.

    Raises:
        TileError: the rung cannot run with the tile.
        CompileError: the kernel does not compile for the GPU.
    """
    chosen = tile or rung.tile_for(gpu.name)
    artifact, _, args = rung_launch(rung, problem, gpu, chosen)
    return profile_launch(rung, problem, chosen, artifact, args)


def profile_launch(
    rung: Rung, problem: Problem, tile: Tile, artifact: Artifact, args: Sequence[Argument]
) -> Profile:
    """Return the counts of a compiled rung, exactly: from one block of each class.

    Blocks that share tiles are all run, or as many neighbours as are quickly run. Where those would
    be too few, the profile is of `Rung.launch_of_tiles`, whose blocks do not share, and says so.
    Arrays in `args` are written, but for the workspace.
    """
    if tile.workers:
        launch = rung.launch(problem, tile)
        each = problem.flops / launch.blocks
        count = min(int(_SHARING_FLOPS / each) if each else launch.blocks, launch.blocks)
        if count >= _LEAST_SHARING or count == launch.blocks:
            sample = neighbours(launch, count)
            # In their order: which block comes last, and adds, is the same in every run.
            return profile_kernel(artifact, launch, args, sample=sample, workers=1)
    launch = rung.launch_of_tiles(problem, tile)
    found = profile_classes(artifact, launch, args, block_classes(rung, problem, tile))
    if not tile.workers:
        return found
    gap = "blocks share the tiles, and are counted and timed as if each tile had one of its own"
    derived: dict[str, Provenance] = dict.fromkeys(found.provenance, "derived")
    return replace(found, gaps=(*found.gaps, gap), provenance=derived)


def neighbours(launch: Launch, count: int) -> list[int] | None:
    """Return so many blocks side by side in the middle of the grid; None for all of them."""
    if count >= launch.blocks:
        return None
    first = min(max(launch.blocks // 2 - count // 2, 0), launch.blocks - count)
    return list(range(first, first + count))


def profile_classes(
    artifact: Artifact,
    launch: Launch,
    args: Sequence[Argument],
    classes: Sequence[BlockClass],
) -> Profile:
    """Return the counts of a launch whose blocks fall into classes that count alike, exactly.

    Arrays in `args` are written.
    """
    found = _images_and_program(artifact, launch, args)
    widths = found.widths()
    parts = [
        count_lines(artifact, launch, args, widths=widths, sample=[each.first]).times(each.count)
        for each in classes
    ]
    whole = reduce(PtxCounts.joined, parts)
    return bind(artifact, found, whole, launch, blocks_run=len(classes))


@lru_cache(maxsize=8)
def images_of(artifact: Artifact) -> Images:
    """Return `images` of an artifact, found once for all that ask."""
    return images(artifact)


def _images_and_program(artifact: Artifact, launch: Launch, args: Sequence[Argument]) -> Images:
    """Return the machine accesses, and let the emulator build the kernel while they are read."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(images_of, artifact)  # mostly waits for the disassembler
        build_for(artifact, launch, args)
        return found.result()


def rung_launch(
    rung: Rung, problem: Problem, gpu: Gpu, tile: Tile | None = None
) -> tuple[Artifact, Launch, tuple[Argument, ...]]:
    """Return a rung compiled for a GPU, with its launch and operands of zeros.

    Raises:
        ProblemError: operands that do not fit in this machine's memory.
    """
    chosen = tile or rung.tile_for(gpu.name)
    artifact = compile_cuda(
        rung.source,
        rung.expression(chosen),
        arch=gpu.require_arch(),
        include_dirs=rung.include_dirs,
    )
    return artifact, rung.launch(problem, chosen), _operands(rung, problem, chosen)


def _operands(rung: Rung, problem: Problem, tile: Tile) -> tuple[Argument, ...]:
    """Return zeros of the problem's shape: what a rung executes does not depend on values."""
    try:
        a = np.zeros((problem.m, problem.lda), np.float32)
        b = np.zeros((max(problem.k, 1), problem.ldb), np.float32)
        c = np.zeros((problem.m, problem.ldc), np.float32)
    except (MemoryError, ValueError) as error:  # the second for more than can be addressed
        raise problem.too_large(", more than this machine has free") from error
    return (*rung.arguments(problem, a, b, c), *rung.workspace(problem, tile))
