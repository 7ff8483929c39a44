"""The cost model: what it predicts, by hand, and the tables that it predicts from."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tilewright.kernels.gemm.candidates import WAVES, WAVES_OF_THREE
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.tiled import TILED, TILES
from tilewright.kernels.tiles import Tile
from tilewright.tuning import cost
from tilewright.tuning.choice import choose
from tilewright.tuning.features import SHAPE, features
from tilewright.tuning.space import legal, space, table
from tuning.synthetic import H200, SQUARE


def modelled(operation: Operation, variants: Sequence[Variant]) -> np.ndarray:
    """The cost model's own seconds, which no tree has corrected."""
    found = cost.tabulate(features(variants, operation, H200), H200)
    return cost.parts(found, cost.sizes(operation)).total


def test_predictions_move_as_they_must() -> None:
    """What no coefficient can turn around: more work takes longer, never less than the floors."""
    variants = space(SQUARE, H200)
    base = np.array(modelled(SQUARE, variants))
    for change in ({"m": 2048}, {"n": 2048}, {"k": 2048}, {"batch": 4}):
        more = np.array(modelled(replace(SQUARE, **change), variants))
        assert (more >= base).all(), change
    assert (base > SQUARE.flops / H200.fp32_flops_per_s).all()
    assert (base > 4 * 3 * 1024**2 / H200.dram_bytes_per_s).all()
    # Of a large square, one wave of the largest tiles more is what a tail costs.
    whole, over = (
        modelled(Operation.plain(m, 256 * 12, 4096), [v])[0]
        for v in [next(v for v in variants if _sides(v) == (128, 256, 1, 0))]
        for m in (128 * 11, 128 * 11 + 1)
    )
    assert over > 1.8 * whole  # 132 blocks fill 132 SMs once; the next row of blocks needs a wave


def _sides(variant: Variant) -> tuple[int, ...]:
    return variant.tile.bm, variant.tile.bn, variant.splits, variant.workers


BIG = Tile(bm=128, bn=256, bk=8, tm=8, tn=16, wm=32, wn=128, stages=4, min_blocks=1)


def together(*values: float) -> float:
    return sum(value**4 for value in values) ** 0.25


