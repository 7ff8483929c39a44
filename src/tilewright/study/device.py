"""A curve measured: every point of it on this machine's GPU, verified, in the same rounds."""

from __future__ import annotations

from dataclasses import replace

from tilewright.bench.device_ladder import DeviceLadder
from tilewright.bench.timing import Budget
from tilewright.errors import DeviceError
from tilewright.gpus import gpu as find_gpu
from tilewright.kernels import Rung, Tile, rung
from tilewright.launch import Launch
from tilewright.problem import Problem
from tilewright.study.curve import Curve, Measured, Point
from tilewright.study.occupancy import Watch

# Units: seconds of device time for a point.
POINT_BUDGET_S = 0.25


def measured(
    curve: Curve,
    *,
    budget: Budget | None = None,
    ladder: DeviceLadder | None = None,
    watch: Watch = lambda *_: None,
) -> Curve:
    """Return the curve with what this machine's GPU did at every point that can run.

    Each point is verified as the ladder's rungs are; then all are timed side by side. `ladder` has
    the curve's problem on the GPU already, where several curves share it.

    Raises:
        DeviceError: no GPU, a fault, a wrong result, or blocks that the driver counts otherwise.
    """
    if ladder is None:
        with DeviceLadder(curve.problem) as own:
            return measured(curve, budget=budget, ladder=own, watch=watch)
    one, points = rung(curve.rung), [point for point in curve.points if point.runs]
    queues, blocks = {}, {}
    for place, point in enumerate(points):
        watch(place, len(points), f"blocks an SM: {point.blocks}, verified")
        tile = tile_of(curve, point)
        kernel = ladder.load(one, tile)
        launch = launch_of(one, curve.problem, tile, point)
        found = kernel.blocks_per_sm(launch)
        queue = ladder.queues(one, tile, kernel, launch)
        check = ladder.verify(queue[0])
        if not check.ok:
            said = check.message((tile.bm, tile.bn))
            raise DeviceError(f"{curve.rung} with {point.blocks} blocks an SM is {said}")
        queues[str(point.blocks)], blocks[point.blocks] = queue, found
    watch(len(points), len(points), "timing")
    limits = budget or Budget(measure_s=POINT_BUDGET_S * len(points))
    times = ladder.time_together(queues, limits)
    return curve.with_measured(
        {
            point.blocks: Measured(
                timing=times[str(point.blocks)],
                gflops=times[str(point.blocks)].gflops(curve.problem),
                blocks=blocks[point.blocks],
            )
            for point in points
        }
    )


def tile_of(curve: Curve, point: Point) -> Tile:
    """Return the tile that a point is compiled and launched with.

    Blocks that stay are as many as the SMs hold.
    """
    tile = replace(Tile.from_json(curve.tile), min_blocks=point.min_blocks)
    if not tile.workers:
        return tile
    return replace(tile, workers=point.blocks * find_gpu(curve.gpu).sm_count)


def launch_of(one: Rung, problem: Problem, tile: Tile, point: Point) -> Launch:
    """Return the launch of a point: the rung's, with shared memory that nobody uses."""
    launch = one.launch(problem, tile)
    return replace(launch, shared_bytes=launch.shared_bytes + point.shared_bytes_added)
