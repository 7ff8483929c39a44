"""All cases, by batch, and how one is rebuilt from its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from counter_cases.copies import copy_cases, further_cases
from counter_cases.micro import Micro, micro_batches
from counter_cases.programs import ExampleCase, RungCase, example_cases, rung_batches

Case: TypeAlias = Micro | RungCase | ExampleCase
Kind: TypeAlias = Literal["micro", "rung", "example"]

_KINDS: Mapping[Kind, type[Micro] | type[RungCase] | type[ExampleCase]] = {
    "micro": Micro,
    "rung": RungCase,
    "example": ExampleCase,
}


def kind_of(case: Case) -> Kind:
    """Return what kind of case it is."""
    return next(kind for kind, cls in _KINDS.items() if isinstance(case, cls))


def rebuild(kind: Kind, name: str, data: Mapping[str, Any]) -> Case:
    """Return the very case that a record describes."""
    return _KINDS[kind].from_json(name, data)


# What decides most comes first: the time may run out.
_FIRST = (
    *("micro_shared_load", "rungs_256", "micro_columns", "micro_global_load", "rungs_512"),
    *("examples", "micro_matrix", "micro_shared_store"),
)


def batches() -> dict[str, list[Case]]:
    """Return all cases in the order in which they are measured, by batch: one profiler run each."""
    found: dict[str, list[Case]] = {name: list(cases) for name, cases in micro_batches().items()}
    found["micro_copies"] = list(copy_cases())
    found["micro_further_copies"] = list(further_cases())
    found |= {name: list(cases) for name, cases in rung_batches()}
    found["examples"] = list(example_cases())
    large = [name for name in found if name.startswith("large_")]
    order = [*_FIRST, *large, *(name for name in found if name not in large)]
    return {name: found[name] for name in dict.fromkeys(order) if found[name]}
