"""Files of curves: JSON with a schema version, refused where it is not known."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.records import Environment, write_json
from tilewright.study.curve import Curve

SCHEMA = 1
KIND = "study occupancy"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveFile:
    """What a file of curves holds."""

    environment: Environment
    curves: tuple[Curve, ...]


def write_curves(path: str | Path, environment: Environment, curves: Iterable[Curve]) -> None:
    """Write curves to `path`, whole or not at all.

    Raises:
        TilewrightError: the path cannot be written; an old file is untouched.
    """
    document = {
        "schema": SCHEMA,
        "kind": KIND,
        "environment": environment.to_json(),
        "curves": [curve.to_json() for curve in curves],
    }
    write_json(path, document)


def read_curves(path: str | Path) -> CurveFile:
    """Read what `write_curves` wrote.

    Raises:
        TilewrightError: no such file, not of curves, or of another schema version.
    """
    source = Path(path)
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise TilewrightError(f"cannot read {source}: {error.strerror or error}") from error
    except ValueError as error:
        raise TilewrightError(f"cannot read {source}: not JSON: {error}") from error
    try:
        if (data["schema"], data["kind"]) != (SCHEMA, KIND):
            raise TilewrightError(
                f"cannot read {source}: {data['kind']!r} of schema {data['schema']!r}, "
                f"this version reads {KIND!r} of {SCHEMA}"
            )
        return CurveFile(
            environment=Environment.from_json(data["environment"]),
            curves=tuple(Curve.from_json(each) for each in data["curves"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TilewrightError(f"cannot read {source}: not a file of curves: {error}") from error
