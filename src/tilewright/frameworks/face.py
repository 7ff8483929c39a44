"""What an adapter of a library's arrays offers, and which adapter an array belongs to."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from tilewright.errors import ProblemError, UnsupportedError
from tilewright.frameworks.shapes import Shape
from tilewright.frameworks.views import View

Array = Any  # of whichever library


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An array that can take part in a product: where it lies, and on which device.

    `gpu` is the number of the GPU, None on the host; `device` is what the library calls it.
    """

    view: View
    gpu: int | None
    device: str
    writable: bool = True


class Face(Protocol):
    """The adapter of one library's arrays; it is a HostFace or a GpuFace as well, or both."""

    name: str

    def signature(self, array: Array) -> Hashable:
        """Return all but the address that decides how an array takes part; made to be quick."""

    def describe(self, array: Array, name: str) -> Operand:
        """Return what an array is; `name` is what messages call it.

        Raises:
            ProblemError: an array that cannot take part.
            UnsupportedError: one that may some day.
        """

    def address(self, array: Array) -> int:
        """Return the address of the first element."""

    def empty(self, like: Array, shape: Shape) -> Array:
        """Return an array without elements on the device of `like`."""


class HostFace(Face, Protocol):
    """The adapter of a library with arrays in the host's memory."""

    def on_host(
        self, a: Array, b: Array, c: Array | None, alpha: float, beta: float, out: Array | None
    ) -> Array:
        """Return the product of arrays of the host, by its BLAS."""


class GpuFace(Face, Protocol):
    """The adapter of a library with arrays in a GPU's memory."""

    def allocate(self, like: Array, packed: View) -> Array:
        """Return new memory on the GPU of `like`, ordered by its current stream; quickly.

        Raises:
            DeviceError: there is none left.
        """

    def zeros(self, like: Array, shape: Shape) -> Array:
        """Return such memory filled with zeros, on the current stream."""

    def stream(self, gpu: int) -> int:
        """Return the handle of the caller's current stream on a GPU."""

    def keep(self, array: Array) -> None:
        """Note that a graph being captured uses `array`'s memory."""

    def copy(self, target: Array, source: Array) -> None:
        """Copy elements, on the current stream."""

    def written(self, array: Array) -> None:
        """Note that something of ours wrote the caller's array."""


# Where the adapter of a class of arrays is, by the class's package and name.
_HOMES = {
    ("numpy", "ndarray"): ("tilewright.frameworks.numpy", "NumpyFace"),
    ("torch", "Tensor"): ("tilewright.frameworks.torch", "TorchFace"),
    ("cupy", "ndarray"): ("tilewright.frameworks.cupy", "CupyFace"),
}
_made: dict[str, Face] = {}
FACES: dict[type, Face] = {}  # by the type of the array, as they were met


def not_float32(name: str, dtype: str, remedy: str) -> UnsupportedError:
    """Return the error for an array of another dtype."""
    return UnsupportedError(
        f"{name} is {dtype}: matmul and gemm take float32 for now: convert it with {remedy}"
    )


def face_of(array: object, name: str) -> Face:
    """Return the adapter of an array. Only the library that made the array is imported.

    Raises:
        ProblemError: an object of no library that tilewright knows.
    """
    kind = type(array)
    if kind not in FACES:
        FACES[kind] = _find(kind, name)
    return FACES[kind]


def common_face(arrays: dict[str, object]) -> Face:
    """Return the adapter that all arrays belong to.

    Raises:
        ProblemError: an object of no known library, or arrays of two.
    """
    first, *others = arrays
    face = face_of(arrays[first], first)
    for name in others:
        other = face_of(arrays[name], name)
        if other is not face:
            raise ProblemError(
                f"{first} is an array of {face.name} and {name} of {other.name}: convert one, "
                "such as torch.from_numpy(array) or tensor.numpy()"
            )
    return face


def _find(kind: type, name: str) -> Face:
    for base in kind.__mro__:
        home = _HOMES.get((base.__module__.partition(".")[0], base.__name__))
        if home is not None:
            module, adapter = home
            if adapter not in _made:
                make: Callable[[], Face] = getattr(import_module(module), adapter)
                _made[adapter] = make()
            return _made[adapter]
    raise ProblemError(
        f"{name} is of type {kind.__module__}.{kind.__qualname__}: expected an array of numpy, "
        "torch or cupy"
    )
