"""Named suites: the operations that a benchmark measures.

Shapes are [m, n, k], or [m, n, k, batch]; they lie in suites.json with where they come from. The
suite `unseen` is drawn instead: shapes that no choice was made for, to judge choices by.
"""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import UnknownNameError
from tilewright.kernels.gemm.operation import Operation

_FILE = Path(__file__).with_name("suites.json")

LAYOUTS = ("nn", "nt", "tn")
UNSEEN_COUNT = 60
_UNSEEN_SEED = 20261202
# The range of each size, and the most multiply-adds: on an H200 about 3 ms.
_UNSEEN_RANGES = ((1, 8192), (1, 8192), (1, 65536))
_UNSEEN_MOST = 2**36
_ROUND = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operation to measure, and what it is called."""

    name: str
    operation: Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases that are measured and summed up together."""

    name: str
    about: str
    source: str
    cases: tuple[Case, ...]

    def only(self, layout: str | None) -> tuple[Case, ...]:
        """Return the cases with a layout; all without one."""
        return tuple(c for c in self.cases if layout in (None, c.operation.layout))


def case(shape: Sequence[int], layout: str = "nn", name: str | None = None) -> Case:
    """Return packed [m, n, k] or [m, n, k, batch] as a case, named after itself without a name.

    Raises:
        ProblemError: sizes or a layout that no operation has.
    """
    m, n, k, *rest = shape
    batch = rest[0] if rest else 1
    shown = f"{m}x{n}x{k}" + (f" b{batch}" if batch > 1 else "")
    return Case(
        name=f"{name or shown} {layout}",
        operation=Operation.plain(m, n, k, layout=layout, batch=batch),
    )


@functools.cache
def suites() -> Mapping[str, Suite]:
    """Return every suite by name."""
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    found = {name: _suite(name, entry) for name, entry in data.items()}
    return found | {"unseen": _unseen()}


def suite(name: str) -> Suite:
    """Return a suite by its name.

    Raises:
        UnknownNameError: no such suite; suggests the nearest.
    """
    if name not in suites():
        raise UnknownNameError("suite", name, suites())
    return suites()[name]


def _suite(name: str, entry: Mapping[str, Any]) -> Suite:
    named = [case(c["shape"], c["layout"], c["name"]) for c in entry.get("cases", ())]
    layouts, shapes = entry.get("layouts", ()), entry.get("shapes", ())
    plain = [case(shape, layout) for shape in shapes for layout in layouts]
    # A vector is the same in either order: once is enough.
    different: dict[str, Case] = {}
    for each in (*named, *plain):
        different.setdefault(each.operation.key, each)
    cases = tuple(different.values())
    return Suite(name=name, about=entry["about"], source=entry["source"], cases=cases)


def _unseen() -> Suite:
    rng = random.Random(_UNSEEN_SEED)
    cases: dict[str, Case] = {}
    while len(cases) < UNSEEN_COUNT:
        shape = [round(math.exp(rng.uniform(math.log(a), math.log(b)))) for a, b in _UNSEEN_RANGES]
        layout = rng.choice(LAYOUTS)
        if len(cases) % 2:
            shape = [_ROUND * math.ceil(size / _ROUND) for size in shape]
        if math.prod(shape) <= _UNSEEN_MOST:
            found = case(shape, layout)
            cases[found.name] = found
    return Suite(
        name="unseen",
        about="Shapes to judge choices by; nothing is tuned or chosen looking at them.",
        source=(
            f"drawn with seed {_UNSEEN_SEED}: m and n log-uniform from 1 to 8192, k from 1 to "
            f"65536, at most 2^36 multiply-adds; every second one rounded up to multiples of "
            f"{_ROUND}, as sizes in practice often are; layouts nn, nt, tn"
        ),
        cases=tuple(cases.values()),
    )
