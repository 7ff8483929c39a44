"""The problem that --size, or --m, --n and --k, name."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import ProblemError
from tilewright.problem import Problem


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
