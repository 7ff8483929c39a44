"""mma.sync: the fragments of one warp.

A 32-bit register holds `w` neighbours along k (one element where that is 32 or 64 bits wide). A
group of four lanes holds 4 · w of them in one row of A, or in one column of B; eight groups hold
eight rows. Further registers hold rows 8 below, then the next 4 · w along k.

Source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64", "… mma.m16n8k4", "… m16n8k8",
"… m16n8k16", "… m16n8k32".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import UnknownNameError
from tilewright.layouts.instructions.fragment import BITS, Digit, Fragment, fragment

REGISTER_BITS = 32

_BYTES = ("m16n8k16", "m16n8k32")
# f64 with 16 rows needs sm_90, 8-bit floats sm_89, all others sm_80.
MMA_SHAPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "f16": ("m16n8k8", "m16n8k16"),
        "bf16": ("m16n8k8", "m16n8k16"),
        "tf32": ("m16n8k4", "m16n8k8"),
        "s8": _BYTES,
        "u8": _BYTES,
        "e4m3": ("m16n8k32",),
        "e5m2": ("m16n8k32",),
        "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mma:
    """The fragments of C += A · B: `a` of the (m, k) tile, `b` of (n, k), `c` of (m, n).

    `b` has the coordinates of CuTe: (n, k), where PTX counts rows of B along k.
    """

    shape: str
    dtype: str
    a: Fragment
    b: Fragment
    c: Fragment


def mma(shape: str, dtype: str) -> Mma:
    """Return the fragments of `mma.sync.aligned.<shape>.row.col` on elements of `dtype`.

    C is float32, int32 or float64: an element a register, or one in two.

    >>> found = mma("m16n8k16", "bf16")
    >>> print(found.a.layout, found.b.layout)
    ((4,8),(2,2,2)):((32,1),(16,8,128)) ((4,8),(2,2)):((16,1),(8,64))
    >>> print(found.c.layout, found.c.coordinate(thread=5, value=2))
    ((4,8),(2,2)):((32,1),(16,8)) (9, 2)

    Raises:
        UnknownNameError: no such dtype, or no such shape for it; the message lists what there is.
    """
    if dtype not in MMA_SHAPES:
        raise UnknownNameError("dtype of mma.sync", dtype, MMA_SHAPES)
    if shape not in MMA_SHAPES[dtype]:
        raise UnknownNameError(f"shape of mma.sync on {dtype}", shape, MMA_SHAPES[dtype])
    m, n, k = (int(size) for size in re.findall(r"\d+", shape))
    return Mma(
        shape=shape,
        dtype=dtype,
        a=multiplicand(m, k, BITS[dtype]),
        b=multiplicand(n, k, BITS[dtype]),
        c=accumulator(m, n),
    )


def multiplicand(rows: int, k: int, bits: int, warps: int = 1) -> Fragment:
    """Return the fragment of A, or of B by its columns: `rows` x k, of them `warps` · 8 or 16."""
    near = max(REGISTER_BITS // bits, 1)
    each = rows // warps
    return fragment(
        rows,
        k,
        threads=[Digit(4, right=near), Digit(8, down=1), Digit(warps, down=each)],
        values=[
            Digit(near, right=1),
            Digit(each // 8, down=8),
            Digit(k // (4 * near), right=4 * near),
        ],
    )


def accumulator(rows: int, n: int, warps: int = 1) -> Fragment:
    """Return the fragment of C: two neighbours in a row, then 8 below, then 8 to the right."""
    each = rows // warps
    return fragment(
        rows,
        n,
        threads=[Digit(4, right=2), Digit(8, down=1), Digit(warps, down=each)],
        values=[Digit(2, right=1), Digit(each // 8, down=8), Digit(n // 8, right=8)],
    )
