"""What a production kernel and a choice of one are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.errors import TileError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.operation import Access, Operation
from tilewright.kernels.sharing import Sharing
from tilewright.kernels.tiles import Tile
from tilewright.launch import Launch

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to compute a product: a kernel, its tile, and in how many parts k is summed.

    `workers` are blocks that share the last tiles evenly, cutting k where they must (stream-K);
    with 0 each tile has blocks of its own.
    """

    kernel: str
    tile: Tile
    splits: int = 1
    workers: int = 0

    def __str__(self) -> str:
        parts = f" in {self.splits} parts of k" if self.splits > 1 else ""
        shared = f", {self.workers} blocks sharing the last tiles" if self.workers else ""
        return f"{self.kernel} {self.tile}{parts}{shared}"

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        choice = {"kernel": self.kernel, "tile": self.tile.to_json(), "splits": self.splits}
        return choice | ({"workers": self.workers} if self.workers else {})

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Variant:
        """Rebuild what `to_json` wrote.

        Raises:
            TileError: an illegal tile.
        """
        tile = Tile.from_json(data["tile"])  # type: ignore[arg-type]
        splits, workers = int(data["splits"]), int(data.get("workers", 0))  # type: ignore[call-overload]
        return cls(kernel=str(data["kernel"]), tile=tile, splits=splits, workers=workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Device memory that a launch needs beside its operands.

    Units: bytes. `arrivals_bytes` must be zero when the kernel starts, and are zero when it ends.
    """

    partial_bytes: int = 0
    arrivals_bytes: int = 0


def tiles_of(operation: Operation, tile: Tile) -> int:
    """Return the tiles of the whole batch."""
    return operation.batch * -(-operation.m // tile.bm) * -(-operation.n // tile.bn)


def sharing(operation: Operation, variant: Variant) -> Sharing:
    """Return how the workers share the last tiles."""
    tile = variant.tile
    depth = -(-operation.k // tile.bk)
    return Sharing(tiles=tiles_of(operation, tile), depth=depth, workers=variant.workers)


def longest(operation: Operation, variant: Variant) -> int:
    """Return the most steps of k that a block adds up, or a few more; each is 1 where bk is 0."""
    depth = -(-operation.k // max(variant.tile.bk, 1))
    if not variant.workers:
        return -(-depth // variant.splits)
    shared = sharing(operation, variant)
    if shared.shared < shared.tiles:
        return depth
    return min(depth, -(-shared.tiles * depth // variant.workers))


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmKernel:
    """One kernel file: how it is compiled and launched, and which tiles it can run with.

    `check(operation, variant)` raises TileError where the kernel cannot run so;
    `variants(operation, gpu)` yields the choices worth measuring, all of them legal on the GPU.
    `most_splits` are the most parts of k, each with at least `least_steps` steps of bk, and
    `waves(tile)` how many blocks for each SM a split of k aims at, where it is not left whole.
    Sums are short enough where no block adds up more than `most_steps(operation, tile, gpu)` steps
    one after the other; `only_cut(operation, gpu)` yields, with k whole, what `variants` has in
    parts of k alone, since its sums would be too long. `shares` says whether workers can share the
    last tiles, `scheduled` that its main loop is worth scheduling anew (toolchain/schedule).
    `access(operation, tile)` is what the code depends on. `sums_bytes(operation, variant, gpu)` is
    the shared memory that a launch needs for sums of stretches of k, beyond what `launch` says.
    """

    name: str
    idea: str
    function: str
    file: str
    check: Callable[[Operation, Variant], None]
    launch: Callable[[Operation, Variant], Launch]
    workspace: Callable[[Operation, Variant], Workspace] = lambda operation, variant: Workspace()
    variants: Callable[[Operation, Gpu], Iterator[Variant]]
    most_splits: int = 1
    least_steps: int = 1
    waves: Callable[[Tile], tuple[int, ...]] = lambda tile: ()
    most_steps: Callable[[Operation, Tile, Gpu], float] = lambda operation, tile, gpu: math.inf
    only_cut: Callable[[Operation, Gpu], Iterator[Variant]] = lambda operation, gpu: iter(())
    shares: bool = False
    scheduled: bool = False
    access: Callable[[Operation, Tile], Access] = lambda operation, tile: operation.access
    sums_bytes: Callable[[Operation, Variant, Gpu], int] = lambda operation, variant, gpu: 0

    @property
    def source(self) -> Path:
        """The kernel's file."""
        return FOLDER / self.file

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """The folders that its includes are looked up in."""
        return (FOLDER.parent,)

    def can_run(self, operation: Operation, variant: Variant) -> bool:
        """Return whether `check` passes."""
        try:
            self.check(operation, variant)
        except TileError:
            return False
        return True

    def accurate(self, operation: Operation, variant: Variant, gpu: Gpu) -> bool:
        """Return whether no sum of a variant is too long."""
        return longest(operation, variant) <= self.most_steps(operation, variant.tile, gpu)

    def launch_on(self, operation: Operation, variant: Variant, gpu: Gpu) -> Launch:
        """Return how a GPU is to launch it.

        Raises:
            TileError: the kernel cannot run so.
        """
        launch = self.launch(operation, variant)
        sums = self.sums_bytes(operation, variant, gpu)
        return replace(launch, shared_bytes=launch.shared_bytes + sums) if sums else launch

    def expression(self, operation: Operation, variant: Variant) -> str:
        """Return the name expression to compile: `tiled<Tile{.bm=128,…},Access{…}>`.

        Raises:
            TileError: the kernel cannot run so.
        """
        self.check(operation, variant)
        access = self.access(operation, variant.tile)
        return f"{self.function}<{variant.tile.expression()},{access.expression()}>"
