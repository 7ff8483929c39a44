"""The tiles that were chosen for one GPU: read from `tuned.json`, with where each comes from."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tilewright.kernels.tiles import Tile

FILE = Path(__file__).with_name("tuned.json")
SCHEMA = 1

# The name of the choice for every GPU that has none of its own.
DEFAULT_GPU = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedTile:
    """A rung's tile for one GPU.

    `gpu` is a name of the GPU table, or "default". `provenance` is "published" (by others),
    "searched" (timed by us on that GPU) or "default" (nobody searched on that GPU); `source` says
    where, or with what command and when.
    """

    rung: str
    gpu: str
    tile: Tile
    provenance: Literal["published", "searched", "default"]
    source: str


@functools.cache
def tuned_tiles() -> Mapping[tuple[str, str], TunedTile]:
    """Return all choices by (rung, GPU), as the package ships them."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    if data["schema"] != SCHEMA:
        raise ValueError(f"{FILE.name} has schema {data['schema']}, this code reads {SCHEMA}")
    choices = (
        TunedTile(**{**entry, "tile": Tile.from_json(entry["tile"])}) for entry in data["tiles"]
    )
    return MappingProxyType({(choice.rung, choice.gpu): choice for choice in choices})
