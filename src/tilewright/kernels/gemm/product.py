"""The argument of the production kernels: the struct of `lib/product.cuh`, packed."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from tilewright.kernels.gemm.operation import Operation, Strides

_POINTERS = ("a", "b", "c", "d", "partial", "arrivals")
_STRIDES = tuple(f"{m}_{s}" for m in "abcd" for s in ("row", "col", "batch"))
_INTS = ("m", "n", "k", "batch", "splits", "workers")
_FLOATS = ("alpha", "beta")

# The struct's fields with their C types, in its order.
PRODUCT = np.dtype(
    [(name, np.uint64) for name in _POINTERS]
    + [(name, np.int64) for name in _STRIDES]
    + [(name, np.int32) for name in _INTS]
    + [(name, np.float32) for name in _FLOATS],
    align=True,
)
_PACKED = struct.Struct("=6Q12q6i2f")
assert _PACKED.size == PRODUCT.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointers:
    """Addresses in the memory of the kernel; 0 where there is none."""

    a: int
    b: int
    d: int
    c: int = 0
    partial: int = 0
    arrivals: int = 0


def pack(
    operation: Operation,
    pointers: Pointers,
    *,
    splits: int = 1,
    workers: int = 0,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> bytes:
    """Return the kernel's argument, byte for byte."""
    o, p = operation, pointers
    c = o.c or Strides(row=0, col=0)
    return _PACKED.pack(
        p.a, p.b, p.c, p.d, p.partial, p.arrivals,
        o.a.row, o.a.col, o.a.batch, o.b.row, o.b.col, o.b.batch,
        c.row, c.col, c.batch, o.d.row, o.d.col, o.d.batch,
        o.m, o.n, o.k, o.batch, splits, workers, alpha, beta,
    )  # fmt: skip
