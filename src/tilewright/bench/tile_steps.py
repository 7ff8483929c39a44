"""Makes the figure of a rung's tile: one block of a small problem, emulated, moment by moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tilewright.bench.followed import NONE, Followed, follow
from tilewright.bench.profiling import rung_launch
from tilewright.bench.tile_figure import Access, Moment, Pattern, Site, TileFigure
from tilewright.emulator.observers import LOADS
from tilewright.emulator.ops.accesses import access_bytes
from tilewright.emulator.rules import LINE_BYTES, NOBODY
from tilewright.emulator.stepping import steps_of
from tilewright.errors import UnsupportedError
from tilewright.gpus import Gpu
from tilewright.kernels import Rung, Tile
from tilewright.kernels.tile_layouts import UNSTAGED_DEPTH, layouts_of
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.problem import Problem
from tilewright.toolchain import resources

_TILES = 2  # of C along m and along n that are shown
_STEPS = 2  # of the main loop, and one more for each stage that is filled ahead
_LINE_FLOATS = LINE_BYTES // FLOAT_BYTES

# What makes a moment: its kind, the barriers before it, and where along k it is.
_Key = tuple[int, str, int]


def tile_figure(rung: Rung, gpu: Gpu, *, problem: Problem | None = None) -> TileFigure:
    """Return the figure of a rung with its tile for a GPU.

    It shows `problem` if that has at most two tiles along m and n and a few steps along k, else a
    small one of the same tiling.

    Raises:
        CompileError: the kernel does not compile for the GPU.
    """
    tile = rung.tile_for(gpu.name)
    if tile.workers:
        tile = replace(tile, workers=_TILES * _TILES)  # a block a tile, so that none is cut
    depth = tile.bk or UNSTAGED_DEPTH
    shown = _small(problem, tile, depth)
    artifact, launch, args = rung_launch(rung, shown, gpu, tile)
    whole = shown.m >= _TILES * tile.bm and shown.n >= _TILES * tile.bn
    block = launch.blocks - 1 if whole else 0
    shared_bytes = resources(artifact).shared_bytes + launch.shared_bytes
    found = list(follow(steps_of(artifact, launch, args, block=block), shared_bytes))
    patterns = _Patterns()
    sites = _Sites(rung)
    given = (shown.m, shown.n, shown.k)
    asked = given if problem is None else (problem.m, problem.n, problem.k)
    row, column = _corner(found, shown)
    return TileFigure(
        rung=rung.name,
        idea=rung.idea,
        gpu=gpu.name,
        tile=str(tile),
        m=shown.m,
        n=shown.n,
        k=shown.k,
        ld={"A": shown.lda, "B": shown.ldb, "C": shown.ldc},
        asked=None if asked == given else asked,
        blocks=launch.blocks,
        block=block,
        row=row,
        column=column,
        bm=min(tile.bm, shown.m - row),
        bn=min(tile.bn, shown.n - column),
        depth=depth,
        threads=launch.threads,
        shared_bytes=shared_bytes,
        notation=_notation(rung, tile),
        moments=tuple(_moments(found, shown, depth, sites, patterns)),
        sites=tuple(sites.numbers),
        patterns=tuple(patterns.numbers),
    )


def _small(problem: Problem | None, tile: Tile, depth: int) -> Problem:
    """Return as much of a problem as is shown; a tile's own multiples without one.

    Rows lie as far apart as those of the problem, but for whole lines of 128 bytes: so requests
    take as many sectors and wavefronts as in the problem itself.
    """
    most = (_TILES * tile.bm, _TILES * tile.bn, (_STEPS + tile.stages) * depth)
    if problem is None:
        m, n, k, lds = *most, (0, 0, 0)
    else:
        sizes = zip((problem.m, problem.n, problem.k), most, strict=True)
        m, n, k = (min(pair) for pair in sizes)
        lds = (problem.lda, problem.ldb, problem.ldc)
    lda, ldb, ldc = (
        row + (ld - row) % _LINE_FLOATS for row, ld in zip((k, n, n), lds, strict=True)
    )
    return Problem(m=m, n=n, k=k, lda=lda, ldb=ldb, ldc=ldc)


def _corner(found: Sequence[Followed], problem: Problem) -> tuple[int, int]:
    """Return the first row and column of C that the block stores."""
    stored = [each.elements[each.elements >= 0] for each in found if each.kind == "store"]
    places = np.concatenate(stored)
    return int(places.min() // problem.ldc), int((places % problem.ldc).min())


def _notation(rung: Rung, tile: Tile) -> tuple[tuple[str, str], ...]:
    """Return the layouts of a tile by name; none of a kernel that has no description."""
    try:
        layouts = layouts_of(rung, tile)
    except UnsupportedError:
        return ()
    return (
        ("C: (threads, values) to elements of the tile", str(layouts.owner)),
        *((f"{a}: (threads, turns, vector) to places", str(a.addresses)) for a in layouts.accesses),
    )


def _key(each: Followed, problem: Problem, depth: int) -> _Key | None:
    """Return the moment of an access: reads by step along k, copies by tile along k."""
    if each.kind == "store":
        return each.phase, each.kind, 0
    inside = each.elements[each.elements >= 0]
    if not inside.size:
        return None
    along = inside % problem.lda if each.operand == "A" else inside // problem.ldb
    first = int(along.min())
    return each.phase, each.kind, first // depth * depth if each.kind == "copy" else first


def _moments(
    found: Sequence[Followed], problem: Problem, depth: int, sites: _Sites, patterns: _Patterns
) -> Iterator[Moment]:
    """Yield the moments: by barriers, then as the block's first warps come to them."""
    groups: dict[_Key, list[Followed]] = defaultdict(list)
    for each in found:
        key = _key(each, problem, depth)
        if key is not None:
            groups[key].append(each)
    for (phase, kind, k), members in sorted(groups.items(), key=lambda item: item[0][0]):
        deep = {"copy": min(depth, problem.k - k), "store": 0}.get(kind, 1)
        yield Moment(
            title=_title(kind, k, deep),
            kind=members[0].kind,
            phase=phase,
            k=k,
            depth=deep,
            accesses=tuple(_accesses(members, sites, patterns)),
        )


