"""The memory that a launch needs beside its operands, from the caller's own allocator.

Partial sums are allocated for each launch, as the result is: the allocator orders their reuse by
stream. The counts of arrivals must be zero before a launch and are zero after it, so they are
zeroed once a stream. A stream is known by its id, which is never given twice, unlike its handle.
Into a graph both are allocated anew, with the zeroing captured: replays may run anywhere.
"""

from __future__ import annotations

from tilewright.device.gemm import GemmDevice
from tilewright.frameworks.face import Array, GpuFace
from tilewright.kernels.gemm.kernel import Workspace
from tilewright.kernels.tiles import FLOAT_BYTES

_arrivals: dict[tuple[str, int, int], Array] = {}


def allocate(
    needs: Workspace, face: GpuFace, device: GemmDevice, like: Array, stream: int
) -> tuple[Array | None, Array | None]:
    """Return memory for partial sums and for counts, None where none is needed.

    Raises:
        DeviceError: there is none left.
    """
    capturing, identity = device.stream_state(stream)
    partial = counts = None
    if needs.partial_bytes:
        partial = face.empty(like, (-(-needs.partial_bytes // FLOAT_BYTES),))
    if needs.arrivals_bytes:
        size = -(-needs.arrivals_bytes // FLOAT_BYTES)
        key = (face.name, device.info.ordinal, identity)
        counts = None if capturing else _arrivals.get(key)
        if counts is None or counts.shape[0] < size:
            counts = face.zeros(like, (size,))
            if not capturing:
                _arrivals[key] = counts
    if capturing:
        for memory in (partial, counts):
            if memory is not None:
                face.keep(memory)
    return partial, counts