class ByHand:
    """What BIG takes, one block an SM, by the formulas of the text. Units: cycles."""

    def __init__(self) -> None:
        c = cost.coefficients()["tiled"]
        # 4 times 32 outputs, half as tall as wide, 2 x 128 threads, 2/3 of 12 steps, 4 stages.
        place = dict(zip(SHAPE, (1, -0.5, 0, 1, math.log2(2 / 3) / 2, 1, -0.5), strict=True))

        def shaped(slopes: tuple[float, ...]) -> float:
            return math.exp(sum(s * place[n] for n, s in zip(SHAPE, slopes, strict=True)))

        # A step: 128 x 256 x 8 multiply-adds by 128 lanes; 24 floats a thread and k in vectors of
        # 4, 8 warps, 2 cycles each; A's 8 x 128 floats one by one, B's 8 x 256 in vectors, by 32
        # lanes.
        rest = c.shared * 8 * 8 * 6 * 2 + c.single * 32 + c.quad * 16 + c.step
        work = c.fma * 2048 + rest * shaped(c.rest)
        # Alone its 8 warps, 2 on a scheduler, wait for one another and for copies 3 tiles ahead.
        alone = c.alone * work / 2 + 8 * c.depth_cycles + c.barrier_cycles
        floor = together(alone, c.latency_cycles / 3)
        self.step, self.last_step = together(work, floor), max(work, floor)
        self.output = 4 * 128 * 256 / c.bytes_per_cycle
        self.fill = c.fill_cycles * shaped(c.fill)
        self.part = 4 * 128 * 256 / c.read_per_cycle
        self.moved = 2 * 4 * 128 * 256 / (c.parts_share * 34 * 132)
        self.factor = math.exp(c.tiles["128x256x8 8x16 1"])
        self.c = c

    def seconds(self, o: Operation, busy: float, read: float = 0.0, written: int = 0) -> float:
        """A tile has so many parts to `read`, in groups of their root; of all `written` are."""
        needed = 4 * (o.m * o.k + o.k * o.n + o.m * o.n)
        dram = needed / (self.c.dram_share * H200.dram_bytes_per_s)
        cycle = 1 / H200.boost_clock_hz
        longest = math.hypot(cycle * busy, self.l2_s(o), dram)
        adding = self.c.sync_cycles + math.sqrt(read) * self.part + written * self.moved
        rest = self.c.launch_s + cycle * (adding if read else 0.0)
        return self.factor * (longest + rest)

    def l2_s(self, o: Operation) -> float:
        read = -(-o.m // 128) * o.k * o.n + -(-o.n // 256) * o.m * o.k
        return 4 * read / (self.c.l2_share * 34 * 132 * H200.boost_clock_hz)


def test_a_prediction_is_its_parts_added_by_hand() -> None:
    """132 blocks of one an SM, and one more; then two parts of k, by the formulas of the text."""
    one, hand = Variant(kernel="tiled", tile=BIG), ByHand()
    last = 512 * hand.last_step + hand.output
    wide = Operation.plain(128 * 11, 256 * 12, 4096)
    expected = hand.seconds(wide, hand.fill + last)
    assert modelled(wide, [one]) == pytest.approx([expected])
    more = replace(wide, m=wide.m + 1)
    expected = hand.seconds(more, 2 * hand.fill + 512 * hand.step + hand.output + last)
    assert modelled(more, [one]) == pytest.approx([expected])
    small = Operation.plain(128, 256, 4096)
    busy = hand.fill + 256 * hand.last_step + hand.output
    expected = hand.seconds(small, busy, read=2, written=1)
    halves = features([replace(one, splits=2)], small, H200)
    found = cost.parts(cost.tabulate(halves, H200), cost.sizes(small))
    assert found.total == pytest.approx([expected])
    assert found.l2 == pytest.approx([hand.factor * hand.l2_s(small)])


def test_workers_take_waves_that_are_not_whole() -> None:
    """561 tiles are five waves, the last nearly empty; 132 workers make them 4 and a quarter.

    Each writes two parts, and a tile has 132 / 561 more than the one that it has anyway.
    """
    hand = ByHand()
    many = Operation.plain(128 * 33, 256 * 17, 4096)
    busy = hand.fill + 561 / 132 * (512 * hand.step + hand.output + hand.fill)
    expected = hand.seconds(many, busy, read=1 + 132 / 561, written=2 * 132)
    variant = Variant(kernel="tiled", tile=BIG, workers=132)
    assert modelled(many, [variant]) == pytest.approx([expected])


@pytest.mark.parametrize(
    ("layout", "single", "quad", "lines"),
    [
        # Of 4093 columns none is aligned: each of B's 16 floats alone, in runs of 32 bytes.
        ("nn odd", 8 * 16, 8 * 16 * 16 / 2 / 32, 8 * 16 * 4),
        # 8 warps, 8 lanes along n of 4 columns, 4 along k. B: 4 quads a thread, each 4 rows of 128
        # bytes; A: 16 rows by 16 of k, a copy of 8 bytes.
        ("nn", 0, 8 * (4 + 16 * 16 / 2 / 32), 8 * 4 * 4),
        # A by single floats, since it lies along m.
        ("tn", 8 * 16 * 16 / 32, 8 * 4, 8 * 4 * 4),
        # B along k: a quad of each of four columns, 8 of them side by side, 64 bytes each.
        ("nt", 0, 8 * (4 + 16 * 16 / 2 / 32), 8 * 4 * 8),
    ],
)
def test_a_step_of_few_rows_by_hand(layout: str, single: float, quad: float, lines: float) -> None:
    tile = Tile(bm=16, tm=16, bn=32, tn=4, kparts=32, bk=128, stages=2)
    variant = Variant(kernel="skinny", tile=tile)
    n = 4093 if layout.endswith("odd") else 4096
    found = features([variant], Operation.plain(16, n, 4096, layout=layout[:2]), H200)
    assert (found.single[0], found.quad[0], found.lines[0]) == (single, quad, lines)
    assert (found.ahead[0], found.warps[0], found.run[0]) == (2, 2, 4)
    assert found.load[0] == 8 * 16  # a quad a row, of four places at a time
    # Of 64 sums a lane gives 32 to another, then 16, 2 warps a scheduler; each warp's 512 meet.
    assert found.fold[0] == 2 * (32 + 16) + 8 * 512 / 16


def test_the_table_has_every_tile_of_the_space_whatever_the_product() -> None:
    """Whose sums are short enough depends on the product, so a table of many has all of them."""
    for layout, shape in (("nt", (373, 317, 1792)), ("nn", (5000, 300, 9000)), ("tn", (64,) * 3)):
        operation = Operation.plain(*shape, layout=layout)
        tiles = {v.tile for v in table(operation, H200).variants if v.kernel == "tiled"}
        assert {v.tile for v in space(operation, H200) if v.kernel == "tiled"} <= tiles


def test_k_is_cut_where_a_sum_would_be_too_long() -> None:
    """Tiles that do not cut sums themselves add up 528 of k at most; workers have less than k."""
    seen = set()
    for shape in ((373, 317, 1792), (4000, 4000, 900)):
        operation = Operation.plain(*shape, layout="nt")
        columns = table(operation, H200)
        found = cost.parts(columns, cost.sizes(operation))
        rows = zip(columns.variants, found.splits, columns.least_splits, found.total, strict=True)
        for variant, splits, least, total in rows:
            if splits < least:
                assert math.isinf(total)  # it is there already
                continue
            made = variant if variant.workers else replace(variant, splits=int(splits))
            if legal(operation, made):
                assert math.isfinite(total) == TILED.accurate(operation, made, H200), made
                seen.add((variant.workers > 0, math.isfinite(total)))
    assert len(seen) == 4


def test_a_split_of_k_aims_at_what_is_searched() -> None:
    operation = Operation.plain(1, 1000, 60000)
    chosen = table(operation, H200)
    for variant, slots in zip(chosen.variants, chosen.slots, strict=True):
        if variant.kernel == "gemv":
            assert slots in (0, 132, 132 * variant.tile.min_blocks)
        elif not variant.workers:
            assert slots in {132 * waves for waves in (0, *WAVES, *WAVES_OF_THREE)}
    assert choose(operation, H200).variant in space(operation, H200)


def test_a_block_of_tiny_products_holds_as_many_as_its_threads_allow() -> None:
    operation = Operation.plain(4, 4, 8, batch=4096)
    tile = Tile(bm=16, bn=16)  # 256 threads of one output: 16 products of 16
    found = features([Variant(kernel="tiny", tile=tile)], operation, H200)
    assert found.products.tolist() == [16]
    assert found.output_bytes.tolist() == [4 * 256]
    kernels = {v.kernel for v in table(Operation.plain(16, 16, 100, batch=100), H200).variants}
    assert "tiny" in kernels


def test_shallow_copies_by_quads_along_k_too_and_all_at_once() -> None:
    operation = Operation.plain(1000, 64, 64)
    tile = Tile(bm=64, bn=64, bk=32, tm=4, tn=8, wm=16, wn=64, stages=2, min_blocks=4)
    found = features([Variant(kernel="shallow", tile=tile)], operation, H200)
    # 64 lines of 32 floats each of A and of B, by 4 floats of 32 lanes.
    assert (found.quad.tolist(), found.single.tolist()) == ([2 * 64 * 32 / 4 / 32], [0])
    assert found.ahead.tolist() == [1]
    for k, there in ((100, True), (129, False)):
        kernels = {v.kernel for v in table(Operation.plain(1000, 64, k), H200).variants}
        assert ("shallow" in kernels) is there


def test_a_repeated_operand_is_read_once() -> None:
    each = Operation.plain(64, 64, 64, batch=512)
    shared = replace(each, b=replace(each.b, batch=0))
    assert cost._compulsory_bytes(each) == 4 * 512 * 3 * 64**2
    assert cost._compulsory_bytes(shared) == 4 * (512 * 2 + 1) * 64**2


def test_tables_are_one_for_products_alike() -> None:
    a, b = Operation.plain(1000, 2000, 3000), Operation.plain(3000, 1000, 2500)
    assert table(a, H200) is table(b, H200)
    assert table(a, H200) is not table(replace(a, k=2999), H200)
    short, long = (Operation.plain(16, 16, k, batch=100) for k in (100, 5000))
    assert table(short, H200) is not table(long, H200)  # of long ones no block holds a whole one


def test_every_tile_has_a_factor_of_its_own() -> None:
    names = [cost.label(tile) for tile in TILES]
    assert len(set(names)) == len(names)
    known = cost.coefficients()["tiled"].tiles
    assert set(known) <= set(names)
    assert all(abs(factor) < 0.2 for factor in known.values())
    # A tile without one, as of another GPU's, takes what the coefficients say.
    plain = {n: replace(c, tiles={}) for n, c in cost.coefficients().items()}
    found = features([v for v in space(SQUARE, H200) if v.kernel == "tiled"], SQUARE, H200)
    without, with_ = (
        cost.parts(cost.tabulate(found, H200, each), cost.sizes(SQUARE)).total
        for each in (plain, None)
    )
    factors = [known.get(cost.label(v.tile), 0.0) for v in found.variants]
    assert np.log(with_ / without) == pytest.approx(factors)


def test_the_coefficients_are_those_of_the_kernels_and_say_what_they_were_fitted_to() -> None:
    from tilewright.kernels.gemm.registry import GEMM_KERNELS

    data = json.loads(cost.FILE.read_text(encoding="utf-8"))
    assert set(cost.coefficients()) == set(GEMM_KERNELS)
    assert data["fitted_to"]