def _title(kind: str, k: int, deep: int) -> str:
    match kind:
        case "copy":
            return f"tiles of A and B, k = {k} to {k + deep - 1}: global to shared memory"
        case "read":
            return f"k = {k}: shared memory to registers, to be multiplied"
        case "direct":
            return f"k = {k}: global memory to registers, to be multiplied"
    return "C: registers to global memory"


def _accesses(members: Sequence[Followed], sites: _Sites, patterns: _Patterns) -> Iterator[Access]:
    """Yield each execution of each site, its warps side by side."""
    turns: dict[tuple[int, int], int] = defaultdict(int)
    groups: dict[tuple[int, int], list[Followed]] = defaultdict(list)
    for each in members:
        site = sites.number(each)
        groups[site, turns[site, each.warp]].append(each)
        turns[site, each.warp] += 1
    for (site, _), same in groups.items():
        byte = [
            patterns.of(np.where(f.offsets == NOBODY, NONE, f.offsets.astype(np.int64)))
            for f in same
        ]
        place = [patterns.of(f.elements) for f in same]
        yield Access(
            site=site,
            warps=tuple(f.warp for f in same),
            base=tuple(base for base, _ in byte),
            pattern=tuple(number for _, number in byte),
            element=tuple(base for base, _ in place),
            places=tuple(number for _, number in place),
            cost=tuple(f.cost for f in same),
            least=tuple(f.least for f in same),
        )


class _Patterns:
    """The distinct rows of lanes, counted from their first active lane."""

    def __init__(self) -> None:
        self.numbers: dict[Pattern, int] = {}

    def of(self, lanes: npt.NDArray[np.int64]) -> tuple[int, int]:
        """Return where the first active lane is, and the number of the pattern from there."""
        active = lanes[lanes != NONE]
        base = int(active[0]) if active.size else 0
        pattern = tuple(None if lane == NONE else lane - base for lane in lanes.tolist())
        return base, self.numbers.setdefault(pattern, len(self.numbers))


class _Sites:
    """The instructions of the source, each numbered as it is met."""

    def __init__(self, rung: Rung) -> None:
        self.numbers: dict[Site, int] = {}
        self._folders = (rung.source.parent, *rung.include_dirs)
        self._texts: dict[str, list[str]] = {}

    def number(self, each: Followed) -> int:
        """Return the number of an access's site."""
        ins = each.ins
        file, line = (ins.location.file, ins.location.line) if ins.location else ("", 0)
        way = "copy" if ins.opcode == "cp" else "load" if ins.opcode in LOADS else "store"
        site = Site(
            operand=each.operand,
            space="shared" if each.shared else "global",
            way=way,  # type: ignore[arg-type]
            bytes=access_bytes(ins),
            step=each.step,
            file=file,
            line=line,
            code=self._code(file, line),
        )
        return self.numbers.setdefault(site, len(self.numbers))

    def _code(self, file: str, line: int) -> str:
        """Return a line of the source, empty where there is none."""
        if file not in self._texts:
            paths = (folder / file for folder in self._folders)
            found = next((path for path in paths if path.is_file()), None)
            self._texts[file] = [] if found is None else found.read_text("utf-8").splitlines()
        lines = self._texts[file]
        return lines[line - 1].strip() if 1 <= line <= len(lines) else ""
