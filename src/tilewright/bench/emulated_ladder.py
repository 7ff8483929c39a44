"""The ladder without a GPU: each rung compiled for one, run on the CPU, verified and counted.

`EmulatedLadder` holds what all rungs of one problem share: the operands. By default a rung runs
the corners of C, two blocks of each class (see `classes`) and some at random, all of k; `full` runs
every block. The counts of a launch are those of each class times its blocks, exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tilewright.bench.classes import (
    BlockClass,
    block_classes,
    block_of,
    place_of,
    sharing_counters,
)
from tilewright.bench.profiling import profile_launch
from tilewright.bench.provenance import CHECKED_PROVENANCE, counter_provenance
from tilewright.bench.timing_model import estimate_launch
from tilewright.bench.verify import Region, Verification, check, whole
from tilewright.counters import Counters
from tilewright.emulator import build_for, run
from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu, occupancy
from tilewright.kernels import Rung, Tile
from tilewright.launch import Argument, Launch
from tilewright.model.estimate import Estimate
from tilewright.problem import Problem
from tilewright.records import LadderRecord
from tilewright.toolchain import Artifact, compile_cuda, resources

Floats = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]

_RANDOM_BLOCKS = 4
# Operations that the build that counted does in less time than LLVM takes to
# compile another: at 512^3, 0.02 to 0.1 s more than the fast one, which takes 0.1 to 2.2 s to make.
_SHORT = 1e9
# A launch keeps A, B, C and a copy of C; the check of one block takes little beside them.
_COPIES_OF_C = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """One rung's record, with the check that it rests on."""

    record: LadderRecord
    verification: Verification
    tile: Tile


