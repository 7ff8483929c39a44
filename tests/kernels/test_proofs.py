"""The proof of every registered kernel and tile, what the emulator counts, and broken layouts."""

import doctest
import random
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest

from kernels.described import OTHER_TILES, TILES
from kernels.operands import make_operands
from tilewright.emulator import run
from tilewright.errors import TileError, UnsupportedError
from tilewright.kernels import HISTORY, RUNGS, Rung, Tile, proof, rung, staged_tiles, tile_layouts
from tilewright.kernels.proof import examine, prove
from tilewright.kernels.staged_tiles import solve_staged
from tilewright.kernels.tile_layouts import Access, RungLayouts, layouts_of
from tilewright.layouts import Layout, concat
from tilewright.problem import Problem
from tilewright.toolchain import compile_cuda

EVERY = [*TILES, *OTHER_TILES]


@pytest.mark.parametrize(("name", "tile"), EVERY, ids=str)
def test_every_tile_is_right_and_proved_in_half_a_second(name: str, tile: Tile) -> None:
    start = time.perf_counter()
    found = prove(rung(name), tile)
    assert time.perf_counter() - start < 0.5
    assert found.holds, found.broken


def drawn(each: Rung, pick: random.Random) -> dict[str, int]:
    """Fields of a tile, legal or not, of those that the rung reads."""
    sides = (16, 32, 48, 64, 96, 128, 192)
    fields = {"bm": sides, "bn": sides}
    fields |= {"bk": (4, 8, 12, 16, 24), "pad": (0, 4, 8, 12)}
    fields |= {"tm": (2, 4, 8, 12, 16), "tn": (2, 4, 8, 12, 16)}
    fields |= {"stages": (2, 3, 4), "workers": (1, 84)}
    if each.use.ahead:
        fields |= {"bk": (4, 8, 16), "pad": (8,), "tm": (4, 8), "tn": (4, 8)}
    reads = each.use.reads | {"bm", "bn"}
    tile = {name: pick.choice(values) for name, values in fields.items() if name in reads}
    if "wm" in reads:  # hardly any random ones are legal, so these come out of the lanes
        lanes, splits = pick.choice((2, 4, 8, 16)), pick.choice((1, 2, 3))
        tile |= {"wn": splits * lanes * tile["tn"], "wniter": splits}
        tile["wm"] = pick.choice((1, 2)) * 32 // lanes * tile["tm"]
        tile |= {"bm": pick.choice((1, 2, 3)) * tile["wm"], "bn": pick.choice((1, 2)) * tile["wn"]}
    return tile


@pytest.mark.parametrize("each", [*RUNGS.values(), *HISTORY.values()], ids=lambda r: r.name)
def test_any_legal_tile_is_right(each: Rung) -> None:
    """What `Rung.check` accepts, the layouts compute right."""
    pick, proved = random.Random(each.name), 0
    while proved < 8:
        try:
            found = prove(each, Tile(**drawn(each, pick)))
        except TileError:
            continue
        assert found.holds, found
        proved += 1


@pytest.mark.parametrize("each", [*RUNGS.values(), *HISTORY.values()], ids=lambda r: r.name)
def test_the_proof_gives_what_the_header_claims(each) -> None:
    assert prove(each).claims == each.claims


