"""Performance against resident warps: the points of one kernel's curve. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from tilewright.counters import Provenance
from tilewright.problem import Problem
from tilewright.records import Timing
from tilewright.study.little import Little

# How a point's number of blocks came about: the rung as it is, with shared memory that nobody uses
# added, or compiled for fewer registers.
Means: TypeAlias = Literal["own", "shared", "registers"]
# What keeps one more block of the same kernel away: a resource of the SM, shared memory that was
# added for just that, or a grid too small.
Limiter: TypeAlias = Literal["warps", "blocks", "registers", "shared", "added", "grid"]

# From here on more warps do not matter: within this share of the best.
ENOUGH = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Modelled:
    """What the time model says at one point.

    `unit` is the busiest unit and `busy` the share of the time that it works; `stall` what warps
    wait for most, `waves` the rounds of resident blocks on the busiest SM. Units: `issue` warp
    instructions a cycle of an SM.
    """

    gflops: float
    unit: str
    busy: float
    stall: str
    issue: float
    waves: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a GPU did at one point; `blocks` are those that its driver says an SM holds."""

    timing: Timing
    gflops: float
    blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One number of resident blocks an SM.

    Units: `warps` an SM and `occupancy` their share of the most; `registers` and `spill_bytes`
    (local memory for what they do not hold) a thread; `shared_bytes` a block, of which
    `shared_bytes_added` are there to keep other blocks away. `min_blocks` is the tile's field that
    the kernel was compiled with. `limiter` keeps one more block away; of a point that cannot run
    it keeps this one away, `reason` says how, and nothing is modelled or measured.
    """

    blocks: int
    warps: int
    occupancy: float
    means: Means
    min_blocks: int
    registers: int
    spill_bytes: int
    shared_bytes: int
    shared_bytes_added: int
    limiter: Limiter
    reason: str = ""
    modelled: Modelled | None = None
    measured: Measured | None = None

    @property
    def predicted_gflops(self) -> float | None:
        """10^9 operations a second by the time model."""
        return self.modelled.gflops if self.modelled else None

    @property
    def measured_gflops(self) -> float | None:
        """10^9 operations a second on a GPU."""
        return self.measured.gflops if self.measured else None

    @property
    def runs(self) -> bool:
        """Whether a GPU can run it."""
        return not self.reason

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values: the fields, and both rates by their names."""
        return asdict(self) | {
            "predicted_gflops": self.predicted_gflops,
            "measured_gflops": self.measured_gflops,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Point:
        """Rebuild what `to_json` wrote."""
        values = {f.name: data[f.name] for f in fields(cls)}
        if values["modelled"]:
            values["modelled"] = Modelled(**values["modelled"])
        if values["measured"]:
            timing = Timing.from_json(values["measured"]["timing"])
            values["measured"] = Measured(**{**values["measured"], "timing": timing})
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A rung's curve on one GPU: its points from the fewest blocks to the first that cannot run.

    `tile` is the rung's own, `max_warps` what an SM holds. `gaps` say where the model knows less
    than it should; `provenance` where each figure of a point comes from.
    """

    rung: str
    problem: Problem
    gpu: str
    tile: Mapping[str, int]
    max_warps: int
    points: tuple[Point, ...]
    little: Little | None
    gaps: tuple[str, ...] = ()
    compiler: str = ""
    provenance: Mapping[str, Provenance] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        """Whether a GPU ran it."""
        return any(point.measured for point in self.points)

    def rate(self, point: Point) -> float | None:
        """Return what a point is judged by, in GFLOP/s: measured where the curve is."""
        return point.measured_gflops if self.is_measured else point.predicted_gflops

    @property
    def ran(self) -> tuple[Point, ...]:
        """The points with a rate."""
        return tuple(point for point in self.points if self.rate(point) is not None)

    @property
    def own(self) -> Point:
        """The point of the rung as it is."""
        return next(point for point in self.points if point.means == "own")

    @property
    def best(self) -> Point:
        """The fastest point."""
        return max(self.ran, key=self._known)

    @property
    def enough(self) -> Point:
        """The point of the fewest warps that is within `ENOUGH` of the best."""
        least = (1 - ENOUGH) * self._known(self.best)
        return next(point for point in self.ran if self._known(point) >= least)

    def _known(self, point: Point) -> float:
        return self.rate(point) or 0.0

    def with_measured(self, found: Mapping[int, Measured]) -> Curve:
        """Return the curve with what a GPU did, by blocks."""
        points = tuple(replace(point, measured=found.get(point.blocks)) for point in self.points)
        kinds: dict[str, Provenance] = {**self.provenance, "measured_gflops": "measured"}
        return replace(self, points=points, provenance=kinds)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values: the fields, and which points are the best and enough."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "problem": self.problem.to_json(),
            "tile": dict(self.tile),
            "points": [point.to_json() for point in self.points],
            "little": None if self.little is None else self.little.to_json(),
            "gaps": list(self.gaps),
            "provenance": dict(self.provenance),
            "enough": {"share_of_best": 1 - ENOUGH, "blocks": self.enough.blocks},
            "best": {"blocks": self.best.blocks},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curve:
        """Rebuild what `to_json` wrote."""
        values = {f.name: data[f.name] for f in fields(cls)}
        little = values["little"]
        return cls(
            **{
                **values,
                "problem": Problem.from_json(values["problem"]),
                "points": tuple(Point.from_json(each) for each in values["points"]),
                "little": None if little is None else Little.from_json(little),
                "gaps": tuple(values["gaps"]),
            }
        )
