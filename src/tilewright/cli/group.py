"""How every command ends when something is wrong: one clear line, no traceback."""

from __future__ import annotations

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
            return super().invoke(ctx)
        except TilewrightError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
