"""Search the tiles of 07_autotuned and 08_warptiled on this machine's GPU, and record all of it.

    python benchmarks/tune_tiles.py --out benchmarks/results

Two passes a rung, at 4096³ with the L2 cold. The first takes every legal shape of tile; the second
refines the best of it in padding, unrolling and registers. A candidate is compiled (in parallel
processes), refused if it spills, verified against float64 on a ragged problem, then timed. The ten
best are verified on the full problem and timed again beside cuBLAS; the fastest of those is the
choice, printed in the form of `kernels/tuned.json`. On an H200 it takes under four minutes.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tilewright.bench.device_ladder import DeviceLadder, Measured
from tilewright.bench.environment import describe_environment
from tilewright.bench.timing import Budget
from tilewright.bench.verify import check
from tilewright.device import run
from tilewright.errors import CompileError, LaunchError, TileError, TilewrightError
from tilewright.kernels import RUNGS, Rung, Tile
from tilewright.problem import Problem
from tilewright.records import write_json
from tilewright.toolchain import Artifact, compile_cuda, resources

Floats = npt.NDArray[np.float32]

SCHEMA = 1
PROBLEM = Problem(m=4096, n=4096, k=4096, alpha=0.5, beta=0.5)
# Crosses the edges of every tile, along k too; its rows start aligned, so vectors are used.
RAGGED = Problem(m=300, n=268, k=76, alpha=0.5, beta=0.5)

PLAIN_SHAPES: Mapping[str, tuple[int, ...]] = {
    "bm": (64, 128, 256),
    "bn": (64, 128, 256),
    "bk": (8, 16, 32),
    "tm": (4, 8, 16),
    "tn": (4, 8, 16),
    "pad": (4,),
    "unroll": (1, 0),
}
WARP_SHAPES: Mapping[str, tuple[int, ...]] = {
    **PLAIN_SHAPES,
    "tm": (4, 8),
    "tn": (4, 8),
    "unroll": (1,),
    "wm": (32, 64, 128),
    "wn": (32, 64, 128),
    "wniter": (1, 2, 4),
}
SHAPES = {"07_autotuned": PLAIN_SHAPES, "08_warptiled": WARP_SHAPES}
REFINEMENTS: Mapping[str, tuple[int, ...]] = {
    "pad": (0, 4, 8),
    "unroll": (0, 1, 2, 4),
    "min_blocks": (0, 1, 2, 3),
}
# Outputs a thread: fewer leave the loads unpaid, more do not fit its registers.
OUTPUTS = range(16, 129)
REFINED = 8
FINALISTS = 10
QUICK = Budget(warmup_s=0.004, measure_s=0.02, min_rounds=3, max_rounds=5)
CAREFUL = Budget(warmup_s=0.1, measure_s=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What became of one tile. `median_s` is None where `state` is not "timed"."""

    tile: Tile
    state: str
    registers: int | None = None
    median_s: float | None = None


def main() -> int:
    """Run the search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--rungs", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument(
        "--seconds", type=float, default=200, help="time for the search of all tiles"
    )
    parser.add_argument("--size", type=int, default=PROBLEM.m, help="m = n = k")
    options = parser.parse_args()
    problem = replace(PROBLEM, **dict.fromkeys(("m", "n", "k", "lda", "ldb", "ldc"), options.size))
    try:
        # The candidates' code goes into a cache of its own, which goes when the search is done.
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TILEWRIGHT_CACHE_DIR"] = folder
            return search_all(problem, options.rungs, options.seconds, options.out)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def search_all(problem: Problem, names: Sequence[str], seconds: float, out: Path) -> int:
    """Search each rung for its share of the time, and write everything."""
    searches: list[dict[str, object]] = []
    lines: list[str] = []
    # Spawned, not forked: a process that holds a CUDA context cannot be forked. Two cores stay
    # free, for the launches and for the driver.
    context = multiprocessing.get_context("spawn")
    workers = max(1, (os.cpu_count() or 1) - 2)
    with (
        ProcessPoolExecutor(workers, mp_context=context) as pool,
        DeviceLadder(problem, budget=CAREFUL) as ladder,
    ):
        environment = describe_environment(ladder.info)
        path = out / f"tiles_{ladder.info.name.lower().replace(' ', '_')}.json"
        for name in names:
            rung = RUNGS[name]
            deadline = time.monotonic() + seconds / len(names)
            candidates = search(rung, ladder, pool, deadline)
            finals = finalists(rung, ladder, candidates)
            searches.append(
                {
                    "rung": name,
                    "problem": problem.to_json(),
                    "candidates": [asdict(c) for c in candidates],
                    "finalists": [final.record.to_json() for final in finals],
                }
            )
            source = f"benchmarks/tune_tiles.py, {environment.date[:10]}, {path.name}"
            lines += summary(name, ladder.gpu_name, source, candidates, finals)
            found = {"environment": environment.to_json(), "searches": searches}
            write_json(path, {"schema": SCHEMA, **found})
    print("\n".join([*lines, str(path)]))
    return 0


def search(
    rung: Rung, ladder: DeviceLadder, pool: ProcessPoolExecutor, deadline: float
) -> list[Candidate]:
    """Try every shape, then refine the best, until the time is up."""
    now = time.monotonic()
    shapes = list(legal(rung, SHAPES[rung.name]))
    # In random order, so that whatever the time leaves out is no particular shape; those to beat
    # come first.
    random.Random(0).shuffle(shapes)
    first = dict.fromkeys([rung.tile_for(ladder.gpu_name), rung.default, *shapes])
    # Two thirds of the time for the shapes: a wrong shape is not mended by refining.
    tried = attempt(rung, ladder, pool, list(first), now + (deadline - now) * 2 / 3)
    best = ranked(tried)[:REFINED]
    refined = dict.fromkeys(tile for c in best for tile in refinements(rung, c.tile))
    fresh = [tile for tile in refined if tile not in first]
    return tried + attempt(rung, ladder, pool, fresh, deadline)


def legal(rung: Rung, space: Mapping[str, tuple[int, ...]]) -> Iterator[Tile]:
    """Yield the tiles of a space that the kernel can run with, and that may be worth it."""
    for values in itertools.product(*space.values()):
        try:
            tile = Tile(**dict(zip(space, values, strict=True)))
            rung.check(tile)
        except TileError:
            continue
        if tile.bm * tile.bn // tile.threads in OUTPUTS:
            yield tile


def refinements(rung: Rung, tile: Tile) -> Iterator[Tile]:
    """Yield a tile's variants in padding, unrolling and registers."""
    shape = {name: (value,) for name, value in tile.to_json().items()}
    yield from legal(rung, shape | dict(REFINEMENTS))


