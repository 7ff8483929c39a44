"""`tilewright study volkov`: the argument of 2008, that few warps are enough, made again."""

from __future__ import annotations

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
from tilewright.cli.study_curve import (
    DEFAULT_SIZE,
    BackendOption,
    check_backend,
    curve_of,
    target_of,
)

if TYPE_CHECKING:
    from tilewright.bench.ladder import Target
    from tilewright.problem import Problem
    from tilewright.study.volkov import VolkovStudy


def volkov(
    old_gpu: Annotated[
        str, typer.Option(help="A GPU of 2008: 8800 GTX, 9800 GTX or GTX 280.")
    ] = "GTX 280",
    gpu: Annotated[str | None, typer.Option(help="A GPU of today: `tilewright gpus`.")] = None,
    size: Annotated[int | None, typer.Option(help="For today's: m = n = k; default 4096.")] = None,
    backend: BackendOption = "auto",
    json: JsonOption = None,
    html: HtmlOption = None,
) -> None:
    """Make Volkov and Demmel's argument of 2008 again: few warps are enough, and why.

    Their kernel and the design of its time, by what their main loops are made of, and by how fast
    they are with few and with many warps: on the GPUs of then by a small model, beside what was
    published, and on one of today.

    Example: tilewright study volkov --old-gpu "8800 GTX" --gpu "RTX A6000"
    """
    check_json(json)
    check_html(html)
    check_backend(backend)

    from tilewright.cli.sizes import problem_named
    from tilewright.kernels import rung
    from tilewright.report.volkov_study import volkov_told
    from tilewright.study.speed_2008 import old_gpu as find_old
    from tilewright.study.volkov import OTHER, THEIRS, volkov_study

    old = find_old(old_gpu)
    problem = problem_named({"size": size, "m": None, "n": None, "k": None}, DEFAULT_SIZE)
    target = target_of(gpu, backend)
    theirs, other = (curve_of(rung(name), problem, target) for name in (THEIRS, OTHER))
    study = volkov_study(old, (theirs, other))
    if json is not None:
        output_json(study.to_json(), json)
    if html is not None:
        output_text(_page(study, problem, target), "--html", html)
    if json != "-":
        told = volkov_told(study)
        print_note(told.verdict)
        for part in told.parts:
            typer.echo(f"\n{part.asks}")
            if part.table is not None:
                print_table(part.table.columns, part.table.rows, title=part.table.title)
                for note in part.table.notes:
                    print_note(note)
            for text in part.says:
                print_note(text)


def _page(study: VolkovStudy, problem: Problem, target: Target) -> str:
    """Return the study as a page, with a figure of each kernel at work."""
    from tilewright.bench.tile_steps import tile_figure
    from tilewright.report.volkov_page import volkov_page

    rungs = (study.theirs.rung, study.other.rung)
    figures = tuple(tile_figure(each, target.gpu, problem=problem) for each in rungs)
    return volkov_page(study, figures)
