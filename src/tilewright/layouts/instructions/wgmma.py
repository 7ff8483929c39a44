"""wgmma.mma_async: the fragments of a warpgroup, four warps with 16 rows each.

Source: PTX ISA, "Register Fragments" of "Asynchronous Warpgroup Level Matrix Instructions", and
"Matrix Shape" there for the sizes along n.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import LayoutError, UnknownNameError
from tilewright.layouts.instructions.fragment import BITS, Fragment
from tilewright.layouts.instructions.mma import accumulator, multiplicand

ROWS = 64
WARPS = 4
K_BITS = 256  # of a row of A

_ANY = tuple(range(8, 257, 8))
_BYTES = (8, 16, 24, *range(32, 257, 16))
_SIZES = {t: _ANY for t in ("f16", "bf16", "tf32", "e4m3", "e5m2")} | {"s8": _BYTES, "u8": _BYTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wgmma:
    """The fragments of D += A · B: `a` of the (64, k) tile, in registers, `d` of (64, n).

    A in shared memory, and B always, lie as `shared_atom` says.
    """

    shape: str
    dtype: str
    a: Fragment
    d: Fragment


def wgmma(n: int, dtype: str) -> Wgmma:
    """Return the fragments of `wgmma.mma_async.m64n<n>k<256 / bits>` on elements of `dtype`.

    >>> found = wgmma(64, "bf16")
    >>> print(found.shape, found.d.layout)
    m64n64k16 ((4,8,4),(2,2,8)):((128,1,16),(64,8,512))
    >>> print(found.a.layout)
    ((4,8,4),(2,2,2)):((128,1,16),(64,8,512))

    Raises:
        UnknownNameError: no such dtype.
        LayoutError: a size along n that the instruction lacks.
    """
    if dtype not in _SIZES:
        raise UnknownNameError("dtype of wgmma", dtype, _SIZES)
    sizes = _SIZES[dtype]
    if n not in sizes:
        nearest = min(sizes, key=lambda size: abs(size - n))
        raise LayoutError(
            f"wgmma on {dtype} with n = {n}: n is a multiple of {sizes[-1] - sizes[-2]} up to 256"
            f"{', or 8 or 24' if sizes is _BYTES else ''}; try n = {nearest}"
        )
    k = K_BITS // BITS[dtype]
    return Wgmma(
        shape=f"m{ROWS}n{n}k{k}",
        dtype=dtype,
        a=multiplicand(ROWS, k, BITS[dtype], WARPS),
        d=accumulator(ROWS, n, WARPS),
    )
