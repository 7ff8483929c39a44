"""Trials on a GPU: compile, verify, then time; and what a search needs of whoever does so."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from tilewright.bench.contenders import Ours, Way
from tilewright.bench.environment import describe_environment
from tilewright.bench.gemm import OperationBench
from tilewright.bench.operands import DeviceSets, Operands
from tilewright.bench.timing import Budget
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.errors import CompileError, DeviceError, LaunchError, TilewrightError
from tilewright.kernels.gemm.build import compile_for_gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.records import Timing
from tilewright.tuning.trial import Machine, State, Trial, this_gpu

_WARM_SHARE = 0.2
_MIN_ROUNDS = 3


class Measurer(Protocol):
    """Tries variants of one operation on one GPU."""

    def measure(self, variants: Sequence[Variant], measure_s: float) -> list[Trial]:
        """Return the trial of each, timed side by side for `measure_s` seconds each.

        Raises:
            DeviceError: the GPU can measure nothing more.
        """

    def close(self) -> None:
        """Give back what it holds of the GPU."""


class Opener(Protocol):
    """Makes a measurer, on the machine that measures: a value that can be sent there."""

    def __call__(self) -> Measurer:
        """Return a measurer.

        Raises:
            TilewrightError: no GPU, or one without room for the operands.
        """

    def machine(self) -> Machine:
        """Return what times are kept under.

        Raises:
            DeviceError: no GPU.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDevice:
    """The opener for a real GPU."""

    operation: Operation
    ordinal: int = 0

    def __call__(self) -> Measurer:
        """Return a measurer with its operands on the GPU."""
        return DeviceMeasurer(self.operation, self.ordinal)

    def machine(self) -> Machine:
        """Return this machine."""
        return this_gpu(self.ordinal)


class DeviceMeasurer:
    """One operation on one GPU: its operands stay there, each variant comes and goes.

    Raises:
        ProblemError: operands that do not fit on the GPU.
        DeviceError: no GPU, or too little of its memory free.
    """

    def __init__(self, operation: Operation, ordinal: int = 0) -> None:
        self._operation = operation
        self._machine = this_gpu(ordinal)
        self._session = open_session(ordinal)
        self._session.enter()
        self._commit = describe_environment(self._session.info).commit
        self._lost: DeviceError | None = None
        self._stack = ExitStack()
        try:
            arena = self._stack.enter_context(Arena(self._session))
            self._operands = Operands(operation)
            self._sets = DeviceSets(arena, self._operands)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """Free the operands."""
        self._stack.close()

    def measure(self, variants: Sequence[Variant], measure_s: float) -> list[Trial]:
        """Verify each variant, and time those that are right side by side.

        Raises:
            DeviceError: an earlier fault has lost the GPU to this process.
        """
        if self._lost is not None:
            raise self._lost
        trials: dict[Variant, Trial] = {}
        try:
            with Arena(self._session) as arena:
                self._try(variants, measure_s, arena, trials)
        except DeviceError:
            if self._lost is None:  # else memory cannot be freed either
                raise
        return [trials[v] for v in variants if v in trials]

    def _try(
        self,
        variants: Sequence[Variant],
        measure_s: float,
        arena: Arena,
        trials: dict[Variant, Trial],
    ) -> None:
        """Put the trials of variants into `trials`, until one of them loses the GPU."""
        ways: dict[str, Way] = {}
        for variant in variants:
            way = self._ready(variant, arena, trials)
            if self._lost is not None:
                return
            if way is not None:
                ways[way.name] = way
        bench = OperationBench(arena, self._sets)
        for name, timing in self._time(bench, ways, measure_s, trials).items():
            timed = ways[name].variant
            assert timed is not None
            trials[timed] = self._trial(timed, "timed", timing=timing, measure_s=measure_s)

    def _ready(self, variant: Variant, arena: Arena, trials: dict[Variant, Trial]) -> Way | None:
        """Return the way to time, or say in `trials` why there is none."""
        try:
            (way,) = Ours(lambda _: [variant]).ways(self._operation, arena)
            self._sets.poison()
            way.bind(self._sets.pointers[0])()
            found = self._operands.judge(self._sets.result())
        except TilewrightError as error:
            trials[variant] = self._trial(variant, "failed", message=str(error))
            self._still_there()
            return None
        if not found.ok:
            trials[variant] = self._trial(variant, "wrong", message=found.message())
            return None
        return way

    def _time(
        self,
        bench: OperationBench,
        ways: Mapping[str, Way],
        measure_s: float,
        trials: dict[Variant, Trial],
    ) -> Mapping[str, Timing]:
        if not ways:
            return {}
        total = measure_s * len(ways)
        budget = Budget(warmup_s=_WARM_SHARE * total, measure_s=total, min_rounds=_MIN_ROUNDS)
        try:
            return bench.time(ways, budget)
        except (DeviceError, LaunchError) as error:
            for way in ways.values():
                assert way.variant is not None
                trials[way.variant] = self._trial(way.variant, "failed", message=str(error))
            self._still_there()
            return {}

    def _still_there(self) -> None:
        """Remember where a fault has lost the GPU: whatever comes next would fail for that."""
        try:
            self._session.synchronize()
        except DeviceError as error:
            self._lost = error

    def _trial(
        self,
        variant: Variant,
        state: State,
        *,
        timing: Timing | None = None,
        measure_s: float = 0.0,
        message: str = "",
    ) -> Trial:
        return Trial(
            machine=self._machine,
            operation=self._operation.key,
            variant=variant,
            state=state,
            median_s=timing.median_s if timing else None,
            spread=timing.spread if timing else None,
            measure_s=measure_s,
            message=message,
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            commit=self._commit,
        )


class _Open(threading.local):
    """The measurers of this thread, at most one: a GPU's context belongs to a thread."""

    def __init__(self) -> None:
        self.by_opener: dict[Opener, Measurer] = {}


_open = _Open()


def measure(opener: Opener, variants: Sequence[Variant], measure_s: float) -> list[Trial]:
    """Try variants with this thread's measurer: the job that an executor runs on any machine.

    The measurer stays open for the next job of the same opener; `close_measurer` ends it.
    """
    found = _open.by_opener.get(opener)
    if found is None:
        close_measurer()
        found = _open.by_opener[opener] = opener()
    return found.measure(variants, measure_s)


def close_measurer() -> None:
    """Close this thread's measurer."""
    while _open.by_opener:
        _open.by_opener.popitem()[1].close()


def compile_ahead(operation: Operation, variant: Variant, arch: str) -> str | None:
    """Compile into the cache that all processes share; return why not, if not."""
    try:
        compile_for_gpu(operation, variant, arch)
    except CompileError as error:
        return str(error)
    return None
