"""numpy arrays: left to the BLAS that numpy was built with."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt

from tilewright.errors import ProblemError
from tilewright.frameworks import host
from tilewright.frameworks.face import Operand, not_float32
from tilewright.frameworks.shapes import Shape
from tilewright.frameworks.views import View
from tilewright.kernels.tiles import FLOAT_BYTES

Floats = npt.NDArray[np.float32]


class NumpyFace:
    """The adapter of numpy."""

    name = "numpy"

    def signature(self, array: Floats) -> Hashable:
        """Return all but the address that decides how an array takes part."""
        flags = array.flags
        return array.shape, array.strides, array.dtype, flags.writeable, flags.aligned

    def describe(self, array: Floats, name: str) -> Operand:
        """Return what an array is.

        Raises:
            UnsupportedError: another dtype than float32.
            ProblemError: floats that are not at multiples of 4 bytes, or a mask.
        """
        if isinstance(array, np.ma.MaskedArray):
            raise ProblemError(
                f"{name} is a masked array, and a product has no masks: pass {name}.filled(0)"
            )
        if array.dtype != np.float32:
            raise not_float32(name, str(array.dtype), f"{name}.astype(np.float32)")
        if not array.flags.aligned:
            raise ProblemError(f"{name} holds floats at odd addresses: pass {name}.copy()")
        strides = tuple(step // FLOAT_BYTES for step in array.strides)
        view = View(shape=array.shape, strides=strides)
        return Operand(view=view, gpu=None, device="the host", writable=array.flags.writeable)

    def address(self, array: Floats) -> int:
        """Return the address of the first element."""
        return int(array.ctypes.data)

    def empty(self, like: Floats, shape: Shape) -> Floats:
        """Return an array without elements."""
        del like
        return np.empty(shape, np.float32)

    def on_host(
        self,
        a: Floats,
        b: Floats,
        c: Floats | None,
        alpha: float,
        beta: float,
        out: Floats | None,
    ) -> Floats:
        """Return the product."""
        if out is not None and c is None and alpha == 1:
            return np.matmul(a, b, out=out)
        result: Floats = host.product(np.matmul, (a, b, c), alpha, beta)
        if out is None:
            return result
        out[...] = result
        return out
