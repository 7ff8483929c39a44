"""The tile of a kernel, and the one statement of which tiles are legal."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields

from tilewright.errors import TileError

WARP_THREADS = 32
VECTOR_FLOATS = 4  # in a 128-bit instruction
FLOAT_BYTES = 4

# As lib/tile_copy.cuh copies A: neighbours along k that lanes side by side copy, and floats left
# between its rows in shared memory.
COPIED_K = 4
COPIED_PAD = 8

# Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": threads
# a block, and the shared memory of a block that needs no opt-in (all that is static).
MAX_THREADS = 1024
MAX_STATIC_SHARED_BYTES = 48 * 1024

# Of a block that opts in, on the GPU that offers most (compute capability 9.0 and 10.0).
# Source: CUDA C++ Programming Guide, same table. A smaller GPU refuses when it launches.
MAX_SHARED_BYTES = 227 * 1024

_LEAST = {"bm": 1, "bn": 1, "tm": 1, "tn": 1, "wniter": 1, "kparts": 1}  # 0 for the others
_MOST = 1 << 16  # of any field: far above every limit below, so that products stay readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A kernel's schedule: the fields of the C++ struct of `lib/tile.cuh`, in its order.

    Units: elements, except `wniter` (sub-tiles of a warp along n), `unroll` (steps along k in one
    body of the main loop, 0 for all of bk), `min_blocks` (blocks that an SM must have registers
    for, 0 to let the compiler choose), `stages` (tiles of A and B in shared memory at a time, in
    dynamic shared memory; 0 for one, in static), `kparts` (threads that share an output, each
    with a part of k) and `workers` (blocks that stay and share all tiles of C, at most; 0 for a
    block a tile). `bk` is 0 without staging, `wm` and `wn` without warp tiles.

    Raises:
        TileError: a tile that no kernel can run with, with the rule and a remedy.
    """

    bm: int
    bn: int
    bk: int = 0
    tm: int = 1
    tn: int = 1
    pad: int = 0
    wm: int = 0
    wn: int = 0
    wniter: int = 1
    unroll: int = 0
    min_blocks: int = 0
    stages: int = 0
    kparts: int = 1
    workers: int = 0

    def __post_init__(self) -> None:
        for f in fields(self):
            value, least = getattr(self, f.name), _LEAST.get(f.name, 0)
            if type(value) is not int or not least <= value <= _MOST:
                raise TileError(
                    f"tile field {f.name} = {value!r}: expected a whole number from {least} "
                    f"to {_MOST}"
                )
        _raise_first(str(self), _rules_of_every_kernel(self))

    @property
    def threads(self) -> int:
        """Threads a block."""
        if self.wm:
            return WARP_THREADS * (self.bm // self.wm) * (self.bn // self.wn)
        return (self.bm // self.tm) * (self.bn // self.tn) * self.kparts

    @property
    def shared_bytes(self) -> int:
        """Shared memory a block: a tile of A, padded, and one of B, for each stage."""
        return FLOAT_BYTES * self.bk * (self.bm + self.pad + self.bn) * max(self.stages, 1)

    def expression(self) -> str:
        """Return the tile as C++: `Tile{.bm=128,.bn=128,…}`, every field named."""
        return f"Tile{{{','.join(f'.{name}={value}' for name, value in asdict(self).items())}}}"

    def __str__(self) -> str:
        named = ((f, getattr(self, f.name)) for f in fields(self))
        return "Tile(" + ", ".join(f"{f.name}={v}" for f, v in named if v != f.default) + ")"

    def to_json(self) -> dict[str, int]:
        """Return plain JSON values, by field name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, int]) -> Tile:
        """Rebuild what `to_json` wrote; omitted fields have their defaults.

        Raises:
            TileError: a name that is no field, bm or bn missing, or an illegal tile.
        """
        known = [f.name for f in fields(cls)]
        if unknown := [name for name in data if name not in known]:
            raise TileError(f"a tile has no field {unknown[0]!r}; it has {', '.join(known)}")
        if missing := [name for name in ("bm", "bn") if name not in data]:
            raise TileError(f"the tile lacks {missing[0]}: give bm and bn at least")
        return cls(**data)


@dataclass(frozen=True, slots=True, kw_only=True)
class TileUse:
    """What a kernel does with a tile: the fields that it reads beside bm and bn, how it copies.

    `vector` says that it copies and reads four floats an instruction, `whole_rows` that the block
    copies tiles by whole rows, each thread as many floats, `streams_b` that B goes from global
    memory to registers and is not copied, and `ahead` that tiles are copied as lib/tile_copy.cuh
    does, some stages ahead.
    """

    reads: frozenset[str] = field(default=frozenset())
    vector: bool = False
    whole_rows: bool = True
    streams_b: bool = False
    ahead: bool = False


@functools.lru_cache(maxsize=4096)  # whoever chooses a tile for each product asks each time
def check(tile: Tile, use: TileUse, kernel: str) -> None:
    """Accept a tile for a kernel, or say which rule it breaks.

    Raises:
        TileError: with the rule and a remedy.
    """
    _raise_first(f"{tile} does not fit {kernel}", _rules_of_one_kernel(tile, use))


# A rule: whether it holds, and what to say where it does not.
_Rule = tuple[bool, str]


def _raise_first(what: str, rules: Iterator[_Rule]) -> None:
    for holds, message in rules:
        if not holds:
            raise TileError(f"{what}: {message}")


def _rules_of_every_kernel(t: Tile) -> Iterator[_Rule]:
    yield from _rules_of_warp_tiles(t) if t.wm or t.wn else _rules_of_plain_tiles(t)
    yield (
        t.threads % WARP_THREADS == 0,
        f"its {t.threads} threads are no whole number of warps: make tm or tn smaller",
    )
    yield (
        t.threads <= MAX_THREADS,
        f"its {t.threads} threads a block are more than {MAX_THREADS}: make bm or bn smaller, or "
        "tm or tn larger",
    )
    yield (
        bool(t.bk) or t.pad == t.unroll == t.stages == 0,
        "pad, unroll and stages belong to staging: give bk as well",
    )
    if t.unroll:
        yield _divides(t, "unroll", "bk")
    most, kind = (MAX_SHARED_BYTES, "") if t.stages else (MAX_STATIC_SHARED_BYTES, " statically")
    yield (
        t.shared_bytes <= most,
        f"its {t.shared_bytes} bytes of shared memory are more than the {most} that a block "
        f"has{kind}: make bk{' or stages' if t.stages else ''} smaller",
    )


def _rules_of_plain_tiles(t: Tile) -> Iterator[_Rule]:
    yield t.wniter == 1, f"wniter = {t.wniter} splits a warp's tile: give wm and wn as well"
    yield _divides(t, "tm", "bm")
    yield _divides(t, "tn", "bn")


def _rules_of_warp_tiles(t: Tile) -> Iterator[_Rule]:
    yield (
        t.kparts == 1,
        f"kparts = {t.kparts}: the threads of a warp tile have all of k: leave it 1",
    )
    yield bool(t.wm and t.wn), "wm and wn are the two sides of a warp's tile: give both"
    yield _divides(t, "wm", "bm")
    yield _divides(t, "wn", "bn")
    yield _divides(t, "wniter", "wn")
    sub_n = t.wn // t.wniter
    lanes_n = sub_n // t.tn
    yield (
        lanes_n > 0 and sub_n % t.tn == 0 and WARP_THREADS % lanes_n == 0,
        f"the lanes side by side in a warp, wn / wniter / tn = {t.wn}/{t.wniter}/{t.tn}, must be "
        f"a whole number that divides {WARP_THREADS}: change wniter or tn",
    )
    sub_m = WARP_THREADS // lanes_n * t.tm
    yield (
        t.wm % sub_m == 0,
        f"a warp's {WARP_THREADS // lanes_n} rows of lanes with tm = {t.tm} cover {sub_m} rows, "
        f"which do not divide wm = {t.wm}: change wm, tm or wniter",
    )


def _rules_of_one_kernel(t: Tile, use: TileUse) -> Iterator[_Rule]:
    for f in fields(t):
        if f.name not in use.reads | {"bm", "bn", "min_blocks"}:
            yield (
                getattr(t, f.name) == f.default,
                f"the kernel does not read {f.name}: leave it {f.default}",
            )
    for name in ("bk", "wm", "workers"):
        yield name not in use.reads or getattr(t, name) > 0, f"the kernel needs {name}: give it"
    if use.vector:
        for name in ("bk", "tm", "tn", "pad"):
            value = getattr(t, name)
            yield (
                value % VECTOR_FLOATS == 0,
                f"{name} = {value} must be a multiple of {VECTOR_FLOATS}, the floats of an "
                f"instruction: try {name} = {-(-value // VECTOR_FLOATS) * VECTOR_FLOATS}",
            )
    if use.ahead:
        yield from _rules_of_copies_ahead(t)
    elif "bk" in use.reads and use.whole_rows:
        width = VECTOR_FLOATS if use.vector else 1
        fitting = [bk for bk in range(width, 129, width) if _copies_evenly(t, bk, width, use)]
        nearest = min(fitting, key=lambda bk: abs(bk - t.bk), default=None)
        remedy = "change bm or bn" if nearest is None else f"try bk = {nearest}"
        yield (
            _copies_evenly(t, t.bk, width, use),
            f"its {t.threads} threads cannot copy {_copied(t, use)} by whole rows, each thread as "
            f"many floats, {width} at a time: {remedy}",
        )


def _rules_of_copies_ahead(t: Tile) -> Iterator[_Rule]:
    yield t.stages > 1, f"stages = {t.stages}: give 2 or more, one to fill while one is read"
    yield (
        t.pad == COPIED_PAD,
        f"pad = {t.pad}: copies that transpose A need pad = {COPIED_PAD}, which keeps them apart",
    )
    yield (
        copies_fit(t, t.bm, along_k=True)
        and copies_fit(t, t.bn, along_k=False)
        and copies_fit(t, t.bn, along_k=False, vector=VECTOR_FLOATS),
        f"its {t.threads} threads cannot copy the tiles of A ({t.bm} x {t.bk}, four threads a row) "
        f"and B ({t.bk} x {t.bn}, by rows) evenly: change bm, bn or bk",
    )


def copies_fit(
    t: Tile, width: int, *, along_k: bool, vector: int = 1, lanes_k: int = COPIED_K
) -> bool:
    """Return whether `TileCopy` of lib/tile_copy.cuh can copy a panel `width` wide evenly."""
    lanes = lanes_k if along_k else math.gcd(width // vector, t.threads)
    span, rest = divmod(t.threads, lanes)
    if along_k:
        return width % span == 0 and t.bk % lanes == 0
    times, left = divmod(t.bk, span)
    pairs = vector > 1 or times == 1 or times % 2 == 0  # of copies that share a pointer
    return not rest and width % (lanes * vector) == 0 and times > 0 and not left and pairs


def _divides(t: Tile, small: str, large: str) -> _Rule:
    part, whole = getattr(t, small), getattr(t, large)
    fitting = max(d for d in range(1, part + 1) if whole % d == 0)
    return (
        whole % part == 0,
        f"{small} = {part} does not divide {large} = {whole}: try {small} = {fitting}",
    )


def _copied(t: Tile, use: TileUse) -> str:
    of_a, of_b = f"A ({t.bm} x {t.bk})", f"B ({t.bk} x {t.bn})"
    return f"the tile of {of_a}" if use.streams_b else f"the tiles of {of_a} and {of_b}"


def _copies_evenly(t: Tile, bk: int, width: int, use: TileUse) -> bool:
    """Return whether the block stages whole rows, as many each time: `stage` in lib/ needs it."""
    tiles = ((t.bm, bk),) if use.streams_b else ((t.bm, bk), (bk, t.bn))
    return all(
        t.threads % (cols // width) == 0 and rows % (t.threads // (cols // width)) == 0
        for rows, cols in tiles
    )
