"""The layouts of every rung and tile beside the kernels' index arithmetic, thread by thread.

`spelt` repeats the expressions of ladder/*.cuh, lib/stage*.cuh, lib/tile_copy.cuh and lib/lanes.cuh
with loops for their loops.
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
        case "register_1d" | "streamed_b":
            return tid // t.bn * t.tm, tid % t.bn
        case "register_2d" | "vectorized":
            return tid // (t.bn // t.tn) * t.tm, tid % (t.bn // t.tn) * t.tn
    warp, lane, warps_n, lanes_n = tid // 32, tid % 32, t.bn // t.wn, t.wn // t.wniter // t.tn
    lane_m, lane_n = divmod(lane, lanes_n)
    if t.stages:
        lane_m, lane_n = z_order(lane, 32 // lanes_n, lanes_n)
    return warp // warps_n * t.wm + lane_m * t.tm, warp % warps_n * t.wn + lane_n * t.tn


def z_order(lane: int, lanes_m: int, lanes_n: int) -> tuple[int, int]:
    at_m, at_n, m, n = 0, 0, 1, 1
    for bit in range(5):
        is_set = lane >> bit & 1
        if n < lanes_n and (n <= m or m == lanes_m):
            at_n, n = at_n + is_set * n, n * 2
        else:
            at_m, m = at_m + is_set * m, m * 2
    return at_m, at_n


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
    if each.kernel == "streamed_b":
        streamed(t, lda, ldb, starts, turns)
        return turns, vectors
    if t.stages:
        copied(t, lda, ldb, turns, vectors)
    else:
        staged(t, v, lda, ldb, turns, vectors)
    for k in range(t.bk):
        for i in down[::v]:
            place = [k * (t.bm + t.pad) + r + i if v > 1 else (r + i) * t.bk + k for r, _ in starts]
            turns["A", "shared", "load"].append(place)
        for j in right[::v]:
            turns["B", "shared", "load"].append([k * t.bn + c + j for _, c in starts])
    vectors |= {("A", "shared", "load"): v, ("B", "shared", "load"): v}
    return turns, vectors


def streamed(t: Tile, lda: int, ldb: int, starts: list, turns: dict) -> None:
    """As StageA<T, true> and the main loop of volkov_2008 do."""
    lines = [(tid // t.bk, tid % t.bk) for tid in range(t.threads)]
    for i in range(0, t.bm, t.threads // t.bk):
        turns["A", "global", "load"].append([(r + i) * lda + c for r, c in lines])
        turns["A", "shared", "store"].append([c * (t.bm + t.pad) + r + i for r, c in lines])
    for k in range(t.bk):
        turns["B", "global", "load"].append([k * ldb + c for _, c in starts])
        for i in range(t.tm):
            turns["A", "shared", "load"].append([k * (t.bm + t.pad) + r + i for r, _ in starts])


def copied(t: Tile, lda: int, ldb: int, turns: dict, vectors: dict) -> None:
    """As TileCopy<bm, bk, threads, true, 1> and <bn, bk, threads, false, 4> do."""
    lines = [(tid // 4, tid % 4) for tid in range(t.threads)]
    for i in range(0, t.bm, t.threads // 4):
        for j in range(0, t.bk, 4):
            turns["A", "global", "load"].append([(r + i) * lda + c + j for r, c in lines])
            place = [(c + j) * (t.bm + t.pad) + r + i for r, c in lines]
            turns["A", "shared", "store"].append(place)
    lanes = min(t.bn // 4, t.threads)
    lines = [(tid // lanes, tid % lanes * 4) for tid in range(t.threads)]
    for i in range(0, t.bk, t.threads // lanes):
        for j in range(0, t.bn, lanes * 4):
            turns["B", "global", "load"].append([(r + i) * ldb + c + j for r, c in lines])
            turns["B", "shared", "store"].append([(r + i) * t.bn + c + j for r, c in lines])
    vectors |= {("B", "global", "load"): 4, ("B", "shared", "store"): 4}


def staged(t: Tile, v: int, lda: int, ldb: int, turns: dict, vectors: dict) -> None:
    """As StageA and StageB, or StageA4 and StageB4, do."""
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
    vectors |= {("A", "global", "load"): v, ("B", "global", "load"): v, ("B", "shared", "store"): v}


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