@pytest.mark.parametrize(("name", "tile"), EVERY, ids=str)
def test_the_emulator_counts_what_was_proved(name: str, tile: Tile) -> None:
    each, found = rung(name), prove(rung(name), tile)
    steps = 2
    depth = found.layouts.depth
    ld = 32 if tile.stages else 1  # rows at multiples of 128 bytes
    problem = Problem(m=tile.bm, n=tile.bn, k=steps * depth, lda=-(-steps * depth // ld) * ld)
    operands = make_operands(problem)
    artifact = compile_cuda(
        each.source, each.expression(tile), arch="sm_86", include_dirs=each.include_dirs
    )
    args = each.arguments(problem, operands.a, operands.b, operands.c)
    args += each.workspace(problem, tile)
    launched = each.launch_of_tiles(problem, tile)
    counted = run(artifact, launched, args, workers=1, count=True).counters
    assert counted is not None
    expected = asdict(found.counters(blocks=1, steps=steps))
    memory = {n: value for n, value in expected.items() if n.startswith(("global", "shared"))}
    assert {n: getattr(counted, n) for n in memory} == memory


@pytest.mark.parametrize("step", [8, 4096])
@pytest.mark.parametrize(("name", "tile"), TILES, ids=str)
def test_leading_dimensions_that_are_multiples_of_eight_count_alike(
    name: str, tile: Tile, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = prove(rung(name), tile)
    monkeypatch.setattr(tile_layouts, "LD_STEP", max(step, 32 if tile.stages else 8))
    other = prove(rung(name), tile)
    assert other.holds
    assert [(c.requests, c.pieces, c.least) for c in other.costs] == [
        (c.requests, c.pieces, c.least) for c in usual.costs
    ]


def pieces(name: str, tile: Tile | None = None) -> dict[tuple[str, str, str], float]:
    """Sectors or wavefronts a request of each access."""
    costs = prove(rung(name), tile).costs
    return {(c.access.operand, c.access.space, c.access.way): c.per_request for c in costs}


def test_figures_by_hand() -> None:
    # A warp of 01 reads 32 rows of A and one element of B, and writes 32 rows of C.
    assert list(pieces("01").values()) == [32, 1, 32]
    # 05: rows of 8 words, two rows 8 apart: one bank, two words. Columns 8 apart, 16 lanes of
    # them, over 128 words: four to a bank.
    five = pieces("05")
    assert five["A", "shared", "load"] == 2
    assert five["B", "shared", "load"] == 4
    # 06: four floats of B a lane, every second four: two ways in each quarter warp.
    assert pieces("06")["B", "shared", "load"] == 8
    # Stores of A's transposed tile: pad = 4 puts 16 lanes of k0..k3 and 16 of k4..k7 apart; with
    # bk = 16 four groups of 8 lanes 4 · 132 words apart share two halves of the banks.
    assert pieces("06")["A", "shared", "store"] == 1
    assert pieces("07")["A", "shared", "store"] == 2
    assert pieces("06", replace(rung("06").default, pad=0))["A", "shared", "store"] == 2

    # 09: eight rows of A's source in four banks of L1 a copy; without the pad, 32 k-columns of the
    # target in one. Lanes in Z order read half as many words as there are lanes.
    nine = pieces("09")
    assert nine["A", "global", "load"] == nine["A", "shared", "store"] == 8
    assert nine["B", "shared", "store"] == 4
    assert nine["A", "shared", "load"] == nine["B", "shared", "load"] == 2


def test_a_cost_says_whether_it_is_the_least() -> None:
    ideal = {str(c.access) for c in prove(rung("06")).costs if not c.ideal}
    assert ideal == {"shared load of B, 4 wide", "global store of C, 4 wide"}
    assert "8 wavefronts a request, at least 4" in str(prove(rung("06")))


# --- layouts with a mistake ---------------------------------------------------------------------

SQUARE = layouts_of(rung("05"), Tile(bm=64, bn=64, bk=8, tm=4, tn=4))
VECTOR = layouts_of(rung("06"), Tile(bm=64, bn=64, bk=16, tm=4, tn=4, pad=4))


def changed(layouts: RungLayouts, key: tuple, **change: Callable[[Access], object]) -> RungLayouts:
    """The layouts with one access changed."""
    old = layouts.of(*key)
    assert old is not None
    new = replace(old, **{name: make(old) for name, make in change.items()})
    return replace(layouts, accesses=tuple(new if a is old else a for a in layouts.accesses))


def again(layout: Layout, **strides: tuple) -> Layout:
    """The layout with the strides of its threads, turns or vector replaced."""
    names = ("threads", "turns", "vector")
    parts = [
        Layout(mode.shape, strides.get(name, mode.stride))
        for name, mode in zip(names, layout, strict=True)
    ]
    return concat(*parts)


MISTAKES = {
    "tn for tm: rows are owned twice": (
        replace(SQUARE, owner=Layout(((16, 16), (4, 4)), ((256, 2), (1, 64)))),
        "C's tile (64 x 64) has element (2, 0) owned 2 times",
    ),
    "a thread with values outside the tile": (
        replace(SQUARE, owner=Layout(((16, 16), (4, 5)), ((256, 4), (1, 64)))),
        "C's tile (64 x 64) has element (0, 4) owned 2 times",
    ),
    "a fifth column past the tile": (
        replace(SQUARE, owner=Layout(((16, 16), (4, 4, 2)), ((256, 4), (1, 64, 4096)))),
        "C's tile (64 x 64) has element (0, 64) owned 1 times",
    ),
    "an epilogue that leaves columns out": (
        changed(SQUARE, ("C", "global", "store"), map=lambda a: again(a.map, turns=(1, 0))),
        "global store of C, 1 wide: the tile (64 x 64) has element (0, 0) written 4 times",
    ),
    "a store that is not where the load was": (
        changed(
            SQUARE, ("A", "shared", "store"), map=lambda a: again(a.map, threads=(64, 2), turns=1)
        ),
        "a thread stores another element than it loaded",
    ),
    "rows of the staged tile that overlap": (
        changed(SQUARE, ("A", "shared", "store"), memory=lambda a: Layout((64, 8), (7, 1))),
        "two elements of the tile share a place",
    ),
    "a fragment of the next rows": (
        changed(SQUARE, ("A", "shared", "load"), map=lambda a: again(a.map, threads=(0, 2))),
        "thread 16 reads other elements than its outputs need",
    ),
    "a fragment of B by columns of A": (
        changed(SQUARE, ("B", "shared", "load"), map=lambda a: again(a.map, threads=(0, 32))),
        "shared load of B, 1 wide: thread 1 reads other elements",
    ),
    "a pad that takes vectors off their alignment": (
        changed(VECTOR, ("A", "shared", "load"), memory=lambda a: Layout((64, 16), (1, 66))),
        "are not all multiples of 4 elements",
    ),
    "a vector across rows": (
        changed(VECTOR, ("A", "shared", "load"), memory=lambda a: Layout((64, 16), (20, 1))),
        "are no neighbours",
    ),
    "a tile read as its transpose": (
        changed(SQUARE, ("B", "shared", "load"), memory=lambda a: Layout((8, 64), (1, 8))),
        "the tile lies as (8,64):(64,1), and is read as (8,64):(1,8)",
    ),
    "a pad that the array has no room for": (
        changed(VECTOR, ("A", "shared", "store"), memory=lambda a: Layout((64, 16), (1, 72))),
        "the staged tiles reach over",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake: str) -> None:
    layouts, says = MISTAKES[mistake]
    found = examine(layouts)
    assert not found.holds
    assert says in "\n".join(found.broken)
    assert found.broken[0] in str(found)


def test_a_missing_read_is_found() -> None:
    kept = tuple(
        a for a in SQUARE.accesses if (a.operand, a.way, a.space) != ("B", "load", "shared")
    )
    found = examine(replace(SQUARE, accesses=kept))
    assert "B is not read from shared memory" in found.broken


def test_a_tile_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TileError, match="needs wm"):
        prove(rung("08"), Tile(bm=128, bn=128, bk=8, tm=8, tn=8))


# --- what the solver says of the staged tiles ---------------------------------------------------

# (rung, which of its tiles, operand): the wavefronts as written and the least, the best padding and
# its wavefronts, the best change.
SOLVED = {
    ("03_shared_tile", 0, "A"): (1056, 1056, 0, 1056, "pad 0"),
    ("03_shared_tile", 0, "B"): (1056, 1056, 0, 1056, "pad 0"),
    ("04_register_1d", 0, "A"): (1040, 1040, 0, 1040, "pad 0"),
    ("04_register_1d", 0, "B"): (144, 144, 0, 144, "pad 0"),
    ("05_register_2d", 0, "A"): (1056, 544, 1, 576, "Sw<1,0,6>"),
    ("05_register_2d", 0, "B"): (2080, 544, 0, 2080, "Sw<2,0,5>"),
    ("06_vectorized", 0, "A"): (288, 288, 4, 288, "Sw<1,4,5>"),
    ("06_vectorized", 0, "B"): (1056, 544, 0, 1056, "Sw<1,2,3>"),
    ("07_autotuned", 0, "A"): (640, 576, 4, 640, "Sw<2,3,6>"),
    ("07_autotuned", 0, "B"): (2112, 1088, 0, 2112, "Sw<1,2,3>"),
    ("07_autotuned", 1, "A"): (576, 544, 4, 576, "Sw<2,3,5>"),
    ("07_autotuned", 1, "B"): (320, 320, 0, 320, "pad 0"),
    ("08_warptiled", 0, "A"): (384, 320, 4, 384, "Sw<2,3,6>"),
    ("08_warptiled", 0, "B"): (1088, 1088, 0, 1088, "pad 0"),
    ("08_warptiled", 1, "A"): (384, 320, 4, 384, "Sw<2,3,6>"),
    ("08_warptiled", 1, "B"): (1088, 1088, 0, 1088, "pad 0"),
    # Of A 4 copies and 8 * 2 reads a warp, two wavefronts each; of B 2 of four and 8 * 4 of two.
    ("09_pipelined", 0, "A"): (288, 288, 8, 288, "Sw<2,3,4>"),
    ("09_pipelined", 0, "B"): (576, 576, 0, 576, "pad 0"),
    ("10_persistent", 0, "A"): (288, 288, 8, 288, "Sw<2,3,4>"),
    ("10_persistent", 0, "B"): (576, 576, 0, 576, "pad 0"),
    # 16 warps write once and read two rows of A and one column of B for each of 16 k.
    ("both_shared_2008", 0, "A"): (528, 528, 0, 528, "pad 0"),
    ("both_shared_2008", 0, "B"): (272, 272, 0, 272, "pad 0"),
    # Two warps write four times, into each of some banks twice, and read 16 floats 16 times. The
    # paper's pad of 1 was for 16 banks: for 32 it takes 2.
    ("volkov_2008", 0, "A"): (528, 520, 2, 520, "Sw<3,1,4>"),
}


@pytest.mark.parametrize("case", SOLVED, ids=str)
def test_what_the_solver_says_of_the_staged_tiles(case: tuple[str, int, str]) -> None:
    name, place, operand = case
    tile = [t for owner, t in TILES if owner == name][place]
    layouts = layouts_of(rung(name), tile)
    found = solve_staged(layouts, operand)
    # What a copy costs where it reads is nothing that padding could help.
    plain = replace(layouts, accesses=tuple(replace(a, other=None) for a in layouts.accesses))
    written = sum(
        c.pieces
        for c in examine(plain).costs
        if (c.access.operand, c.access.space) == (operand, "shared")
    )
    padding, change = found.best_padding, found.best
    said = (written, change.least, padding.pad, padding.wavefronts, str(change).split(" (")[0])
    assert said == SOLVED[case]
    assert change.conflict_free
    assert change.extra_bytes == 0
    # The kernel's own pad is a member of the family, and counted as the proof counts it.
    own = tile.pad if operand == "A" else 0
    mine = next(c for c in found.candidates if c.pad == own and not c.swizzle)
    assert mine.wavefronts == written


def test_the_table_has_every_registered_tile() -> None:
    staged = [rung(name) for name, tile in TILES if tile.bk]
    assert len(SOLVED) == sum(1 if each.use.streams_b else 2 for each in staged)


def test_a_rung_that_stages_nothing_has_nothing_to_solve() -> None:
    with pytest.raises(UnsupportedError, match="02_coalesced has no tile of A in shared memory"):
        solve_staged(layouts_of(rung("02"), rung("02").default), "A")


@pytest.mark.parametrize("module", [proof, staged_tiles])
def test_the_examples_hold(module) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
