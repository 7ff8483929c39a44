"""What padding or swizzle the staged tiles of a rung would do best with: the solver on layouts."""

from __future__ import annotations

from tilewright.errors import UnsupportedError
from tilewright.kernels.tile_layouts import Access, Operand, RungLayouts
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.layouts import Layout, composition, take
from tilewright.layouts.swizzle_solver import SharedAccess, Solution, solve


def solve_staged(layouts: RungLayouts, operand: Operand, *, most_pad: int = 32) -> Solution:
    """Search the padding or the swizzle of a rung's shared tile of A or B.

    A tile keeps the order that it has in the kernel: rows of it are padded, not columns.

    >>> from tilewright.kernels import rung
    >>> from tilewright.kernels.tile_layouts import layouts_of
    >>> print(solve_staged(layouts_of(rung("06"), rung("06").default), "B").best)
    Sw<1,2,3> (+0 bytes): 544 of 544 wavefronts

    Raises:
        UnsupportedError: a rung that stages nothing, or C.
    """
    found = [a for a in layouts.accesses if (a.operand, a.space) == (operand, "shared")]
    if not found:
        raise UnsupportedError(
            f"{layouts.rung} has no tile of {operand} in shared memory: take A or B of a rung "
            "that stages, 03 or later"
        )
    rows, row = _sides(found[0].memory)
    return solve(
        [_tight(access) for access in found],
        rows=rows,
        row=row,
        bits=8 * FLOAT_BYTES,
        most_pad=most_pad,
    )


def _sides(memory: Layout) -> tuple[int, int]:
    """Return how many runs of neighbours a tile has, and how long they are."""
    first, second = memory
    return (first.size, second.size) if second.stride == 1 else (second.size, first.size)


def _tight(access: Access) -> SharedAccess:
    """Return the access to the tile without its padding; a vector by its first element."""
    first, second = access.memory
    row = _sides(access.memory)[1]
    strides = (row, 1) if second.stride == 1 else (1, row)
    places = composition(Layout((first.size, second.size), strides), access.map)
    return SharedAccess(
        name=str(access),
        layout=take(places, 0, 2),
        load=access.way == "load",
        vector=access.vector,
    )
