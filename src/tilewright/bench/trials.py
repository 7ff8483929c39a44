"""Other tiles of a rung, really tried: compiled, counted and put to the time model.

What to try follows from what warps wait for: the next rung, which is made to answer it, and tiles
that differ in the one field that does. Few are tried, since each costs a compile and a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial

from tilewright.bench.profiling import profile_rung, rung_launch
from tilewright.bench.timing_model import launch_case
from tilewright.errors import LaunchError, TileError
from tilewright.gpus import Gpu
from tilewright.kernels import RUNGS, Rung, Tile
from tilewright.model.advice import Asked, Suggestion
from tilewright.model.estimate import Estimate
from tilewright.model.whatif import COMPARING
from tilewright.problem import Problem

MOST_TRIED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One way from a tile to another: the field, and what it is multiplied by or set to."""

    field: str
    times: float = 1.0
    to: int | None = None

    def tile(self, tile: Tile) -> Tile:
        """Return the other tile; the same where the step changes nothing.

        Raises:
            TileError: no kernel runs with it.
        """
        value = int(getattr(tile, self.field) * self.times) if self.to is None else self.to
        return replace(tile, **{self.field: value})


_MORE_OUTPUTS = (Step(field="tn", times=2), Step(field="tm", times=2))
_OTHER_PADDING = (Step(field="pad", to=4), Step(field="pad", to=0))
_LONGER_STEP = (Step(field="bk", times=2),)
_MORE_BLOCKS = (Step(field="bm", times=0.5), Step(field="bn", times=0.5))
# What answers each stall, the most promising first.
STEPS: Mapping[str, Sequence[Step]] = {
    "mio_throttle": (*_OTHER_PADDING, *_MORE_OUTPUTS),
    "short_scoreboard": (*_OTHER_PADDING, *_MORE_OUTPUTS),
    "lg_throttle": (*_LONGER_STEP, *_MORE_OUTPUTS),
    "long_scoreboard": (*_LONGER_STEP, *_MORE_BLOCKS, *_MORE_OUTPUTS),
    "barrier": (*_LONGER_STEP, *_MORE_BLOCKS),
    "math_pipe_throttle": (*_MORE_OUTPUTS, Step(field="unroll", times=2)),
    "dispatch_stall": (*_MORE_OUTPUTS, *_LONGER_STEP),
    "not_selected": (Step(field="unroll", times=2), *_MORE_OUTPUTS, *_LONGER_STEP),
    "wait": (*_MORE_OUTPUTS, *_LONGER_STEP),
}


class Trials:
    """What other tiles, and the next rung, would gain: at most `most` are tried.

    They are tried in a process of `pool` beside the rung itself: from the start what is likely to
    be asked for, the rest once it is known what warps of the rung wait for. `begun` are the rungs
    and tiles that are, or were, being tried.
    """

    def __init__(
        self, pool: Executor, rung: Rung, problem: Problem, gpu: Gpu, most: int = MOST_TRIED
    ) -> None:
        self._pool, self._rung, self._problem, self._gpu = pool, rung, problem, gpu
        self._most = most
        self.begun: dict[tuple[str, Tile], Future[Estimate]] = {}
        likely = _likely(rung, gpu) if most else None
        if likely is not None:
            self._begin(*likely)

    def start(self, asked: Asked) -> Callable[[], list[Suggestion]]:
        """Begin, given what the model says of the rung; return what waits for the suggestions."""
        wanted = list(others(self._rung, self._gpu, asked.estimate.first_stall))
        for other, tile, _ in wanted[: self._most]:
            self._begin(other, tile)
        return partial(self._suggestions, asked, wanted)

    def _begin(self, other: Rung, tile: Tile) -> Future[Estimate]:
        """Try a tile, unless that has begun."""
        key = other.name, tile
        if key not in self.begun:
            sent = replace(other, published_gflops={})  # whose type no process can be sent
            self.begun[key] = self._pool.submit(_tried, sent, self._problem, self._gpu, tile)
        return self.begun[key]

    def _suggestions(
        self, asked: Asked, wanted: Sequence[tuple[Rung, Tile, str]]
    ) -> list[Suggestion]:
        """Return what is gained. A tile whose blocks do not fit in an SM is passed over."""
        found: list[Suggestion] = []
        for other, tile, what in wanted:
            if len(found) == self._most:
                break
            try:
                tried = self._begin(other, tile).result()
            except LaunchError:
                continue
            gain = asked.rough.seconds / tried.seconds
            stall = asked.estimate.first_stall
            found.append(Suggestion(kind="tile", text=what, basis="tried", gain=gain, stall=stall))
        return found


def others(rung: Rung, gpu: Gpu, stall: str) -> Iterator[tuple[Rung, Tile, str]]:
    """Yield what to try in place of a rung with its tile: a rung, a tile, and both in words."""
    after = _next(rung)
    if after is not None:
        tile = after.tile_for(gpu.name)
        yield after, tile, f"the next rung, {after.name}: {after.idea}"
    own = rung.tile_for(gpu.name)
    seen = {own}
    for step in STEPS.get(stall, ()):
        if step.field not in rung.use.reads | {"bm", "bn"}:
            continue
        try:
            tile = step.tile(own)
            rung.check(tile)
        except TileError:
            continue
        if tile not in seen:
            seen.add(tile)
            old, new = getattr(own, step.field), getattr(tile, step.field)
            yield rung, tile, f"{step.field} = {new} instead of {old}: {tile}"


def _likely(rung: Rung, gpu: Gpu) -> tuple[Rung, Tile] | None:
    """Return what most stalls ask for first: the next rung, or of the last one a tile."""
    firsts = [next(others(rung, gpu, stall), None) for stall in STEPS]
    found = {(first[0].name, first[1]): first[0] for first in firsts if first is not None}
    often = Counter((first[0].name, first[1]) for first in firsts if first is not None)
    return next(((found[key], key[1]) for key, _ in often.most_common(1)), None)


def _tried(rung: Rung, problem: Problem, gpu: Gpu, tile: Tile) -> Estimate:
    artifact, _, args = rung_launch(rung, problem, gpu, tile)
    profile = profile_rung(rung, problem, gpu, tile)
    return launch_case(artifact, profile.launch, args, profile, gpu).estimate(effort=COMPARING)


def _next(rung: Rung) -> Rung | None:
    if rung.name not in RUNGS:
        return None
    names = list(RUNGS)
    place = names.index(rung.name) + 1
    return RUNGS[names[place]] if place < len(names) else None
