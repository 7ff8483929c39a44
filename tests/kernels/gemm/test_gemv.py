"""The gemv kernel on the emulator: any shape, strides and splits; what it names; its code."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.gemm.held import UNIT_ROUNDOFF, assert_held, strided
from tilewright.bench.emulated_gemm import compile_variant, emulate_gemm
from tilewright.gpus import gpu
from tilewright.kernels.gemm.gemv import GEMV
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile
from tilewright.toolchain import resources
from tilewright.toolchain.sass import disassemble

H200 = gpu("H200")
# 4 lanes along n and 8 along k; all lanes along k; the same of the transposed product.
ALONG = Tile(bm=2, bn=16, bk=64, tm=2, tn=4, stages=3, kparts=16)
ACROSS = Tile(bm=2, bn=2, bk=256, tm=2, tn=2, stages=2, kparts=64)
TALL = Tile(bm=16, bn=2, bk=64, tm=4, tn=2, stages=3, kparts=16)


def gemv(tile: Tile, splits: int = 1) -> Variant:
    return Variant(kernel="gemv", tile=tile, splits=splits)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_aligned_and_ragged_shapes_in_every_layout(layout: str) -> None:
    # Whole vectors, and a last step that is whole for none of the warps; then neither fits,
    # or the columns are the few.
    assert_held(Operation.plain(1, 20, 204, layout=layout), gemv(ALONG, splits=3))
    if layout in ("nn", "tt"):
        odd = Operation.plain(3, 5, 531, layout=layout, batch=2, beta=True)
        assert_held(odd, gemv(ACROSS, splits=2), alpha=0.5, beta=-2.0)
    else:
        assert_held(Operation.plain(20, 2, 132, layout=layout), gemv(TALL), alpha=-1.5)


@pytest.mark.parametrize(
    "operation", [Operation.plain(1, 1, 1), *strided(2, 2)], ids=lambda o: o.key
)
def test_any_strides(operation: Operation) -> None:
    assert_held(operation, gemv(ALONG), beta=1.0 if operation.c else 0.0)


def test_c_is_not_read_where_beta_is_0_and_k_may_be_0() -> None:
    assert_held(Operation.plain(1, 20, 204, beta=True), gemv(ALONG), beta=0.0)
    assert_held(Operation.plain(1, 20, 0, beta=True), gemv(ALONG), beta=2.0)


def test_many_parts_of_few_sums_are_shared_out_among_threads() -> None:
    # One sum a block in 33 parts, which 16 of 64 threads add.
    tile = Tile(bm=1, bn=1, bk=256, stages=1, kparts=64)
    assert_held(Operation.plain(1, 1, 33 * 256 - 3), gemv(tile, splits=33))


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize(
    ("rows", "layout", "tile"),
    [
        (2, "nn", ALONG),
        (2, "nn", replace(ALONG, bn=128, kparts=2, bk=8)),  # parts meet as many sums do
        (1, "nt", replace(ACROSS, bm=1, tm=1)),
    ],
)
def test_small_products_are_not_lost_beside_a_large_one(
    rows: int, layout: str, tile: Tile, splits: int
) -> None:
    # 1 + 2^-26 is 1 in float: the thread with the 1 would lose its 127 other products. Four at a
    # time lose three, and the result is rounded once.
    o = Operation.plain(rows, 16, 32 * tile.bk, layout=layout)
    a, b = np.ones((o.m, o.k), np.float32), np.full((o.k, o.n), 2.0**-26, np.float32)
    b[0] = 1
    d = emulate_gemm(o, gemv(tile, splits), a, b)[0]
    exact = 1 + (o.k - 1) * 2.0**-26
    assert np.abs(d.astype(np.float64) - exact).max() <= 3 * 2.0**-26 + UNIT_ROUNDOFF


def test_values_that_are_not_finite_come_through() -> None:
    o = Operation.plain(2, 4, 300)
    a, b = np.ones((o.m, o.k), np.float32), np.ones((o.k, o.n), np.float32)
    b[7, 0], b[8, 1], b[:, 2] = np.inf, np.nan, np.finfo(np.float32).max
    d = emulate_gemm(o, gemv(ALONG, 2), a, b)[0]
    assert np.array_equal(d[0], [np.inf, np.nan, np.inf, 300], equal_nan=True)


def test_sums_are_float_where_double_is_slow() -> None:
    o = Operation.plain(1, 1792, 5120)
    tile = replace(ALONG, bm=1, tm=1)
    for arch, fast in (("sm_86", False), ("sm_80", True)):
        (code,) = disassemble(compile_variant(o, gemv(tile), arch)).functions.values()
        assert ("DADD" in {i.mnemonic for i in code.instructions}) == fast
    assert_held(Operation.plain(1, 20, 204), gemv(ALONG, splits=3), on="RTX A6000")


@pytest.mark.parametrize("sizes", [(1, 105, 107), (1, 1792, 5120), (4096, 2, 64), (1, 1, 10**6)])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_variants_are_legal_and_fill_the_gpu(sizes: tuple[int, int, int], layout: str) -> None:
    o = Operation.plain(*sizes, layout=layout)
    found = list(GEMV.variants(o, H200))
    assert 0 < len(found) == len(set(found)) < 16
    for variant in found:
        GEMV.check(o, variant)
        if o.k * max(o.m, o.n) >= 10**6:
            assert GEMV.launch(o, variant).blocks >= 100


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_all_reads_of_its_stages_come_before_the_first_product(layout: str) -> None:
    o = Operation.plain(1, 1792, 5120, layout=layout)
    tile = replace(ALONG if layout == "nn" else ACROSS, bm=1, tm=1, min_blocks=2)
    artifact = compile_variant(o, gemv(tile), "sm_90")
    assert resources(artifact).local_bytes == 0
    (code,) = disassemble(artifact).functions.values()
    names = [i.mnemonic for i in code.instructions]
    reads = [i for i, name in enumerate(names) if name == "LDG.E.NA.128.CONSTANT"]
    # Of a step 4 in either tile's own way: 4 rows of four columns, 2 columns of four rows.
    before = sum(i < names.index("FFMA") for i in reads)
    assert before == tile.stages * (4 if layout == "nn" else 2)
