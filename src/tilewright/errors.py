"""Every error that tilewright raises on purpose. Imports nothing of the package.

An error teaches: it names what was given, what was required, and what to do instead. The
command line prints the message alone and exits with 2; a traceback means a bug.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class TilewrightError(Exception):
    """The base class: catching it catches whatever the library raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        """Let what another process raised be raised here, whatever its class is made from."""
        return _remade, (type(self), self.args, self.__dict__)


def _remade(
    kind: type[TilewrightError], args: tuple[object, ...], attributes: dict[str, object]
) -> TilewrightError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ProblemError(TilewrightError, ValueError):
    """Sizes, leading dimensions, dtypes or arrays that do not make a matrix product."""


class TileError(TilewrightError, ValueError):
    """A tile that a kernel cannot run with, with the rule it breaks."""


class LayoutError(TilewrightError, ValueError):
    """A layout, a coordinate or an operation on layouts that has no answer, or text of none."""


class UnknownNameError(TilewrightError, LookupError):
    """A name that is in no table: a GPU, a rung, a kernel. Suggests the nearest."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], n=1)
        nearest = [n for n in names if near and n.lower() == near[0]]
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        super().__init__(f"unknown {what} {name!r}: {hint}known: {', '.join(names)}")


class CompileError(TilewrightError):
    """A CUDA source that NVRTC refused. The message shows the offending lines."""


class ToolchainError(TilewrightError):
    """A part of the CUDA toolchain (NVRTC, nvdisasm) is missing or failed."""


class PtxError(TilewrightError):
    """PTX text that does not parse, with its line."""


class LaunchError(TilewrightError, ValueError):
    """A launch that no GPU would accept: a limit passed, arguments that do not fit the kernel."""


class UnsupportedError(TilewrightError, NotImplementedError):
    """Something real that tilewright does not do yet, named, with its source line."""


class DeviceError(TilewrightError):
    """The CUDA driver or a GPU is missing or failed."""


class StoreError(TilewrightError):
    """A store of measured times that is corrupt, newer than this version, or another program's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where in a kernel something happened: the instruction and the thread.

    `source_line` is the line of the CUDA source (None when the PTX carries no line info);
    `block` and `thread` are (x, y, z); `thread` is None where a whole warp or block is meant.
    """

    kernel: str
    instruction: str
    ptx_line: int
    source_file: str | None = None
    source_line: int | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        where = f"{self.source_file}:{self.source_line}" if self.source_line else "no source line"
        text = f"kernel {self.kernel}, {where}, PTX line {self.ptx_line}: {self.instruction}"
        if self.block is not None:
            text += f"; block {self.block}"
        if self.thread is not None:
            text += f", thread {self.thread}"
        return text


class EmulationError(TilewrightError):
    """A fault of the emulated kernel. `site` says where."""

    def __init__(self, message: str, site: Site) -> None:
        super().__init__(f"{message}\n  at {site}")
        self.site = site


class OutOfBoundsError(EmulationError):
    """An access outside every array, or misaligned. `address` is the device address."""

    def __init__(self, message: str, site: Site, address: int) -> None:
        super().__init__(message, site)
        self.address = address


class BarrierError(EmulationError):
    """A barrier or warp-wide operation that not all of its threads reach."""


class RaceError(EmulationError):
    """An access that may or may not see what another operation writes."""


class LimitError(EmulationError):
    """A kernel that ran past the step limit, so probably never ends."""


class TrapError(EmulationError):
    """The kernel executed `trap` or failed an assertion."""
