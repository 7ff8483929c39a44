"""Curves that the tests of studies share."""

from functools import cache

from tilewright.gpus import gpu
from tilewright.kernels import rung
from tilewright.problem import Problem
from tilewright.records import Timing
from tilewright.study.curve import Curve, Measured, Modelled, Point
from tilewright.study.occupancy import occupancy_curve

# Enough tiles for every SM to hold all blocks that fit, and little to emulate.
WIDE = Problem(m=4096, n=4096, k=128)
# Enough for volkov_2008, whose tiles are small.
LESS = Problem(m=2048, n=2048, k=32)


def curve_of(name: str, card: str = "H200", problem: Problem = WIDE) -> Curve:
    return _curve(name, card, problem)


@cache
def _curve(name: str, card: str, problem: Problem) -> Curve:
    return occupancy_curve(rung(name), problem, gpu(card))


def measured_point(gflops: float, blocks: int = 1) -> Measured:
    timing = Timing(median_s=1.0, p25_s=0.99, p75_s=1.01, runs=9, sets=3)
    return Measured(timing=timing, gflops=gflops, blocks=blocks)


def made(*rates: float, own: int = 1, measured: tuple[float, ...] = ()) -> Curve:
    """A curve of a block of eight warps, two, …, with rates; `own` blocks are the rung's own."""
    points = []
    for blocks, rate in enumerate(rates, 1):
        added = 50000 // blocks if blocks < own else 0
        means = "own" if blocks == own else "shared" if blocks < own else "registers"
        points.append(
            Point(
                blocks=blocks,
                warps=8 * blocks,
                occupancy=blocks / 8,
                means=means,
                min_blocks=blocks if means == "registers" else 0,
                registers=96 if means == "registers" else 128,
                spill_bytes=40 if means == "registers" else 0,
                shared_bytes=8192 + added,
                shared_bytes_added=added,
                limiter="added" if means == "shared" else "registers",
                modelled=Modelled(
                    gflops=rate, unit="lsu", busy=0.9, stall="barrier", issue=2.0, waves=4 / blocks
                ),
                measured=measured_point(measured[blocks - 1], blocks) if measured else None,
            )
        )
    return Curve(
        rung="05_register_2d",
        problem=Problem(m=1024, n=1024, k=1024),
        gpu="H200",
        tile={"bm": 128, "bn": 128, "bk": 8, "tm": 8, "tn": 8, "unroll": 4},
        max_warps=64,
        points=tuple(points),
        little=None,
    )
