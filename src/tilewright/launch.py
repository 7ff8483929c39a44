"""What is launched and what comes of it. Imports only values.

`Launch` and `Run` are what the two executors (emulator and device) share: either one takes an
`Artifact`, a `Launch` and the arguments, writes the argument arrays in place and returns a `Run`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.counters import Counters
from tilewright.errors import LaunchError

Dim3: TypeAlias = tuple[int, int, int]
Array: TypeAlias = npt.NDArray[np.generic]
Argument: TypeAlias = "Array | np.generic | Struct"

# The most in each dimension, the same for every architecture that NVRTC 13 compiles for.
# Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability.
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
MAX_BLOCK: Dim3 = (1024, 1024, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    """A struct passed by value, with arrays behind some of its fields.

    `values` has one for each field of `layout`: a number, an array, which stands for its address,
    or (an array, a number of bytes from its start).
    """

    layout: np.dtype[np.void]
    values: Mapping[str, object]

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that it points into, by field."""
        places = {name: self._place(name) for name in self.layout.names or ()}
        return {name: place[0] for name, place in places.items() if place is not None}

    def packed(self, address: Callable[[Array], int]) -> np.void:
        """Return the value that is passed, where each array begins at `address(array)`."""
        made = np.zeros(1, self.layout)
        for name in self.layout.names or ():
            place = self._place(name)
            made[name] = self.values[name] if place is None else address(place[0]) + place[1]
        packed: np.void = made[0]
        return packed

    def _place(self, name: str) -> tuple[Array, int] | None:
        match self.values[name]:
            case np.ndarray() as array:
                return array, 0
            case (np.ndarray() as array, int(offset)):
                return array, offset
        return None


def dim3(value: int | Iterable[int], what: str) -> Dim3:
    """Return `value` as (x, y, z), missing dimensions 1.

    Raises:
        LaunchError: more than three dimensions, or one below 1.
    """
    try:
        given = tuple(value) if isinstance(value, Iterable) else (value,)
        dims = () if any(d is True for d in given) else tuple(map(operator.index, given))
    except TypeError:
        dims = ()
    if not 1 <= len(dims) <= 3 or any(d < 1 for d in dims):
        raise LaunchError(f"{what} {value!r}: expected 1 to 3 integers, each at least 1")
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The shape of one launch: blocks, threads a block, dynamic shared memory in bytes."""

    grid: Dim3
    block: Dim3
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", dim3(self.grid, "grid"))
        object.__setattr__(self, "block", dim3(self.block, "block"))
        if not isinstance(self.shared_bytes, int) or self.shared_bytes < 0:
            raise LaunchError(
                f"shared_bytes {self.shared_bytes!r}: expected an integer, at least 0"
            )

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one launch gave.

    `blocks` is how many blocks ran (fewer than the grid's when sampled); `counters` is None where
    nothing was counted; `seconds` is host wall time of the execution alone, without compiling.
    """

    kernel: str
    launch: Launch
    backend: str
    blocks: int
    seconds: float
    counters: Counters | None = None
