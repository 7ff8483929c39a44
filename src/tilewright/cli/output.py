"""What every command shares for its output: a table for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.report.ladder import Table

WIDTH = 100

Justify: TypeAlias = Literal["left", "right"]

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the result as JSON too; '-' writes it to stdout instead of the table.",
    ),
]

HtmlOption = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Write it as a page too, one file, offline."),
]

PlotOption = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw it too, as a .png.")
]


def check_plot(target: str | None) -> None:
    """Refuse a picture that cannot be written or drawn, before a long run rather than after it.

    Raises:
        TilewrightError: as `check_file`, no .png, or without what draws.

    """
    if target is not None:
        from tilewright.report.charts import require_matplotlib

        check_file("--plot", target)
        if not target.lower().endswith(".png"):
            raise TilewrightError(
                f"--plot {target}: end the name in .png; a page is written by --html FILE"
            )
        require_matplotlib("--plot")


def check_html(target: str | None) -> None:
    """Refuse a page that cannot be written or drawn, before a long run rather than after it.

    Raises:
        TilewrightError: as `check_file`, or without what draws.

    """
    if target is not None:
        from tilewright.report.charts import require_matplotlib

        check_file("--html", target)
        require_matplotlib("--html")


def check_json(target: str | None) -> None:
    """Refuse a --json file that cannot be written, before a long run rather than after it.

    Raises:
        TilewrightError: as `check_file`.

    """
    if target != "-":
        check_file("--json", target)


def check_file(option: str, target: str | None) -> None:
    """Refuse a file to write that cannot be written.

    Raises:
        TilewrightError: the path is a folder, or is in one that may not be written to; or it is
            '-', which means stdout to --json alone.

    """
    if target is None:
        return
    if target == "-":
        raise TilewrightError(f"{option} -: --json alone writes to stdout; give a file's name")
    path = Path(target)
    if path.is_dir():
        raise TilewrightError(f"{option} {target}: that is a folder; give a file in it")
    nearest = path if path.exists() else next(p for p in path.absolute().parents if p.exists())
    if nearest != path and not nearest.is_dir():
        raise TilewrightError(f"{option} {target}: {nearest} is no folder; give another file")
    if not os.access(nearest, os.W_OK):
        raise TilewrightError(f"{option} {target}: {nearest} is not writable; give another file")


def refuse_beside(option: str, others: Mapping[str, object]) -> None:
    """Refuse options that say nothing beside `option`: those whose value is not None.

    Raises:
        TilewrightError: there are some.

    """
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise TilewrightError(f"{option} measures nothing: leave {' and '.join(given)} out")


def output_json(document: Mapping[str, object], target: str) -> None:
    """Write `document` to the file `target`, all of it or nothing; '-' is stdout.

    Raises:
        TilewrightError: the file cannot be written.

    """
    text = json.dumps(document, indent=1, allow_nan=False)
    if target == "-":
        typer.echo(text)
    else:
        output_text(text + "\n", "--json", target)


def output_text(text: str, option: str, target: str) -> None:
    """Write `text` to the file `target` that `option` named, all of it or nothing.

    Raises:
        TilewrightError: the file cannot be written.

    """
    from tilewright.records import write_text

    check_file(option, target)
    path = Path(target)
    if path.exists() and not path.is_file():  # a device or a pipe: to write to, not to replace
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise TilewrightError(f"{option} {target}: {error.strerror or error}") from error
    else:
        write_text(path, text)


def print_table(
    columns: Mapping[str, Justify],
    rows: Iterable[Iterable[str]],
    *,
    title: str | None = None,
) -> None:
    """Print `rows` under `columns`, a mapping of header to "left" or "right".

    The table is at most 100 columns wide and at most as wide as the terminal; the first column,
    which names the row, is never broken.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A narrow terminal wraps; a file or a pipe gets the full width.
    console = Console(
        width=min(WIDTH, Console().width) if sys.stdout.isatty() else WIDTH,
        highlight=False,
    )
    table = Table(
        box=SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for place, (header, justify) in enumerate(columns.items()):
        table.add_column(header, justify=justify, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_report(table: Table) -> None:
    """Print a report's table with the notes that belong below."""
    print_table(table.columns, table.rows, title=table.title)
    for note in table.notes:
        print_note(note)


def print_note(text: str) -> None:
    """Print a sentence, wrapped like the tables."""
    typer.echo(textwrap.fill(text, WIDTH, subsequent_indent="  "))


def si(value: float, unit: str) -> str:
    """Return `value` with a decimal prefix: 4.8e12, "B/s" is "4.8 TB/s"."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def binary(value: int) -> str:
    """Return a number of bytes with a binary prefix: 233472 is "228 KiB"."""
    for prefix, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= scale:
            return f"{value / scale:.4g} {prefix}"
    return f"{value} bytes"
