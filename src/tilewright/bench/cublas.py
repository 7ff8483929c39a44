"""cuBLAS in float32 (TF32 off): what a kernel is measured against.

The library is driven directly, through ctypes, on our own stream and buffers: the one that a CUDA
toolkit, the `nvidia-cublas` wheel or PyTorch's dependencies put on this machine. So both candidates
of a measurement are launches on the same stream, with no framework between them.

Source: cuBLAS Library, cublasSgemm, cublasSgemmStridedBatched and cublasSetMathMode.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from tilewright.errors import DeviceError, UnsupportedError
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.product import Pointers
from tilewright.settings import read_settings

# Newest first: any of them runs on a driver for CUDA 13.
_MAJORS = (13, 12)
_OP_N, _OP_T = 0, 1
# CUBLAS_DEFAULT_MATH: float32 inputs, float32 products, float32 sums; TF32 is another mode.
_DEFAULT_MATH = 0
# libraryPropertyType: MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL.
_VERSION_PARTS = (0, 1, 2)
_STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CublasLibrary:
    """A libcublas on this machine: where it is and who put it there."""

    path: str
    provider: Literal["wheel", "toolkit", "system"]

    def load(self) -> ctypes.CDLL:
        """Load it.

        Raises:
            DeviceError: the file does not load.
        """
        # Its partner in the same folder, first: a wheel's folder may not be on the loader's path.
        if Path(self._lt_path).is_file():
            self.load_lt()
        return _load(self.path, ctypes.DEFAULT_MODE)

    def load_lt(self) -> ctypes.CDLL:
        """Load cublasLt, which lies beside it.

        Raises:
            DeviceError: the file does not load.
        """
        return _load(self._lt_path, ctypes.RTLD_GLOBAL)

    @property
    def _lt_path(self) -> str:
        folder, slash, name = self.path.rpartition("/")
        return folder + slash + name.replace("cublas", "cublasLt")


def _load(path: str, mode: int) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path, mode=mode)
    except OSError as error:
        raise DeviceError(f"cuBLAS at {path} does not load: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMajor:
    """A product as column-major libraries are asked for it: Dᵀ = Bᵀ · Aᵀ, so B comes first.

    A row-major matrix is its own transpose in column-major order. `ops` are the library's (0 as
    stored, 1 transposed) for B and A; `sizes` n, m and k; `lds` and `steps` the leading dimensions
    and distances within a batch of B, A and D, in elements.
    """

    ops: tuple[int, int]
    sizes: tuple[int, int, int]
    lds: tuple[int, int, int]
    steps: tuple[int, int, int]


def column_major(operation: Operation) -> ColumnMajor:
    """Return how to ask a column-major library for a product.

    Raises:
        UnsupportedError: a matrix whose neighbours lie apart along both its rows and columns.
    """
    o = operation
    b_op, b_ld = _stored("B", o.b, o.k, o.n)
    a_op, a_ld = _stored("A", o.a, o.m, o.k)
    _, d_ld = _stored("D", o.d, o.m, o.n)
    return ColumnMajor(
        ops=(b_op, a_op),
        sizes=(o.n, o.m, o.k),
        lds=(b_ld, a_ld, d_ld),
        steps=(o.b.batch, o.a.batch, o.d.batch),
    )


def _stored(name: str, strides: Strides, rows: int, cols: int) -> tuple[int, int]:
    """Return the library's operation and leading dimension for a row-major matrix."""
    forms = (
        (_OP_N, strides.col, cols, strides.row, rows),
        (_OP_T, strides.row, rows, strides.col, cols),
    )
    for op, unit, length, step, count in forms:
        ld = step if count > 1 else length
        if (unit == 1 or length == 1) and ld >= length:
            return op, max(ld, 1)
    raise UnsupportedError(
        f"{name} has strides of {strides.row} and {strides.col} elements: cuBLAS takes matrices "
        "with neighbours along their rows or columns; copy it first"
    )


def find_cublas() -> CublasLibrary | None:
    """Return the cuBLAS that a measurement would use; None where there is none.

    That of a wheel comes first, as it belongs to this Python; then an installed toolkit's; then
    whatever the system's loader knows.
    """
    for major in _MAJORS:
        for folder in _wheel_folders():
            for path in sorted(folder.glob(f"*/lib/libcublas.so.{major}")):
                return CublasLibrary(path=str(path), provider="wheel")
    for major in _MAJORS:
        for folder in _toolkit_folders():
            path = folder / f"libcublas.so.{major}"
            if path.is_file():
                return CublasLibrary(path=str(path), provider="toolkit")
    for major in _MAJORS:
        try:
            ctypes.CDLL(f"libcublas.so.{major}")
        except OSError:
            continue
        return CublasLibrary(path=f"libcublas.so.{major}", provider="system")
    return None


