"""`tilewright bench`: our kernels beside the libraries, in suites; records, pictures, verdicts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.output import (
    HtmlOption,
    JsonOption,
    PlotOption,
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
    from tilewright.bench.results import BenchFile, BenchRecord
    from tilewright.bench.run import Choose
    from tilewright.bench.suites import Case

_VARIANTS = ("chosen", "all")
_BASELINES = "cublas,cublaslt,triton"
_WITHOUT_GPU = (
    "without a GPU `tilewright bench` compares files of records (--compare OLD NEW), shows and "
    "draws one (--records FILE --plot PICTURE --html PAGE), and explains choices (--why --gpu H200)"
)


def bench(
    suite: Annotated[
        str | None, typer.Option(help="Suites, such as squares,complaints; default squares.")
    ] = None,
    size: SizeOption = None,
    m: RowsOption = None,
    n: ColumnsOption = None,
    k: DepthOption = None,
    batch: BatchOption = 1,
    layout: LayoutOption = None,
    variants: Annotated[
        str, typer.Option(help="chosen (as matmul chooses) or all (the fastest of them).")
    ] = "chosen",
    baselines: Annotated[
        str, typer.Option(help="Of cublas, cublaslt, torch, triton.")
    ] = _BASELINES,
    why: Annotated[bool, typer.Option("--why", help="Say why each variant is chosen.")] = False,
    gpu: Annotated[str | None, typer.Option(help="With --why: a GPU of `tilewright gpus`.")] = None,
    records: Annotated[
        str | None, typer.Option(metavar="FILE", help="Show a file of records; measure nothing.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(metavar="OLD NEW", help="Compare two such files.")
    ] = None,
    fail_slower: Annotated[
        bool, typer.Option("--fail-slower", help="With --compare: exit code 1 if one is slower.")
    ] = False,
    plot: PlotOption = None,
    html: HtmlOption = None,
    json: JsonOption = None,
) -> None:
    """Time our float32 products beside cuBLAS, cublasLt and Triton, in one interleaved run.

    Every result is verified against float64 first, on four kinds of data.

    Example: tilewright bench --suite squares --json new.json --html new.html
    """
    check_json(json)
    check_plot(plot)
    check_html(html)
    if variants not in _VARIANTS:
        raise TilewrightError(f"--variants {variants!r}: choose one of {', '.join(_VARIANTS)}")
    measuring = {
        "--variants": None if variants == _VARIANTS[0] else variants,
        "--baselines": None if baselines == _BASELINES else baselines,
    }
    naming = {
        "--suite": suite, "--size": size, "--m": m, "--n": n, "--k": k,
        "--batch": None if batch == 1 else batch, "--layout": layout,
        "--why": why or None, "--gpu": gpu,
    }  # fmt: skip
    if compare is not None:
        refuse_beside("--compare", {"--records": records, "--json": json, **naming, **measuring})
        _compare(*compare, plot=plot, html=html, fail_slower=fail_slower)
        return
    if fail_slower:
        raise TilewrightError("--fail-slower needs --compare OLD NEW")
    if records is not None:
        from tilewright.bench.results import read_bench

        refuse_beside("--records", {**naming, **measuring})
        _show(read_bench(records), plot=plot, html=html, json=json)
        return
    cases = cases_named(suite, {"size": size, "m": m, "n": n, "k": k}, batch, layout)
    if why:
        refuse_beside("--why", {"--plot": plot, "--html": html, "--json": json, **measuring})
        _why([case for _, case in cases], gpu)
        return
    named = [name.strip() for name in baselines.split(",") if name.strip()]
    if (plot or html) and "cublas" not in named:
        raise TilewrightError("--plot and --html draw times beside cublas: add it to --baselines")
    file, stopped = _measure(cases, variants, named)
    if file.records:
        _show(file, plot=plot, html=html, json=json)
    _conclude(file, stopped)


def _conclude(file: BenchFile, stopped: BaseException | None) -> None:
    """End as what was measured deserves: wrong results, or what stopped it."""
    wrong = [(each.case, run) for each in file.records for run in each.runs if run.wrong]
    for case, run in wrong:
        typer.echo(f"error: {case}: {run.contender} is {run.reason}", err=True)
    if stopped is not None:
        raise stopped
    if any(run.contender == "tilewright" for _, run in wrong):
        raise typer.Exit(1)


def _why(cases: Sequence[Case], name: str | None) -> None:
    """Print why each case's variant is chosen, for a GPU named or this machine's."""
    from tilewright.device import require_device
    from tilewright.device.standin import gpu_of
    from tilewright.gpus import gpu
    from tilewright.tuning.choice import why

    try:
        card = gpu(name) if name is not None else gpu_of(require_device())
    except DeviceError as error:
        raise DeviceError(f"{error}; --why works without one: name a GPU, --gpu H200") from error
    card.require_arch()
    for case in cases:
        typer.echo(case.name)
        for line in why(case.operation, card):
            print_note(f"  {line}")


def _measure(
    cases: list[tuple[str, Case]], variants: str, baselines: list[str]
) -> tuple[BenchFile, BaseException | None]:
    """Measure the cases; what was measured is kept when it is interrupted or the GPU fails."""
    from tilewright.bench.baselines import check_baselines
    from tilewright.bench.environment import describe_environment
    from tilewright.bench.results import BenchFile
    from tilewright.bench.run import Plan, measure_suites
    from tilewright.device import require_device

    named = check_baselines(baselines)
    try:
        device = require_device()
    except DeviceError as error:
        raise DeviceError(f"{error}; {_WITHOUT_GPU}") from error
    plan = Plan(cases=cases, choose=_chooser(variants), baselines=named)
    absent: dict[str, str] = {}
    records: list[BenchRecord] = []
    stopped: BaseException | None = None
    with _progress(len(cases)) as watch:
        try:
            # One by one, so that those before an error are kept.
            for record in measure_suites(plan, absent, watch):
                records.append(record)
        except (KeyboardInterrupt, DeviceError) as error:
            stopped = error
    environment = describe_environment(device)
    return BenchFile(environment=environment, records=tuple(records), absent=absent), stopped


def _chooser(variants: str) -> Choose:
    from tilewright.device import require_device
    from tilewright.device.standin import gpu_of
    from tilewright.kernels.gemm.registry import variants as every
    from tilewright.tuning.choice import choose

    card = gpu_of(require_device())
    if variants == "all":
        return lambda operation: tuple(every(operation, card))
    return lambda operation: (choose(operation, card).variant,)


def _show(file: BenchFile, *, plot: str | None, html: str | None, json: str | None) -> None:
    from tilewright.report.bench import bench_table, summary_table

    if json is not None:
        output_json(file.to_json(), json)
    if plot is not None:
        from tilewright.records import write_bytes
        from tilewright.report.bench_charts import bench_png

        write_bytes(plot, bench_png(file))
    if html is not None:
        from tilewright.report.bench_page import bench_page

        output_text(bench_page(file), "--html", html)
    if json != "-":
        for table in (bench_table(file), summary_table(file)):
            print_report(table)


def _compare(old: str, new: str, *, plot: str | None, html: str | None, fail_slower: bool) -> None:
    from tilewright.bench.compare import compare
    from tilewright.bench.results import read_bench
    from tilewright.report.bench import comparison_table

    before, after = read_bench(old), read_bench(new)
    found = compare(before, after)
    if plot is not None:
        from tilewright.records import write_bytes
        from tilewright.report.bench_charts import comparison_png

        write_bytes(plot, comparison_png(found, before, after))
    if html is not None:
        from tilewright.report.bench_page import comparison_page

        output_text(comparison_page(found, before, after), "--html", html)
    print_report(comparison_table(found))
    if fail_slower and any(each.verdict.word == "slower" for each in found.cases):
        raise typer.Exit(1)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is measured: a bar on a terminal, else a line each."""
    if not sys.stderr.isatty():
        yield lambda text: typer.echo(text, err=True)
        return
    with spinning_bar() as bar:
        task = bar.add_task("", total=total)
        yield lambda text: bar.update(task, description=text)
