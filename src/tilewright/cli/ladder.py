"""`tilewright ladder`: climb from the naive kernel to the last rung, with or without a GPU."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.output import (
    HtmlOption,
    JsonOption,
    check_html,
    check_json,
    output_json,
    output_text,
    print_note,
    print_table,
)
from tilewright.cli.progress import counting_bar
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench.ladder import Step, Target, Watch
    from tilewright.kernels import Rung
    from tilewright.problem import Problem
    from tilewright.records import LadderRecord

_BACKENDS = ("auto", "emulator", "device")


def ladder(
    size: Annotated[int | None, typer.Option(help="m = n = k; default 4092.")] = None,
    m: Annotated[int | None, typer.Option(help="Rows of A and C.")] = None,
    n: Annotated[int | None, typer.Option(help="Columns of B and C.")] = None,
    k: Annotated[int | None, typer.Option(help="Columns of A, rows of B.")] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU of `tilewright gpus`.")] = None,
    backend: Annotated[
        str, typer.Option(help="auto (a GPU if there is one), emulator or device.")
    ] = "auto",
    rungs: Annotated[
        str | None, typer.Option(help="Which, by name or number: 'naive,coalesced' or '01,02'.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Emulate every block, not a sample of them.")
    ] = False,
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Run every kernel of the ladder: prove each right, count what it does, time it on a GPU.

    Without a GPU the kernels run on this machine's CPU, compiled for an RTX A6000 (or --gpu).
    A sample of the blocks of C is computed and checked; the counts are those of the whole launch.

    Example: tilewright ladder --size 1024 --gpu H200
    """
    check_json(json)
    check_html(html)
    if backend not in _BACKENDS:
        raise TilewrightError(f"--backend {backend!r}: choose one of {', '.join(_BACKENDS)}")

    from tilewright.bench.environment import describe_environment
    from tilewright.bench.ladder import CHAPTER_SIZE, choose, climb
    from tilewright.cli.sizes import problem_named
    from tilewright.kernels import PUBLISHED_CUBLAS_GFLOPS
    from tilewright.records import records_to_json
    from tilewright.report.ladder import ladder_table

    problem = problem_named({"size": size, "m": m, "n": n, "k": k}, CHAPTER_SIZE)
    chosen = _rungs(rungs)
    target = choose(gpu, backend)  # type: ignore[arg-type]
    environment = describe_environment(target.device)
    steps: list[Step] = []
    with _progress(chosen, target) as watch:
        for step in climb(
            problem, chosen, target, full=full, environment=environment.key, watch=watch
        ):
            steps.append(step)
    records = [step.record for step in steps]
    if json is not None:
        output_json(records_to_json(environment, records), json)
    if html is not None:
        output_text(_page(records, problem, target), "--html", html)
    if json != "-":
        table = ladder_table(records, PUBLISHED_CUBLAS_GFLOPS)
        print_table(table.columns, table.rows, title=table.title)
        for note in table.notes:
            print_note(note)
    wrong = [step for step in steps if not step.record.verified]
    for step in wrong:
        typer.echo(f"error: {step.record.rung} is {step.message}", err=True)
    if wrong:
        raise typer.Exit(1)


def _page(records: list[LadderRecord], problem: Problem, target: Target) -> str:
    """Return the climb as a page, with a figure of each rung at work."""
    from tilewright.bench.tile_steps import tile_figure
    from tilewright.kernels import rung
    from tilewright.report.ladder_page import ladder_page

    figures = {r.rung: tile_figure(rung(r.rung), target.gpu, problem=problem) for r in records}
    return ladder_page(records, figures)


def _rungs(names: str | None) -> list[Rung]:
    """Return what an option names, history first, then in the ladder's order; else the ladder."""
    from tilewright.kernels import HISTORY, RUNGS, rung

    if names is None:
        return list(RUNGS.values())
    wanted = {rung(name).name for name in names.split(",") if name.strip()}
    if not wanted:
        raise TilewrightError("--rungs names no rung: give names or numbers, such as 01,02")
    return [r for name, r in {**HISTORY, **RUNGS}.items() if name in wanted]


@contextmanager
def _progress(rungs: list[Rung], target: Target) -> Iterator[Watch]:
    """Show on stderr how far the climb is: a bar on a terminal, else a line a rung."""
    where = f"{'on' if target.backend == 'device' else 'emulating'} {target.gpu.name}"
    if not sys.stderr.isatty():
        start = time.monotonic()

        def line(rung: Rung) -> None:
            typer.echo(f"[{time.monotonic() - start:6.1f} s] {rung.name} {where}", err=True)

        yield line
        return
    with counting_bar("{task.fields[blocks]}") as bar:
        task = bar.add_task(where, total=len(rungs), blocks="")
        begun = 0

        def show(rung: Rung):  # type: ignore[no-untyped-def]  # noqa: ANN202
            nonlocal begun
            bar.update(task, completed=begun, description=f"{rung.name} {where}", blocks="")
            begun += 1
            return lambda done, total: bar.update(task, blocks=f"{done}/{total} blocks")

        yield show
        bar.update(task, completed=len(rungs))
