"""ldmatrix: 8x8 matrices of 16-bit elements, from rows in shared memory to fragments.

Lane 8 · i + r gives the address of row r of matrix i: 16 bytes, at a multiple of 16. stmatrix is
the same maps in the other direction.

Source: PTX ISA, "Warp-level matrix load instruction: ldmatrix", shape .m8n8, type .b16.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import LayoutError
from tilewright.layouts.layout import Layout

ROW = 8  # elements
COUNTS = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ldmatrix:
    """What `ldmatrix.sync.aligned.m8n8.x<count>[.trans]` reads, and where it goes.

    Both maps end in the number of an element, counted row by row, matrix by matrix: element e of
    the row at lane l's address is 8 · l + e.

    Shapes: source (lane, element of its row), of the first 8 · count lanes; target (lane, (half of
    a register, register)).
    """

    count: int
    trans: bool
    source: Layout
    target: Layout


def ldmatrix(count: int, *, trans: bool = False) -> Ldmatrix:
    """Return the maps of an ldmatrix of 1, 2 or 4 matrices.

    >>> print(ldmatrix(4).source, ldmatrix(4).target)
    (32,8):(8,1) (32,(2,4)):(2,(1,64))
    >>> print(ldmatrix(4, trans=True).target)
    ((4,8),(2,4)):((16,1),(8,64))

    Raises:
        LayoutError: another count.
    """
    if count not in COUNTS:
        raise LayoutError(f"ldmatrix of {count} matrices: give 1, 2 or 4")
    rest = ROW * ROW
    straight = Layout((32, (2, count)), (2, (1, rest)))
    turned = Layout(((4, 8), (2, count)), ((2 * ROW, 1), (ROW, rest)))
    return Ldmatrix(
        count=count,
        trans=trans,
        source=Layout((ROW * count, ROW), (ROW, 1)),
        target=turned if trans else straight,
    )
