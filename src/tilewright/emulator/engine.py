"""Running a built kernel: workers, blocks, faults and events."""

from __future__ import annotations

import ctypes
import operator
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.arguments import check_arguments
from tilewright.emulator import state
from tilewright.emulator.arena import Arena
from tilewright.emulator.copies import QUEUE_BYTES
from tilewright.emulator.faults import explain
from tilewright.emulator.frame import Layout
from tilewright.emulator.observers import Batch, Observer, standard_observers, total
from tilewright.emulator.program import Program, build, layout_of
from tilewright.errors import LaunchError
from tilewright.launch import Argument, Launch, Run
from tilewright.toolchain.artifact import Artifact

DEFAULT_STEPS = 2_000_000_000
_EVENT_CAPACITY = 1 << 14
_GUARD = 256  # spare bytes behind a worker's buffers
Progress = Callable[[int, int], None]
# Takes what each warp of one block executed: [warps, PTX blocks, (times, threads, partings)].
WarpObserver = Callable[[npt.NDArray[np.int64]], None]


def run(
    artifact: Artifact,
    launch: Launch,
    args: Sequence[Argument],
    *,
    sample: Sequence[int] | None = None,
    count: bool = False,
    observers: Sequence[Observer] = (),
    warps: WarpObserver | None = None,
    workers: int | None = None,
    step_limit: int = DEFAULT_STEPS,
    progress: Progress | None = None,
    program: Program | None = None,
) -> Run:
    """Run a kernel on the CPU. Arrays in `args` are its memory and are written in place.

    `sample` are the linear numbers (x fastest) of the blocks to run; None runs all. `count`
    counts what the run executes; `observers` see every memory access besides, and `warps` what the
    warps of each block executed, block by block. `step_limit` bounds the backward jumps of each
    warp's block. `progress(done, all)` is called as blocks finish. `program` is what `build_for`
    gave for these arguments; None stands for one for any.

    Raises:
        LaunchError: arguments, block or sample that do not fit the kernel.
        UnsupportedError: an instruction that the emulator lacks.
        EmulationError: a fault, with kernel, source line, block, thread and address.
    """
    counting = count or bool(observers) or warps is not None
    program = program or build(artifact, launch, counting=counting)
    layout = program.layout
    checked = _checked(args, layout, artifact)
    blocks = _blocks(launch, sample)
    arena = Arena(layout, checked)
    watching = [*(standard_observers(program.plan) if count else ()), *observers]
    session = _Session(program, arena, launch, step_limit, watching, warps)
    start = time.perf_counter()
    session.run(blocks, workers or os.cpu_count() or 1, progress)
    seconds = time.perf_counter() - start
    return Run(
        kernel=artifact.name,
        launch=launch,
        backend="emulator",
        blocks=len(blocks),
        seconds=seconds,
        counters=total(program.plan, session.counts(), watching) if count else None,
    )


def build_for(
    artifact: Artifact, launch: Launch, args: Sequence[Argument], *, counting: bool = True
) -> Program:
    """Return a program for these very arguments, which lacks the code that they rule out.

    Half of a kernel may be for matrices that are not aligned. Other values in the same arrays take
    the same program. Raises: as `run`, before it begins.
    """
    layout = layout_of(artifact, launch)
    arena = Arena(layout, _checked(args, layout, artifact))
    return build(artifact, launch, counting=counting, given=arena.params.tobytes())


def _checked(args: Sequence[Argument], layout: Layout, artifact: Artifact) -> tuple[Argument, ...]:
    params = layout.function.params
    sizes, types = [p.size_bytes for p in params], [p.type for p in params]
    return check_arguments(args, sizes, artifact.name, types)


def _blocks(launch: Launch, sample: Sequence[int] | None) -> range | list[int]:
    if sample is None:
        return range(launch.blocks)
    try:
        blocks = [operator.index(number) for number in sample]
    except TypeError:
        blocks = [-1]
    if len({*blocks}) < len(blocks) or any(not 0 <= n < launch.blocks for n in blocks):
        raise LaunchError(
            f"sample {sample!r}: expected different block numbers from 0 to {launch.blocks - 1} "
            f"(x + y * {launch.grid[0]} + …) of the grid {launch.grid}"
        )
    return blocks


@dataclass(slots=True)
class _Worker:
    """One thread's context and the buffers it points to."""

    context: state.Context
    keep: list[object]
    counts: npt.NDArray[np.int64]  # [warps, PTX blocks, (times, threads, partings)]
    seen: npt.NDArray[np.int64]  # those of the blocks before this one


