"""Who takes part in a benchmark: our kernels and the libraries, behind one interface.

A contender has one or more ways to compute an operation (our variants, a library's algorithms);
where it has several, the fastest is found by timing before it is measured.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.bench.cublas import Cublas, cublas_baseline
from tilewright.device.gemm import Prepared, gemm_device
from tilewright.device.memory import Arena
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import Pointers

Queue = Callable[[], None]

# What cuBLAS takes for itself on Hopper. Source: cuBLAS Library, cublasSetWorkspace.
LIBRARY_WORKSPACE_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to compute an operation: `bind` returns what queues it on a set of operands.

    `variant` is set where the way is a kernel of ours.
    """

    name: str
    bind: Callable[[Pointers], Queue]
    variant: Variant | None = None


class Contender(Protocol):
    """A library, or our kernels, on one stream."""

    @property
    def name(self) -> str:
        """What records and options call it."""

    @property
    def label(self) -> str:
        """What it is, with its version."""

    def ways(self, operation: Operation, arena: Arena) -> Sequence[Way]:
        """Return every way worth timing; `arena` is memory that lasts until they are timed.

        Raises:
            TilewrightError: the contender cannot compute this.
        """

    def close(self) -> None:
        """Give back what it holds."""


class Ours:
    """Our kernels, in the variants that `choose` names for an operation."""

    label = "tilewright"

    def __init__(
        self, choose: Callable[[Operation], Sequence[Variant]], name: str = "tilewright"
    ) -> None:
        self.name = name
        self._choose = choose

    def ways(self, operation: Operation, arena: Arena) -> list[Way]:
        """Return the variants; each is compiled and loaded when it is first bound."""
        return [self._way(operation, variant, arena) for variant in self._choose(operation)]

    def close(self) -> None:
        """Do nothing: kernels stay loaded."""

    def _way(self, operation: Operation, variant: Variant, arena: Arena) -> Way:
        session = arena.session
        stream = int(session.stream_handle)

        @functools.cache
        def ready() -> tuple[Prepared, int, int]:
            """Return the launch, and its workspace: one for all sets, since launches follow."""
            device = gemm_device(session.info.ordinal)
            prepared = device.prepare(operation, variant, stream=stream)
            needed = prepared.workspace
            partial = arena.allocate(needed.partial_bytes) if needed.partial_bytes else 0
            arrivals = arena.allocate(needed.arrivals_bytes) if needed.arrivals_bytes else 0
            if arrivals:
                arena.fill(arrivals, 0, needed.arrivals_bytes)
            return prepared, partial, arrivals

        def bind(there: Pointers) -> Queue:
            prepared, partial, arrivals = ready()
            addresses = (there.a, there.b, there.c, there.d, partial, arrivals)
            return functools.partial(prepared.launch, addresses, 1.0, 0.0, stream)

        return Way(name=str(variant), bind=bind, variant=variant)


class CublasContender:
    """cuBLAS's own choice of algorithm: what `torch.matmul` calls."""

    name = "cublas"

    def __init__(self, arena: Arena) -> None:
        self._cublas: Cublas = cublas_baseline(int(arena.session.stream_handle))
        self.label = self._cublas.name
        workspace = arena.allocate(LIBRARY_WORKSPACE_BYTES)
        self._cublas.use_workspace(workspace, LIBRARY_WORKSPACE_BYTES)

    def ways(self, operation: Operation, arena: Arena) -> list[Way]:
        """Return the one way."""
        return [Way(name="sgemm", bind=functools.partial(self._cublas.bind, operation))]

    def close(self) -> None:
        """Give the library's handle back."""
        self._cublas.close()
