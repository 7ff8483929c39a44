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
from tilewright.cli.study_curve import (
    DEFAULT_SIZE,
    BackendOption,
    check_backend,
    curve_of,
    target_of,
)


def occupancy(
    rung: Annotated[str, typer.Argument(help="A rung: a name or a number.")],
    size: Annotated[int | None, typer.Option(help="m = n = k; default 4096.")] = None,
    m: Annotated[int | None, typer.Option(help="Rows of A and C.")] = None,
    n: Annotated[int | None, typer.Option(help="Columns of B and C.")] = None,
    k: Annotated[int | None, typer.Option(help="Columns of A, rows of B.")] = None,
    gpu: Annotated[str | None, typer.Option(help="A GPU of `tilewright gpus`.")] = None,
    backend: BackendOption = "auto",
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
    check_backend(backend)

    from tilewright.cli.sizes import problem_named
    from tilewright.kernels import rung as find_rung
    from tilewright.report.occupancy_study import occupancy_study

    chosen = find_rung(rung)
    problem = problem_named({"size": size, "m": m, "n": n, "k": k}, DEFAULT_SIZE)
    curve = curve_of(chosen, problem, target_of(gpu, backend))
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
