"""How far a study is, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tilewright.study.occupancy import Watch


@contextmanager
def progress(name: str) -> Iterator[Watch]:
    """Show on stderr how far a curve is: a bar on a terminal, else a line a point."""
    if not sys.stderr.isatty():
        start = time.monotonic()

        def line(done: int, total: int, what: str) -> None:
            if what:
                seconds = time.monotonic() - start
                typer.echo(f"[{seconds:6.1f} s] {name}: {what} ({done + 1}/{total})", err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=f"{name} {what}"
        )
