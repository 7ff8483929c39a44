"""Whether `out` shares memory with an operand, from addresses and strides alone."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import ProblemError
from tilewright.frameworks.views import View
from tilewright.kernels.tiles import FLOAT_BYTES

# How long the exact answer may be looked for, in numpy's steps: some tens of microseconds.
_MAX_WORK = 10_000


class Guard:
    """Refuses an `out` that shares memory with what is read to compute it.

    `views` has "out" and the operands that are read: "a", "b", and "c", which may be out itself.
    """

    def __init__(self, views: Mapping[str, View]) -> None:
        self._out = out = views["out"]
        self._others = [(name, views[name]) for name in "abc" if name in views]
        # For each operand, between which distances from out their addresses meet.
        low, high = out.span
        spans = [view.span for _, view in self._others]
        self._near = [(i, low - end, high - start) for i, (start, end) in enumerate(spans)]
        c = views.get("c")
        self._may_be_c = c is not None and (c.shape, c.strides) == (out.shape, out.strides)

    def check(self, out: int, addresses: tuple[int, int, int]) -> None:
        """Accept arrays at these addresses: those of a, b and c, which may be missing.

        Raises:
            ProblemError: out shares memory with one that it must not.
        """
        for i, below, above in self._near:
            if below < addresses[i] - out < above:
                self._look_closely(out, addresses)

    def _look_closely(self, out: int, addresses: tuple[int, int, int]) -> None:
        for (name, view), there in zip(self._others, addresses, strict=False):
            if name == "c" and self._may_be_c and there == out:
                continue
            if share_memory(self._out, out, view, there):
                raise ProblemError(
                    f"out shares memory with {name}, which is read while out is written: pass "
                    f"memory of its own{', or c itself' if name == 'c' else ''}"
                )


def share_memory(one: View, address: int, other: View, other_address: int) -> bool:
    """Return whether some element of one array is some element of the other.

    Exact, but for strides of many axes that would take long to decide: then True.
    """
    import numpy as np

    try:
        arrays = np.asarray(_Described(one, address)), np.asarray(_Described(other, other_address))
        # numpy's stubs know no bound but none and 0.
        return np.shares_memory(*arrays, max_work=_MAX_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Described:
    """An array that numpy sees the place of, and nobody reads: it may be on a GPU."""

    def __init__(self, view: View, address: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "data": (address, False),
            "shape": view.shape,
            "strides": tuple(FLOAT_BYTES * stride for stride in view.strides),
        }
