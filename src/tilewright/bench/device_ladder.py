"""The ladder on a real GPU: each rung compiled, verified, then timed beside cuBLAS.

`DeviceLadder` holds what all rungs of one problem share: the operands on the GPU, in as many sets
as it takes to find the L2 cold, cuBLAS's result, and what is needed to judge a result elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tilewright.bench.cublas import Cublas, cublas_baseline
from tilewright.bench.provenance import CHECKED_PROVENANCE
from tilewright.bench.timing import Budget, rotation_sets, time_interleaved
from tilewright.bench.verify import (
    Verification,
    check,
    check_against_library,
    column_norms,
    row_norms,
    sample_regions,
)
from tilewright.counters import Provenance
from tilewright.device.events import EventStopwatch
from tilewright.device.memory import Arena
from tilewright.device.probe import DeviceInfo
from tilewright.device.session import LoadedKernel, open_session
from tilewright.errors import DeviceError, ProblemError
from tilewright.gpus import by_device_name
from tilewright.kernels import Rung, Tile
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import Pointers
from tilewright.launch import Launch
from tilewright.problem import Problem
from tilewright.records import LadderRecord, Timing
from tilewright.toolchain import compile_cuda

Floats = npt.NDArray[np.float32]

# Four bytes of it are a NaN: what C holds before a launch that must not read it.
_POISON = 0xFF

_TIMED: dict[str, Provenance] = {"measured_gflops": "measured", "baseline_gflops": "measured"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One rung's record, with the check it rests on.

    A rung that fails its check is not timed: its record says `verified` false, and
    `verification.message(tile)` what is wrong.
    """

    record: LadderRecord
    verification: Verification
    tile: Tile


@dataclass(frozen=True, slots=True, kw_only=True)
class _Set:
    """One set of operands on the GPU, by address."""

    a: int
    b: int
    c: int