def _wheel_folders() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    packages = spec.submodule_search_locations if spec is not None else None
    return [Path(place) for place in packages or ()]


def _toolkit_folders() -> list[Path]:
    roots = (read_settings().cuda_home, Path("/usr/local/cuda"))
    return [root / part for root in roots if root is not None for part in ("lib64", "lib")]


class Cublas:
    """A cuBLAS handle on one stream, in float32 with TF32 off."""

    def __init__(self, library: CublasLibrary, stream: int) -> None:
        _check_float32()
        self._library = library.load()
        self._handle = ctypes.c_void_p()
        self._call("cublasCreate_v2", ctypes.byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        self._call("cublasSetMathMode", self._handle, ctypes.c_int(_DEFAULT_MATH))
        self.name = f"cuBLAS {self._version()} ({library.provider}), float32"

    def __enter__(self) -> Cublas:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the handle back."""
        self._library.cublasDestroy_v2(self._handle)

    def bind(
        self, operation: Operation, pointers: Pointers, *, alpha: float = 1.0, beta: float = 0.0
    ) -> Callable[[], None]:
        """Return a function that queues D = alpha · A · B + beta · D on these device addresses.

        Raises:
            UnsupportedError: strides that cuBLAS cannot express.
            DeviceError: (from the function) cuBLAS refuses or fails.
        """
        call = column_major(operation)
        arguments: list[object] = [self._handle, *map(ctypes.c_int, (*call.ops, *call.sizes))]
        arguments.append(ctypes.byref(ctypes.c_float(alpha)))
        batched = operation.batch > 1
        matrices = zip((pointers.b, pointers.a, pointers.d), call.lds, call.steps, strict=True)
        for place, (address, ld, step) in enumerate(matrices):
            if place == 2:
                arguments.append(ctypes.byref(ctypes.c_float(beta)))
            arguments += [ctypes.c_void_p(address), ctypes.c_int(ld)]
            arguments += [ctypes.c_longlong(step)] * batched
        if batched:
            arguments.append(ctypes.c_int(operation.batch))
        name = "cublasSgemmStridedBatched" if batched else "cublasSgemm_v2"
        return functools.partial(self._call, name, *arguments)

    def use_workspace(self, address: int, size_bytes: int) -> None:
        """Give cuBLAS device memory of the caller's, as recording it in a graph needs.

        Raises:
            DeviceError: cuBLAS refuses it.
        """
        size = ctypes.c_size_t(size_bytes)
        self._call("cublasSetWorkspace_v2", self._handle, ctypes.c_void_p(address), size)

    def _version(self) -> str:
        parts = []
        for part in _VERSION_PARTS:
            value = ctypes.c_int()
            self._call("cublasGetProperty", ctypes.c_int(part), ctypes.byref(value))
            parts.append(str(value.value))
        return ".".join(parts)

    def _call(self, function: str, *args: object) -> None:
        status = getattr(self._library, function)(*args)
        if status != 0:
            raise DeviceError(f"{function}: {status_name(status)}")


def status_name(status: int) -> str:
    """Return the name of what a function of cuBLAS returned."""
    return _STATUS.get(status, f"cuBLAS status {status}")


def require_cublas() -> CublasLibrary:
    """Return the cuBLAS of this machine.

    Raises:
        DeviceError: there is none, with what brings it; or it would not compute in float32.
    """
    library = find_cublas()
    if library is None:
        raise DeviceError(
            "no cuBLAS to compare with: pip install 'tilewright[gpu]' brings the nvidia-cublas "
            "wheel; PyTorch or a CUDA toolkit bring it too"
        )
    _check_float32()
    return library


def _check_float32() -> None:
    # The variable outranks the math mode, so with it the baseline would not be float32.
    if read_settings().tf32_forced:
        raise DeviceError(
            "NVIDIA_TF32_OVERRIDE=1 makes cuBLAS round float32 inputs to TF32: unset it to "
            "measure float32"
        )


def cublas_baseline(stream: int) -> Cublas:
    """Return cuBLAS on `stream` (a CUstream's address), in the context that is current.

    Raises:
        DeviceError: no cuBLAS on this machine, or it does not start.
    """
    return Cublas(require_cublas(), stream)
