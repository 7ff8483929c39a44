"""Bars on stderr, for a terminal; where there is none, commands write lines. Gone when done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


def counting_bar(*fields: str) -> Progress:
    """Return a bar of so many of so many, with `fields`, such as `{task.fields[blocks]}`."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    return _bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *(TextColumn(field) for field in fields),
    )


def spinning_bar() -> Progress:
    """Return a spinner with a description, for work whose end nobody knows."""
    from rich.progress import SpinnerColumn, TextColumn

    return _bar(SpinnerColumn(), TextColumn("{task.description}"))


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
