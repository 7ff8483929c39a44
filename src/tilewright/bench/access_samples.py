"""Some executions of every access of a launch, as its machine code makes them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.bench.profiling import images_of, rung_launch
from tilewright.emulator.samples import Sampled, sample_accesses
from tilewright.gpus import Gpu
from tilewright.kernels import Rung
from tilewright.launch import Argument, Launch
from tilewright.problem import Problem
from tilewright.toolchain import Artifact


def sample_rung(rung: Rung, problem: Problem, gpu: Gpu) -> tuple[Sampled, ...]:
    """Return the accesses of one block of a rung. Raises what `rung_launch` does."""
    artifact, launch, args = rung_launch(rung, problem, gpu)
    return sample_launch(artifact, launch, args)


def sample_launch(
    artifact: Artifact, launch: Launch, args: Sequence[Argument]
) -> tuple[Sampled, ...]:
    """Return the accesses of a block from the middle of the grid. Arrays in `args` are written.

    Raises:
        UnsupportedError: no machine code, or an instruction that the emulator lacks.
        EmulationError: a fault of the kernel.
    """
    columns, rows = launch.grid[0], launch.blocks // launch.grid[0]
    block = columns // 2 + rows // 2 * columns
    widths = images_of(artifact).widths()
    return sample_accesses(artifact, launch, args, widths=widths, block=block)
