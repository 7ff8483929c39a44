"""How fast a rung is by the warps that an SM holds: its occupancy forced down, and up.

Down: shared memory that nobody uses is added to each block until only so many fit. The code stays
the same, so it is emulated once. Up: the kernel is compiled for fewer registers a thread, by the
blocks that its `__launch_bounds__` ask an SM to hold, and what does not fit in them is spilled;
each such kernel is emulated anew, until spills have cost half of the speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.bench.profiling import profile_launch, rung_launch
from tilewright.bench.timing_model import case_of, trace_neighbours
from tilewright.counters import Provenance
from tilewright.gpus import Gpu, Occupancy, occupancy
from tilewright.gpus.occupancy import most_registers, most_shared
from tilewright.kernels import Rung, Tile
from tilewright.model.profile import Profile
from tilewright.model.sm import PARTITIONS
from tilewright.model.traffic import Neighbours
from tilewright.model.whatif import Case
from tilewright.problem import Problem
from tilewright.study.curve import Curve, Limiter, Means, Modelled, Point
from tilewright.study.little import Little, mean_latency
from tilewright.toolchain import Artifact, resources

# Told how many points are done, how many there are at most, and what comes next.
Watch = Callable[[int, int, str], None]

# Blocks an SM that are tried; those of the rung as it is, one more, and the most that fit are too.
_STEPS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
# Of the best so far: a kernel whose spills leave less is not compiled for fewer registers still.
_HOPELESS = 0.5

PROVENANCE: Mapping[str, Provenance] = {
    "occupancy": "derived",
    "registers": "exact",
    "spill_bytes": "exact",
    "shared_bytes": "exact",
    "shared_bytes_added": "derived",
    "predicted_gflops": "modelled",
}


def occupancy_curve(
    rung: Rung,
    problem: Problem,
    gpu: Gpu,
    *,
    tile: Tile | None = None,
    watch: Watch = lambda *_: None,
) -> Curve:
    """Return the modelled curve of a rung, by default with its tile for the GPU.

    Raises:
        TileError: the rung cannot run with the tile.
        LaunchError: a tile of which no block fits in an SM.
        UnsupportedError: a GPU that no compiler reaches.
    """
    chosen = tile or rung.tile_for(gpu.name)
    own = _Kernel.compiled(rung, problem, gpu, chosen)
    ends = _ends(own)
    last = min(ends.values())
    most = min(own.fits.active_blocks, own.grid)
    blocks = sorted({n for n in _STEPS if n <= last} | {most, min(most + 1, last), last})
    points: list[Point] = []
    cases: list[Case] = []
    for place, count in enumerate(blocks):
        watch(place, len(blocks), f"blocks an SM: {count}")
        kernel = own
        if count > most:
            kernel = _Kernel.compiled(rung, problem, gpu, replace(chosen, min_blocks=count))
            if kernel.fits.active_blocks < count:
                points.append(_kept_away(kernel, count))
                break
        added = shared_to_add(gpu, kernel.fits, count) if count < own.grid else 0
        cases.append(kernel.case(added))
        means: Means = "own" if count == most else "shared" if count < most else "registers"
        points.append(_point(kernel, cases[-1], problem, count, means, added))
        if points[-1].spill_bytes and _rate(points[-1]) < _HOPELESS * max(map(_rate, points)):
            points.append(_not_tried(kernel, count))
            break
    else:
        points.append(_beyond(own, ends))
    watch(len(blocks), len(blocks), "")
    return Curve(
        rung=rung.name,
        problem=problem,
        gpu=gpu.name,
        tile=chosen.to_json(),
        max_warps=gpu.limits.max_warps,
        points=tuple(points),
        little=_little(points, cases),
        gaps=own.profile.gaps,
        compiler=own.artifact.compiler,
        provenance=dict(PROVENANCE),
    )


def shared_to_add(gpu: Gpu, found: Occupancy, blocks: int) -> int:
    """Return the fewest bytes of shared memory a block that leave `blocks` blocks on an SM.

    0 where no more fit anyway. Little is added, since what shared memory takes the L1 lacks.
    """
    if found.active_blocks <= blocks:
        return 0
    used = found.shared_bytes + found.dynamic_shared_bytes
    return most_shared(gpu.limits, blocks + 1) + 1 - used


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """A rung compiled with one tile, counted, and what of it fits on an SM."""

    tile: Tile
    artifact: Artifact
    profile: Profile
    traced: Sequence[Neighbours]
    gpu: Gpu
    fits: Occupancy

    @classmethod
    def compiled(cls, rung: Rung, problem: Problem, gpu: Gpu, tile: Tile) -> _Kernel:
        """Compile, emulate and trace a rung. Raises what `occupancy_curve` does."""
        artifact, launch, args = rung_launch(rung, problem, gpu, tile)
        used = resources(artifact)
        fits = occupancy(
            gpu=gpu,
            threads=launch.threads,
            registers=used.registers,
            # Static or not makes no difference to how many fit.
            dynamic_shared_bytes=used.shared_bytes + launch.shared_bytes,
        )
        profile = profile_launch(rung, problem, tile, artifact, args)
        return cls(
            tile=tile,
            artifact=artifact,
            profile=profile,
            traced=trace_neighbours(artifact, profile.launch, args, profile),
            gpu=gpu,
            fits=fits,
        )

    @property
    def grid(self) -> int:
        """Blocks that the launch has for an SM, the one with the most."""
        return -(-self.profile.launch.blocks // self.gpu.sm_count)

    def case(self, added: int) -> Case:
        """Return what the time model reads, with so much shared memory added to each block."""
        shared_bytes = self.profile.shared_bytes + added
        profile = replace(self.profile, shared_bytes=shared_bytes)
        return case_of(self.artifact, self.traced, profile, self.gpu)


def _ends(own: _Kernel) -> dict[Limiter, int]:
    """Return the most blocks that each limit lets an SM have, whatever registers are left."""
    limits: dict[Limiter, int] = {"grid": own.grid}
    for resource in ("warps", "shared", "blocks"):
        most = own.fits.limits[resource]
        if most is not None:
            limits[resource] = most
    return limits


def _point(
    kernel: _Kernel, case: Case, problem: Problem, count: int, means: Means, added: int
) -> Point:
    profile, warps = kernel.profile, count * kernel.fits.warps_per_block
    found = case.estimate()
    demand = {**found.demand, "issue": found.issue_active}
    unit = max(demand, key=lambda name: demand[name])
    limiter: Limiter = kernel.fits.limiters[0]
    return Point(
        blocks=count,
        warps=warps,
        occupancy=warps / kernel.fits.max_warps,
        means=means,
        min_blocks=kernel.tile.min_blocks,
        registers=profile.registers,
        spill_bytes=profile.spill_bytes,
        shared_bytes=profile.shared_bytes + added,
        shared_bytes_added=added,
        limiter="added" if added else "grid" if count == kernel.grid else limiter,
        modelled=Modelled(
            gflops=problem.flops / found.seconds / 1e9,
            unit=unit,
            busy=demand[unit],
            stall=found.first_stall,
            issue=PARTITIONS * found.issue_active,
            waves=found.waves,
        ),
    )


def _beyond(own: _Kernel, ends: Mapping[Limiter, int]) -> Point:
    """Return the first point that no kernel of this tile can have, with the limit that it meets."""
    limiter = min(ends, key=lambda name: ends[name])
    count, fits, gpu = ends[limiter] + 1, own.fits, own.gpu
    warps, shared = count * fits.warps_per_block, count * fits.shared_bytes_per_block
    reasons: dict[Limiter, str] = {
        "grid": f"the launch has {own.profile.launch.blocks} blocks for {gpu.sm_count} SMs: none "
        f"holds {count} at a time",
        "warps": f"{count} blocks would be {warps} warps, and an SM holds {fits.max_warps}",
        "shared": f"{count} blocks take {shared} bytes of shared memory, and an SM has "
        f"{gpu.limits.shared_bytes}",
        "blocks": f"an SM holds {gpu.limits.max_blocks} blocks, not {count}",
    }
    return _impossible(own, count, limiter, reasons[limiter])


def _kept_away(kernel: _Kernel, count: int) -> Point:
    """Return the point that the compiler does not leave enough registers for."""
    most = most_registers(kernel.gpu.limits, kernel.fits.threads, count)
    kept = kernel.profile.registers
    why = f"{count} blocks leave a thread {most} registers, and the compiler takes {kept}"
    return _impossible(kernel, count, "registers", why)


def _not_tried(kernel: _Kernel, count: int) -> Point:
    """Return the point where a kernel for fewer registers was given up, at `count` blocks."""
    most = most_registers(kernel.gpu.limits, kernel.fits.threads, count + 1)
    why = (
        f"{count + 1} blocks were not tried: with {most} registers a thread would spill more than "
        f"the {kernel.profile.spill_bytes} bytes that have cost half of the speed"
    )
    return _impossible(kernel, count + 1, "registers", why)


def _rate(point: Point) -> float:
    return point.predicted_gflops or 0.0


def _impossible(kernel: _Kernel, count: int, limiter: Limiter, reason: str) -> Point:
    warps = count * kernel.fits.warps_per_block
    return Point(
        blocks=count,
        warps=warps,
        occupancy=warps / kernel.fits.max_warps,
        means="registers",
        min_blocks=kernel.tile.min_blocks,
        registers=kernel.profile.registers,
        spill_bytes=kernel.profile.spill_bytes,
        shared_bytes=kernel.profile.shared_bytes,
        shared_bytes_added=0,
        limiter=limiter,
        reason=reason,
    )


def _little(points: Sequence[Point], cases: Sequence[Case]) -> Little | None:
    """Return what the best rate of the rung's own code takes; None of a single point of it."""
    same = [
        (point, point.modelled, case)
        for point, case in zip(points, cases, strict=False)  # no case of what cannot run
        if point.modelled is not None and point.means != "registers"
    ]
    if len(same) < 2:
        return None
    few, few_modelled, _ = same[0]
    _, best, case = max(same, key=lambda each: each[1].issue)
    return Little(
        rate=best.issue,
        few_rate=few_modelled.issue,
        few_warps=few.warps,
        latency=mean_latency(case),
    )
