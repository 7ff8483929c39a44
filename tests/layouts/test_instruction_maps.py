"""Thread-value maps beside the formulas of the PTX ISA, written out lane by lane.

`group` and `inside` are the groupID and threadID_in_group of its figures.
"""

import doctest
import importlib
import re

import pytest

from tilewright.errors import LayoutError, UnknownNameError
from tilewright.layouts import Layout, equivalent, is_contiguous, tile_to_shape
from tilewright.layouts.instructions import (
    MMA_SHAPES,
    SPANS,
    byte_swizzle,
    ldmatrix,
    mma,
    shared_atom,
    tma_box,
    wgmma,
)

# (row, col) of ai by group, lane in it, and i; of bi likewise, where row counts along k.
A_ROWS = {
    "m8n8k4 64": lambda g, t, i: (g, t),
    "m16n8k4 32": lambda g, t, i: (g + 8 * i, t),
    "m16n8k4 64": lambda g, t, i: (g + 8 * i, t),
    "m16n8k8 16": lambda g, t, i: (g if i < 2 else g + 8, 2 * t + (i & 1)),
    "m16n8k8 32": lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
    "m16n8k8 64": lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
    "m16n8k16 16": lambda g, t, i: (
        g if 0 <= i < 2 or 4 <= i < 6 else g + 8,
        2 * t + (i & 1) if i < 4 else 2 * t + (i & 1) + 8,
    ),
    "m16n8k16 8": lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)),
    "m16n8k16 64": lambda g, t, i: (
        g if i % 2 == 0 else g + 8,
        2 * i + t if i % 2 == 0 else 2 * i - 2 + t,
    ),
    "m16n8k32 8": lambda g, t, i: (
        g if 0 <= i < 4 or 8 <= i < 12 else g + 8,
        4 * t + (i & 3) if i < 8 else 4 * t + (i & 3) + 16,
    ),
}
B_ROWS = {
    "m8n8k4 64": lambda g, t, i: (t, g),
    "m16n8k4 32": lambda g, t, i: (t, g),
    "m16n8k4 64": lambda g, t, i: (t, g),
    "m16n8k8 16": lambda g, t, i: (2 * t + i, g),
    "m16n8k8 32": lambda g, t, i: (t if i == 0 else t + 4, g),
    "m16n8k8 64": lambda g, t, i: (t if i == 0 else t + 4, g),
    "m16n8k16 16": lambda g, t, i: (2 * t + (i & 1) if i < 2 else 2 * t + (i & 1) + 8, g),
    "m16n8k16 8": lambda g, t, i: (4 * t + i, g),
    "m16n8k16 64": lambda g, t, i: (t + 4 * i, g),
    "m16n8k32 8": lambda g, t, i: (4 * t + (i & 3) if i < 4 else 4 * t + (i & 3) + 16, g),
}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}
SHAPES = [(shape, dtype) for dtype, shapes in MMA_SHAPES.items() for shape in shapes]


