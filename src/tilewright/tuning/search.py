"""The search: a strategy asks, kernels are compiled ahead of it, a GPU or several answer.

What is measured goes to the store as it comes, so that an interrupted search loses nothing and the
next one goes on from there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeAlias

from tilewright.gpus import Gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning import measure as jobs
from tilewright.tuning.measure import Opener
from tilewright.tuning.predict import predict
from tilewright.tuning.space import space
from tilewright.tuning.store import Store, fastest
from tilewright.tuning.strategies import Ask, Candidates, Strategy
from tilewright.tuning.trial import Machine, Trial

# Kernels compiled before they are asked for, in order of prediction.
_AHEAD = 32
# Above this spread something else uses the GPU, or its clocks move.
NOISY_SPREAD = 0.1

Watch: TypeAlias = Callable[[Trial, int, int], None]  # the trial, how many there are, the space
Compile: TypeAlias = Callable[[Operation, Variant, str], str | None]


class Inline(Executor):
    """Runs each job at once, in the calling thread: for the one GPU of this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Return the finished job."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # the future's to raise
            future.set_exception(error)
        return future


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Where a search runs.

    `measuring` runs jobs on machines with a GPU, `lanes` of them at a time, each on a GPU that
    nothing else uses: this process's, or a cluster's. `compiling` compiles ahead in parallel, on
    machines that share the compile cache with those; None leaves it to the measuring job.
    """

    measuring: Executor = field(default_factory=Inline)
    lanes: int = 1
    compiling: Executor | None = None
    compile: Compile = jobs.compile_ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search ended with: all trials of the operation in their order, and the fastest.

    `ended` is "done" (the strategy asks for nothing more), "budget" or "interrupted"; `measured`
    counts the variants that this search measured itself, `first_s` is the time of the one that was
    predicted to be the fastest. Units: seconds.
    """

    operation: Operation
    trials: tuple[Trial, ...]
    best: Trial | None
    first_s: float | None
    measured: int
    space: int
    seconds: float
    ended: str

    @property
    def noisy(self) -> float:
        """The share of the times that vary by more than 10 %."""
        spreads = [t.spread for t in self.trials if t.spread is not None]
        return sum(s > NOISY_SPREAD for s in spreads) / len(spreads) if spreads else 0.0


