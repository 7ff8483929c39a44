"""cupy arrays: to tilewright's kernels, on the GPU where they are."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilewright.errors import DeviceError
from tilewright.frameworks.face import Operand, not_float32
from tilewright.frameworks.shapes import Shape
from tilewright.frameworks.views import VECTOR_BYTES, View
from tilewright.kernels.tiles import FLOAT_BYTES

Array = Any  # a cupy.ndarray: cupy is not there when types are checked


class CupyFace:
    """The adapter of cupy."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._current_stream = cupy.cuda.get_current_stream
        self._kept: list[Array] = []

    def signature(self, array: Array) -> Hashable:
        """Return all but the address that decides how an array takes part."""
        data = array.data
        return array.shape, array.strides, array.dtype, data.device_id, data.ptr % VECTOR_BYTES

    def describe(self, array: Array, name: str) -> Operand:
        """Return what an array is.

        Raises:
            UnsupportedError: another dtype than float32.
        """
        if array.dtype != "float32":
            raise not_float32(name, str(array.dtype), f'{name}.astype("float32")')
        gpu = array.data.device_id
        return Operand(
            view=View(
                shape=array.shape,
                strides=tuple(step // FLOAT_BYTES for step in array.strides),
                aligned=array.data.ptr % VECTOR_BYTES == 0,
            ),
            gpu=gpu,
            device=f"cuda:{gpu}",
        )

    def address(self, array: Array) -> int:
        """Return the address of the first element."""
        return int(array.data.ptr)

    def empty(self, like: Array, shape: Shape) -> Array:
        """Return an array without elements on the device of `like`."""
        return self._made(self._cupy.empty, like, shape)

    def allocate(self, like: Array, packed: View) -> Array:
        """Return new memory on the device of `like`, ordered by its current stream.

        Raises:
            DeviceError: there is none left.
        """
        return self._made(self._cupy.empty, like, packed.shape)

    def zeros(self, like: Array, shape: Shape) -> Array:
        """Return such memory filled with zeros."""
        return self._made(self._cupy.zeros, like, shape)

    def _made(self, make: Any, like: Array, shape: Shape) -> Array:  # noqa: ANN401 - cupy's
        gpu = like.data.device_id
        try:
            if self._cupy.cuda.runtime.getDevice() == gpu:
                return make(shape, self._cupy.float32)
            with self._cupy.cuda.Device(gpu):
                return make(shape, self._cupy.float32)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise DeviceError(
                f"cuda:{gpu} has no memory left for an array of shape {shape}: {error}: free some, "
                "or split the product; nothing was launched, and no array changed"
            ) from error

    def stream(self, gpu: int) -> int:
        """Return the handle of the caller's current stream on a GPU."""
        return int(self._current_stream(gpu).ptr)

    def keep(self, array: Array) -> None:
        """Keep an array for good: cupy's pool does not know that a graph uses its memory."""
        self._kept.append(array)

    def copy(self, target: Array, source: Array) -> None:
        """Copy elements, on the current stream."""
        with self._cupy.cuda.Device(target.data.device_id):
            target[...] = source

    def written(self, array: Array) -> None:
        """Do nothing: nobody asks."""
