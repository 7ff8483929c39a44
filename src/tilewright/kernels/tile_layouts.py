"""Every rung's tiles as layouts: who owns which output, and each access to memory on the way.

A step of the main loop takes `depth` columns of A and rows of B. Each access is two layouts: its
`map` from (threads, turns, vector) to an element of a tile, counted column by column, and the
`memory` of the tile, from (row, column) to an element's place. Composed they are its addresses.

    01, 02    global A, B --------------------------------------> registers --> C
    03 .. 08  global A, B --> registers --> shared A, B --> registers --> C
    volkov    global A --> registers --> shared A --> registers; global B --> registers --> C
    09, 10    global A, B ----------------> shared A, B --> registers --> C

They describe blocks that cross no edge, whole tiles along k, beta = 0 and rows that start at
multiples of 32 bytes (of 128 in 09 and 10), each tile of 10 by one block: tests hold them to the
kernels' own index arithmetic and to what the emulator counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tilewright.errors import UnsupportedError
from tilewright.kernels.rungs import Rung
from tilewright.kernels.tiles import COPIED_K, VECTOR_FLOATS, WARP_THREADS, Tile
from tilewright.layouts import (
    Layout,
    composition,
    concat,
    k_major,
    logical_divide,
    mn_major,
    row_major,
)

Space: TypeAlias = Literal["global", "shared"]
Way: TypeAlias = Literal["load", "store"]
Operand: TypeAlias = Literal["A", "B", "C"]

# Without staging a step is as many elements of a row of A as a sector has.
UNSTAGED_DEPTH = 8
# Leading dimensions are multiples of it: any multiple of 8 that holds a row gives the same counts.
LD_STEP = 1024

_ROWS_FIRST = frozenset({"naive"})  # kernels whose neighbouring threads lie along m
_DESCRIBED = _ROWS_FIRST | {"coalesced", "shared_tile", "register_1d", "register_2d"}
_DESCRIBED |= {"vectorized", "warptiled", "pipelined", "persistent", "streamed_b"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One memory instruction of the source, as all threads of a block execute it.

    Shapes: map (threads, turns, vector) -> row + rows · col; memory (rows, cols) -> elements.
    A step executes every turn; a store to C is executed once a block. cp.async is two accesses, a
    load and a store: `other` is then the memory of the other one's tile.
    """

    operand: Operand
    space: Space
    way: Way
    map: Layout
    memory: Layout
    other: Layout | None = None

    @property
    def addresses(self) -> Layout:
        """The places of elements by (threads, turns, vector)."""
        return composition(self.memory, self.map)

    @property
    def vector(self) -> int:
        """Elements an instruction moves for a thread."""
        return self.map[2].size

    def __str__(self) -> str:
        return f"{self.space} {self.way} of {self.operand}, {self.vector} wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class RungLayouts:
    """The layouts of a rung with a tile.

    `owner` maps (threads, (values along m, values along n)) to row + bm · col of C's tile.
    """

    rung: str
    tile: Tile
    depth: int
    owner: Layout
    accesses: tuple[Access, ...]

    def of(self, operand: Operand, space: Space, way: Way) -> Access | None:
        """Return the access of an operand, None where the rung has none such."""
        key = (operand, space, way)
        found = (a for a in self.accesses if (a.operand, a.space, a.way) == key)
        return next(found, None)


def layouts_of(rung: Rung, tile: Tile) -> RungLayouts:
    """Return the layouts of a rung with a tile that it can run with.

    >>> from tilewright.kernels import rung
    >>> found = layouts_of(rung("06"), rung("06").default)
    >>> print(found.owner)
    ((16,16),(8,8)):((1024,8),(1,128))
    >>> print(found.of("A", "shared", "store").addresses)
    ((2,128),(4,1),1):((528,1),(132,132),0)

    Raises:
        TileError: the kernel cannot run with the tile.
        UnsupportedError: a kernel that nobody has described here.
    """
    rung.check(tile)
    if rung.kernel not in _DESCRIBED:
        raise UnsupportedError(
            f"{rung.name}: kernels/tile_layouts.py does not describe {rung.kernel!r} yet; it has "
            f"{', '.join(sorted(_DESCRIBED))}"
        )
    depth = tile.bk or UNSTAGED_DEPTH
    rows, cols = _owned(rung, tile)
    width = VECTOR_FLOATS if rung.use.vector else 1
    if rung.use.streams_b:
        inputs = _one_staged(tile, rows, cols)
    elif tile.bk:
        staging = _copies(tile) if tile.stages else _staging(tile, width)
        inputs = (*staging, *_fragments(tile, rows, cols, width))
    else:
        inputs = _direct(tile, rows, cols, depth)
    owner = _owner(tile, rows, cols)
    columns = logical_divide(cols[1], width)
    stores = concat(
        owner[0],
        concat(rows[1], _times(columns[1], tile.bm)),
        _times(columns[0], tile.bm),
    )
    output = Access(
        operand="C", space="global", way="store", map=stores, memory=_rows(tile.bm, tile.bn)
    )
    return RungLayouts(
        rung=rung.name, tile=tile, depth=depth, owner=owner, accesses=(*inputs, output)
    )