def _aligned(size: int) -> tuple[int, object]:
    """Zeroed memory at a multiple of 64, and what keeps it alive."""
    buffer = np.zeros(size + 64 + _GUARD, np.uint8)
    return -(-buffer.ctypes.data // 64) * 64, buffer


class _Session:
    """One run of one program."""

    def __init__(
        self,
        program: Program,
        arena: Arena,
        launch: Launch,
        step_limit: int,
        observers: Sequence[Observer],
        warps: WarpObserver | None = None,
    ) -> None:
        self.program, self.arena, self.launch = program, arena, launch
        self.step_limit, self.observers, self.warps = step_limit, observers, warps
        self.stop = ctypes.c_uint8(0)
        self.workers: list[_Worker] = []
        self.lock = threading.Lock()
        self.error: BaseException | None = None
        self._flush_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def worker(self) -> _Worker:
        """Return a fresh context."""
        layout, program = self.program.layout, self.program
        context = state.Context()
        keep: list[object] = []

        def room(size: int) -> int:
            address, buffer = _aligned(size)
            keep.append(buffer)
            return address

        shared = room(layout.shared_bytes)
        table = (state.Segment * len(self.arena.table))()
        ctypes.memmove(table, self.arena.table, ctypes.sizeof(self.arena.table))
        table[state.SHARED_SEGMENT] = state.Segment(shared, 0, layout.shared_bytes)
        local_bytes = layout.local_frame * layout.warps * 32
        local = room(local_bytes)
        table[state.LOCAL_SEGMENT] = state.Segment(local, 0, local_bytes)
        counts = np.zeros((layout.warps, max(len(program.plan.blocks), 1), 3), np.int64)
        keep += [table, counts]
        context.segments = ctypes.addressof(table)
        context.segment_count = self.arena.count
        context.shared, context.shared_bytes = shared, layout.shared_bytes
        context.params = self.arena.params.ctypes.data
        context.local, context.local_frame = local, layout.local_frame
        context.scratch = room(program.scratch_bytes)
        context.warps = room(program.state_bytes * layout.warps)
        if program.copies:
            context.copies = room(QUEUE_BYTES * layout.warps)
        context.step_limit = self.step_limit
        context.grid = (ctypes.c_uint32 * 3)(*self.launch.grid)
        context.counts = counts.ctypes.data
        context.stop = ctypes.addressof(self.stop)
        if program.counting:
            capacity = max(_EVENT_CAPACITY, program.max_events)
            context.events = room(capacity * state.EVENT_BYTES)
            context.event_rows = room(capacity * 32 * 8)
            context.event_capacity = capacity
            flush = self._flush_type(lambda _: self.flush(context))
            keep.append(flush)
            context.flush = ctypes.cast(flush, ctypes.c_void_p).value
        return _Worker(context, keep, counts, np.zeros_like(counts))

    def flush(self, context: state.Context) -> None:
        """Hand a worker's events to the observers."""
        count, rows = context.event_count, context.row_count
        context.event_count = context.row_count = 0
        if not count or self.error is not None:
            return
        events = np.ctypeslib.as_array((state.Event * count).from_address(context.events))
        addresses = np.ctypeslib.as_array(
            (ctypes.c_uint64 * (32 * max(rows, 1))).from_address(context.event_rows)
        )
        batch = Batch(events, addresses.reshape(-1, 32), self.program.offsets)
        try:
            with self.lock:
                for observer in self.observers:
                    observer.observe(batch)
        except BaseException as error:  # it would cross compiled code: raised later
            self.error = error
            self.stop.value = 1

    def run(self, blocks: Sequence[int], workers: int, progress: Progress | None) -> None:
        """Run blocks, several at a time, until they are done or one fails."""
        size = max(1, min(64, len(blocks) // (8 * workers))) if self.warps is None else 1
        starts = range(0, len(blocks), size)
        queue = (np.asarray(blocks[i : i + size], np.int64) for i in starts)
        done = 0

        def take() -> npt.NDArray[np.int64] | None:
            with self.lock:
                return None if self.stop.value else next(queue, None)

        def work() -> None:
            nonlocal done
            worker = self.worker()
            self.workers.append(worker)
            while (chunk := take()) is not None:
                failed = self.program.compiled.run(
                    ctypes.addressof(worker.context), chunk.ctypes.data, len(chunk)
                )
                if failed:
                    self.flush(worker.context)
                    self._fail(worker)
                    return
                with self.lock:
                    done += len(chunk)
                    if self.warps is not None:
                        self.warps(worker.counts - worker.seen)
                        worker.seen = worker.counts.copy()
                    if progress is not None:
                        progress(done, len(blocks))
            self.flush(worker.context)

        count = min(workers, len(starts))
        if count <= 1:
            work()
        else:
            with ThreadPoolExecutor(count) as pool:
                futures = [pool.submit(work) for _ in range(count)]
                try:
                    for future in futures:
                        future.result()
                finally:
                    self.stop.value = 1
        if self.error is not None:
            raise self.error

    def _fail(self, worker: _Worker) -> None:
        if self.error is None and not (
            self.stop.value and worker.context.fault == state.Fault.LIMIT
        ):
            self.error = explain(self.program, self.arena, self.launch, worker.context)
        self.stop.value = 1

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the executions of each block, [blocks, (warps, threads, partings)]."""
        return np.asarray(sum(w.counts.sum(axis=0) for w in self.workers))
