"""The production kernels on a GPU, launched with as little host work as may be.

Everything that does not change from one launch of a product to the next is prepared once; a launch
then writes six addresses into the argument and calls the driver. The context is the primary one of
the GPU, which torch, cupy and the CUDA runtime use too, so that their streams and memory fit.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.device.driver import call, explain, function_attribute
from tilewright.device.probe import require_device
from tilewright.device.standin import gpu_of
from tilewright.errors import DeviceError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.build import compile_for_gpu
from tilewright.kernels.gemm.kernel import Variant, Workspace
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import PRODUCT, Pointers, pack
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.launch import Launch
from tilewright.toolchain import resources

_POINTERS = struct.Struct("=6Q")
_SCALARS = struct.Struct("=2f")
_SCALARS_AT = PRODUCT.fields["alpha"][1] if PRODUCT.fields else 0


class GemmDevice:
    """One GPU in its primary context, with the production kernels that were loaded on it.

    Raises:
        DeviceError: no driver, or no such GPU.
        UnsupportedError: a GPU of an architecture that tilewright does not know.
    """

    def __init__(self, ordinal: int) -> None:
        self.info = require_device(ordinal)
        self.gpu: Gpu = gpu_of(self.info)
        self.context: Any = call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", ordinal))
        self._functions: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def prepare(self, operation: Operation, variant: Variant, *, stream: int) -> Prepared:
        """Return a launch of `variant`, compiled and loaded; `stream` is where it will run first.

        Raises:
            TileError: the kernel cannot run so.
            CompileError: it does not compile.
            DeviceError: it does not load, or would have to while a graph is being captured.
        """
        kernel = gemm_kernel(variant.kernel)
        key = (variant.kernel, kernel.expression(operation, variant))
        with self._lock:
            if key not in self._functions:
                with self.current():
                    if _is_capturing(stream):
                        raise DeviceError(
                            f"the kernel of this product ({variant}) is not loaded yet, and "
                            "loading is not allowed while a CUDA graph is captured: call it once "
                            "with the same shapes before the capture"
                        )
                    self._functions[key] = self._load(operation, variant)
        return Prepared(
            function=self._functions[key],
            context=int(self.context),
            operation=operation,
            variant=variant,
            launch=kernel.launch(operation, variant),
            workspace=kernel.workspace(operation, variant),
        )

    def _load(self, operation: Operation, variant: Variant) -> Any:  # noqa: ANN401 - a CUfunction
        artifact = compile_for_gpu(operation, variant, self.info.arch).artifact
        module = call("cuModuleLoadData", artifact.cubin)
        function = call("cuModuleGetFunction", module, artifact.symbol.encode())
        dynamic = self.info.shared_bytes_per_block_max - resources(artifact).shared_bytes
        name = function_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES")
        call("cuFuncSetAttribute", function, name, dynamic)
        return function

    def stream_state(self, stream: int) -> tuple[bool, int]:
        """Return whether a stream is captured into a graph, and else the id that is its alone.

        Source: CUDA Driver API, cuStreamGetId: unique for the life of the program.
        """
        with self.current():
            if _is_capturing(stream):
                return True, 0
            return False, int(call("cuStreamGetId", stream))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the GPU's context current on this thread for a while."""
        call("cuCtxPushCurrent", self.context)
        try:
            yield
        finally:
            call("cuCtxPopCurrent")


@functools.cache
def gemm_device(ordinal: int) -> GemmDevice:
    """Return GPU number `ordinal`, opened on the first call.

    Raises:
        DeviceError: no driver, or no such GPU.
        UnsupportedError: a GPU of an architecture that tilewright does not know.
    """
    return GemmDevice(ordinal)


class Prepared:
    """One launch of one product, but for the addresses. Safe with many threads."""

    __slots__ = (
        "_argument",
        "_context",
        "_current",
        "_holder",
        "_lock",
        "_start",
        "operation",
        "variant",
        "workspace",
    )

    def __init__(
        self,
        *,
        function: Any,  # noqa: ANN401 - a CUfunction
        context: int,
        operation: Operation,
        variant: Variant,
        launch: Launch,
        workspace: Workspace,
    ) -> None:
        from cuda.bindings import driver

        self.operation, self.variant, self.workspace = operation, variant, workspace
        packed = pack(
            operation, Pointers(a=0, b=0, d=0), splits=variant.splits, workers=variant.workers
        )
        self._argument = ctypes.create_string_buffer(packed, len(packed))
        # What the driver takes: the address of a list with the address of the one argument.
        self._holder = (ctypes.c_void_p * 1)(ctypes.addressof(self._argument))
        leading = (function, *launch.grid, *launch.block, launch.shared_bytes)
        self._start = functools.partial(driver.cuLaunchKernel, *leading)
        self._current = driver.cuCtxGetCurrent
        self._context = context
        self._lock = threading.Lock()

    def launch(
        self, pointers: tuple[int, int, int, int, int, int], alpha: float, beta: float, stream: int
    ) -> None:
        """Queue the product; the addresses are those of a, b, c, d, partial and arrivals.

        The GPU's context need not be current. Nothing is allocated and nothing waited for, so it
        is allowed while `stream` is captured into a graph.

        Raises:
            DeviceError: the driver refuses the launch.
        """
        if int(self._current()[1]) == self._context:
            status = self._queue(pointers, alpha, beta, stream)
        else:
            call("cuCtxPushCurrent", self._context)
            try:
                status = self._queue(pointers, alpha, beta, stream)
            finally:
                call("cuCtxPopCurrent")
        if status:
            code = getattr(status, "name", str(status))
            raise DeviceError(f"cuLaunchKernel of {self.variant}: {explain(code)}")

    def _queue(
        self, pointers: tuple[int, int, int, int, int, int], alpha: float, beta: float, stream: int
    ) -> Any:  # noqa: ANN401 - a CUresult
        # The driver copies the argument before it returns, without Python's lock held.
        with self._lock:
            _POINTERS.pack_into(self._argument, 0, *pointers)
            _SCALARS.pack_into(self._argument, _SCALARS_AT, alpha, beta)
            return self._start(stream, ctypes.addressof(self._holder), 0)[0]


def _is_capturing(stream: int) -> bool:
    """Return whether a stream is being captured into a graph; its context must be current."""
    return int(call("cuStreamIsCapturing", stream)) != 0
