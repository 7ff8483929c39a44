"""cuBLAS in float32 (TF32 off) as what a kernel is measured against.

The library is driven directly, through ctypes, on our own stream and buffers: the one that a CUDA
toolkit, the `nvidia-cublas` wheel or PyTorch's dependencies put on this machine. So both candidates
of a measurement are launches on the same stream, with no framework between them.

Source: cuBLAS Library, cublasSgemm and cublasSetMathMode.
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

from tilewright.errors import DeviceError
from tilewright.problem import Problem
from tilewright.settings import read_settings

# Newest first: any of them runs on a driver for CUDA 13.
_MAJORS = (13, 12)
_OP_N = 0
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
        partner = Path(self.path).with_name(Path(self.path).name.replace("cublas", "cublasLt"))
        try:
            if partner.is_file():
                ctypes.CDLL(str(partner), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(self.path)
        except OSError as error:
            raise DeviceError(f"cuBLAS at {self.path} does not load: {error}") from error


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
        # The variable outranks the math mode, so with it the baseline would not be float32.
        if read_settings().tf32_forced:
            raise DeviceError(
                "NVIDIA_TF32_OVERRIDE=1 makes cuBLAS round float32 inputs to TF32: unset it to "
                "measure float32"
            )
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
        self._library.cublasDestroy_v2(self._handle)

    def bind(self, problem: Problem, a: int, b: int, c: int) -> Callable[[], None]:
        """Return a function that queues C = alpha · A · B + beta · C on these device addresses.

        The matrices are row-major. cuBLAS is column-major, where a row-major matrix is its own
        transpose: it is asked for Cᵀ = alpha · Bᵀ · Aᵀ + beta · Cᵀ.

        Raises:
            DeviceError: (from the function) cuBLAS refuses or fails.
        """
        arguments = (
            self._handle,
            ctypes.c_int(_OP_N),
            ctypes.c_int(_OP_N),
            ctypes.c_int(problem.n),
            ctypes.c_int(problem.m),
            ctypes.c_int(problem.k),
            ctypes.byref(ctypes.c_float(problem.alpha)),
            ctypes.c_void_p(b),
            ctypes.c_int(problem.ldb),
            ctypes.c_void_p(a),
            ctypes.c_int(problem.lda),
            ctypes.byref(ctypes.c_float(problem.beta)),
            ctypes.c_void_p(c),
            ctypes.c_int(problem.ldc),
        )
        return functools.partial(self._call, "cublasSgemm_v2", *arguments)

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
            raise DeviceError(f"{function}: {_STATUS.get(status, f'cuBLAS status {status}')}")


def cublas_baseline(stream: int) -> Cublas:
    """Return cuBLAS on `stream` (a CUstream's address), in the context that is current.

    Raises:
        DeviceError: no cuBLAS on this machine, or it does not start.
    """
    library = find_cublas()
    if library is None:
        raise DeviceError(
            "no cuBLAS to compare with: pip install 'tilewright[gpu]' brings the nvidia-cublas "
            "wheel; PyTorch or a CUDA toolkit bring it too"
        )
    return Cublas(library, stream)
