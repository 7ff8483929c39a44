"""GPU matrix multiplication you can climb, explain and ship; with or without a GPU.

Importing this package needs no GPU, no driver and no framework; names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.api import emulate as emulate
    from tilewright.api import explain as explain
    from tilewright.gpus import occupancy as occupancy
    from tilewright.layouts import Layout as Layout

__version__ = "0.1.0"
__all__ = ["Layout", "__version__", "emulate", "explain", "occupancy"]

_HOMES = {
    "Layout": "tilewright.layouts",
    "emulate": "tilewright.api",
    "explain": "tilewright.api",
    "occupancy": "tilewright.gpus",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
