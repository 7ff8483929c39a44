"""One GPU in use: its context, a stream of our own, and the kernels loaded on it.

cuda.core gives the device, the stream, the loading of code and the launch; what it lacks (function
attributes, copies to a chosen address) goes through the driver bindings beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.device.driver import call, function_attribute
from tilewright.device.probe import DeviceInfo, require_device
from tilewright.errors import DeviceError, LaunchError, UnsupportedError
from tilewright.launch import MAX_BLOCK, MAX_GRID, Launch
from tilewright.toolchain import Artifact, resources

# Dynamic shared memory that a kernel may use without asking for more.
# Source: CUDA C++ Programming Guide, Shared Memory (compute capability 7.0 and later).
SHARED_BYTES_DEFAULT = 48 * 1024

# A scalar goes to cuda.core as an unsigned integer of its own bits, so that every dtype of these
# widths passes unchanged, those that cuda.core does not know (bfloat16, structs) included.
_CARRIERS: dict[int, type[np.generic]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
    16: np.complex128,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedKernel:
    """A kernel on a GPU, with what its compiled code says of itself.

    Units: bytes; `registers` a thread; `max_threads` a block. `param_sizes` are its parameters in
    bytes, None where the driver (older than CUDA 12.4) does not tell.
    """

    name: str
    session: Session
    handle: Any
    function: Any
    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads: int
    param_sizes: tuple[int, ...] | None

    def bind(self, launch: Launch, values: Sequence[np.generic]) -> Callable[[], None]:
        """Return a function that queues this launch on the session's stream.

        `values` are the arguments as passed: an array's address is its np.uint64.

        Raises:
            LaunchError: a limit of the GPU or the kernel passed.
            UnsupportedError: an argument of a width that cannot be passed by value.
        """
        self._check(launch)
        self._allow_shared(launch)
        core = load_core()
        config = core.LaunchConfig(
            grid=launch.grid, block=launch.block, shmem_size=launch.shared_bytes
        )
        carried = [self._carry(index, value) for index, value in enumerate(values)]
        start = functools.partial(core.launch, self.session.stream, config, self.handle, *carried)

        def queue() -> None:
            try:
                start()
            except Exception as error:
                raise DeviceError(f"kernel {self.name}, {launch}: {error}") from error

        return queue

    def blocks_per_sm(self, launch: Launch) -> int:
        """Return how many blocks of this launch the driver says one SM holds."""
        self._allow_shared(launch)
        return int(
            call(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                self.function,
                launch.threads,
                launch.shared_bytes,
            )
        )

    def _allow_shared(self, launch: Launch) -> None:
        if launch.shared_bytes + self.shared_bytes > SHARED_BYTES_DEFAULT:
            # All there is, not just what this launch needs: another launch may be bound already.
            dynamic = function_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES")
            call("cuFuncSetAttribute", self.function, dynamic, self._most_shared_bytes)

    @property
    def _most_shared_bytes(self) -> int:
        return self.session.info.shared_bytes_per_block_max - self.shared_bytes

    def _check(self, launch: Launch) -> None:
        for what, given, most in (
            ("grid", launch.grid, MAX_GRID),
            ("block", launch.block, MAX_BLOCK),
        ):
            if any(g > m for g, m in zip(given, most, strict=True)):
                raise LaunchError(f"kernel {self.name}: {what} {given} is past the limit {most}")
        if launch.threads > self.max_threads:
            raise LaunchError(
                f"kernel {self.name}: {launch.threads} threads a block; with its "
                f"{self.registers} registers a thread it takes at most {self.max_threads}: "
                "launch fewer, or declare __launch_bounds__"
            )
        if launch.shared_bytes > self._most_shared_bytes:
            raise LaunchError(
                f"kernel {self.name}: {launch.shared_bytes} bytes of dynamic shared memory; beside "
                f"its {self.shared_bytes} static bytes {self.session.info.name} gives a block "
                f"{self._most_shared_bytes}: use a smaller tile"
            )

    def _carry(self, index: int, value: np.generic) -> np.generic:
        carrier = _CARRIERS.get(value.dtype.itemsize)
        if carrier is None:
            raise UnsupportedError(
                f"kernel {self.name}, argument {index}: a value of {value.dtype.itemsize} bytes; "
                f"the device backend passes {', '.join(map(str, _CARRIERS))}: pass it in an array"
            )
        carried: np.generic = np.frombuffer(value.tobytes(), dtype=carrier)[0]
        return carried


class Session:
    """One GPU with its primary context and a stream; `open_session` makes it once a process."""

    def __init__(self, ordinal: int) -> None:
        self.info: DeviceInfo = require_device(ordinal)
        core = load_core()
        try:
            self._device = core.Device(ordinal)
            self._device.set_current()
            self.stream = self._device.create_stream()
        except Exception as error:
            raise DeviceError(f"cannot use GPU {ordinal} ({self.info.name}): {error}") from error
        self.stream_handle = self.stream.handle
        self._kernels: dict[tuple[str, bytes, str], LoadedKernel] = {}

    def enter(self) -> None:
        """Make the GPU's context current on the calling thread."""
        self._device.set_current()

    def synchronize(self) -> None:
        """Wait for the stream.

        Raises:
            DeviceError: something queued on it failed.
        """
        call("cuStreamSynchronize", self.stream_handle)

    def load(self, artifact: Artifact) -> LoadedKernel:
        """Return the artifact's kernel on this GPU: its cubin, or where it has none its PTX.

        Raises:
            DeviceError: the code is for another architecture, or the driver refuses it.
        """
        key = (artifact.symbol, artifact.cubin, artifact.ptx if not artifact.cubin else "")
        if key not in self._kernels:
            self._kernels[key] = self._load(artifact)
        return self._kernels[key]

    def _load(self, artifact: Artifact) -> LoadedKernel:
        self._check_arch(artifact)
        core = load_core()
        try:
            code = (
                core.ObjectCode.from_cubin(artifact.cubin)
                if artifact.cubin
                else core.ObjectCode.from_ptx(artifact.ptx.encode())
            )
            handle = code.get_kernel(artifact.symbol)
        except Exception as error:
            raise DeviceError(
                f"{self.info.name} ({self.info.arch}, CUDA {self.info.cuda}) cannot load kernel "
                f"{artifact.name}, compiled by {artifact.compiler} for {artifact.arch}: {error}"
            ) from error
        function = call("cuKernelGetFunction", _kernel_handle(handle))

        def read(name: str) -> int:
            return int(call("cuFuncGetAttribute", function_attribute(name), function))

        # The cubin's own figure where there is one: the driver's may hold the system's share too.
        shared_bytes = (
            resources(artifact).shared_bytes if artifact.cubin else read("SHARED_SIZE_BYTES")
        )
        return LoadedKernel(
            name=artifact.name,
            session=self,
            handle=handle,
            function=function,
            registers=read("NUM_REGS"),
            shared_bytes=shared_bytes,
            local_bytes=read("LOCAL_SIZE_BYTES"),
            max_threads=read("MAX_THREADS_PER_BLOCK"),
            param_sizes=_param_sizes(function, self.info.cuda),
        )

    def _check_arch(self, artifact: Artifact) -> None:
        # A cubin runs on its own major architecture, from its minor revision up; PTX on all later.
        digits = artifact.arch.removeprefix("sm_").removeprefix("compute_").rstrip("af")
        major, minor = self.info.compute_capability
        if not digits.isdigit():
            return
        wanted = (int(digits[:-1]), int(digits[-1]))
        runs = wanted <= (major, minor) and (not artifact.cubin or wanted[0] == major)
        if not runs:
            raise DeviceError(
                f"kernel {artifact.name} is compiled for {artifact.arch}, this GPU is "
                f"{self.info.name} ({self.info.arch}): compile it with arch={self.info.arch!r}"
            )


