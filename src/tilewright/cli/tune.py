"""`tilewright tune`: measure variants of a product, and keep the fastest for whoever asks."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.group import INTERRUPTED
from tilewright.cli.output import (
    HtmlOption,
    JsonOption,
    PlotOption,
    check_file,
    check_html,
    check_json,
    check_plot,
    output_json,
    output_text,
    print_note,
    print_report,
    refuse_beside,
)
from tilewright.cli.progress import spinning_bar
from tilewright.cli.sizes import (
    BatchOption,
    ColumnsOption,
    DepthOption,
    LayoutOption,
    RowsOption,
    SizeOption,
    cases_named,
)
from tilewright.errors import DeviceError, TilewrightError

if TYPE_CHECKING:
    from tilewright.gpus import Gpu
    from tilewright.kernels.gemm.operation import Operation
    from tilewright.tuning.review import Review
    from tilewright.tuning.search import Found, Watch, Workers
    from tilewright.tuning.store import Store
    from tilewright.tuning.strategies import Strategy
    from tilewright.tuning.trial import Trial

_WITHOUT_GPU = (
    "without a GPU, --replay, --import and --export work, --cluster tunes on other machines, and "
    "`tilewright bench --why --gpu H200` says what the model chooses"
)
# Searches of a file that an error names.
_NAMED = 3


def tune(
    suite: Annotated[
        str | None, typer.Option(help="Suites of `tilewright bench`, such as squares,complaints.")
    ] = None,
    size: SizeOption = None,
    m: RowsOption = None,
    n: ColumnsOption = None,
    k: DepthOption = None,
    batch: BatchOption = 1,
    layout: LayoutOption = None,
    strategy: Annotated[
        str, typer.Option(help="model (20 candidates), halving, random or exhaustive.")
    ] = "model",
    budget: Annotated[
        float | None, typer.Option(min=0, help="Seconds for all of it; what is measured is kept.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what the store has.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes that compile; default one a core.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Measure on the GPUs of a Dask cluster.")
    ] = None,
    import_from: Annotated[
        str | None, typer.Option("--import", metavar="FILE", help="Take times from --export.")
    ] = None,
    export_to: Annotated[
        str | None, typer.Option("--export", metavar="FILE", help="Write the store as JSON.")
    ] = None,
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Rename a store that is no use, and start anew.")
    ] = False,
    replay: Annotated[
        str | None, typer.Option(metavar="FILE", help="Show searches of --json; measure nothing.")
    ] = None,
    plot: PlotOption = None,
    html: HtmlOption = None,
    json: JsonOption = None,
) -> None:
    """Search the fastest kernel and tile for products, on this machine's GPU, and keep it.

    Every candidate is verified against float64 before it is timed. What is measured is kept as it
    comes, so Ctrl-C loses nothing, and the same command goes on from there.

    Example: tilewright tune --m 64 --n 4096 --k 14336 --layout nt --budget 60
    """
    check_json(json)
    check_plot(plot)
    check_html(html)
    check_file("--export", export_to)
    sizes = {"size": size, "m": m, "n": n, "k": k}
    searching = suite is not None or any(value is not None for value in sizes.values())
    cases = cases_named(suite, sizes, batch, layout) if searching else []
    operations = list(dict.fromkeys(each.operation for _, each in cases))
    if replay is not None:
        others = {
            "--import": import_from, "--export": export_to, "--cluster": cluster, "--json": json,
            "--budget": budget, "--jobs": jobs, "--fresh": fresh or None,
            "--set-aside": set_aside or None, "--layout": None if searching else layout,
            "--strategy": None if strategy == "model" else strategy,
        }  # fmt: skip
        refuse_beside("--replay", others)
        _replay(replay, operations, plot=plot, html=html)
        return
    if not (searching or import_from or export_to or set_aside):
        raise TilewrightError("nothing to tune: give --size, --m --n --k, or --suite")
    if (plot or html) and not searching:
        raise TilewrightError("--plot and --html show searches: give products too, or --replay")

    from tilewright.settings import read_settings
    from tilewright.tuning.store import Store, export_trials, import_trials
    from tilewright.tuning.store import set_aside as rename
    from tilewright.tuning.strategies import strategy as find

    chosen = find(strategy)
    path = read_settings().store
    if set_aside:
        print_note(f"renamed to {rename(_named(path))}")
    imported = import_trials(import_from) if import_from else []
    searches: list[Found] = []
    with Store(path) as store:
        if import_from:
            store.add(imported)
            print_note(f"imported {len(imported)} trials")
        if searching:
            with ExitStack() as stack:
                workers, card = _workers(cluster, jobs, stack)
                watch = stack.enter_context(_progress(operations))
                deadline = time.monotonic() + (float("inf") if budget is None else budget)
                for operation in operations:
                    left = deadline - time.monotonic()
                    searches.append(
                        _search(operation, card, chosen, store, workers, left, not fresh, watch)
                    )
                    if searches[-1].ended != "done":
                        break
            _show(searches, card, json)
            _draw_found(searches, card, plot=plot, html=html)
        if export_to:
            trials = store.trials()
            export_trials(export_to, trials)
            print_note(f"exported {len(trials)} trials to {export_to}")
    _conclude(searches)


def _conclude(searches: Sequence[Found]) -> None:
    if any(found.ended == "interrupted" for found in searches):
        typer.echo("interrupted; what was measured is kept", err=True)
        raise typer.Exit(INTERRUPTED)
    if any(found.ended == "done" and found.best is None for found in searches):
        raise typer.Exit(1)


def _named(path: Path | None) -> Path:
    if path is None:
        raise TilewrightError("--set-aside: TILEWRIGHT_STORE=0 keeps no file")
    return path


def _workers(cluster: str | None, jobs: int | None, stack: ExitStack) -> tuple[Workers, Gpu]:
    """Return where to measure and compile, and the GPU there."""
    from tilewright.tuning.fleet import cluster_workers, local_workers

    if cluster is not None:
        return cluster_workers(cluster, stack)
    try:
        return local_workers(jobs, stack)
    except DeviceError as error:
        raise DeviceError(f"{error}; {_WITHOUT_GPU}") from error


def _search(
    operation: Operation,
    card: Gpu,
    strategy: Strategy,
    store: Store,
    workers: Workers,
    seconds: float,
    resume: bool,
    watch: Watch,
) -> Found:
    from tilewright.tuning.measure import OnDevice
    from tilewright.tuning.search import search

    return search(
        operation,
        card,
        strategy=strategy,
        opener=OnDevice(operation=operation),
        store=store,
        workers=workers,
        budget_s=seconds,
        resume=resume,
        watch=watch,
    )


def _show(searches: Sequence[Found], card: Gpu, json: str | None) -> None:
    from tilewright.report.tuning import tuning_table
    from tilewright.tuning.replay import recorded

    if json is not None:
        output_json(recorded(searches), json)
    if json != "-" and searches:
        print_report(tuning_table(searches, card.name))


def _replay(
    path: str, operations: Sequence[Operation], *, plot: str | None, html: str | None
) -> None:
    """Show the searches of a file, of the products named or of all."""
    from tilewright.report.tuning import best_table, review_table, strategies_table
    from tilewright.report.tuning_charts import over_all
    from tilewright.tuning.replay import read_recordings
    from tilewright.tuning.review import review

    recordings = [each for each in read_recordings(path) if each.trials]
    kept = [each for each in recordings if not operations or each.operation in operations]
    if not kept:
        has = ", ".join(each.operation.key for each in recordings[:_NAMED]) or "none"
        more = f" and {len(recordings) - _NAMED} more" if len(recordings) > _NAMED else ""
        raise TilewrightError(f"{path} has no search of that product: it has {has}{more}")
    reviews = [review(each) for each in kept]
    print_report(review_table(reviews))
    if len(reviews) == 1 and reviews[0].first is not None:
        print_report(best_table(reviews[0]))
    courses = over_all(reviews)
    if courses:
        print_report(strategies_table(courses))
    _draw(reviews, plot=plot, html=html)


def _draw_found(
    searches: Sequence[Found], card: Gpu, *, plot: str | None, html: str | None
) -> None:
    """Draw the searches just done, but those that time did not suffice for."""
    if plot is None and html is None:
        return
    from tilewright.tuning.replay import Recording
    from tilewright.tuning.review import review

    tried = [
        Recording(operation=found.operation, trials=found.trials, space=found.space)
        for found in searches
        if found.trials
    ]
    if tried:
        _draw([review(each, card) for each in tried], plot=plot, html=html)
    else:
        typer.echo("nothing was measured, so nothing is drawn", err=True)


def _draw(reviews: Sequence[Review], *, plot: str | None, html: str | None) -> None:
    if plot is not None:
        from tilewright.records import write_bytes
        from tilewright.report.tuning_charts import tuning_png

        write_bytes(plot, tuning_png(reviews))
    if html is not None:
        from tilewright.report.tuning_page import tuning_page

        output_text(tuning_page(reviews), "--html", html)


@contextmanager
def _progress(operations: Sequence[Operation]) -> Iterator[Watch]:
    """Show on stderr what is measured: a bar on a terminal, else a line each."""
    if not sys.stderr.isatty():
        yield lambda trial, done, total: typer.echo(_line(trial, done, total), err=True)
        return
    with spinning_bar() as bar:
        task = bar.add_task(f"{len(operations)} operations")
        yield lambda trial, done, total: bar.update(task, description=_line(trial, done, total))


def _line(trial: Trial, done: int, total: int) -> str:
    took = trial.state if trial.median_s is None else f"{1e6 * trial.median_s:.4g} µs"
    return f"{trial.operation} {done}/{total}: {took} {trial.variant}"