class DeviceLadder:
    """One problem on one GPU, ready to measure rungs on. Use it in a `with` statement.

    Operands are standard normal, from `seed`.

    Raises:
        ProblemError: operands that do not fit in the GPU's memory.
        DeviceError: (some from `with`) no GPU, no cuBLAS, too little memory free, or a result of
            cuBLAS that is not right.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        ordinal: int = 0,
        seed: int = 0,
        budget: Budget | None = None,
        environment: str | None = None,
    ) -> None:
        self.problem = problem
        self._session = open_session(ordinal)
        self._budget = budget or Budget()
        self._environment = environment
        self._stack = ExitStack()
        self._count = rotation_sets(problem.operand_bytes, self.info.l2_bytes)
        self._check_memory()
        rng = np.random.default_rng(seed)
        m, n, k = problem.m, problem.n, problem.k
        self._a: Floats = rng.standard_normal((m, problem.lda), np.float32)[:, :k]
        self._b: Floats = rng.standard_normal((k, problem.ldb), np.float32)[:, :n]
        self._c0: Floats = rng.standard_normal((m, problem.ldc), np.float32)[:, :n]

    @property
    def info(self) -> DeviceInfo:
        """The GPU, as its driver describes it."""
        return self._session.info

    @property
    def gpu_name(self) -> str:
        """The GPU's name in the GPU table, or where it has none there the driver's."""
        known = by_device_name(self.info.name)
        return known.name if known is not None else self.info.name

    def _check_memory(self) -> None:
        p = self.problem
        # All sets, and C as it was.
        needed = self._count * p.operand_bytes + 4 * p.m * p.ldc
        if needed > self.info.memory_bytes:
            raise ProblemError(
                f"m = {p.m}, n = {p.n}, k = {p.k}: {self._count} sets of A, B and C take "
                f"{needed / 1e9:.3g} GB, {self.info.name} has {self.info.memory_bytes / 1e9:.3g} "
                "GB: choose smaller sizes"
            )

    def __enter__(self) -> DeviceLadder:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _set_up(self) -> None:
        self._session.enter()
        self._arena = self._stack.enter_context(Arena(self._session))
        self._cublas: Cublas = self._stack.enter_context(
            cublas_baseline(int(self._session.stream_handle))
        )
        first = _Set(
            a=self._arena.upload(_storage(self._a)),
            b=self._arena.upload(_storage(self._b)),
            c=self._arena.upload(_storage(self._c0)),
        )
        self._c0_there = self._arena.upload(_storage(self._c0))
        self._sets = [first, *(self._copy(first) for _ in range(self._count - 1))]
        self._norms = (row_norms(self._a), column_norms(self._b))
        self._regions = sample_regions(self.problem)
        self._library = self._result(self._library_launch(first))
        found = self._check(self._library)
        if not found.ok:
            raise DeviceError(f"{self._cublas.name} is {found.message()}: nothing was measured")

    def _copy(self, first: _Set) -> _Set:
        sizes = (_storage(x).nbytes for x in (self._a, self._b, self._c0))
        copies = []
        for source, size in zip((first.a, first.b, first.c), sizes, strict=True):
            copies.append(self._arena.allocate(size))
            self._arena.copy(copies[-1], source, size)
        return _Set(a=copies[0], b=copies[1], c=copies[2])

    def measure(self, rung: Rung, tile: Tile | None = None) -> Measured:
        """Compile, verify and time one rung, by default with its tile for this GPU.

        Raises:
            TileError: the rung cannot run with the tile.
            CompileError: the kernel does not compile for this GPU.
            DeviceError: it faults.
        """
        chosen = tile or rung.tile_for(self.gpu_name)
        kernel = self.load(rung, chosen)
        launch = rung.launch(self.problem, chosen)
        queues = self.queues(rung, chosen, kernel)
        found = self.verify(queues[0])
        times = self._time(queues) if found.ok else None
        return Measured(
            record=self._record(rung, chosen, kernel, launch, found, times),
            verification=found,
            tile=chosen,
        )

    def verify(self, queue: Callable[[], None]) -> Verification:
        """Return whether a launch on the first set is right: by float64, and by cuBLAS."""
        result = self._result(queue)
        found = self._check(result)
        if not found.ok:
            return found
        against = check_against_library(self.problem, self._norms, self._c0, result, self._library)
        return found if against.ok else against

    def time_together(
        self, queues: Mapping[str, Sequence[Callable[[], None]]], budget: Budget
    ) -> dict[str, Timing]:
        """Time launches by name in the same rounds, each with its queue for every set."""

        def candidate(each: Sequence[Callable[[], None]]) -> Callable[[int], None]:
            return lambda index: each[index]()

        return time_interleaved(
            {name: candidate(each) for name, each in queues.items()},
            stopwatch=EventStopwatch(self._session),
            sets=len(self._sets),
            budget=budget,
        )

    def time_alone(self, rung: Rung, tile: Tile, budget: Budget) -> Timing:
        """Time one rung without verifying it, and without cuBLAS: for the steps of a search.

        Raises:
            TileError: the rung cannot run with the tile.
            CompileError: the kernel does not compile for this GPU.
            DeviceError: it faults.
        """
        queues = self.queues(rung, tile, self.load(rung, tile))
        return self.time_together({rung.name: queues}, budget)[rung.name]

    def load(self, rung: Rung, tile: Tile) -> LoadedKernel:
        """Compile a rung for this GPU and load it."""
        artifact = compile_cuda(
            rung.source,
            rung.expression(tile),
            arch=self.info.arch,
            include_dirs=rung.include_dirs,
        )
        return self._session.load(artifact)

    def queues(
        self, rung: Rung, tile: Tile, kernel: LoadedKernel, launch: Launch | None = None
    ) -> list[Callable[[], None]]:
        """Return, for each set of operands, a function that queues the rung's launch on it.

        Launches follow each other, so all sets share one workspace. `launch` is the rung's own
        where it is not given.
        """
        launch = launch or rung.launch(self.problem, tile)
        storages = (_storage(self._a), _storage(self._b), _storage(self._c0))
        args = rung.arguments(self.problem, *storages)
        workspace = [self._zeros(array.nbytes) for array in rung.workspace(self.problem, tile)]
        bound = []
        for one in self._sets:
            there = iter((one.a, one.b, one.c))
            values = [
                np.uint64(next(there)) if isinstance(arg, np.ndarray) else arg for arg in args
            ]
            bound.append(kernel.bind(launch, [*values, *workspace]))
        return bound

    def _zeros(self, size_bytes: int) -> np.uint64:
        """Return the address of memory that is zero, and is there until the ladder ends."""
        address = self._arena.allocate(size_bytes)
        self._arena.fill(address, 0, size_bytes)
        return np.uint64(address)

    def _library_launch(self, one: _Set) -> Callable[[], None]:
        p, pointers = self.problem, Pointers(a=one.a, b=one.b, d=one.c)
        return self._cublas.bind(Operation.of(p), pointers, alpha=p.alpha, beta=p.beta)

    def _result(self, queue: Callable[[], None]) -> Floats:
        """Return what one launch on the first set writes, C as it must find it before."""
        storage = np.empty_like(_storage(self._c0))
        there = self._sets[0].c
        if self.problem.beta:
            self._arena.copy(there, self._c0_there, storage.nbytes)
        else:
            self._arena.fill(there, _POISON, storage.nbytes)
        queue()
        self._arena.read(storage, there)
        return storage[:, : self.problem.n]

    def _check(self, result: Floats) -> Verification:
        """Compare with float64 in sampled regions."""
        return check(self.problem, self._a, self._b, self._c0, result, self._regions)

    def _time(self, queues: list[Callable[[], None]]) -> tuple[Timing, Timing]:
        library = [self._library_launch(one) for one in self._sets]
        times = self.time_together({"rung": queues, "library": library}, self._budget)
        return times["rung"], times["library"]

    def _record(
        self,
        rung: Rung,
        tile: Tile,
        kernel: LoadedKernel,
        launch: Launch,
        found: Verification,
        times: tuple[Timing, Timing] | None,
    ) -> LadderRecord:
        warps = -(-launch.threads // 32) * kernel.blocks_per_sm(launch)
        timing, baseline = times or (None, None)
        return LadderRecord(
            rung=rung.name,
            problem=self.problem,
            gpu=self.gpu_name,
            backend="device",
            verified=found.ok,
            tile=tile.to_json(),
            max_error=found.max_error if np.isfinite(found.max_error) else None,
            error_bound=found.error_bound if np.isfinite(found.error_bound) else None,
            registers=kernel.registers,
            shared_bytes=kernel.shared_bytes + launch.shared_bytes,
            occupancy=32 * warps / self.info.max_threads_per_sm,
            measured_gflops=timing.gflops(self.problem) if timing else None,
            baseline_gflops=baseline.gflops(self.problem) if baseline else None,
            published_gflops=rung.published_gflops.get(self.gpu_name),
            timing=timing,
            baseline=self._cublas.name if baseline else None,
            baseline_timing=baseline,
            provenance={**CHECKED_PROVENANCE} | (_TIMED if times else {}),
            environment=self._environment,
        )


def measure_ladder(
    problem: Problem,
    rungs: Iterable[Rung],
    *,
    ordinal: int = 0,
    budget: Budget | None = None,
    environment: str | None = None,
) -> Iterator[Measured]:
    """Measure rungs of the ladder on one problem, one after the other, as they are asked for.

    Raises:
        DeviceError: no GPU, no cuBLAS, not enough memory, or a fault of a kernel.
    """
    with DeviceLadder(problem, ordinal=ordinal, budget=budget, environment=environment) as ladder:
        for rung in rungs:
            yield ladder.measure(rung)


def _storage(matrix: Floats) -> Floats:
    """Return the whole array that `matrix` is the left part of."""
    return matrix if matrix.base is None else matrix.base
