"""A kernel's curve as both studies make it: where, and how far it is, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tilewright.cli.progress import counting_bar
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench.ladder import Target
    from tilewright.kernels import Rung
    from tilewright.problem import Problem
    from tilewright.study.curve import Curve
    from tilewright.study.occupancy import Watch

DEFAULT_SIZE = 4096

BackendOption: TypeAlias = Annotated[
    str, typer.Option(help="auto (measured too if there is a GPU), model or device.")
]
_BACKENDS = ("auto", "model", "device")


def check_backend(backend: str) -> None:
    """Accept --backend.

    Raises:
        TilewrightError: none of those that there are.
    """
    if backend not in _BACKENDS:
        raise TilewrightError(f"--backend {backend!r}: choose one of {', '.join(_BACKENDS)}")


def target_of(gpu: str | None, backend: str) -> Target:
    """Return the GPU to study, and whether it is measured.

    Raises:
        TilewrightError: as `bench.ladder.choose`.
    """
    from tilewright.bench.ladder import choose
    from tilewright.launchfile import DEFAULT_GPU

    return choose(gpu, "emulator" if backend == "model" else backend, DEFAULT_GPU)  # type: ignore[arg-type]


def curve_of(rung: Rung, problem: Problem, target: Target) -> Curve:
    """Return a kernel's curve, measured where the GPU is here."""
    from tilewright.study.occupancy import occupancy_curve

    with _progress(rung.name) as watch:
        curve = occupancy_curve(rung, problem, target.gpu, watch=watch)
        if target.backend == "device":
            from tilewright.study.device import measured

            curve = measured(curve, watch=watch)
    return curve


@contextmanager
def _progress(name: str) -> Iterator[Watch]:
    """Show on stderr how far a curve is: a bar on a terminal, else a line a point."""
    if not sys.stderr.isatty():
        start = time.monotonic()

        def line(done: int, total: int, what: str) -> None:
            if what:
                seconds = time.monotonic() - start
                typer.echo(f"[{seconds:6.1f} s] {name}: {what} ({done + 1}/{total})", err=True)

        yield line
        return
    with counting_bar() as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=f"{name} {what}"
        )