class EmulatedLadder:
    """One problem, ready to run rungs on. Operands are standard normal, from `seed`.

    Raises:
        ProblemError: operands that do not fit in this machine's memory.
    """

    def __init__(
        self,
        problem: Problem,
        gpu: Gpu,
        *,
        full: bool = False,
        seed: int = 0,
        environment: str | None = None,
    ) -> None:
        self.problem, self.gpu, self.full = problem, gpu, full
        self._environment = environment
        self._seed = seed
        rng = np.random.default_rng(seed)
        m, k = problem.m, problem.k
        check_memory(problem)
        try:
            self._a: Floats = rng.standard_normal((m, problem.lda), np.float32)
            self._b: Floats = rng.standard_normal((max(k, 1), problem.ldb), np.float32)
            self._c0: Floats = rng.standard_normal((m, problem.ldc), np.float32)
            self._c = self._c0.copy()
        except MemoryError as error:
            raise problem.too_large() from error

    def measure(
        self, rung: Rung, tile: Tile | None = None, progress: Progress | None = None
    ) -> Emulated:
        """Compile, run, verify and count one rung, by default with its tile for the GPU.

        Raises:
            TileError: the rung cannot run with the tile.
            CompileError: the kernel does not compile for the GPU.
            EmulationError: it faults.
        """
        chosen = tile or rung.tile_for(self.gpu.name)
        artifact = compile_cuda(
            rung.source,
            rung.expression(chosen),
            arch=self.gpu.require_arch(),
            include_dirs=rung.include_dirs,
        )
        launch = rung.launch(self.problem, chosen)
        tiles = rung.launch_of_tiles(self.problem, chosen)
        classes = block_classes(rung, self.problem, chosen)
        estimate = self._estimate(rung, chosen, artifact)
        np.copyto(self._c, self._c0)
        args = self._arguments(rung, chosen)
        counters = self._count(rung.name, artifact, tiles, args, classes)
        counters += sharing_counters(self.problem, chosen)
        blocks = self._blocks(rung, chosen, tiles, classes)
        if self.full:
            np.copyto(self._c, self._c0)
        counted = set() if self.full else {b for c in classes for b in (c.first, c.last)}
        ran = launch if self.full else tiles
        # A run that is short takes the build that is there already, which counts.
        counting = not self.full or self.problem.flops <= _SHORT
        run(
            artifact,
            ran,
            args,
            sample=None if self.full else [b for b in blocks if b not in counted],
            program=build_for(artifact, ran, args, counting=counting),
            progress=progress,
        )
        places = [place_of(rung, self.problem, chosen, block) for block in blocks]
        found = self._check(chosen, places)
        return Emulated(
            record=replace(
                self._record(rung, chosen, artifact, launch, counters, found),
                predicted_gflops=self.problem.flops / estimate.seconds / 1e9,
                limiter=estimate.first_stall,
            ),
            verification=found,
            tile=chosen,
        )

    def _arguments(self, rung: Rung, tile: Tile) -> tuple[Argument, ...]:
        args = rung.arguments(self.problem, self._a, self._b, self._c)
        return (*args, *rung.workspace(self.problem, tile))

    def _estimate(self, rung: Rung, tile: Tile, artifact: Artifact) -> Estimate:
        """Return the modelled time. C is written."""
        args = self._arguments(rung, tile)
        profile = profile_launch(rung, self.problem, tile, artifact, args)
        return estimate_launch(artifact, profile.launch, args, profile, self.gpu)

    def _count(
        self,
        name: str,
        artifact: Artifact,
        launch: Launch,
        args: Sequence[Argument],
        classes: list[BlockClass],
    ) -> Counters:
        """Return the whole launch's counts, from one block of each class, proved on another."""
        total = Counters()
        program = build_for(artifact, launch, args)
        for each in classes:
            found = {
                block: run(
                    artifact, launch, args, sample=[block], count=True, program=program
                ).counters
                for block in {each.first, each.last}
            }
            one, other = found[each.first] or Counters(), found[each.last] or Counters()
            if one != other:
                raise TilewrightError(
                    f"{name}: blocks {each.first} and {each.last} were taken to count alike "
                    f"and do not ({one} and {other}): this is a bug, please report it"
                )
            total = total.plus(one, each.count)
        return total

    def _blocks(
        self, rung: Rung, tile: Tile, launch: Launch, classes: list[BlockClass]
    ) -> list[int]:
        """Return the blocks to run: all, or the corners, two of each class and some at random."""
        if self.full:
            return list(range(launch.blocks))
        ends = [place_of(rung, self.problem, tile, block) for block in (0, launch.blocks - 1)]
        sides = itertools.product(*zip(*ends, strict=True))
        corners = [block_of(rung, self.problem, tile, row, column) for row, column in sides]
        rng = np.random.default_rng(self._seed)
        some = rng.integers(launch.blocks, size=_RANDOM_BLOCKS).tolist()
        return sorted({*corners, *(b for c in classes for b in (c.first, c.last)), *some})

    def _check(self, tile: Tile, places: Iterable[tuple[int, int]]) -> Verification:
        """Compare the tiles that were computed with float64, and the rest of C with what it was."""
        p = self.problem
        regions = (
            [whole(p)]
            if self.full
            else [region for at in places if (region := _region(p, tile, *at)) is not None]
        )
        views = (self._a[:, : p.k], self._b[: p.k, : p.n], self._c0[:, : p.n], self._c[:, : p.n])
        found = check(p, *views, regions)
        for region in regions:
            self._c[region.rows, region.cols] = self._c0[region.rows, region.cols]
        if found.ok and not np.array_equal(self._c, self._c0):
            i, j = np.argwhere(self._c != self._c0)[0]
            raise TilewrightError(f"C[{i}, {j}] was written by a block that does not own it")
        return found

    def _record(
        self,
        rung: Rung,
        tile: Tile,
        artifact: Artifact,
        launch: Launch,
        counters: Counters,
        found: Verification,
    ) -> LadderRecord:
        used = resources(artifact)
        held = occupancy(
            gpu=self.gpu,
            threads=launch.threads,
            registers=used.registers,
            shared_bytes=used.shared_bytes,
            dynamic_shared_bytes=launch.shared_bytes,
        )
        provenance = {**CHECKED_PROVENANCE, **counter_provenance(artifact)}
        provenance |= {"predicted_gflops": "modelled", "limiter": "modelled"}
        provenance["sectors_per_request"] = provenance["counters.global_load_sectors"]
        published = rung.published_gflops.get(self.gpu.name)
        return LadderRecord(
            rung=rung.name,
            problem=self.problem,
            gpu=self.gpu.name,
            backend="emulator",
            verified=found.ok,
            tile=tile.to_json(),
            max_error=found.max_error if np.isfinite(found.max_error) else None,
            error_bound=found.error_bound if np.isfinite(found.error_bound) else None,
            registers=used.registers,
            shared_bytes=used.shared_bytes + launch.shared_bytes,
            occupancy=held.fraction,
            counters=counters,
            sectors_per_request=counters.sectors_per_request,
            published_gflops=published,
            provenance=provenance,
            environment=self._environment,
        )


def _region(problem: Problem, tile: Tile, row: int, col: int) -> Region | None:
    """Return the part of C that a tile is; None for one past its end."""
    top, left = row * tile.bm, col * tile.bn
    if top >= problem.m:
        return None
    return Region(top, min(top + tile.bm, problem.m), left, min(left + tile.bn, problem.n))


def check_memory(problem: Problem) -> None:
    """Refuse a problem whose operands this machine cannot hold, before anything is made.

    Raises:
        ProblemError: with what it takes and what there is.
    """
    needed = problem.operand_bytes + (_COPIES_OF_C - 1) * 4 * problem.m * problem.ldc
    free = _free_bytes()
    if free is not None and needed > free:
        raise problem.too_large(f"; this machine has {free / 1e9:.3g} GB free")


def _free_bytes() -> int | None:
    """Memory that a new process could have, as Linux reports it; None elsewhere."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        return None
    return None
