"""Tiles: both spellings agree, an illegal one is refused with its rule, a legal one compiles."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright.kernels
from tilewright.errors import CompileError, TileError
from tilewright.kernels import RUNGS, Tile, rung
from tilewright.kernels.tiles import TileUse, check
from tilewright.toolchain import compile_cuda

STRUCT = (Path(tilewright.kernels.__file__).parent / "lib" / "tile.cuh").read_text()


def test_python_and_cpp_have_the_same_fields_in_the_same_order() -> None:
    cpp = re.findall(r"^  int (\w+) = (\d+);", STRUCT, re.MULTILINE)
    python = dataclasses.fields(Tile)
    assert [name for name, _ in cpp] == [f.name for f in python]
    defaults = {f.name: f.default for f in python if f.default is not dataclasses.MISSING}
    assert {name: int(value) for name, value in cpp if name in defaults} == defaults


def test_expression_names_every_field() -> None:
    tile = Tile(bm=128, bn=64, bk=8, tm=8, tn=4)
    assert tile.expression() == (
        "Tile{.bm=128,.bn=64,.bk=8,.tm=8,.tn=4,.pad=0,.wm=0,.wn=0,.wniter=1,.unroll=0,"
        ".min_blocks=0,.stages=0,.kparts=1,.workers=0}"
    )


@pytest.mark.parametrize(
    ("tile", "threads", "shared_bytes"),
    [
        # 32 * 32 threads; (32 + 32) * 32 floats.
        (Tile(bm=32, bn=32, bk=32), 1024, 8192),
        # 64/8 * 64/1 threads; 8 * (64 + 64) floats.
        (Tile(bm=64, bn=64, bk=8, tm=8), 512, 4096),
        # 128/8 * 128/8 threads; 16 * (128 + 4 + 128) floats.
        (Tile(bm=128, bn=128, bk=16, tm=8, tn=8, pad=4), 256, 16640),
        # 2 * 2 warps whatever the thread's tile is.
        (Tile(bm=128, bn=128, bk=16, tm=8, tn=4, wm=64, wn=64, wniter=4), 128, 16384),
        (Tile(bm=32, bn=32), 1024, 0),
        # 64/8 * 64/8 outputs' threads, 4 for each; two stages of 16 * (64 + 64) floats.
        (Tile(bm=64, bn=64, bk=16, tm=8, tn=8, kparts=4, stages=2), 256, 16384),
    ],
)
def test_threads_and_shared_bytes(tile: Tile, threads: int, shared_bytes: int) -> None:
    assert (tile.threads, tile.shared_bytes) == (threads, shared_bytes)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"bm": 0}, "bm = 0: expected a whole number from 1"),
        ({"bm": True}, "bm = True: expected a whole number"),
        ({"bk": -1}, "bk = -1: expected a whole number from 0"),
        ({"tm": 3}, "tm = 3 does not divide bm = 64: try tm = 2"),
        ({"tn": 128}, "tn = 128 does not divide bn = 64: try tn = 64"),
        ({"tm": 16, "tn": 16}, "16 threads are no whole number of warps"),
        ({"tm": 1, "tn": 2}, "2048 threads a block are more than 1024"),
        ({"wniter": 2}, "give wm and wn as well"),
        ({"wm": 64}, "give both"),
        ({"wm": 64, "wn": 64, "kparts": 2}, "kparts = 2: the threads of a warp tile have all of k"),
        ({"wm": 48, "wn": 32}, "wm = 48 does not divide bm = 64: try wm = 32"),
        ({"wm": 64, "wn": 64, "wniter": 3}, "wniter = 3 does not divide wn = 64: try wniter = 2"),
        ({"wm": 64, "wn": 64, "tn": 3}, "64/1/3, must be a whole number that divides 32"),
        ({"wm": 64, "wn": 64, "tn": 1}, "64/1/1, must be a whole number that divides 32"),
        ({"wm": 64, "wn": 64, "tn": 8, "tm": 32}, "cover 128 rows, which do not divide wm = 64"),
        ({"bk": 0, "pad": 4}, "give bk as well"),
        ({"unroll": 3}, "unroll = 3 does not divide bk = 8: try unroll = 2"),
        ({"bk": 97}, "49664 bytes of shared memory are more than the 49152"),
    ],
)
def test_an_illegal_tile_says_which_rule_it_breaks(fields: dict[str, int], rule: str) -> None:
    legal = {"bm": 64, "bn": 64, "bk": 8, "tm": 8, "tn": 4}
    Tile(**legal)
    with pytest.raises(TileError, match=re.escape(rule)):
        Tile(**{**legal, **fields})


@pytest.mark.parametrize(
    ("name", "tile", "rule"),
    [
        ("01", Tile(bm=32, bn=32, bk=8), "does not read bk: leave it 0"),
        ("03", Tile(bm=32, bn=32, bk=32, tm=2), "does not read tm: leave it 1"),
        ("03", Tile(bm=32, bn=32), "needs bk"),
        ("08", Tile(bm=128, bn=128, bk=8, tm=8, tn=8), "needs wm"),
        ("06", Tile(bm=128, bn=128, bk=6, tm=8, tn=8), "bk = 6 must be a multiple of 4"),
        ("06", Tile(bm=128, bn=128, bk=8, tm=2, tn=8), "tm = 2 must be a multiple of 4"),
        ("06", Tile(bm=128, bn=128, bk=8, tm=8, tn=2), "tn = 2 must be a multiple of 4"),
        ("06", Tile(bm=128, bn=128, bk=8, tm=8, tn=8, pad=1), "try pad = 4"),
        # 512 threads are 32 rows of 16: B's tile has only 16.
        ("03", Tile(bm=32, bn=16, bk=16), "try bk = 32"),
        # 256 threads are 256 rows of A's tile of one vector: it has only 128.
        ("06", Tile(bm=128, bn=128, bk=4, tm=8, tn=8), "try bk = 8"),
    ],
)
def test_a_tile_that_does_not_fit_a_rung(name: str, tile: Tile, rule: str) -> None:
    with pytest.raises(TileError, match=re.escape(rule)) as error:
        rung(name).expression(tile)
    assert rung(name).name in str(error.value)


def test_json_round_trip_and_its_errors() -> None:
    for each in RUNGS.values():
        assert Tile.from_json(each.default.to_json()) == each.default
    assert Tile.from_json({"bm": 32, "bn": 32}) == Tile(bm=32, bn=32)
    with pytest.raises(TileError, match="no field 'bq'"):
        Tile.from_json({"bm": 32, "bn": 32, "bq": 1})
    with pytest.raises(TileError, match="lacks bn"):
        Tile.from_json({"bm": 32})


@given(
    st.fixed_dictionaries(
        {
            "bm": st.sampled_from([16, 32, 48, 64, 128]),
            "bn": st.sampled_from([16, 32, 64, 96]),
            "bk": st.sampled_from([1, 3, 4, 6, 8, 12, 16, 32]),
            "tm": st.sampled_from([1, 2, 4, 8]),
            "tn": st.sampled_from([1, 2, 4, 8]),
        }
    ),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_a_tile_accepted_for_staging_is_copied_whole(fields: dict[str, int], vector: bool) -> None:
    """What `check` accepts, recounted thread by thread: each element of both tiles once."""
    try:
        tile = Tile(**fields)
        check(tile, TileUse(reads=frozenset({"bk", "tm", "tn"}), vector=vector), "the test")
    except TileError:
        return
    width = 4 if vector else 1
    for rows, cols in ((tile.bm, tile.bk), (tile.bk, tile.bn)):
        row_threads = cols // width
        copied = [
            (tid // row_threads + i, tid % row_threads * width + j)
            for tid in range(tile.threads)
            for i in range(0, rows, tile.threads // row_threads)
            for j in range(width)
        ]
        assert len(copied) == len(set(copied)) == rows * cols
        assert max(copied) == (rows - 1, cols - 1)


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("03", Tile(bm=32, bn=16, bk=32)),
        ("05", Tile(bm=64, bn=32, bk=16, tm=4, tn=2, unroll=4)),
        ("06", Tile(bm=64, bn=64, bk=16, tm=4, tn=4)),
        ("08", Tile(bm=128, bn=64, bk=8, tm=4, tn=4, pad=4, wm=64, wn=32, wniter=2)),
    ],
)
def test_other_legal_tiles_compile(name: str, tile: Tile) -> None:
    each = rung(name)
    compile_cuda(
        each.source, each.expression(tile), include_dirs=each.include_dirs, arch="sm_86", cache=None
    )


def test_an_illegal_tile_that_is_forced_on_the_compiler_is_refused_there_too() -> None:
    each = rung("03")
    tile = Tile(bm=32, bn=16, bk=16)
    with pytest.raises(CompileError, match="the block must copy whole rows of B, evenly"):
        compile_cuda(
            each.source,
            f"{each.kernel}<{tile.expression()}>",
            include_dirs=each.include_dirs,
            cache=None,
        )
