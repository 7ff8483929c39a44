"""`tilewright study`: questions that take many runs of a kernel to answer; one file each."""

from __future__ import annotations

import typer

from tilewright.cli.study_occupancy import occupancy
from tilewright.cli.study_volkov import volkov

study = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
study.command()(occupancy)
study.command()(volkov)


@study.callback()
def main() -> None:
    """Study what makes a kernel fast: one thing about it is changed, step by step."""