def _owned(rung: Rung, tile: Tile) -> tuple[Layout, Layout]:
    """Return (threads, values along m) -> row, and (threads, values along n) -> column."""
    t = tile
    if t.wm:
        lanes_n = t.wn // t.wniter // t.tn
        lanes_m = WARP_THREADS // lanes_n
        sub_m = lanes_m * t.tm
        if t.stages:
            shape, along_m, along_n = _z_order(lanes_m, lanes_n)
        else:
            shape, along_m, along_n = (lanes_n, lanes_m), (0, 1), (1, 0)
        threads = (*shape, t.bn // t.wn, t.bm // t.wm)
        of_m = (*(t.tm * stride for stride in along_m), 0, t.wm)
        of_n = (*(t.tn * stride for stride in along_n), t.wn, 0)
        down = Layout((threads, (t.tm, t.wm // sub_m)), (of_m, (1, sub_m)))
        across = Layout((threads, (t.tn, t.wniter)), (of_n, (1, t.wn // t.wniter)))
        return down, across
    if rung.kernel in _ROWS_FIRST:
        square = (t.bm, t.bn)
        return Layout((square, 1), ((1, 0), 1)), Layout((square, 1), ((0, 1), 1))
    square = (t.bn // t.tn, t.bm // t.tm)
    return (
        Layout((square, t.tm), ((0, t.tm), 1)),
        Layout((square, t.tn), ((t.tn, 0), 1)),
    )


def _z_order(
    lanes_m: int, lanes_n: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the bits of a lane's number, and what each counts along m and n (lib/lanes.cuh)."""
    along_m, along_n, m, n = [], [], 1, 1
    while m * n < WARP_THREADS:
        to_n = n < lanes_n and (n <= m or m == lanes_m)
        along_m.append(0 if to_n else m)
        along_n.append(n if to_n else 0)
        m, n = (m, 2 * n) if to_n else (2 * m, n)
    return (2,) * len(along_m), tuple(along_m), tuple(along_n)


def _owner(tile: Tile, rows: Layout, cols: Layout) -> Layout:
    threads = _sum(rows[0], _times(cols[0], tile.bm))
    return concat(threads, concat(rows[1], _times(cols[1], tile.bm)))


def _staging(tile: Tile, width: int) -> tuple[Access, ...]:
    """Return the four accesses of a step that bring the tiles of A and B to shared memory."""
    t, a, b = tile, (tile.bm, tile.bk), (tile.bk, tile.bn)
    load_a, load_b = _copied(t.threads, *a, width), _copied(t.threads, *b, width)
    # A's tile is transposed where it is read by vectors, so its four floats go one by one.
    store_a = load_a
    if width > 1:
        store_a = concat(load_a[0], concat(load_a[2], load_a[1]), Layout(1, 0))
    shared_a, shared_b = shared_tiles(tile, transposed=width > 1)
    return (
        Access(operand="A", space="global", way="load", map=load_a, memory=_rows(*a)),
        Access(operand="A", space="shared", way="store", map=store_a, memory=shared_a),
        Access(operand="B", space="global", way="load", map=load_b, memory=_rows(*b)),
        Access(operand="B", space="shared", way="store", map=load_b, memory=shared_b),
    )


def _one_staged(tile: Tile, rows: Layout, cols: Layout) -> tuple[Access, ...]:
    """Return the accesses of a step that stages A, transposed, and reads B where it is."""
    copied = _copied(tile.threads, tile.bm, tile.bk, 1)
    shared_a, _ = shared_tiles(tile, transposed=True)
    read_a = concat(rows[0], concat(rows[1], Layout(tile.bk, tile.bm)), Layout(1, 0))
    in_a = _rows(tile.bm, tile.bk)
    _, read_b = _direct(tile, rows, cols, tile.bk)
    return (
        Access(operand="A", space="global", way="load", map=copied, memory=in_a),
        Access(operand="A", space="shared", way="store", map=copied, memory=shared_a),
        read_b,
        Access(operand="A", space="shared", way="load", map=read_a, memory=shared_a),
    )


def _copies(tile: Tile) -> tuple[Access, ...]:
    """Return the accesses of a step's copies: A along k by floats, B by vectors along its rows."""
    t, across = tile, math.gcd(tile.bn // VECTOR_FLOATS, tile.threads)
    down, rows = t.threads // COPIED_K, t.threads // across
    copy_a = Layout(
        ((COPIED_K, down), (t.bm // down, t.bk // COPIED_K), 1),
        ((t.bm, 1), (down, t.bm * COPIED_K), 0),
    )
    copy_b = Layout(
        ((across, rows), (t.bk // rows, t.bn // (across * VECTOR_FLOATS)), VECTOR_FLOATS),
        ((VECTOR_FLOATS * t.bk, 1), (rows, across * VECTOR_FLOATS * t.bk), t.bk),
    )
    shared_a, shared_b = shared_tiles(tile, transposed=True)
    in_a, in_b = _rows(t.bm, t.bk), _rows(t.bk, t.bn)
    return (
        Access(operand="A", space="global", way="load", map=copy_a, memory=in_a, other=shared_a),
        Access(operand="A", space="shared", way="store", map=copy_a, memory=shared_a, other=in_a),
        Access(operand="B", space="global", way="load", map=copy_b, memory=in_b, other=shared_b),
        Access(operand="B", space="shared", way="store", map=copy_b, memory=shared_b, other=in_b),
    )


def shared_tiles(tile: Tile, *, transposed: bool) -> tuple[Layout, Layout]:
    """Return where A's (bm, bk) and B's (bk, bn) lie in their shared arrays."""
    a = mn_major(tile.bm, tile.bk, tile.bm + tile.pad) if transposed else k_major(tile.bm, tile.bk)
    return a, row_major(tile.bk, tile.bn)


def _copied(threads: int, rows: int, cols: int, width: int) -> Layout:
    """Return (threads, turns, vector) -> element: whole rows at a time, as lib/stage*.cuh copy."""
    across = cols // width
    down = threads // across
    return Layout(
        ((across, down), rows // down, width),
        ((width * rows, 1), down, rows),
    )


def _fragments(tile: Tile, rows: Layout, cols: Layout, width: int) -> tuple[Access, ...]:
    """Return the reads of a step: for each k, the rows and the columns that a thread owns."""
    t = tile
    shared_a, shared_b = shared_tiles(tile, transposed=width > 1)
    of_m, of_n = logical_divide(rows[1], width), _times(logical_divide(cols[1], width), t.bk)
    read_a = concat(rows[0], concat(of_m[1], Layout(t.bk, t.bm)), of_m[0])
    read_b = concat(_times(cols[0], t.bk), concat(of_n[1], Layout(t.bk, 1)), of_n[0])
    return (
        Access(operand="A", space="shared", way="load", map=read_a, memory=shared_a),
        Access(operand="B", space="shared", way="load", map=read_b, memory=shared_b),
    )


def _direct(tile: Tile, rows: Layout, cols: Layout, depth: int) -> tuple[Access, ...]:
    """Return the reads of a step from global memory, without staging."""
    read_a = concat(rows[0], Layout(depth, tile.bm), Layout(1, 0))
    read_b = concat(_times(cols[0], depth), Layout(depth, 1), Layout(1, 0))
    in_a, in_b = _rows(tile.bm, depth), _rows(depth, tile.bn)
    return (
        Access(operand="A", space="global", way="load", map=read_a, memory=in_a),
        Access(operand="B", space="global", way="load", map=read_b, memory=in_b),
    )


def _rows(rows: int, cols: int) -> Layout:
    """Return a tile in global memory: row-major, its rows far apart."""
    return Layout((rows, cols), (-(-cols // LD_STEP) * LD_STEP, 1))


def _times(layout: Layout, factor: int) -> Layout:
    """Return factor · layout."""
    return composition(Layout(layout.cosize, factor), layout)


def _sum(a: Layout, b: Layout) -> Layout:
    """Return the layout of the sum of two layouts of one flat shape."""
    pairs = zip(a.flat_modes(), b.flat_modes(), strict=True)
    return Layout(a.shape, tuple([mine[1] + other[1] for mine, other in pairs]))
