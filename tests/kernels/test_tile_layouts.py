"""The layouts of every rung and tile beside the kernels' index arithmetic, thread by thread.

`spelt` repeats the expressions of ladder/*.cuh and lib/stage*.cuh, with loops for their loops.
"""

import doctest
from collections import defaultdict
from dataclasses import replace

import pytest

from kernels.described import OTHER_TILES, TILES
from tilewright.errors import TileError, UnsupportedError
from tilewright.kernels import RUNGS, Rung, Tile, rung, tile_layouts
from tilewright.kernels.tile_layouts import LD_STEP, UNSTAGED_DEPTH, layouts_of

EVERY = [*TILES, *OTHER_TILES]


def coordinates(each: Rung, t: Tile, tid: int) -> tuple[int, int]:
    """(row, col) of a thread's first output."""
    match each.kernel:
        case "naive":
            return tid % t.bm, tid // t.bm
        case "coalesced" | "shared_tile":
            return tid // t.bn, tid % t.bn
        case "register_1d":
            return tid // t.bn * t.tm, tid % t.bn
        case "register_2d" | "vectorized":
            return tid // (t.bn // t.tn) * t.tm, tid % (t.bn // t.tn) * t.tn
    warp, lane, warps_n, lanes_n = tid // 32, tid % 32, t.bn // t.wn, t.wn // t.wniter // t.tn
    return (
        warp // warps_n * t.wm + lane // lanes_n * t.tm,
        warp % warps_n * t.wn + lane % lanes_n * t.tn,
    )


def offsets(t: Tile) -> tuple[list[int], list[int]]:
    """Rows and columns of a thread's outputs beside its first."""
    if not t.wm:
        return list(range(t.tm)), list(range(t.tn))
    sub_n = t.wn // t.wniter
    sub_m = 32 // (sub_n // t.tn) * t.tm
    rows = [i * sub_m + x for i in range(t.wm // sub_m) for x in range(t.tm)]
    return rows, [j * sub_n + x for j in range(t.wniter) for x in range(t.tn)]


def spelt(each: Rung, t: Tile) -> tuple[dict, dict]:
    """Each access as a list of turns, which are lists of a thread's first address; the vectors."""
    turns: dict[tuple[str, str, str], list[list[int]]] = defaultdict(list)
    starts = [coordinates(each, t, tid) for tid in range(t.threads)]
    lda, ldb, ldc = (-(-n // LD_STEP) * LD_STEP for n in (t.bk or UNSTAGED_DEPTH, t.bn, t.bn))
    down, right = offsets(t)
    v = 4 if each.use.vector else 1
    vectors = dict.fromkeys([("C", "global", "store")], v)
    for i in down:
        for j in right[::v]:
            turns["C", "global", "store"].append([(r + i) * ldc + c + j for r, c in starts])
    if not t.bk:
        for k in range(UNSTAGED_DEPTH):
            turns["A", "global", "load"].append([r * lda + k for r, _ in starts])
            turns["B", "global", "load"].append([k * ldb + c for _, c in starts])
        return turns, vectors
    of_a, of_b = t.bk // v, t.bn // v
    stage_a = [(tid // of_a, tid % of_a * v) for tid in range(t.threads)]
    stage_b = [(tid // of_b, tid % of_b * v) for tid in range(t.threads)]
    for i in range(0, t.bm, t.threads // of_a):
        turns["A", "global", "load"].append([(r + i) * lda + c for r, c in stage_a])
        for j in range(v):
            place = [
                (c + j) * (t.bm + t.pad) + r + i if v > 1 else (r + i) * t.bk + c
                for r, c in stage_a
            ]
            turns["A", "shared", "store"].append(place)
    for i in range(0, t.bk, t.threads // of_b):
        turns["B", "global", "load"].append([(r + i) * ldb + c for r, c in stage_b])
        turns["B", "shared", "store"].append([(r + i) * t.bn + c for r, c in stage_b])
    for k in range(t.bk):
        for i in down[::v]:
            place = [k * (t.bm + t.pad) + r + i if v > 1 else (r + i) * t.bk + k for r, _ in starts]
            turns["A", "shared", "load"].append(place)
        for j in right[::v]:
            turns["B", "shared", "load"].append([k * t.bn + c + j for _, c in starts])
    vectors |= dict.fromkeys(turns, v) | {("A", "shared", "store"): 1}
    return turns, vectors


@pytest.mark.parametrize(("name", "tile"), EVERY, ids=str)
def test_addresses_are_those_of_the_kernel(name: str, tile: Tile) -> None:
    turns, vectors = spelt(rung(name), tile)
    found = layouts_of(rung(name), tile)
    assert len(found.accesses) == len(turns)
    for key, expected in turns.items():
        access = found.of(*key)
        assert access is not None, key
        threads = access.map[0].size
        firsts = access.addresses.indices()[: threads * access.map[1].size]
        rows = [firsts[at : at + threads] for at in range(0, len(firsts), threads)]
        assert sorted(rows) == sorted(expected), key
        assert access.vector == vectors.get(key, 1), key


@pytest.mark.parametrize(("name", "tile"), EVERY, ids=str)
def test_owners_are_those_of_the_kernel(name: str, tile: Tile) -> None:
    owner = layouts_of(rung(name), tile).owner
    down, right = offsets(tile)
    for tid in range(tile.threads):
        row, col = coordinates(rung(name), tile, tid)
        owned = [row + i + tile.bm * (col + j) for j in right for i in down]
        assert [owner(tid, value) for value in range(owner[1].size)] == owned


def test_a_tile_that_does_not_fit_is_refused() -> None:
    with pytest.raises(TileError, match="needs bk"):
        layouts_of(rung("03"), Tile(bm=32, bn=32))


def test_a_kernel_without_layouts_is_named() -> None:
    strange = replace(RUNGS["01_naive"], name="11_new", kernel="fresh")
    with pytest.raises(UnsupportedError, match=r"11_new: .* does not describe 'fresh' yet"):
        layouts_of(strange, strange.default)


def test_the_example_holds() -> None:
    found = doctest.testmod(tile_layouts)
    assert found.attempted
    assert not found.failed
