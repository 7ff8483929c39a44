"""The production kernels on a GPU, launched with as little host work as may be.

Everything that does not change from one launch of a product to the next is prepared once; a launch
then writes six addresses and two scalars into the argument and calls the driver. The context is the
primary one of the GPU, which torch, cupy and the CUDA runtime use too, so that their streams and
memory fit.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.device.driver import bindings, call, check, function_attribute
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
        self._handle = int(self.context)
        # Asked for every product, or every one with a workspace: without the looking up in `call`.
        self._get_current = bindings().cuCtxGetCurrent
        self._get_capturing = bindings().cuStreamIsCapturing
        self._get_id = bindings().cuStreamGetId
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
            operation=operation,
            variant=variant,
            launch=kernel.launch_on(operation, variant, self.gpu),
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

        The GPU's context must be current.

        Source: CUDA Driver API, cuStreamGetId: unique for the life of the program.
        """
        status, capturing = self._get_capturing(stream)
        check("cuStreamIsCapturing", status)
        if capturing:
            return True, 0
        status, identity = self._get_id(stream)
        check("cuStreamGetId", status)
        return False, int(identity)

    def is_current(self) -> bool:
        """Return whether the GPU's context is current on this thread."""
        return int(self._get_current()[1]) == self._handle

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


class _Argument:
    """The kernel's argument in memory of its own, and what the driver is told of the launch."""

    __slots__ = ("_list", "config", "memory", "parameters", "stream")

    def __init__(self, packed: bytes, launch: Launch) -> None:
        self.memory = ctypes.create_string_buffer(packed, len(packed))
        # What the driver takes: the address of a list with the address of the one argument.
        self._list = (ctypes.c_void_p * 1)(ctypes.addressof(self.memory))
        self.parameters = ctypes.addressof(self._list)
        self.config: Any = bindings().CUlaunchConfig()
        self.config.gridDimX, self.config.gridDimY, self.config.gridDimZ = launch.grid
        self.config.blockDimX, self.config.blockDimY, self.config.blockDimZ = launch.block
        self.config.sharedMemBytes = launch.shared_bytes
        self.stream = 0


class Prepared:
    """One launch of one product, but for the addresses. Safe with many threads."""

    __slots__ = (
        "_function",
        "_idle",
        "_launch",
        "_packed",
        "_start",
        "operation",
        "variant",
        "workspace",
    )

    def __init__(
        self,
        *,
        function: Any,  # noqa: ANN401 - a CUfunction
        operation: Operation,
        variant: Variant,
        launch: Launch,
        workspace: Workspace,
    ) -> None:
        self.operation, self.variant, self.workspace = operation, variant, workspace
        self._packed = pack(
            operation, Pointers(a=0, b=0, d=0), splits=variant.splits, workers=variant.workers
        )
        self._launch = launch
        self._function = function
        self._start = bindings().cuLaunchKernelEx
        # Arguments that no thread uses now. The driver copies one before it returns, but without
        # Python's lock held: a thread takes one out meanwhile, which costs less than a lock.
        self._idle: list[_Argument] = []

    def launch(
        self, pointers: tuple[int, int, int, int, int, int], alpha: float, beta: float, stream: int
    ) -> None:
        """Queue the product; the addresses are those of a, b, c, d, partial and arrivals.

        The GPU's context must be current. Nothing is allocated and nothing waited for, so it
        is allowed while `stream` is captured into a graph.

        Raises:
            DeviceError: the driver refuses the launch.
        """
        try:
            argument = self._idle.pop()
        except IndexError:
            argument = _Argument(self._packed, self._launch)
        a, b, c, d, partial, arrivals = pointers
        _POINTERS.pack_into(argument.memory, 0, a, b, c, d, partial, arrivals)
        _SCALARS.pack_into(argument.memory, _SCALARS_AT, alpha, beta)
        if argument.stream != stream:
            argument.config.hStream = argument.stream = stream
        status = self._start(argument.config, self._function, argument.parameters, 0)[0]
        self._idle.append(argument)
        if status:
            check(f"cuLaunchKernelEx of {self.variant}", status)


def _is_capturing(stream: int) -> bool:
    """Return whether a stream is being captured into a graph; its context must be current."""
    return int(call("cuStreamIsCapturing", stream)) != 0