@functools.cache
def open_session(ordinal: int = 0) -> Session:
    """Return the session of GPU number `ordinal`, made on the first call.

    Raises:
        DeviceError: no driver, no such GPU, or no cuda.core.
    """
    return Session(ordinal)


@functools.cache
def load_core() -> ModuleType:
    """Return cuda.core, which was cuda.core.experimental before 0.5.

    Raises:
        DeviceError: it is not installed.
    """
    import importlib

    for name in ("cuda.core", "cuda.core.experimental"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module, "ObjectCode"):
            return module
    raise DeviceError("running on a GPU needs cuda-core: pip install 'tilewright[gpu]'")


def _kernel_handle(kernel: Any) -> Any:  # noqa: ANN401 - an object of cuda.core
    """Return the CUkernel of a cuda.core kernel; `handle` is public from 0.6 on."""
    from cuda.bindings import driver

    return driver.CUkernel(int(getattr(kernel, "handle", None) or kernel._handle))


def _param_sizes(function: object, cuda: str) -> tuple[int, ...] | None:
    """Return the sizes of a function's parameters, as far as the driver tells."""
    from cuda.bindings import driver

    major, minor = (int(part) for part in cuda.split("."))
    if (major, minor) < (12, 4) or not hasattr(driver, "cuFuncGetParamInfo"):
        return None
    sizes: list[int] = []
    while True:
        # The driver has no call for their number: past the last it answers "invalid value".
        status, _, size = driver.cuFuncGetParamInfo(function, len(sizes))
        if int(status) != 0:
            return tuple(sizes)
        sizes.append(int(size))
