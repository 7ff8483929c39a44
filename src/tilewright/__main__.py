"""`python -m tilewright` is the `tilewright` command."""

from tilewright.cli import app

app(prog_name="tilewright")
