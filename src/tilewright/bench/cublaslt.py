"""cublasLt in float32, over every algorithm that its heuristic offers for an operation.

cuBLAS takes the first of them; this contender has all timed and keeps the fastest, which is as
fast as NVIDIA's float32 kernels get. The library is the one that `bench/cublas.py` finds, through
ctypes: the same on every machine that has cuBLAS, with no framework.

Source: cuBLAS Library, "Using the cuBLASLt API" and the enumerations of cublasLt.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.bench.contenders import LIBRARY_WORKSPACE_BYTES, Way
from tilewright.bench.cublas import ColumnMajor, column_major, require_cublas, status_name
from tilewright.device.memory import Arena
from tilewright.errors import DeviceError
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import Pointers

_REQUESTED = 32
# CUBLAS_COMPUTE_32F multiplies and adds in float32; TF32 is CUBLAS_COMPUTE_32F_FAST_TF32.
_COMPUTE_32F, _R_32F = 68, 0
_DESC_TRANSA, _DESC_TRANSB = 3, 4
_LAYOUT_BATCH_COUNT, _LAYOUT_BATCH_STEP = 5, 6
_PREFERENCE_WORKSPACE = 1


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t: opaque."""

    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The library's descriptions of one operation; B comes first, as in `ColumnMajor`."""

    product: ctypes.c_void_p
    layouts: tuple[ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]


class CublasLt:
    """cublasLt on the session's stream, with a workspace as large as cuBLAS's own."""

    name = "cublaslt"

    def __init__(self, arena: Arena) -> None:
        found = require_cublas()
        self._library = found.load_lt()
        self._library.cublasLtGetVersion.restype = ctypes.c_size_t
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        self._plans: list[_Plan] = []
        self._stream = ctypes.c_void_p(int(arena.session.stream_handle))
        self._workspace = ctypes.c_void_p(arena.allocate(LIBRARY_WORKSPACE_BYTES))
        self.label = (
            f"cublasLt {self._library.cublasLtGetVersion()} ({found.provider}), float32, "
            "the fastest of its algorithms"
        )

    def close(self) -> None:
        """Give back the handle, and what describes the operations."""
        for plan in self._plans:
            self._library.cublasLtMatmulDescDestroy(plan.product)
            for layout in plan.layouts:
                self._library.cublasLtMatrixLayoutDestroy(layout)
        self._library.cublasLtDestroy(self._handle)

    def ways(self, operation: Operation, arena: Arena) -> Sequence[Way]:
        """Return a way for each algorithm.

        Raises:
            UnsupportedError: strides that the library cannot express.
            DeviceError: it offers no algorithm, or fails.
        """
        plan = self._plan(operation, column_major(operation))
        self._plans.append(plan)
        return [
            Way(name=f"algorithm {index}", bind=self._binder(plan, found))
            for index, found in enumerate(self._algorithms(plan))
        ]

    def _plan(self, operation: Operation, asked: ColumnMajor) -> _Plan:
        product = ctypes.c_void_p()
        self._call(
            "cublasLtMatmulDescCreate",
            ctypes.byref(product), ctypes.c_int(_COMPUTE_32F), ctypes.c_int(_R_32F),
        )  # fmt: skip
        for which, op in zip((_DESC_TRANSA, _DESC_TRANSB), asked.ops, strict=True):
            self._set("cublasLtMatmulDescSetAttribute", product, which, ctypes.c_int32(op))
        n, m, k = asked.sizes
        shapes = ((n, k), (k, m), (n, m))
        ops = (*asked.ops, 0)
        layouts = []
        for (rows, cols), op, ld, step in zip(shapes, ops, asked.lds, asked.steps, strict=True):
            layout = ctypes.c_void_p()
            stored = (cols, rows) if op else (rows, cols)
            self._call(
                "cublasLtMatrixLayoutCreate",
                ctypes.byref(layout), ctypes.c_int(_R_32F),
                *map(ctypes.c_uint64, stored), ctypes.c_int64(ld),
            )  # fmt: skip
            if operation.batch > 1:
                for which, value in (
                    (_LAYOUT_BATCH_COUNT, ctypes.c_int32(operation.batch)),
                    (_LAYOUT_BATCH_STEP, ctypes.c_int64(step)),
                ):
                    self._set("cublasLtMatrixLayoutSetAttribute", layout, which, value)
            layouts.append(layout)
        b, a, d = layouts
        return _Plan(product=product, layouts=(b, a, d))

    def _algorithms(self, plan: _Plan) -> list[_Found]:
        preference = ctypes.c_void_p()
        self._call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_uint64(LIBRARY_WORKSPACE_BYTES)
        name = "cublasLtMatmulPreferenceSetAttribute"
        self._set(name, preference, _PREFERENCE_WORKSPACE, size)
        results = (_Found * _REQUESTED)()
        count = ctypes.c_int()
        b, a, d = plan.layouts
        try:
            self._call(
                "cublasLtMatmulAlgoGetHeuristic",
                self._handle, plan.product, b, a, d, d, preference,
                ctypes.c_int(_REQUESTED), results, ctypes.byref(count),
            )  # fmt: skip
        finally:
            self._library.cublasLtMatmulPreferenceDestroy(preference)
        return [found for found in results[: count.value] if found.state == 0]

    def _binder(self, plan: _Plan, found: _Found) -> Callable[[Pointers], Callable[[], None]]:
        b_layout, a_layout, d_layout = plan.layouts
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def bind(pointers: Pointers) -> Callable[[], None]:
            b, a, d = (ctypes.c_void_p(p) for p in (pointers.b, pointers.a, pointers.d))

            def queue() -> None:
                self._call(
                    "cublasLtMatmul",
                    self._handle, plan.product,
                    ctypes.byref(one), b, b_layout, a, a_layout,
                    ctypes.byref(zero), d, d_layout, d, d_layout,
                    ctypes.byref(found.algorithm), self._workspace,
                    ctypes.c_size_t(LIBRARY_WORKSPACE_BYTES), self._stream,
                )  # fmt: skip

            return queue

        return bind

    def _set(self, function: str, target: ctypes.c_void_p, which: int, value: Any) -> None:  # noqa: ANN401 - a ctypes value
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._call(function, target, ctypes.c_int(which), ctypes.byref(value), size)

    def _call(self, function: str, *args: object) -> None:
        status = getattr(self._library, function)(*args)
        if status != 0:
            raise DeviceError(f"{function}: {status_name(status)}")
