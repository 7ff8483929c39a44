"""The rungs of the ladder: which kernel, with which tile, launched how, and what it claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tilewright.errors import ProblemError, UnknownNameError
from tilewright.gpus import GPUS
from tilewright.kernels.sharing import sharing
from tilewright.kernels.tiles import Tile, TileUse, check
from tilewright.kernels.tuned import DEFAULT_GPU, TunedTile, tuned_tiles
from tilewright.launch import Array, Dim3, Launch
from tilewright.problem import Problem

FOLDER = Path(__file__).parent

# Source: the table of https://siboehm.com/articles/22/CUDA-MMM, at 4096³ in float32.
PUBLISHED_GPU = "RTX A6000"
PUBLISHED_CUBLAS_GFLOPS: Mapping[str, float] = MappingProxyType({PUBLISHED_GPU: 23249.6})

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

    Units: `published_gflops` are 10^9 operations a second by GPU, from the source named above.
    """

    name: str
    idea: str
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


def _published(gflops: float) -> Mapping[str, float]:
    return MappingProxyType({PUBLISHED_GPU: gflops})


_NOT_PUBLISHED: Mapping[str, float] = MappingProxyType({})

_STAGED = frozenset({"bk", "unroll"})
_COLUMN = _STAGED | {"tm"}
_SQUARE = _COLUMN | {"tn"}
_VECTOR = _SQUARE | {"pad"}
_WARP = _VECTOR | {"wm", "wn", "wniter"}
_AHEAD = _WARP - {"unroll"} | {"stages"}

_WARP_TILE = Tile(bm=128, bn=128, bk=16, tm=8, tn=4, pad=4, wm=64, wn=64, wniter=4, unroll=1)
_AHEAD_TILE = Tile(bm=128, bn=256, bk=8, tm=4, tn=4, pad=8, wm=32, wn=128, wniter=4, stages=4)

_AHEAD_CLAIMS = Claims(
    load_sectors_per_request=32 / 3,
    load_requests_per_warp_fma=3 / 512,
    store_sectors_per_output=1 / 8,
    shared_store_wavefronts_per_request=20 / 3,
)

_TABLE = (
    Rung(
        name="01_naive",
        idea="one thread, one output",
        kernel="naive",
        file="01_naive.cuh",
        use=TileUse(),
        default=Tile(bm=32, bn=32),
        claims=Claims(
            load_sectors_per_request=16.5, load_requests_per_warp_fma=2, store_sectors_per_output=1
        ),
        published_gflops=_published(309.0),
    ),
    Rung(
        name="02_coalesced",
        idea="consecutive threads, consecutive addresses",
        kernel="coalesced",
        file="02_coalesced.cuh",
        use=TileUse(),
        default=Tile(bm=32, bn=32),
        claims=Claims(
            load_sectors_per_request=2.5,
            load_requests_per_warp_fma=2,
            store_sectors_per_output=1 / 8,
        ),
        published_gflops=_published(1986.5),
    ),
    Rung(
        name="03_shared_tile",
        idea="stage tiles of A and B on chip",
        kernel="shared_tile",
        file="03_shared_tile.cuh",
        use=TileUse(reads=_STAGED),
        default=Tile(bm=32, bn=32, bk=32),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 16,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_published(2980.3),
    ),
    Rung(
        name="04_register_1d",
        idea="a column of outputs a thread",
        kernel="register_1d",
        file="04_register_1d.cuh",
        use=TileUse(reads=_COLUMN),
        default=Tile(bm=64, bn=64, bk=8, tm=8),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 32,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_published(8474.7),
    ),
    Rung(
        name="05_register_2d",
        idea="a square of outputs a thread",
        kernel="register_2d",
        file="05_register_2d.cuh",
        use=TileUse(reads=_SQUARE),
        # unroll 4: all eight steps take more than the 128 registers that leave two blocks an SM.
        default=Tile(bm=128, bn=128, bk=8, tm=8, tn=8, unroll=4),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 64,
            store_sectors_per_output=1,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_published(15971.7),
    ),
    Rung(
        name="06_vectorized",
        idea="128-bit memory instructions",
        kernel="vectorized",
        file="06_vectorized.cuh",
        use=TileUse(reads=_VECTOR, vector=True),
        default=Tile(bm=128, bn=128, bk=8, tm=8, tn=8, pad=4, unroll=4),
        claims=Claims(
            load_sectors_per_request=16,
            load_requests_per_warp_fma=1 / 256,
            store_sectors_per_output=1 / 4,
            shared_store_wavefronts_per_request=1.6,
        ),
        published_gflops=_published(18237.3),
    ),
    Rung(
        name="07_autotuned",
        idea="tile sizes by search",
        kernel="vectorized",
        file="06_vectorized.cuh",
        use=TileUse(reads=_VECTOR, vector=True),
        default=Tile(bm=128, bn=128, bk=16, tm=8, tn=8, pad=4),
        claims=Claims(
            load_sectors_per_request=16,
            load_requests_per_warp_fma=1 / 256,
            store_sectors_per_output=1 / 4,
            shared_store_wavefronts_per_request=2.4,
        ),
        published_gflops=_published(19721.0),
    ),
    Rung(
        name="08_warptiled",
        idea="tiles a warp",
        kernel="warptiled",
        file="08_warptiled.cuh",
        use=TileUse(reads=_WARP, vector=True),
        default=_WARP_TILE,
        claims=Claims(
            load_sectors_per_request=16,
            load_requests_per_warp_fma=1 / 256,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=2.4,
        ),
        published_gflops=_published(21779.3),
    ),
    Rung(
        name="09_pipelined",
        idea="copies ahead of the arithmetic",
        kernel="pipelined",
        file="09_pipelined.cuh",
        use=TileUse(reads=_AHEAD, vector=True, ahead=True),
        default=_AHEAD_TILE,
        claims=_AHEAD_CLAIMS,
        published_gflops=_NOT_PUBLISHED,
    ),
    Rung(
        name="10_persistent",
        idea="blocks stay, tiles are shared evenly",
        kernel="persistent",
        file="10_persistent.cuh",
        use=TileUse(reads=_AHEAD | {"workers"}, vector=True, ahead=True),
        default=replace(_AHEAD_TILE, workers=132),  # the SMs of an H200
        claims=_AHEAD_CLAIMS,
        published_gflops=_NOT_PUBLISHED,
    ),
)

RUNGS: Mapping[str, Rung] = MappingProxyType({r.name: r for r in _TABLE})


def rung(name: str) -> Rung:
    """Return a rung by its name, or by a half of it: "01_naive", "01" or "naive".

    Raises:
        UnknownNameError: no such rung; the message suggests the nearest.
    """
    wanted = name.strip().lower()
    for each in _TABLE:
        if wanted in (each.name, *each.name.split("_", 1)):
            return each
    raise UnknownNameError("rung", name, RUNGS)
