"""Suites on a GPU: every case verified and timed, our kernels beside the baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.bench.baselines import opened_baselines
from tilewright.bench.build import build_all
from tilewright.bench.contenders import Ours
from tilewright.bench.gemm import Entry, run_operation
from tilewright.bench.operands import KINDS, Kind
from tilewright.bench.results import BenchRecord, record
from tilewright.bench.suites import Case
from tilewright.bench.timing import Budget
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.device.standin import gpu_of
from tilewright.errors import ProblemError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation

# Which variants compute an operation; of several the fastest is found by timing.
Choose: TypeAlias = Callable[[Operation], Sequence[Variant]]
BUDGET = Budget(warmup_s=0.05, measure_s=0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure: cases by suite, by what, and for how long each."""

    cases: Sequence[tuple[str, Case]]
    choose: Choose
    baselines: Sequence[str]
    budget: Budget = field(default=BUDGET)
    kinds: Sequence[Kind] = KINDS


def measure_suites(
    plan: Plan, absent: dict[str, str], watch: Callable[[str], None] | None = None
) -> Iterator[BenchRecord]:
    """Measure case after case, as they are asked for; `absent` is filled with missing baselines.

    `watch` is told what comes next. A case that does not fit on the GPU is kept, with the reason.

    Raises:
        DeviceError: no GPU, or a fault of a kernel.
    """
    say = watch or (lambda _: None)
    session = open_session(0)
    gpu = gpu_of(session.info)
    chosen: Mapping[Operation, Sequence[Variant]] = {
        case.operation: plan.choose(case.operation) for _, case in plan.cases
    }
    say("compiling")
    jobs = ((operation, variant) for operation, vs in chosen.items() for variant in vs)
    for built in build_all(jobs, session.info.arch):
        plain = f", its loop as ptxas has it: {built.refused}" if built.refused else ""
        say(f"compiled {built.expression}{plain}")
    session.enter()
    with Arena(session) as arena, opened_baselines(arena, plan.baselines) as (found, missing):
        absent.update(missing)
        contenders = [Ours(lambda operation: chosen[operation]), *found]
        for suite, case in plan.cases:
            say(case.name)
            try:
                entries = run_operation(
                    session, case.operation, contenders, budget=plan.budget, kinds=plan.kinds
                )
            except ProblemError as error:
                entries = {c.name: Entry(checks={}, reason=str(error)) for c in contenders}
            yield record(suite, case, gpu, contenders, entries)
