"""The skinny kernel on the emulator: any shape, strides and splits; its refusals; its code."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.gemm.held import assert_held, strided
from tilewright.bench.emulated_gemm import compile_variant, emulate_gemm
from tilewright.errors import TileError
from tilewright.gpus import gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.skinny import SKINNY
from tilewright.kernels.tiles import Tile
from tilewright.toolchain.sass import disassemble
from tilewright.toolchain.sass_flow import flow

H200 = gpu("H200")
# 8 lanes along n and 4 along k, four warps along k; 4 and 8 lanes; then a thread's columns that no
# vector fits.
WIDE = Tile(bm=3, bn=32, bk=64, tm=3, tn=4, stages=3, kparts=16)
LANES_8 = replace(WIDE, bn=16, bk=128, kparts=32)
NARROW = Tile(bm=5, bn=12, bk=32, tm=5, tn=3, stages=2, kparts=8)
# The same of the transposed product: all of n in a thread.
TALL = Tile(bm=32, bn=3, bk=64, tm=4, tn=3, stages=3, kparts=16)
LAYOUTS = ("nn", "nt", "tn", "tt")


def skinny(tile: Tile, splits: int = 1) -> Variant:
    return Variant(kernel="skinny", tile=tile, splits=splits)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aligned_and_ragged_shapes_in_every_layout(layout: str) -> None:
    # Vectors fit all of it, and the last step is whole for none of the warps. Then one row too many
    # for the tile, one column, one step.
    assert_held(Operation.plain(3, 40, 204, layout=layout), skinny(WIDE))
    if layout in ("nt", "tn"):
        return
    odd = Operation.plain(4, 33, 65, layout=layout, batch=2, beta=True)
    assert_held(odd, skinny(WIDE, splits=2), alpha=0.5, beta=-2.0)


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_few_columns_instead_of_few_rows(layout: str) -> None:
    assert_held(Operation.plain(44, 3, 132, layout=layout), skinny(TALL, splits=3), alpha=-1.5)


@pytest.mark.parametrize(
    "operation",
    [Operation.plain(1, 1, 1), Operation.plain(5, 1, 33, beta=True), *strided(6, 5)],
    ids=lambda o: o.key,
)
def test_any_strides(operation: Operation) -> None:
    assert_held(operation, skinny(NARROW), beta=1.0 if operation.c else 0.0)


def test_c_is_not_read_where_beta_is_0_and_k_may_be_0() -> None:
    assert_held(Operation.plain(3, 40, 204, beta=True), skinny(WIDE), beta=0.0)
    assert_held(Operation.plain(3, 40, 0, beta=True), skinny(WIDE), beta=2.0)


@pytest.mark.parametrize(
    ("tile", "unit", "splits"),
    [(LANES_8, 8, 1), (LANES_8, 32, 1), (LANES_8, 128, 4), (WIDE, 64, 4)],
    ids=["pairs of lanes", "warps", "few parts", "many parts"],
)
def test_pairs_of_threads_are_added_in_double(tile: Tile, unit: int, splits: int) -> None:
    # Four units along k, whose sums are 2^24, 1, 1 and -2^24. In float 2^24 + 1 is 2^24.
    o = Operation.plain(3, 40, 4 * unit)
    a, b = np.ones((o.m, o.k), np.float32), np.zeros((o.k, o.n), np.float32)
    b[::unit] = np.array([[2**24], [1], [1], [-(2**24)]])
    assert (emulate_gemm(o, skinny(tile, splits), a, b) == 2).all()


def test_sums_are_float_where_double_is_slow() -> None:
    o = Operation.plain(3, 40, 204)
    for arch, fast in (("sm_86", False), ("sm_80", True)):
        (code,) = disassemble(compile_variant(o, skinny(WIDE), arch)).functions.values()
        assert ("DADD" in {i.mnemonic for i in code.instructions}) == fast
    assert_held(replace(o, k=1020, a=Strides(row=1020, col=1)), skinny(WIDE, 2), on="RTX A6000")


@pytest.mark.parametrize(
    ("tile", "splits", "says"),
    [
        (replace(WIDE, bm=6), 1, "all rows of its block .* or all columns"),
        (replace(WIDE, bn=24), 1, "6 threads side by side do not divide"),
        (replace(WIDE, bk=32), 1, "give bk = 64"),
        (replace(WIDE, stages=0), 1, "1 stage or more"),
        (replace(WIDE, pad=4), 1, "does not read pad"),
        (WIDE, 5, "k = 204 has 4 steps of bk = 64, so 1 to 4 parts"),
        (Tile(bm=32, bn=128, bk=64, tm=32, tn=4, kparts=16, stages=1), 1, "532480 bytes"),
    ],
)
def test_what_it_cannot_run_with_is_refused(tile: Tile, splits: int, says: str) -> None:
    with pytest.raises(TileError, match=says):
        SKINNY.check(Operation.plain(3, 40, 204), skinny(tile, splits))


def test_distances_past_32_bits_are_refused() -> None:
    far = replace(Operation.plain(3, 40, 204), a=Strides(row=2**30, col=1))
    with pytest.raises(TileError, match="take tiled"):
        SKINNY.check(far, skinny(WIDE))


def test_workspace_holds_each_part_of_each_tile() -> None:
    # 2 tiles of 3 x 32 for each of 5 products, in 3 parts; 128 threads have a sum each, a double,
    # but two threads to share out the parts to for each of 64 sums or fewer.
    o = Operation.plain(3, 40, 204, batch=5)
    needs = SKINNY.workspace(o, skinny(WIDE, splits=3))
    assert (needs.partial_bytes, needs.arrivals_bytes) == (8 * 5 * 2 * 3 * 128, 4 * 5 * 2 * 3)
    few = replace(WIDE, bm=2, tm=2)
    assert SKINNY.workspace(o, skinny(few, splits=3)).partial_bytes == 8 * 5 * 2 * 2 * 3 * 64
    assert SKINNY.workspace(o, skinny(WIDE)).partial_bytes == 0


@pytest.mark.parametrize(
    "sizes", [(3, 3, 431), (16, 4096, 4096), (4096, 2, 64), (33, 33, 903168), (100, 100, 100)]
)
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_variants_are_legal_and_fill_the_gpu(sizes: tuple[int, int, int], layout: str) -> None:
    o = Operation.plain(*sizes, layout=layout)
    found = list(SKINNY.variants(o, H200))
    assert 0 < len(found) == len(set(found)) < 20
    for variant in found:
        SKINNY.check(o, variant)
    if o.k * max(o.m, o.n) > 10**6:
        assert any(132 <= SKINNY.launch(o, v).blocks <= 4 * 132 for v in found)


def test_products_with_no_small_side_are_left_to_others() -> None:
    assert not list(SKINNY.variants(Operation.plain(1000, 1000, 100), H200))


@pytest.mark.parametrize(
    ("layout", "vector", "reads"),
    # Four k of four columns: 128 bits where all begins aligned, else one by one.
    [("nn", True, "LDG.E.NA.128.CONSTANT"), ("nt", False, "LDG.E.NA.CONSTANT")],
)
def test_reads_are_as_wide_as_is_legal(layout: str, vector: bool, reads: str) -> None:
    o = Operation.plain(8, 4096, 4096, layout=layout)
    if not vector:
        o = replace(o, a=replace(o.a, vector=False), b=replace(o.b, vector=False))
    tile = Tile(bm=8, bn=32, bk=64, tm=8, tn=4, stages=3, kparts=16, min_blocks=3)
    (code,) = disassemble(compile_variant(o, skinny(tile), "sm_90")).functions.values()
    graph = flow(code)
    bodies = [graph.cfg.blocks[b] for loop in graph.cfg.loops for b in loop.blocks]
    looped = [i.opcode for b in bodies for i in code.instructions[b.start : b.end]]
    # NVRTC 13.5 keeps one word aside from the start to the end, which costs nothing.
    assert "FFMA" in looped
    assert not {"LDL", "STL"} & set(looped)
    assert {i.mnemonic for i in code.instructions if "CONSTANT" in i.modifiers} == {reads}
