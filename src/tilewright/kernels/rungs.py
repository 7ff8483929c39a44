"""A rung: which kernel, with which tile, launched how, and what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.errors import ProblemError
from tilewright.gpus import GPUS
from tilewright.kernels.sharing import sharing
from tilewright.kernels.tiles import Tile, TileUse, check
from tilewright.kernels.tuned import DEFAULT_GPU, TunedTile, tuned_tiles
from tilewright.launch import Array, Dim3, Launch
from tilewright.problem import Problem

FOLDER = Path(__file__).parent

# Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
MAX_GRID_Y = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a kernel's header claims: exact where no tile crosses an edge.

    That is: m, n and k are multiples of the rung's default tile, every row of A, B and C starts at
    a multiple of 32 bytes, and beta is 0; in 09 and 10 at a multiple of 128 bytes, since copies
    that pass A through L1 meet bank conflicts there too; in 10 without a tile that blocks share.

    `load_sectors_per_request` are global sectors a global load; `load_requests_per_warp_fma` are
    global loads for each 32 multiply-adds of A · B; `store_sectors_per_output` are global sectors
    stored for each element of C; `shared_store_wavefronts_per_request` is None without staging.
    """

    load_sectors_per_request: float
    load_requests_per_warp_fma: float
    store_sectors_per_output: float
    shared_store_wavefronts_per_request: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One kernel of the ladder. `default` is its tile for a GPU that has no choice of its own.

    `idea` is what it does unlike the rung before, and `why` what that wins.

    Units: `published_gflops` are 10^9 operations a second by GPU, from the source of the registry.
    """

    name: str
    idea: str
    why: str
    kernel: str
    file: str
    use: TileUse
    default: Tile
    claims: Claims
    published_gflops: Mapping[str, float]

    @property
    def source(self) -> Path:
        """The kernel's file."""
        return FOLDER / "ladder" / self.file

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """The folders that its includes are looked up in."""
        return (FOLDER,)

    def choice_for(self, gpu_name: str) -> TunedTile:
        """Return the tile for a GPU, with its source; a fallback says so by `.gpu`, "default"."""
        chosen = tuned_tiles().get((self.name, gpu_name))
        return chosen or TunedTile(
            rung=self.name,
            gpu=DEFAULT_GPU,
            tile=self._default_on(gpu_name),
            provenance="default",
            source=f"the rung's own tile: none was chosen for {gpu_name}",
        )

    def _default_on(self, gpu_name: str) -> Tile:
        """Return the rung's own tile; blocks that stay are one for each SM of a GPU we know."""
        known = next((gpu for gpu in GPUS if gpu.name == gpu_name), None)
        if known is None or not self.default.workers:
            return self.default
        return replace(self.default, workers=known.sm_count)

    def tile_for(self, gpu_name: str) -> Tile:
        """Return the tile for a GPU of the GPU table, by its name there."""
        return self.choice_for(gpu_name).tile

    def check(self, tile: Tile) -> None:
        """Accept a tile.

        Raises:
            TileError: the kernel cannot run with it; the message says why and what to change.
        """
        check(tile, self.use, self.name)

    def expression(self, tile: Tile) -> str:
        """Return the name expression to compile, such as `naive<Tile{.bm=32,…}>`.

        Raises:
            TileError: the kernel cannot run with the tile.
        """
        self.check(tile)
        return f"{self.kernel}<{replace(tile, workers=0).expression()}>"  # those are the grid's

    def launch(self, problem: Problem, tile: Tile) -> Launch:
        """Return the launch that covers C: a block a tile, columns of tiles along x, rows along y.

        Rows of tiles past the grid's limit in y go on in z; `lib/block.cuh` puts them together.
        Blocks that stay and share the tiles are all along x.

        Raises:
            TileError: the kernel cannot run with the tile.
        """
        self.check(tile)
        if tile.workers:
            return self._launch((sharing(problem, tile).workers, 1, 1), tile)
        tile_rows = -(-problem.m // tile.bm)
        z = -(-tile_rows // MAX_GRID_Y)
        return self._launch((-(-problem.n // tile.bn), -(-tile_rows // z), z), tile)

    def launch_of_tiles(self, problem: Problem, tile: Tile) -> Launch:
        """Return a launch of a block a tile: for blocks that stay, one where none shares a tile.

        Raises:
            TileError: the kernel cannot run with the tile.
        """
        if not tile.workers:
            return self.launch(problem, tile)
        self.check(tile)
        return self._launch((sharing(problem, tile).tiles, 1, 1), tile)

    def _launch(self, grid: Dim3, tile: Tile) -> Launch:
        shared_bytes = tile.shared_bytes if tile.stages else 0
        return Launch(grid=grid, block=(tile.threads, 1, 1), shared_bytes=shared_bytes)

    def arguments(
        self,
        problem: Problem,
        a: npt.NDArray[np.float32],
        b: npt.NDArray[np.float32],
        c: npt.NDArray[np.float32],
    ) -> tuple[Array | np.generic, ...]:
        """Return the kernel's arguments in order; the arrays flat, sharing their memory.

        Shapes: contiguous, with rows at the problem's leading dimensions; the last row may end
        with its last element. C is written in place.

        Raises:
            ProblemError: an array of another dtype, not contiguous, too short, or C overlapping
                A or B.
        """
        p = problem
        flat_a = _flat("A", a, p.m, p.k, p.lda)
        flat_b = _flat("B", b, p.k, p.n, p.ldb)
        flat_c = _flat("C", c, p.m, p.n, p.ldc)
        for name, other in (("A", flat_a), ("B", flat_b)):
            if np.may_share_memory(flat_c, other):  # exact: both are contiguous
                raise ProblemError(
                    f"C overlaps {name}: C is written while {name} is read; copy one"
                )
        sizes = (np.int32(p.m), np.int32(p.n), np.int32(p.k))
        product = (np.float32(p.alpha), flat_a, np.int64(p.lda), flat_b, np.int64(p.ldb))
        return (*sizes, *product, np.float32(p.beta), flat_c, np.int64(p.ldc))

    def workspace(self, problem: Problem, tile: Tile) -> tuple[Array, ...]:
        """Return the arguments behind those of `arguments`: memory for parts of sums, or nothing.

        Zeros, which the second of them must be at the start of a launch and is at its end.
        """
        if not tile.workers:
            return ()
        work = sharing(problem, tile)
        parts = work.shared * work.room * tile.bm * tile.bn
        return np.zeros(parts, np.float32), np.zeros(work.shared * work.room, np.uint32)

    def ffma_thread_instructions(self, problem: Problem, tile: Tile) -> int:
        """Return the fused multiply-adds of a launch, summed over its threads.

        One an output and step along k, and one an output to blend it with C. From 03 on, a tile
        that crosses the edge of C computes all of its outputs and blends those inside; from 09 on,
        a tile of A and B that k does not fill is computed with zeros for the rest.
        """
        m, n, k = problem.m, problem.n, problem.k
        computed = m * n
        if tile.bk:
            computed = -(-m // tile.bm) * tile.bm * (-(-n // tile.bn) * tile.bn)
        if tile.stages:
            k = tile.bk * (sharing(problem, tile).depth if tile.workers else -(-k // tile.bk))
        return computed * k + m * n


def _flat(
    name: str, array: npt.NDArray[np.float32], rows: int, cols: int, ld: int
) -> npt.NDArray[np.float32]:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        kind = getattr(array, "dtype", type(array).__name__)
        raise ProblemError(f"{name} is {kind}: expected a numpy array of float32; convert it first")
    if not array.flags.c_contiguous:
        raise ProblemError(
            f"{name} is not contiguous (strides {array.strides}): pass its whole storage with a "
            "leading dimension, or np.ascontiguousarray of it"
        )
    needed = (rows - 1) * ld + cols if rows and cols else 0
    if array.size < needed:
        raise ProblemError(
            f"{name} has {array.size} elements: {rows} rows of {cols} at a leading dimension of "
            f"{ld} need {needed}"
        )
    return array.reshape(-1)