@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
def test_mma_fragments_are_those_of_the_ptx_isa(shape: str, dtype: str) -> None:
    found, key = mma(shape, dtype), f"{shape} {BITS[dtype]}"
    m, n, k = (int(size) for size in re.findall(r"\d+", shape))
    assert (found.a.rows, found.a.cols, found.b.rows, found.b.cols) == (m, k, n, k)
    assert (found.a.values, found.b.values, found.c.values) == (m * k // 32, n * k // 32, m // 4)
    for lane in range(32):
        group, inside = lane >> 2, lane % 4
        for i in range(found.a.values):
            assert found.a.coordinate(lane, i) == A_ROWS[key](group, inside, i)
        for i in range(found.b.values):
            assert found.b.coordinate(lane, i)[::-1] == B_ROWS[key](group, inside, i)
        for i in range(found.c.values):
            row = group if i < 2 else group + 8
            assert found.c.coordinate(lane, i) == (row, 2 * inside + (i & 1))


@pytest.mark.parametrize(("shape", "dtype"), SHAPES)
def test_mma_fragments_hold_each_element_once(shape: str, dtype: str) -> None:
    found = mma(shape, dtype)
    for part in (found.a, found.b, found.c):
        assert part.threads == 32
        assert is_contiguous(part.layout)
        assert part.layout.size == part.rows * part.cols


@pytest.mark.parametrize("dtype", ["f16", "tf32", "s8", "e4m3"])
@pytest.mark.parametrize("n", [8, 24, 64, 256])
def test_wgmma_fragments_are_those_of_the_ptx_isa(n: int, dtype: str) -> None:
    found, near = wgmma(n, dtype), 32 // BITS[dtype]
    assert found.shape == f"m64n{n}k{256 // BITS[dtype]}"
    assert is_contiguous(found.a.layout)
    assert is_contiguous(found.d.layout)
    for thread in range(128):
        first, inside = 16 * (thread // 32) + thread % 32 // 4, thread % 4
        # The figure of A: register r holds the row of the group, 8 below, then the next columns.
        for i in range(found.a.values):
            register, part = divmod(i, near)
            row = first if register in (0, 2) else first + 8
            col = near * inside + part + (4 * near if register >= 2 else 0)
            assert found.a.coordinate(thread, i) == (row, col)
        # The figure of D: d0 d1 of a row, d2 d3 8 below, d4 from column 8 on.
        for i in range(found.d.values):
            row = first if i % 4 < 2 else first + 8
            assert found.d.coordinate(thread, i) == (row, i // 4 * 8 + 2 * inside + i % 2)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_is_that_of_the_ptx_isa(count: int) -> None:
    straight, turned = ldmatrix(count), ldmatrix(count, trans=True)
    for lane in range(8 * count):
        matrix, row = divmod(lane, 8)
        assert straight.source(lane, 0) == 64 * matrix + 8 * row
        assert straight.source(lane, 7) == 64 * matrix + 8 * row + 7
    for lane in range(32):
        for matrix in range(count):
            for half in (0, 1):
                row, col = lane // 4, 2 * (lane % 4) + half
                assert straight.target(lane, (half, matrix)) == 64 * matrix + 8 * row + col
                assert turned.target(lane, (half, matrix)) == 64 * matrix + 8 * col + row


def test_ldmatrix_x4_gives_the_a_fragment_of_m16n8k16() -> None:
    """Matrices in the order upper left, lower left, upper right, lower right."""
    a, load = mma("m16n8k16", "f16").a, ldmatrix(4)
    # Element e of row r of matrix i lies in A at row 8 (i & 1) + r and column 8 (i >> 1) + e.
    place = Layout((8, 8, (2, 2)), (16, 1, (8, 128)))
    loaded = [place(load.target(lane, v)) for v in range(8) for lane in range(32)]
    assert loaded == a.layout.indices()


# CUDA C++ Programming Guide, the table of swizzle modes: with `smem[y][x]` in pieces of 16 bytes
# and rows y as long as the span, piece x lies at x ^ this; the bytes after which it repeats.
MODES = {
    32: (lambda y: y // 4 % 2, 256),
    64: (lambda y: y // 2 % 4, 512),
    128: (lambda y: y % 8, 1024),
}


@pytest.mark.parametrize("span", MODES)
def test_swizzle_modes_are_those_of_the_programming_guide(span: int) -> None:
    moved, period = MODES[span]
    swizzle = byte_swizzle(span)
    assert swizzle.period == period
    for y in range(64):
        for x in range(span // 16):
            for byte in (0, 15):
                assert swizzle(y * span + x * 16 + byte) == y * span + (x ^ moved(y)) * 16 + byte
    assert [byte_swizzle(0)(n) for n in range(2048)] == list(range(2048))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("span", SPANS)
def test_atoms_are_the_canonical_layouts_of_the_ptx_isa(span: int, bits: int) -> None:
    pieces, t = max(span // 16, 1), 128 // bits
    for k_major in (True, False):
        atom = shared_atom(span, bits, k_major=k_major)
        along_k = ((8, (t, pieces)), (pieces * t, (1, t)))
        along_mn = (((t, pieces), 8), ((1, t), pieces * t))
        plain = Layout(*(along_k if k_major else along_mn))
        assert atom.shape == tuple(
            size if isinstance(size, int) else t * pieces for size in plain.shape
        )
        expected = [byte_swizzle(span)(e * bits // 8) * 8 // bits for e in plain.indices()]
        assert atom.indices() == expected
        assert is_contiguous(atom)


def test_a_swizzled_row_of_eight_lies_in_all_banks() -> None:
    """The purpose of the 128 B mode: one 16-byte column of 8 rows is in 8 different places."""
    tile = tile_to_shape(shared_atom(128, 16), (64, 64))
    assert {tile(row, 24) * 2 % 128 // 16 for row in range(8)} == set(range(8))
    assert is_contiguous(tile)


def test_a_box_is_packed_innermost_first_and_swizzled_by_bytes() -> None:
    box = tma_box((64, 16), 16, 128)
    # Row 3, piece 2 of a row of 8: line 3 of the pattern, piece 2 ^ 3 = 1.
    assert box(16, 3) == 64 * 3 + 8 * 1
    assert equivalent(tma_box((64, 8), 16, 128).layout, Layout((64, 8)))
    # Rows of 32 bytes, four a line: row 5 lies in line 1, which exchanges pieces; row 17 in line 4.
    narrow = tma_box((8, 32), 32, 32)
    assert narrow(0, 5) == 5 * 8 + 4
    assert narrow(0, 17) == 17 * 8
    assert str(tma_box((4, 8, 2), 32)) == "Sw<0,4,3> o 0 o (4,8,2):(1,4,32)"
    for span, bits in ((32, 8), (64, 16), (128, 32), (128, 64)):
        assert is_contiguous(tma_box((span * 8 // bits, 64), bits, span))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: wgmma(20, "f16"), "multiple of 8 up to 256; try n = 16"),
        (lambda: wgmma(40, "s8"), "multiple of 16 up to 256, or 8 or 24; try n = 32"),
        (lambda: wgmma(264, "bf16"), "try n = 256"),
        (lambda: ldmatrix(3), "give 1, 2 or 4"),
        (lambda: byte_swizzle(16), "give 32, 64 or 128, or 0"),
        (lambda: shared_atom(128, 64), "it takes 8, 16 or 32"),
        (lambda: tma_box((6, 4), 16), "12 bytes is no multiple of 16; try 8 elements"),
        (lambda: tma_box((32, 4), 16, 128), "64 elements, not 64"),
        (lambda: tma_box((16, 257), 16), "1 to 256"),
        (lambda: tma_box((16,) * 6, 16), "1 to 5 sides"),
    ],
)
def test_what_an_instruction_lacks_is_refused(call, says: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(says)):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mma("m16n8k16", "f32"), "dtype of mma.sync 'f32'"),
        (lambda: mma("m16n8k16", "tf32"), "known: m16n8k4, m16n8k8"),
        (lambda: wgmma(64, "f64"), "dtype of wgmma 'f64'"),
    ],
)
def test_unknown_names_list_what_there_is(call, says: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(says)):
        call()


@pytest.mark.parametrize("name", ["ldmatrix", "mma", "shared", "wgmma"])
def test_the_examples_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"tilewright.layouts.instructions.{name}"))
    assert found.attempted
    assert not found.failed
