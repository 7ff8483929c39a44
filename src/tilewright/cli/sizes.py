"""What --size, or --m, --n and --k, or --suite, name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tilewright.errors import ProblemError
from tilewright.problem import Problem

if TYPE_CHECKING:
    from tilewright.bench.suites import Case

# The options of a command that takes a suite, or else sizes.
SizeOption: TypeAlias = Annotated[int | None, typer.Option(help="m = n = k, instead of a suite.")]
RowsOption: TypeAlias = Annotated[int | None, typer.Option(help="Rows of A and D.")]
ColumnsOption: TypeAlias = Annotated[int | None, typer.Option(help="Columns of B and D.")]
DepthOption: TypeAlias = Annotated[int | None, typer.Option(help="Columns of A, rows of B.")]
BatchOption: TypeAlias = Annotated[int, typer.Option(help="Products in one call; with the sizes.")]
LayoutOption: TypeAlias = Annotated[
    str | None, typer.Option(help="nn, nt, tn or tt: A, then B; t is transposed.")
]


def problem_named(sizes: Mapping[str, int | None], default: int) -> Problem:
    """Return the problem of the options "size", "m", "n" and "k", a cube of `default` without any.

    Raises:
        ProblemError: both ways at once, one of the three missing, or sizes that no problem has.
    """
    each = {name: n for name in "mnk" if (n := sizes[name]) is not None}
    size = sizes["size"]
    if size is not None and each:
        raise ProblemError(f"--size {size} sets m, n and k: leave --{' --'.join(each)} out")
    if each and len(each) < 3:
        missing = ", ".join(f"--{name}" for name in "mnk" if name not in each)
        raise ProblemError(f"give --m, --n and --k together: {missing} is missing")
    whole = default if size is None else size
    return Problem(m=each.get("m", whole), n=each.get("n", whole), k=each.get("k", whole))


def cases_named(
    suite: str | None, sizes: Mapping[str, int | None], batch: int, layout: str | None
) -> list[tuple[str, Case]]:
    """Return the cases that the options name, each with its suite; the squares without any.

    Raises:
        ProblemError: as `problem_named`, or a suite or a batch that does not go with the rest.
        UnknownNameError: no such suite.
    """
    from tilewright.bench.suites import case
    from tilewright.bench.suites import suite as find

    if any(size is not None for size in sizes.values()):
        if suite is not None:
            raise ProblemError(f"--suite {suite} and sizes: give one or the other")
        p = problem_named(sizes, 0)
        return [("given", case((p.m, p.n, p.k, batch), layout or "nn"))]
    if batch != 1:
        raise ProblemError(f"--batch {batch}: give the sizes too, such as --size 64")
    names = [name.strip() for name in (suite or "squares").split(",") if name.strip()]
    found = [(name, each) for name in names for each in find(name).only(layout)]
    if not found:
        raise ProblemError(f"no case in layout {layout} in {', '.join(names)}: leave one out")
    return found
