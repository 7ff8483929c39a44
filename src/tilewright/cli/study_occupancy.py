"""`tilewright study occupancy`: how fast a rung is by the warps that a multiprocessor holds."""

from __future__ import annotations

from typing import Annotated

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
from tilewright.cli.study_progress import progress
from tilewright.errors import TilewrightError

_BACKENDS = ("auto", "model", "device")
_DEFAULT_SIZE = 4096


def occupancy(
    rung: Annotated[str, typer.Argument(help="A rung: a name or a number.")],
    size: Annotated[int | None, typer.Option(help="m = n = k; default 4096.")] = None,
    m: Annotated[int | None, typer.Option(help="Rows of A and C.")] = None,
    n: Annotated[int | None, typer.Option(help="Columns of B and C.")] = None,
    k: Annotated[int | None, typer.Option(help="Columns of A, rows of B.")] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU of `tilewright gpus`.")] = None,
    backend: Annotated[
        str, typer.Option(help="auto (measured too if there is a GPU), model or device.")
    ] = "auto",
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Show how fast a rung is by its occupancy, where that stops mattering, and why.

    Its occupancy is forced down with shared memory that nobody uses, and up with fewer registers.
    The time model says how fast each point is, for an H200 or --gpu; a GPU measures them too.

    Example: tilewright study occupancy 08_warptiled --size 4096 --gpu "RTX A6000"
    """
    check_json(json)
    check_html(html)
    if backend not in _BACKENDS:
        raise TilewrightError(f"--backend {backend!r}: choose one of {', '.join(_BACKENDS)}")

    from tilewright.bench.ladder import choose
    from tilewright.cli.sizes import problem_named
    from tilewright.kernels import rung as find_rung
    from tilewright.launchfile import DEFAULT_GPU
    from tilewright.report.occupancy_study import occupancy_study
    from tilewright.study.occupancy import occupancy_curve

    chosen = find_rung(rung)
    problem = problem_named({"size": size, "m": m, "n": n, "k": k}, _DEFAULT_SIZE)
    target = choose(gpu, "emulator" if backend == "model" else backend, DEFAULT_GPU)  # type: ignore[arg-type]
    with progress(chosen.name) as watch:
        curve = occupancy_curve(chosen, problem, target.gpu, watch=watch)
        if target.backend == "device":
            from tilewright.study.device import measured

            curve = measured(curve, watch=watch)
    if json is not None:
        output_json(curve.to_json(), json)
    if html is not None:
        from tilewright.report.occupancy_page import occupancy_page

        output_text(occupancy_page(curve), "--html", html)
    if json != "-":
        told = occupancy_study(curve)
        print_note(told.verdict)
        print_table(told.table.columns, told.table.rows, title=told.table.title)
        for text in (*told.table.notes, *told.why):
            print_note(text)
