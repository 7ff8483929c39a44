"""How every command ends when something is wrong: one clear line, no traceback."""

from __future__ import annotations

import warnings
from typing import TextIO

import typer
from typer.core import TyperGroup

from tilewright.errors import TilewrightError

BAD_INPUT = 2
INTERRUPTED = 130


class Group(TyperGroup):
    """The command group: turns what the library raises on purpose into a line and a code."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the subcommand. A traceback from here on means a bug in tilewright."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show
                return super().invoke(ctx)
        except TilewrightError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Write a warning of ours as one line, as an error is; others as Python does."""
    text = f"warning: {message}"
    if not category.__module__.startswith("tilewright"):
        text = warnings.formatwarning(message, category, filename, lineno, line).rstrip()
    typer.echo(text, file=file, err=True)
