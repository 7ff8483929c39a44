"""The rungs of the ladder from the first to the last, and two kernels of 2008 beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tilewright.errors import UnknownNameError
from tilewright.kernels.rungs import Claims, Rung
from tilewright.kernels.tiles import Tile, TileUse

# Source: the table of https://siboehm.com/articles/22/CUDA-MMM, at 4096³ in float32.
PUBLISHED_GPU = "RTX A6000"
PUBLISHED_CUBLAS_GFLOPS: Mapping[str, float] = MappingProxyType({PUBLISHED_GPU: 23249.6})


def _published(gflops: float) -> Mapping[str, float]:
    return MappingProxyType({PUBLISHED_GPU: gflops})


_NOT_PUBLISHED: Mapping[str, float] = MappingProxyType({})

_STAGED = frozenset({"bk", "unroll"})
_COLUMN = _STAGED | {"tm"}
_SQUARE = _COLUMN | {"tn"}
_VECTOR = _SQUARE | {"pad"}
_WARP = _VECTOR | {"wm", "wn", "wniter"}
_AHEAD = _WARP - {"unroll"} | {"stages"}

_WARP_TILE = Tile(bm=128, bn=128, bk=16, tm=8, tn=4, pad=4, wm=64, wn=64, wniter=4, unroll=1)
_AHEAD_TILE = Tile(bm=128, bn=256, bk=8, tm=4, tn=4, pad=8, wm=32, wn=128, wniter=4, stages=4)

_AHEAD_CLAIMS = Claims(
    load_sectors_per_request=32 / 3,
    load_requests_per_warp_fma=3 / 512,
    store_sectors_per_output=1 / 8,
    shared_store_wavefronts_per_request=20 / 3,
)

_TABLE = (
    Rung(
        name="01_naive",
        idea="one thread, one output",
        why="Each thread reads a row of A and a column of B for its one output. The lanes of a "
        "warp lie down a column of C, so each reads a line of its own, of which the others "
        "use nothing.",
        kernel="naive",
        file="01_naive.cuh",
        use=TileUse(),
        default=Tile(bm=32, bn=32),
        claims=Claims(
            load_sectors_per_request=16.5, load_requests_per_warp_fma=2, store_sectors_per_output=1
        ),
        published_gflops=_published(309.0),
    ),
    Rung(
        name="02_coalesced",
        idea="consecutive threads, consecutive addresses",
        why="The lanes of a warp take neighbouring columns: what they read of B and store of C "
        "are neighbours in memory, and one request moves 4 sectors of which all is used.",
        kernel="coalesced",
        file="02_coalesced.cuh",
        use=TileUse(),
        default=Tile(bm=32, bn=32),
        claims=Claims(
            load_sectors_per_request=2.5,
            load_requests_per_warp_fma=2,
            store_sectors_per_output=1 / 8,
        ),
        published_gflops=_published(1986.5),
    ),
    Rung(
        name="03_shared_tile",
        idea="stage tiles of A and B on chip",
        why="A block reads each element from global memory once and from shared memory many "
        "times. What warps wait for now are these reads: two for each multiply-add.",
        kernel="shared_tile",
        file="03_shared_tile.cuh",
        use=TileUse(reads=_STAGED),
        default=Tile(bm=32, bn=32, bk=32),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 16,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_published(2980.3),
    ),
    Rung(
        name="04_register_1d",
        idea="a column of outputs a thread",
        why="A thread reads an element of B once for all outputs of its column: little more "
        "than one read of shared memory for a multiply-add, where there were two.",
        kernel="register_1d",
        file="04_register_1d.cuh",
        use=TileUse(reads=_COLUMN),
        default=Tile(bm=64, bn=64, bk=8, tm=8),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 32,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_published(8474.7),
    ),
    Rung(
        name="05_register_2d",
        idea="a square of outputs a thread",
        why="Each value that a thread reads serves a whole side of its square: tm + tn reads of "
        "shared memory for tm * tn multiply-adds, where a column takes tm + 1 for tm.",
        kernel="register_2d",
        file="05_register_2d.cuh",
        use=TileUse(reads=_SQUARE),
        # unroll 4: all eight steps take more than the 128 registers that leave two blocks an SM.
        default=Tile(bm=128, bn=128, bk=8, tm=8, tn=8, unroll=4),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 64,
            store_sectors_per_output=1,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_published(15971.7),
    ),
    Rung(
        name="06_vectorized",
        idea="128-bit memory instructions",
        why="Four neighbours an instruction: the same words with a quarter of the loads and "
        "stores, so that fewer instructions stand between multiply-adds. A is transposed on "
        "its way for that.",
        kernel="vectorized",
        file="06_vectorized.cuh",
        use=TileUse(reads=_VECTOR, vector=True),
        default=Tile(bm=128, bn=128, bk=8, tm=8, tn=8, pad=4, unroll=4),
        claims=Claims(
            load_sectors_per_request=16,
            load_requests_per_warp_fma=1 / 256,
            store_sectors_per_output=1 / 4,
            shared_store_wavefronts_per_request=1.6,
        ),
        published_gflops=_published(18237.3),
    ),
    Rung(
        name="07_autotuned",
        idea="tile sizes by search",
        why="Larger tiles use each value more often, smaller ones leave room for more warps. "
        "Which are best depends on the GPU, so a search decides.",
        kernel="vectorized",
        file="06_vectorized.cuh",
        use=TileUse(reads=_VECTOR, vector=True),
        default=Tile(bm=128, bn=128, bk=16, tm=8, tn=8, pad=4),
        claims=Claims(
            load_sectors_per_request=16,
            load_requests_per_warp_fma=1 / 256,
            store_sectors_per_output=1 / 4,
            shared_store_wavefronts_per_request=2.4,
        ),
        published_gflops=_published(19721.0),
    ),
    Rung(
        name="08_warptiled",
        idea="tiles a warp",
        why="A warp's outputs are one compact tile: its lanes read the same few words together, "
        "and shared memory serves them in fewer passes.",
        kernel="warptiled",
        file="08_warptiled.cuh",
        use=TileUse(reads=_WARP, vector=True),
        default=_WARP_TILE,
        claims=Claims(
            load_sectors_per_request=16,
            load_requests_per_warp_fma=1 / 256,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=2.4,
        ),
        published_gflops=_published(21779.3),
    ),
    Rung(
        name="09_pipelined",
        idea="copies ahead of the arithmetic",
        why="Tiles are copied some steps before they are needed, and fragments come to "
        "registers one step before, so that warps no longer wait for them; with more "
        "outputs a thread there are fewer reads as well.",
        kernel="pipelined",
        file="09_pipelined.cuh",
        use=TileUse(reads=_AHEAD, vector=True, ahead=True),
        default=_AHEAD_TILE,
        claims=_AHEAD_CLAIMS,
        published_gflops=_NOT_PUBLISHED,
    ),
    Rung(
        name="10_persistent",
        idea="blocks stay, tiles are shared evenly",
        why="As many blocks as the GPU holds stay, and share the steps of all tiles evenly, so "
        "that no last wave leaves SMs idle. Where tiles fill their waves there is nothing "
        "to win by it.",
        kernel="persistent",
        file="10_persistent.cuh",
        use=TileUse(reads=_AHEAD | {"workers"}, vector=True, ahead=True),
        default=replace(_AHEAD_TILE, workers=132),  # the SMs of an H200
        claims=_AHEAD_CLAIMS,
        published_gflops=_NOT_PUBLISHED,
    ),
)

# What matrix multiplication looked like in 2008, beside the ladder: the paper's own kernel, and the
# design that it argued against. In the order of their time, so before any rung.
_HISTORY = (
    Rung(
        name="both_shared_2008",
        idea="many threads, both operands in shared memory",
        why="Many threads hide the latency, each with few outputs: nearly every multiply-add "
        "needs a value that it reads from shared memory.",
        # The ladder's fourth with 2008's tile. Of CUBLAS 1.1 the paper has 512 threads and one
        # move for two multiply-adds, so two outputs a thread; bk = 16 is ours, as volkov_2008's.
        kernel="register_1d",
        file="04_register_1d.cuh",
        use=TileUse(reads=_COLUMN),
        default=Tile(bm=32, bn=32, bk=16, tm=2),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=1 / 16,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=1,
        ),
        published_gflops=_NOT_PUBLISHED,
    ),
    Rung(
        name="volkov_2008",
        idea="few threads, sums in registers, one operand in shared memory",
        why="Sums and one operand stay in registers, so a multiply-add needs one value of "
        "shared memory at most; a thread's independent sums hide the latency that others "
        "hide with more threads.",
        kernel="streamed_b",
        file="volkov_2008.cuh",
        use=TileUse(reads=_COLUMN | {"pad"}, streams_b=True),
        default=Tile(bm=16, bn=64, bk=16, tm=16, pad=1),
        claims=Claims(
            load_sectors_per_request=4,
            load_requests_per_warp_fma=5 / 64,
            store_sectors_per_output=1 / 8,
            shared_store_wavefronts_per_request=2,
        ),
        published_gflops=_NOT_PUBLISHED,
    ),
)

RUNGS: Mapping[str, Rung] = MappingProxyType({r.name: r for r in _TABLE})
HISTORY: Mapping[str, Rung] = MappingProxyType({r.name: r for r in _HISTORY})


def rung(name: str) -> Rung:
    """Return a rung by its name or a half of it: "01_naive", "01" or "naive".

    A kernel beside the ladder goes by its name, or that without the year: "volkov".

    Raises:
        UnknownNameError: no such rung; the message suggests the nearest.
    """
    wanted = name.strip().lower()
    for each in _TABLE:
        if wanted in (each.name, *each.name.split("_", 1)):
            return each
    for each in _HISTORY:
        if wanted in (each.name, each.name.rpartition("_")[0]):
            return each
    raise UnknownNameError("rung", name, [*RUNGS, *HISTORY])
