"""CUDA graphs: launches recorded once, then queued together at no cost to the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from tilewright.device.driver import call
from tilewright.device.session import Session
from tilewright.errors import DeviceError


class Graph:
    """What `queue` puts on the session's stream, recorded instead of run. Use it with `with`.

    Raises:
        DeviceError: something in `queue` cannot be recorded.
    """

    def __init__(self, session: Session, queue: Callable[[], None]) -> None:
        self._stream = session.stream_handle
        recorded = _record(self._stream, queue)
        try:
            self._ready: Any = call("cuGraphInstantiate", recorded, 0)
        finally:
            call("cuGraphDestroy", recorded)
        call("cuGraphUpload", self._ready, self._stream)

    def launch(self) -> None:
        """Queue everything that was recorded."""
        call("cuGraphLaunch", self._ready, self._stream)

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After a fault the context is lost and this fails too; the fault is what must be seen.
        with suppress(DeviceError):
            call("cuGraphExecDestroy", self._ready)


def _record(stream: Any, queue: Callable[[], None]) -> Any:  # noqa: ANN401 - driver objects
    from cuda.bindings import driver

    # Relaxed: libraries may allocate or query while their launches are recorded.
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    call("cuStreamBeginCapture", stream, mode)
    try:
        queue()
    except BaseException:
        with suppress(DeviceError):
            call("cuGraphDestroy", call("cuStreamEndCapture", stream))
        raise
    return call("cuStreamEndCapture", stream)
