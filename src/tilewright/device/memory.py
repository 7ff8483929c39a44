"""Device memory for one run: numpy arrays placed on the GPU and brought back."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tilewright.device.driver import call
from tilewright.device.session import Session

# What cuMemAlloc aligns to at least. Source: CUDA C++ Programming Guide, Device Memory Accesses.
ALIGNMENT = 256

Array = npt.NDArray[np.generic]


class Arena:
    """Allocations that are freed together, at the end of a `with` block."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._pointers: list[int] = []

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._pointers:
            pointer = self._pointers.pop()
            if error is None:
                call("cuMemFree", pointer)
            else:
                self._free_quietly(pointer)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of `size_bytes` fresh bytes, aligned to 256.

        Raises:
            DeviceError: the GPU has not that much memory free.
        """
        pointer = int(call("cuMemAlloc", max(size_bytes, 1)))
        self._pointers.append(pointer)
        return pointer

    def upload(self, array: Array) -> int:
        """Return the address of a copy of a contiguous array."""
        pointer = self.allocate(array.nbytes)
        self.write(pointer, array)
        return pointer

    def write(self, pointer: int, array: Array) -> None:
        """Queue the copy of a contiguous array to `pointer`."""
        if array.nbytes:
            # Asynchronous and on our stream: the plain copies go to the default stream, which
            # a launch on ours does not wait for.
            stream = self.session.stream_handle
            call("cuMemcpyHtoDAsync", pointer, array.ctypes.data, array.nbytes, stream)

    def read(self, array: Array, pointer: int) -> None:
        """Copy from `pointer` into a contiguous array, after all that is queued."""
        if array.nbytes:
            stream = self.session.stream_handle
            call("cuMemcpyDtoHAsync", array.ctypes.data, pointer, array.nbytes, stream)
        self.session.synchronize()

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        """Queue a copy within the GPU."""
        if size_bytes:
            stream = self.session.stream_handle
            call("cuMemcpyDtoDAsync", target, source, size_bytes, stream)

    def fill(self, pointer: int, byte: int, size_bytes: int) -> None:
        """Queue the setting of `size_bytes` bytes to `byte`."""
        if size_bytes:
            call("cuMemsetD8Async", pointer, byte, size_bytes, self.session.stream_handle)

    @staticmethod
    def _free_quietly(pointer: int) -> None:
        # After a fault the context is lost and frees fail too; the fault is what must be seen.
        from cuda.bindings import driver

        driver.cuMemFree(pointer)


def place(arena: Arena, arrays: Iterable[Array]) -> dict[int, int]:
    """Copy arrays to the GPU and return their addresses there, by `id`.

    An array that owns its memory starts at a multiple of 256; a view keeps its offset in its owner
    modulo 256, so what is unaligned here is unaligned there. Arrays that share memory share it on
    the GPU too.
    """
    places: dict[int, int] = {}
    for group in _groups(arrays):
        start, end = _start(group[0]), max(_start(a) + a.nbytes for a in group)
        skew = (start - _start(_owner(group[0]))) % ALIGNMENT
        base = arena.allocate(skew + end - start) + skew
        for array in group:
            places[id(array)] = base + _start(array) - start
            arena.write(places[id(array)], array)
    return places


def _groups(arrays: Iterable[Array]) -> list[list[Array]]:
    """Return the arrays in order of address, those that overlap together."""
    groups: list[list[Array]] = []
    end = -1
    for array in sorted({id(a): a for a in arrays}.values(), key=_start):
        if groups and _start(array) < end:
            groups[-1].append(array)
            end = max(end, _start(array) + array.nbytes)
        else:
            groups.append([array])
            end = _start(array) + array.nbytes
    return groups


def _start(array: Array) -> int:
    return int(array.ctypes.data)


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
