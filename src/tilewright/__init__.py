"""GPU matrix multiplication you can climb, explain and ship; with or without a GPU.

Importing this package needs no GPU, no driver and no framework; names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.api import emulate as emulate
    from tilewright.api import explain as explain
    from tilewright.frameworks.multiply import gemm as gemm
    from tilewright.frameworks.multiply import matmul as matmul
    from tilewright.gpus import occupancy as occupancy
    from tilewright.layouts import Layout as Layout

__version__ = "0.1.0"
__all__ = ["Layout", "__version__", "emulate", "explain", "gemm", "matmul", "occupancy"]

_HOMES = {
    "Layout": "tilewright.layouts",
    "emulate": "tilewright.api",
    "explain": "tilewright.api",
    "gemm": "tilewright.frameworks.multiply",
    "matmul": "tilewright.frameworks.multiply",
    "occupancy": "tilewright.gpus",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found
