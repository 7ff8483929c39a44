"""The tiled kernel on the emulator: every tile, any shape, strides and cuts of k; long sums."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from kernels.gemm.held import assert_held, strided
from tilewright.bench.emulated_gemm import emulate_gemm
from tilewright.errors import TileError
from tilewright.gpus import gpu
from tilewright.kernels.gemm.candidates import NARROWER, suits
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.gemm.tiled import TILED, TILES
from tilewright.kernels.tiles import Tile

H200 = gpu("H200")
LAYOUTS = ("nn", "nt", "tn", "tt")
SMALL = Tile(bm=32, bn=64, bk=16, tm=4, tn=4, wm=16, wn=32, min_blocks=5, stages=4)
LARGE = Tile(bm=128, bn=128, bk=8, tm=16, tn=8, wm=64, wn=64, min_blocks=2, stages=4)
FLAT, TALL, FLAT_BY_64, TALL_BY_64 = NARROWER  # 112 rows, 112 columns

EIGHTS = Tile(bm=64, bn=128, bk=8, tm=8, tn=8, wm=32, wn=64, min_blocks=3, stages=4)


def tiled(tile: Tile, splits: int = 1, workers: int = 0) -> Variant:
    return Variant(kernel="tiled", tile=tile, splits=splits, workers=workers)


def runs(operation: Operation, tile: Tile) -> bool:
    try:
        TILED.check(operation, tiled(tile))
    except TileError:
        return False
    return True


@pytest.mark.parametrize("number", range(len(TILES)))
def test_every_candidate_at_a_ragged_shape(number: int) -> None:
    tile = TILES[number]
    m, n = tile.bm + 5, tile.bn + 3
    layouts = [*LAYOUTS[number % 4 :], *LAYOUTS[: number % 4]]
    for layout in layouts:  # the first that its threads can copy
        o = Operation.plain(m, n, 3 * tile.bk + 5, layout=layout, beta=True)
        if runs(o, tile):
            return assert_held(o, tiled(tile), alpha=0.5, beta=-2.0)
    pytest.fail(f"{tile} runs in no layout")


@pytest.mark.parametrize(
    ("tile", "layout"), [*((SMALL, layout) for layout in LAYOUTS), (LARGE, "nt")]
)
def test_aligned_and_ragged_shapes_in_every_layout(tile: Tile, layout: str) -> None:
    assert_held(Operation.plain(tile.bm, 2 * tile.bn, 64, layout=layout), tiled(tile))
    for m, n, k in [(1, 1, 1), (33, 65, 17), (tile.bm + 1, tile.bn - 1, 7)]:
        assert_held(Operation.plain(m, n, k, layout=layout), tiled(tile), alpha=-1.5)
    odd = Operation.plain(35, 66, 99, layout=layout, batch=3, beta=True)
    assert_held(odd, tiled(tile, splits=3), alpha=0.5, beta=-2.0)


@pytest.mark.parametrize("operation", strided(37, 5), ids=lambda o: o.key)
def test_any_strides(operation: Operation) -> None:
    assert_held(operation, tiled(SMALL), beta=1.0 if operation.c else 0.0)


def in_rows(operation: Operation, tile: Tile) -> str:
    """Return the operands that a tile keeps in rows along k, read from what is compiled."""
    x = TILED.access(operation, tile)
    a, b = x.a_along_k and x.a_vector == 4, not x.b_along_n and x.b_vector == 4
    return "A" * a + "B" * b


@pytest.mark.parametrize(
    ("tile", "kept"),
    [
        (SMALL, {"nn": "A", "nt": "B", "tt": "B"}),
        (replace(SMALL, bm=64, bn=32), {"nn": "A", "nt": "A", "tt": "B"}),  # more of A is copied
        (LARGE, {"nt": "B"}),  # a thread has 16 rows of A; with one along k it gains nothing
        (replace(LARGE, tm=8, tn=16, wm=32, wn=128), {"nt": "A"}),
        (EIGHTS, {"nn": "A", "nt": "B", "tt": "B"}),
        (replace(EIGHTS, min_blocks=4), {}),  # too few registers
        (replace(EIGHTS, bk=12), {}),  # three quads a row do not share 128 threads evenly
    ],
)
def test_which_operand_stays_in_rows(tile: Tile, kept: dict[str, str]) -> None:
    for layout in LAYOUTS:
        whole = Operation.plain(512, 512, 516, layout=layout)
        assert in_rows(whole, tile) == kept.get(layout, "")
        assert in_rows(Operation.plain(512, 512, 515, layout=layout), tile) == ""


@pytest.mark.parametrize(
    ("tile", "layout"),
    [
        (EIGHTS, "nn"),
        (replace(EIGHTS, bm=128, bn=64, bk=16, stages=3), "nt"),
        (EIGHTS, "tt"),
    ],
)
def test_an_operand_in_rows_at_a_ragged_shape(tile: Tile, layout: str) -> None:
    o = Operation.plain(tile.bm + 5, tile.bn + 3, 3 * tile.bk + 4, layout=layout, beta=True)
    assert in_rows(o, tile)
    assert_held(o, tiled(tile), alpha=0.5, beta=-2.0)


@pytest.mark.parametrize("layout", ["nn", "nt", "tt"])
def test_an_operand_in_rows_where_k_is_cut(layout: str) -> None:
    for k in (4, 100):
        assert_held(Operation.plain(33, 68, k, layout=layout), tiled(SMALL))
    o = Operation.plain(36, 132, 212, layout=layout, batch=2)
    assert in_rows(o, SMALL)
    assert_held(o, tiled(SMALL, splits=3))
    assert_held(o, tiled(SMALL, workers=7))


def test_c_is_not_read_where_beta_is_0_and_k_may_be_0() -> None:
    assert_held(Operation.plain(33, 40, 50, beta=True), tiled(SMALL), beta=0.0)
    assert_held(Operation.plain(33, 40, 0, beta=True), tiled(SMALL), beta=2.0)


@pytest.mark.parametrize("workers", [1, 5, 12])
def test_workers_share_tiles(workers: int) -> None:
    # 2 x 3 tiles, each of 7 steps.
    assert_held(Operation.plain(50, 150, 110), tiled(SMALL, workers=workers))


@pytest.mark.parametrize(
    ("tile", "layout", "n"),
    # Rows of A or B in fours, which 128 threads cannot copy 28 a row; and others.
    [
        (FLAT, "tn", 120), (TALL, "nn", 104), (FLAT, "nn", 117), (TALL, "nt", 105),
        (FLAT_BY_64, "nn", 61), (FLAT_BY_64, "tt", 68), (TALL_BY_64, "nt", 110),
    ],
)  # fmt: skip
def test_sides_of_112(tile: Tile, layout: str, n: int) -> None:
    o = Operation.plain(100, n, 43, layout=layout, beta=True)
    assert_held(o, tiled(tile, splits=2), beta=0.5)


def test_sides_of_112_are_measured_where_they_waste_less() -> None:
    sizes = {5: False, 64: False, 65: True, 112: True, 113: False, 220: True, 4096: False}
    for size, expected in sizes.items():
        assert suits(FLAT, size, 77) is suits(TALL, 77, size) is expected, size
        assert suits(SMALL, size, size)


@pytest.mark.parametrize("parts", [3, 37])  # pieces of four quads, and of one
def test_parts_are_added_in_sixteens_in_their_order(parts: int) -> None:
    rng = np.random.default_rng(parts)
    a, b = rng.random((33, 16 * parts), np.float32), rng.random((16 * parts, 70), np.float32)
    sums = [stretched(a[:, k : k + 16], b[k : k + 16], [16]) for k in range(0, 16 * parts, 16)]
    expected = np.zeros((33, 70), np.float32)
    for begin in range(0, parts, 16):
        sixteen = sums[begin]
        for each in sums[begin + 1 : begin + 16]:
            sixteen = sixteen + each
        expected = expected + sixteen
    d = emulate_gemm(Operation.plain(33, 70, 16 * parts), tiled(SMALL, splits=parts), a, b)[0]
    assert np.array_equal(d, expected)


def stretched(a: np.ndarray, b: np.ndarray, steps: list[int]) -> np.ndarray:
    """Sum in float32, one fused multiply-add after another, each stretch apart."""
    sums, k = None, 0
    for step in steps:
        part = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for _ in range(step):
            # The product is exact in float64, and so is nearly every sum before it is rounded.
            exact = a[:, k, None].astype(np.float64) * b[k].astype(np.float64) + part
            part, k = exact.astype(np.float32), k + 1
        sums = part if sums is None else sums + part
    assert sums is not None
    assert k == a.shape[1]
    return sums


@pytest.mark.parametrize(
    ("on", "tile", "k", "steps"),
    [
        ("H200", SMALL, 528, [528]),
        ("H200", SMALL, 529, [1, 528]),
        ("H200", SMALL, 1700, [116, 528, 528, 528]),
        ("H200", LARGE, 1700, [116, 528, 528, 528]),  # the same bits whatever the tile
        ("RTX A6000", SMALL, 1700, [1700]),  # its SMs have no room for the sums
    ],
)
def test_a_long_sum_is_cut_into_stretches(on: str, tile: Tile, k: int, steps: list[int]) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.random((33, k), np.float32), rng.random((k, 40), np.float32)
    d = emulate_gemm(Operation.plain(33, 40, k), tiled(tile), a, b, on=on)[0]
    assert np.array_equal(d, stretched(a, b, steps))


def test_stretches_of_parts_and_of_workers_and_with_beta() -> None:
    o = Operation.plain(33, 70, 3500, beta=True)
    assert_held(o, tiled(SMALL, splits=2), beta=1.0)
    assert_held(o, tiled(SMALL, workers=3), beta=1.0)
    assert_held(Operation.plain(33, 70, 1800, layout="nt", batch=2), tiled(TILES[0]))


def segments(tiles: int, depth: int, workers: int, shared: int) -> list[int]:
    """Return the steps of every segment: the dealt tiles whole, the others cut end to end."""
    total = shared * depth
    each, longer = divmod(total, workers)
    bounds = [w * each + min(w, longer) for w in range(workers + 1)]
    cuts = sorted({*bounds, *range(0, total + 1, depth)})
    return [depth] * (tiles - shared) + [b - a for a, b in itertools.pairwise(cuts)]


def test_sums_have_room_wherever_a_block_has_more_than_a_stretch() -> None:
    rng = np.random.default_rng(3)
    needed = 0
    for _ in range(300):
        m, n, k = (int(x) for x in np.exp(rng.uniform([1, 1, 6], [7, 7, 10])))
        o = Operation.plain(m, n, k)
        tiles, depth = -(-m // 32) * -(-n // 64), -(-o.k // 16)
        workers = int(rng.integers(1, min(tiles * depth, 300) + 1))
        shared = tiles - (max(tiles // workers, 1) - 1) * workers
        variant = tiled(SMALL, workers=workers) if shared * depth >= workers else tiled(SMALL)
        longest = max(segments(tiles, depth, workers, shared)) if variant.workers else depth
        sums = TILED.sums_bytes(o, variant, H200)
        assert sums == (4 * 32 * 64 if longest > 33 else 0) or (sums and longest > 31)
        needed += bool(sums)
    assert 50 < needed < 250


def test_what_is_worth_measuring_cuts_its_sums_where_the_gpu_can() -> None:
    long = Operation.plain(2057, 2057, 2057)
    found = list(TILED.variants(long, H200))
    assert {v.tile.min_blocks for v in found if not v.splits > 1} >= {1, 2}
    for v in found:
        launch = TILED.launch_on(long, v, H200)
        longest = -(-257 // v.splits) * 8 if v.tile.bk == 8 else -(-129 // v.splits) * 16
        if not v.workers and longest > 528:
            assert launch.shared_bytes > 4 * v.tile.bm * v.tile.bn
        blocks = max(v.tile.min_blocks, 1)
        assert blocks * (launch.shared_bytes + 1024) <= 228 * 1024
    # Two blocks' rows of both operands would not find lines enough in L1.
    both = TILED.variants(replace(long, b=Strides(row=1, col=2057)), H200)
    assert {v.tile.min_blocks for v in both if v.splits == 1 and not v.workers} == {1}


@pytest.mark.parametrize(
    ("variant", "says"),
    [
        (tiled(replace(SMALL, stages=1)), "2 stages or more"),
        (tiled(replace(SMALL, pad=4)), "does not read pad"),
        (tiled(SMALL, splits=14), "k = 204 has 13 tiles of bk = 16, so 1 to 13 parts"),
        (tiled(SMALL, splits=2, workers=4), "leave one of them out"),
        (tiled(SMALL, workers=27), "have 26 steps"),
        (tiled(replace(LARGE, bk=12)), "cannot copy"),
    ],
)
def test_what_it_cannot_run_with_is_refused(variant: Variant, says: str) -> None:
    with pytest.raises(TileError, match=says):
        TILED.check(Operation.plain(33, 40, 204), variant)


def test_a_quarter_of_an_sm_has_registers_for_whole_warps() -> None:
    # 204 registers a thread, two warps a block: 2 of the 2.5 warps of a quarter, so 8 in all.
    assert [t.min_blocks for t in TILES if t.threads == 64] == [4, 4]
    assert {(t.bm, t.bn) for t in TILES if t.threads == 64} == {(112, 64), (64, 112)}