def search(
    operation: Operation,
    gpu: Gpu,
    *,
    strategy: Strategy,
    opener: Opener,
    store: Store,
    workers: Workers | None = None,
    budget_s: float = math.inf,
    resume: bool = True,
    watch: Watch | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """Search the fastest variant of a product; Ctrl-C ends it with what was measured.

    `resume` takes what the store has of this machine as measured.

    Raises:
        TilewrightError: no GPU, no room for the operands, or a GPU that was lost on the way. What
            was measured before is in the store.
    """
    where = workers or Workers()
    machine = where.measuring.submit(opener.machine).result()
    run = _Run(operation, gpu, opener, store, where, machine, resume, watch)
    began = clock()
    ended = "done"
    try:
        asking = strategy(Candidates(variants=run.variants, predicted=run.predicted))
        ask = next(asking, None)
        while ask is not None:
            if not run.answer(ask, lambda: clock() - began >= budget_s):
                ended = "budget"
                break
            ask = _next(asking, run.answers(ask))
    except KeyboardInterrupt:
        ended = "interrupted"
    finally:
        run.stop()
    trials = tuple(run.trials.values())
    return Found(
        operation=operation,
        trials=trials,
        best=fastest(trials, machine).get(operation.key),
        first_s=run.first_s,
        measured=run.measured,
        space=len(run.variants),
        seconds=clock() - began,
        ended=ended,
    )


def _next(asking: Any, answers: Mapping[Variant, float]) -> Ask | None:  # noqa: ANN401
    try:
        found: Ask = asking.send(answers)
    except StopIteration:
        return None
    return found


class _Run:
    """One search on its way: what is known, what compiles, what is being measured."""

    def __init__(
        self,
        operation: Operation,
        gpu: Gpu,
        opener: Opener,
        store: Store,
        workers: Workers,
        machine: Machine,
        resume: bool,
        watch: Watch | None,
    ) -> None:
        self.variants = space(operation, gpu)
        self.predicted = predict(operation, self.variants, gpu)
        self.measured = 0
        self._operation, self._opener, self._store = operation, opener, store
        self._arch = gpu.arch
        self._workers, self._machine, self._watch = workers, machine, watch
        self._compiling: dict[Variant, Future[str | None]] = {}
        self._running: set[Future[list[Trial]]] = set()
        known = store.trials(machine.gpu, operation.key) if resume else []
        known.sort(key=attrgetter("date"))
        self.trials = {t.variant: t for t in known if t.machine == machine}

    @property
    def first_s(self) -> float | None:
        """The time of the variant that was predicted to be the fastest, where it is known."""
        first = self.trials.get(self.variants[0]) if self.variants else None
        return first.median_s if first is not None else None

    def answer(self, ask: Ask, late: Callable[[], bool]) -> bool:
        """Measure what is asked for and not known yet; False where time is up before the end."""
        left = [v for v in ask.variants if not self._is_known(v, ask.measure_s)]
        self._compile([*left, *(v for v in self.variants if v not in self.trials)])
        lanes = self._workers.lanes
        size = max(1, math.ceil(len(left) / lanes))  # one GPU times all side by side
        groups = [left[first : first + size] for first in range(0, len(left), size)]
        for group in groups:
            ready = [v for v in group if self._compiled(v)]
            if late():
                return False
            if ready:
                self._running.add(
                    self._workers.measuring.submit(
                        jobs.measure, self._opener, tuple(ready), ask.measure_s
                    )
                )
            while len(self._running) >= lanes:
                self._collect()
        while self._running:
            self._collect()
        return True

    def answers(self, ask: Ask) -> dict[Variant, float]:
        """Return the times of what was asked for, infinite where there is none."""
        times = {}
        for variant in ask.variants:
            trial = self.trials.get(variant)
            median_s = trial.median_s if trial is not None else None
            times[variant] = math.inf if median_s is None else median_s
        return times

    def stop(self) -> None:
        """Wait for what is running, drop what is not, and close the measurer of this process."""
        for job in self._compiling.values():
            job.cancel()
        for running in self._running:
            running.cancel()
        if isinstance(self._workers.measuring, Inline):
            jobs.close_measurer()

    def _is_known(self, variant: Variant, measure_s: float) -> bool:
        trial = self.trials.get(variant)
        return trial is not None and (trial.state != "timed" or trial.measure_s >= measure_s)

    def _compile(self, wanted: Sequence[Variant]) -> None:
        """Have what is wanted compiled, the first of it first, without running far ahead."""
        pool = self._workers.compiling
        if pool is None:
            return
        waiting = sum(not job.done() for job in self._compiling.values())
        for variant in wanted:
            if waiting >= _AHEAD:
                break
            if variant not in self._compiling:
                job = pool.submit(self._workers.compile, self._operation, variant, self._arch)
                self._compiling[variant] = job
                waiting += 1

    def _compiled(self, variant: Variant) -> bool:
        """Wait for a kernel, and keep why it does not compile."""
        if self._workers.compiling is None:
            return True
        self._compile([variant])
        job = self._compiling.get(variant)
        refusal = job.result() if job is not None else None
        if refusal is not None:
            self._keep([self._refused(variant, refusal)])
        return refusal is None

    def _refused(self, variant: Variant, reason: str) -> Trial:
        return Trial(
            machine=self._machine,
            operation=self._operation.key,
            variant=variant,
            state="failed",
            message=reason,
        )

    def _collect(self) -> None:
        """Keep the trials of the next job that ends."""
        done, self._running = wait(self._running, return_when=FIRST_COMPLETED)
        failures = [error for job in done if (error := job.exception()) is not None]
        for job in done:
            if job.exception() is None:
                self._keep(job.result())
        if failures:
            raise failures[0]

    def _keep(self, trials: Iterable[Trial]) -> None:
        fresh = list(trials)
        for trial in fresh:
            self.measured += trial.variant not in self.trials
            self.trials[trial.variant] = trial
        self._store.add(fresh)
        if self._watch is not None:
            for trial in fresh:
                self._watch(trial, len(self.trials), len(self.variants))
