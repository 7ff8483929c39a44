"""The memory that a launch needs beside its operands, from the caller's own allocator.

Partial sums are allocated for each launch, as the result is: the allocator orders their reuse by
stream. The counts of arrivals must be zero before a launch and are zero after it, so they are
zeroed once a stream. A stream is known by its id, which is never given twice, unlike its handle.
Into a graph both are allocated anew, with the zeroing captured: replays may run anywhere.
"""

from __future__ import annotations

from tilewright.device.gemm import GemmDevice
from tilewright.frameworks.face import Array, GpuFace
from tilewright.frameworks.views import View, packed
from tilewright.kernels.gemm.kernel import Workspace
from tilewright.kernels.tiles import FLOAT_BYTES

_arrivals: dict[tuple[str, int, int], Array] = {}


class Allocator:
    """Allocates what launches of one kind need, whose context must be current."""

    def __init__(self, needs: Workspace, face: GpuFace, device: GemmDevice) -> None:
        self._face, self._device = face, device
        self._sums = _floats(needs.partial_bytes)
        self._counts = _floats(needs.arrivals_bytes)
        self._place = face.name, device.info.ordinal

    def allocate(self, like: Array, stream: int) -> tuple[Array | None, Array | None]:
        """Return memory for partial sums and for counts, None where none is needed.

        Raises:
            DeviceError: there is none left.
        """
        capturing, identity = self._device.stream_state(stream)
        face = self._face
        partial = None if self._sums is None else face.allocate(like, self._sums)
        counts = None
        if self._counts is not None:
            key = (*self._place, identity)
            counts = None if capturing else _arrivals.get(key)
            if counts is None or counts.shape < self._counts.shape:
                counts = face.zeros(like, self._counts.shape)
                if not capturing:
                    _arrivals[key] = counts
        if capturing:
            for memory in (partial, counts):
                if memory is not None:
                    face.keep(memory)
        return partial, counts


def _floats(size_bytes: int) -> View | None:
    return packed((-(-size_bytes // FLOAT_BYTES),)) if size_bytes else None
