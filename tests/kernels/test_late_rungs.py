"""09 and 10 beyond what all rungs are tested for: waits, the rest of k, and tiles that are cut."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kernels.operands import Operands, make_operands, matrix, padding_untouched
from kernels.test_contract import chain
from tilewright.bench.classes import block_of, place_of, sharing_counters
from tilewright.bench.verify import check
from tilewright.counters import Counters
from tilewright.emulator import run
from tilewright.errors import TileError
from tilewright.kernels import RUNGS, Tile
from tilewright.kernels.sharing import Sharing, exchanges, sharing
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda

PIPELINED, PERSISTENT = RUNGS["09_pipelined"], RUNGS["10_persistent"]
# Little code, so that it is built fast; three stages, so that the ring does not turn evenly.
SMALL = Tile(bm=64, bn=64, bk=8, tm=4, tn=4, pad=8, wm=32, wn=32, stages=3)


@cache
def compiled(name: str, source: str | None = None, arch: str = "sm_86") -> Artifact:
    each = RUNGS[name]
    tile = replace(SMALL, workers=1) if each is PERSISTENT else SMALL
    return compile_cuda(
        source or each.source, each.expression(tile), arch=arch, include_dirs=each.include_dirs
    )


def right(p: Problem, operands: Operands) -> bool:
    a, b = matrix(operands.a, p.m, p.k, p.lda), matrix(operands.b, p.k, p.n, p.ldb)
    c0, c = (matrix(c, p.m, p.n, p.ldc) for c in (operands.c0, operands.c))
    return check(p, a, b, c0, c).ok and padding_untouched(p, operands)


def launched(name: str, p: Problem, *, workers: int = 0, shift: int = 0, **how) -> Operands:
    tile, operands = replace(SMALL, workers=workers), make_operands(p, shift=shift)
    args = RUNGS[name].arguments(p, operands.a, operands.b, operands.c)
    workspace = RUNGS[name].workspace(p, tile)
    run(compiled(name, **how), RUNGS[name].launch(p, tile), [*args, *workspace], workers=1)
    assert not any(arrivals.any() for arrivals in workspace[1:])
    return operands


@pytest.mark.parametrize("k", range(17))
@pytest.mark.parametrize(("name", "workers"), [("09_pipelined", 0), ("10_persistent", 5)])
def test_every_rest_of_k_with_and_without_vectors(name: str, workers: int, k: int) -> None:
    for n, shift in ((68, 0), (35, 3)):
        p = Problem(m=70, n=n, k=k, alpha=0.5, beta=3.0)
        assert right(p, launched(name, p, workers=workers, shift=shift)), (n, shift)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize(("name", "workers"), [("09_pipelined", 0), ("10_persistent", 3)])
def test_other_architectures_with_and_without_cp_async(name: str, workers: int, arch: str) -> None:
    p = Problem(m=70, n=68, k=61, alpha=0.5, beta=3.0)
    assert ("cp.async" in compiled(name, arch=arch).ptx) == (arch != "sm_75")
    assert right(p, launched(name, p, workers=workers, arch=arch))


def test_whole_tiles_and_cut_ones_together() -> None:
    """Seven tiles for three blocks: one each, then four to share."""
    p = Problem(m=438, n=50, k=61, alpha=0.5, beta=3.0, ldc=53)
    assert sharing(p, replace(SMALL, workers=3)).shared == 4
    assert right(p, launched("10_persistent", p, workers=3))


WAIT = "wait_copies<T.stages - 2>();"
BARRIER = "__syncthreads();"


@pytest.mark.parametrize("missing", [(WAIT, 1), (WAIT, 2), (BARRIER, 1), (BARRIER, 2)])
def test_a_missing_wait_or_barrier_is_caught(missing: tuple[str, int]) -> None:
    """Copies are emulated as late as is legal, and warps one after the other."""
    text, nth = missing
    parts = PIPELINED.source.read_text().split(text)
    assert len(parts) == 3
    broken = text.join(parts[:nth]) + text.join(["", *parts[nth:]])[len(text) :]
    p = Problem(m=64, n=64, k=64)
    assert right(p, launched("09_pipelined", p, source=text.join(parts)))
    assert not right(p, launched("09_pipelined", p, source=broken))


def cuts(tiles: int, depth: int, workers: int) -> list[list[int]]:
    """The steps of each part of each shared tile, dealt out one by one."""
    owner = [
        w for w, some in enumerate(np.array_split(range(tiles * depth), workers)) for _ in some
    ]
    of_tiles = [owner[at : at + depth] for at in range(0, len(owner), depth)]
    return [[len(list(part)) for _, part in itertools.groupby(each)] for each in of_tiles]


@pytest.mark.parametrize(
    ("tiles", "depth", "workers"), [(1, 40, 13), (3, 7, 5), (5, 4, 3), (2, 9, 2)]
)
def test_how_tiles_are_shared(tiles: int, depth: int, workers: int) -> None:
    found = Sharing(tiles=tiles, depth=depth, workers=workers)
    assert found.shared == tiles
    assert list(found.parts()) == [len(each) for each in cuts(tiles, depth, workers)]
    assert found.room >= max(found.parts())


def test_what_is_dealt_and_what_is_shared_by_hand() -> None:
    # The header's drawing: 17 tiles for 4 blocks are three rounds, and five to share.
    assert Sharing(tiles=17, depth=8, workers=4).shared == 5
    assert list(Sharing(tiles=17, depth=8, workers=4).parts()) == [1, 2, 2, 2, 1]
    assert Sharing(tiles=16, depth=8, workers=4).shared == 4
    assert [list(exchanges(n)) for n in (1, 2, 8, 10)] == [[], [2], [8], [4, 4, 2, 3]]


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 7, 40])
def test_a_cut_tile_is_the_sum_of_its_parts_in_order(workers: int) -> None:
    """Bit for bit: each part a chain in the order of k, the first with the rest of k."""
    p = Problem(m=100, n=100, k=61, alpha=0.5, beta=-1.0)
    operands = launched("10_persistent", p, workers=workers)
    a, b = matrix(operands.a, p.m, p.k, p.lda), matrix(operands.b, p.k, p.n, p.ldb)
    c0, got = (matrix(c, p.m, p.n, p.ldc) for c in (operands.c0, operands.c))
    depth, tile_rows = 8, 2
    for slot, parts in enumerate(cuts(4, depth, min(workers, 4 * depth))):
        assert len(parts) <= 8
        rows, cols = slice(slot % tile_rows * 64, None), slice(slot // tile_rows * 64, None)
        rows, cols = slice(rows.start, rows.start + 64), slice(cols.start, cols.start + 64)
        total, k = np.float32(0), 0
        for steps in parts:
            to = k + 8 * steps - (3 if k == 0 else 0)  # 61 = 5 + 7 * 8
            left, right_ = a[rows, k:to], b[k:to, cols]
            plain = Problem(m=left.shape[0], n=right_.shape[1], k=to - k)
            total, k = total + chain(plain, left, right_, c0[rows, cols]), to
        old = np.float32(p.beta) * c0[rows, cols]
        expected = (np.longdouble(p.alpha) * total + old).astype(np.float32)
        np.testing.assert_array_equal(got[rows, cols].view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("k", [61, 200])  # 25 steps: one tile in more parts than one block adds
def test_the_bits_do_not_depend_on_which_block_is_last(k: int) -> None:
    p, tile = Problem(m=64, n=30, k=k), replace(SMALL, workers=20)
    results = []
    for order in (1, -1):
        operands = make_operands(p)
        args = PERSISTENT.arguments(p, operands.a, operands.b, operands.c)
        args = (*args, *PERSISTENT.workspace(p, tile))
        launch = PERSISTENT.launch(p, tile)
        for block in range(launch.blocks)[::order]:
            run(compiled("10_persistent"), launch, args, sample=[block])
        assert right(p, operands)
        results.append(operands.c.tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(("k", "workers"), [(61, 3), (200, 20), (0, 4)])
def test_what_sharing_adds_is_counted_exactly(k: int, workers: int) -> None:
    p, tile = Problem(m=64, n=100, k=k, beta=1.0), replace(SMALL, workers=workers)
    counted = []
    for launch in (PERSISTENT.launch(p, tile), PERSISTENT.launch_of_tiles(p, tile)):
        operands = make_operands(p)
        args = PERSISTENT.arguments(p, operands.a, operands.b, operands.c)
        args = (*args, *PERSISTENT.workspace(p, tile))
        counters = run(compiled("10_persistent"), launch, args, count=True).counters
        assert counters is not None
        assert counters.ffma_thread_instructions == PERSISTENT.ffma_thread_instructions(p, tile)
        counted.append(counters)
    shared, apart = counted[0], counted[1] + sharing_counters(p, tile)
    for name in Counters.__dataclass_fields__:
        if name.startswith(("global", "shared")):
            assert getattr(shared, name) == getattr(apart, name), name
    assert (shared != counted[1]) == (sharing(p, tile).workers > 2)


def test_tiles_are_taken_in_bands_of_eight_rows() -> None:
    p, tile = Problem(m=64 * 11, n=64 * 3, k=8), replace(SMALL, workers=4)
    places = [place_of(PERSISTENT, p, tile, block) for block in range(33)]
    assert places[:9] == [*((row, 0) for row in range(8)), (0, 1)]
    assert places[24:28] == [(8, 0), (9, 0), (10, 0), (8, 1)]
    assert [block_of(PERSISTENT, p, tile, *place) for place in places] == list(range(33))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"stages": 1}, "stages = 1: give 2 or more"),
        ({"pad": 4}, "pad = 4: copies that transpose A need pad = 8"),
        ({"bk": 12}, "128 threads cannot copy the tiles of A"),
        ({"unroll": 4}, "does not read unroll"),
    ],
)
def test_a_tile_that_cannot_be_copied_ahead(change: dict[str, int], rule: str) -> None:
    legal = dict(SMALL.to_json())
    with pytest.raises(TileError, match=rule):
        PIPELINED.check(Tile(**{**legal, **change}))


def test_10_needs_workers() -> None:
    with pytest.raises(TileError, match="needs workers"):
        PERSISTENT.check(SMALL)
