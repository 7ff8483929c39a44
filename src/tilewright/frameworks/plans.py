"""A product that was checked and chosen for once, ready to be computed with other addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tilewright.device.gemm import GemmDevice, Prepared
from tilewright.frameworks.face import Array, Face, GpuFace, HostFace
from tilewright.frameworks.launches import Steps
from tilewright.frameworks.overlap import Guard
from tilewright.frameworks.shapes import Shape
from tilewright.frameworks.views import View
from tilewright.frameworks.workspace import Allocator


class Plan(Protocol):
    """How a product is computed, whatever the addresses.

    A `guard` is there where an `out` is given.
    """

    def run(
        self, a: Array, b: Array, c: Array | None, out: Array | None, alpha: float, beta: float
    ) -> Array:
        """Return alpha·A·B + beta·C, in `out` where that is given.

        Raises:
            ProblemError: `out` shares memory with an operand that is read.
            DeviceError: the GPU has no memory left, or refuses the launch.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHost:
    """Left to the host's BLAS."""

    face: HostFace
    guard: Guard | None

    def run(
        self, a: Array, b: Array, c: Array | None, out: Array | None, alpha: float, beta: float
    ) -> Array:
        """Return alpha·A·B + beta·C."""
        face = self.face
        if self.guard is not None:
            at_c = 0 if c is None else face.address(c)
            self.guard.check(face.address(out), (face.address(a), face.address(b), at_c))
        return face.on_host(a, b, c, alpha, beta, out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """A result without elements."""

    face: Face
    shape: Shape

    def run(
        self, a: Array, b: Array, c: Array | None, out: Array | None, alpha: float, beta: float
    ) -> Array:
        """Return it."""
        del b, c, alpha, beta
        return self.face.empty(a, self.shape) if out is None else out


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGpu:
    """Launches of one prepared kernel.

    `apart` says that the kernel cannot write where `out` lies: it writes elsewhere, and a copy
    follows. `single` says that it is one launch, without a workspace.
    """

    face: GpuFace
    device: GemmDevice
    prepared: Prepared
    workspace: Allocator
    guard: Guard | None
    result: View
    offsets: tuple[Steps, ...]
    swapped: bool
    apart: bool
    gpu: int
    single: bool

    def run(
        self, a: Array, b: Array, c: Array | None, out: Array | None, alpha: float, beta: float
    ) -> Array:
        """Return alpha·A·B + beta·C."""
        face = self.face
        address = face.address
        at_a, at_b, at_c = address(a), address(b), 0 if c is None else address(c)
        if self.guard is not None:
            self.guard.check(address(out), (at_a, at_b, at_c))
        d = face.allocate(a, self.result) if out is None or self.apart else out
        at_d = address(d)
        if self.swapped:
            at_a, at_b = at_b, at_a
        stream = face.stream(self.gpu)
        if self.single and self.device.is_current():
            self.prepared.launch((at_a, at_b, at_c, at_d, 0, 0), alpha, beta, stream)
        else:
            self._launch_all(a, (at_a, at_b, at_c, at_d), alpha, beta, stream)
        if out is None:
            return d
        if self.apart:
            face.copy(out, d)
        face.written(out)
        return out

    def _launch_all(
        self, like: Array, places: Steps, alpha: float, beta: float, stream: int
    ) -> None:
        if not self.device.is_current():
            with self.device.current():
                self._launch_all(like, places, alpha, beta, stream)
            return
        face, prepared = self.face, self.prepared
        sums, counts = self.workspace.allocate(like, stream)
        at_sums = 0 if sums is None else face.address(sums)
        at_counts = 0 if counts is None else face.address(counts)
        a, b, c, d = places
        for step_a, step_b, step_c, step_d in self.offsets:
            pointers = (a + step_a, b + step_b, c + step_c, d + step_d, at_sums, at_counts)
            prepared.launch(pointers, alpha, beta, stream)