def attempt(
    rung: Rung,
    ladder: DeviceLadder,
    pool: ProcessPoolExecutor,
    tiles: Sequence[Tile],
    deadline: float,
) -> list[Candidate]:
    """Compile tiles in the pool, and judge and time each as its turn comes."""
    tried: list[Candidate] = []
    jobs = [(tile, pool.submit(compile_tile, rung.name, tile, ladder.info.arch)) for tile in tiles]
    for tile, job in jobs:
        if time.monotonic() > deadline:
            job.cancel()
            continue
        refusal = job.result()
        tried.append(Candidate(tile=tile, state=refusal) if refusal else judge(rung, ladder, tile))
        if len(tried) % 100 == 0:
            say(f"{rung.name}: {len(tried)} of {len(tiles)}")
    if len(tried) < len(tiles):
        say(f"{rung.name}: out of time after {len(tried)} of {len(tiles)}")
    return tried


def compile_tile(name: str, tile: Tile, arch: str) -> str | None:
    """Compile into the cache that all processes share; return why not, if not."""
    try:
        built(RUNGS[name], tile, arch)
    except CompileError:
        return "does not compile"
    return None


def built(rung: Rung, tile: Tile, arch: str) -> Artifact:
    """Return a rung's kernel with a tile."""
    return compile_cuda(
        rung.source, rung.expression(tile), arch=arch, include_dirs=rung.include_dirs
    )


def judge(rung: Rung, ladder: DeviceLadder, tile: Tile) -> Candidate:
    """Refuse a tile that spills or computes wrongly; time it otherwise."""
    artifact = built(rung, tile, ladder.info.arch)
    found = resources(artifact)
    if found.local_bytes:
        return Candidate(tile=tile, state="spills", registers=found.registers)
    try:
        right = is_right(rung, artifact, tile)
        median_s = ladder.time_alone(rung, tile, QUICK).median_s if right else None
    except LaunchError as error:
        return Candidate(tile=tile, state=f"does not launch: {error}", registers=found.registers)
    state = "timed" if right else "wrong"
    return Candidate(tile=tile, state=state, registers=found.registers, median_s=median_s)


def is_right(rung: Rung, artifact: Artifact, tile: Tile) -> bool:
    """Verify a kernel on the ragged problem, every element against float64."""
    a, b, c0 = ragged_operands()
    c = c0.copy()
    args = (*rung.arguments(RAGGED, a, b, c), *rung.workspace(RAGGED, tile))
    run(artifact, rung.launch(RAGGED, tile), args)
    return check(RAGGED, a, b, c0, c).ok


@functools.cache
def ragged_operands() -> tuple[Floats, Floats, Floats]:
    """Return A, B and C of the ragged problem."""
    rng = np.random.default_rng(0)
    m, n, k = RAGGED.m, RAGGED.n, RAGGED.k
    a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (k, n), (m, n)))
    return a, b, c


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that were timed, fastest first."""
    timed = [candidate for candidate in candidates if candidate.median_s is not None]
    return sorted(timed, key=lambda candidate: candidate.median_s or 0.0)


def finalists(rung: Rung, ladder: DeviceLadder, candidates: list[Candidate]) -> list[Measured]:
    """Verify the best on the full problem and time them beside cuBLAS, best share first."""
    measured = [ladder.measure(rung, c.tile) for c in ranked(candidates)[:FINALISTS]]
    return sorted((m for m in measured if m.record.verified), key=share, reverse=True)


def share(measured: Measured) -> float:
    """Return the rate over that of cuBLAS in the same rounds."""
    return (measured.record.measured_gflops or 0.0) / (measured.record.baseline_gflops or 1.0)


def summary(
    name: str,
    gpu: str,
    source: str,
    candidates: Sequence[Candidate],
    finals: Sequence[Measured],
) -> list[str]:
    """Return the ten best in lines, and the choice as `kernels/tuned.json` holds it."""
    counts = Counter(candidate.state.split(":")[0] for candidate in candidates)
    lines = [f"{name}: " + ", ".join(f"{count} {state}" for state, count in counts.items())]
    lines += [
        f"  {m.record.measured_gflops or 0:7.0f} GFLOP/s {share(m):6.1%} of cuBLAS, "
        f"{m.record.registers} registers, {m.tile}"
        for m in finals
    ]
    if finals:
        plain = {f.name: f.default for f in fields(Tile)}
        tile = {k: v for k, v in finals[0].tile.to_json().items() if v != plain[k]}
        choice = {"rung": name, "gpu": gpu, "provenance": "searched", "source": source}
        lines.append(json.dumps(choice | {"tile": tile}))
    return lines


def say(text: str) -> None:
    """Tell on stderr how far the search is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
