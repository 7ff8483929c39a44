"""CUDA events as the clock of a measurement."""

from __future__ import annotations

from typing import Any

from tilewright.device.driver import call
from tilewright.device.session import Session


class EventStopwatch:
    """Marks moments on a session's stream by CUDA events.

    Each mark is good for one reading, which gives its event back to the driver.

    An event resolves about half a microsecond (CUDA Driver API, cuEventElapsedTime), and two
    around the smallest kernel read a few: times of that order measure the launch, not the kernel.
    """

    def __init__(self, session: Session) -> None:
        self._stream = session.stream_handle

    def mark(self) -> Any:  # noqa: ANN401 - an event of the driver
        """Mark the moment when the work queued so far is done."""
        event = call("cuEventCreate", 0)
        call("cuEventRecord", event, self._stream)
        return event

    def seconds(self, start: Any, stop: Any) -> float:  # noqa: ANN401
        """Wait for `stop` and return the seconds since `start`."""
        call("cuEventSynchronize", stop)
        elapsed_ms = call("cuEventElapsedTime", start, stop)
        for event in (start, stop):
            call("cuEventDestroy", event)
        return float(elapsed_ms) / 1e3
