"""The `tilewright` command: one file a subcommand.

To add a command, write a function in a file of its own and register it in one line below. A
command's file may import typer, `cli.output` and values at its top; whatever is heavy or loads
CUDA it imports inside the function, so that `tilewright --help` stays quick.

Exit codes: 0 done, 1 a check of the command failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from tilewright import __version__
from tilewright.cli.bench import bench
from tilewright.cli.doctor import doctor
from tilewright.cli.explain import explain
from tilewright.cli.gpus import gpus
from tilewright.cli.group import Group
from tilewright.cli.ladder import ladder
from tilewright.cli.layout import layout
from tilewright.cli.layout_steps import Ordered
from tilewright.cli.occupancy import occupancy
from tilewright.cli.study import study
from tilewright.cli.tune import tune

app = typer.Typer(
    name="tilewright",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """GPU matrix multiplication you can climb, explain and ship; with or without a GPU."""


app.command()(ladder)
app.command()(explain)
app.command()(bench)
app.command()(tune)
app.command()(gpus)
app.command(cls=Ordered)(layout)
app.command()(occupancy)
app.add_typer(study, name="study")
app.command()(doctor)
