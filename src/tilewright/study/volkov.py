"""Volkov and Demmel's argument of 2008, made again: what a multiprocessor needs warps for.

Two kernels, theirs and the design of many threads that it replaced, by three questions: what their
main loops are made of, how fast they are by the blocks that a multiprocessor holds, and what of
that holds on a GPU of today. Nothing of 2008 runs here: its side is modelled, with what was
published beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tilewright.gpus import Gpu, Occupancy, occupancy
from tilewright.kernels import Rung, rung
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.study.curve import Curve
from tilewright.study.loops_2008 import LoopMix, loop_now, loop_then
from tilewright.study.speed_2008 import (
    AHEAD,
    ARITHMETIC_CYCLES,
    ISSUE_CYCLES,
    MEMORY_CYCLES,
    MEMORY_RANGE,
    OLD_GPUS,
    SHARED_ISSUE_CYCLES,
    OldKernel,
    OldPoint,
    old_point,
)
from tilewright.toolchain import compile_cuda, resources

THEIRS, OTHER = "volkov_2008", "both_shared_2008"
NOW = ("sm_86", "sm_90")  # whose machine code is shown beside the loops of then

# Source: Volkov and Demmel (SC 2008) as https://learn-kernels.com, "Matrix multiplication", quotes:
# multiply-adds among a main loop's instructions; shares of the peak at one to four blocks of 64
# threads a multiprocessor, and of each kernel over four GPUs (three are in the table of GPUs).
PUBLISHED_MIX: Mapping[str, float] = {THEIRS: 0.82, OTHER: 0.56}
PUBLISHED_CURVE: Mapping[int, float] = {1: 0.32, 2: 0.49, 3: 0.58, 4: 0.59}
PUBLISHED_CURVE_GPU = "GTX 280"
PUBLISHED_RANGE: Mapping[str, tuple[float, float]] = {THEIRS: (0.58, 0.60), OTHER: (0.36, 0.44)}
# Source: V. Volkov, "Better Performance at Lower Occupancy" (GTC 2010), slide 3, of the 8800 GTX:
# CUBLAS 2.0, which has their kernel, and CUBLAS 1.1; GFLOP/s and occupancy.
PUBLISHED_GPU = "8800 GTX"
PUBLISHED_GFLOPS: Mapping[str, float] = {THEIRS: 204.0, OTHER: 128.0}
PUBLISHED_OCCUPANCY: Mapping[str, float] = {THEIRS: 0.33, OTHER: 0.67}
# Registers a thread by their compiler. Source: Volkov and Demmel (SC 2008), as quoted by others;
# the occupancies above follow from them.
REGISTERS: Mapping[str, int] = {THEIRS: 30, OTHER: 15}

# A curve has enough blocks within this share of its last point.
ENOUGH = 0.02
# What the curve is drawn for beside the model's own assumptions.
AHEADS = (1, 2, 4, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a kernel reaches on one GPU of 2008 with as many blocks as fit, by the model.

    `published` is the share of the peak that was published of just this GPU, if any.
    """

    gpu: Gpu
    occupancy: Occupancy
    point: OldPoint
    published: float | None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "gpu": self.gpu.name,
            "peak_gflops": self.gpu.fp32_flops_per_s / 1e9,
            "occupancy": self.occupancy.to_json(),
            "modelled": self.point.to_json(),
            "published_share": self.published,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One of the two kernels: its loop then, and now by architecture; what it reached in 2008."""

    rung: Rung
    kernel: OldKernel
    now: Mapping[str, LoopMix]
    reached: tuple[Reached, ...]

    @property
    def published_mix(self) -> float:
        """The published share of multiply-adds in its main loop."""
        return PUBLISHED_MIX[self.rung.name]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        k = self.kernel
        return {
            "rung": self.rung.name,
            "threads": k.threads,
            "registers": k.registers,
            "shared_bytes": k.shared_bytes,
            "outputs_a_thread": k.sums,
            "then": k.mix.to_json(),
            "published_multiply_add_share": self.published_mix,
            "now": {name: mix.to_json() for name, mix in self.now.items()},
            "published_range": list(PUBLISHED_RANGE[self.rung.name]),
            "reached": [each.to_json() for each in self.reached],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VolkovStudy:
    """The argument: both designs, their kernel by blocks on one GPU of 2008, and today's curves.

    `others` are the curve with other assumptions, by what is assumed.
    """

    theirs: Design
    other: Design
    old_gpu: Gpu
    curve: tuple[OldPoint, ...]
    others: Mapping[str, tuple[OldPoint, ...]]
    today: tuple[Curve, Curve]

    @property
    def published_curve(self) -> Mapping[int, float]:
        """Published shares of the peak by blocks, where they are of this GPU."""
        return PUBLISHED_CURVE if self.old_gpu.name == PUBLISHED_CURVE_GPU else {}

    @property
    def enough(self) -> OldPoint:
        """The point of the fewest blocks that is within `ENOUGH` of the last."""
        return next(p for p in self.curve if p.share >= (1 - ENOUGH) * self.curve[-1].share)

    @property
    def fits(self) -> Occupancy:
        """How many blocks of their kernel fit on the GPU of the curve."""
        return next(r.occupancy for r in self.theirs.reached if r.gpu == self.old_gpu)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "designs": [self.theirs.to_json(), self.other.to_json()],
            "curve_2008": {
                "gpu": self.old_gpu.name,
                "modelled": [point.to_json() for point in self.curve],
                "published_share": {str(n): share for n, share in self.published_curve.items()},
                "other_assumptions": {
                    name: [point.to_json() for point in points]
                    for name, points in self.others.items()
                },
            },
            "constants": {
                "issue_cycles": ISSUE_CYCLES,
                "shared_issue_cycles": SHARED_ISSUE_CYCLES,
                "arithmetic_cycles": ARITHMETIC_CYCLES,
                "memory_cycles": MEMORY_CYCLES,
                "loads_ahead": AHEAD,
            },
            "today": [curve.to_json() for curve in self.today],
            "provenance": {
                "designs.then": "derived",
                "designs.now": "exact",
                "designs.reached.modelled": "modelled",
                "curve_2008.modelled": "modelled",
                "*published*": "published by others",
            },
        }


def volkov_study(old: Gpu, today: tuple[Curve, Curve]) -> VolkovStudy:
    """Return the study: the curve of 2008 for `old`, beside those of both kernels on a GPU of now.

    Raises:
        ToolchainError: no compiler or no disassembler.
    """
    theirs, other = design(THEIRS), design(OTHER)
    most = next(r.occupancy.active_blocks for r in theirs.reached if r.gpu == old)

    def curve(memory_cycles: float = MEMORY_CYCLES, ahead: int = AHEAD) -> tuple[OldPoint, ...]:
        return tuple(
            old_point(theirs.kernel, old, blocks, memory_cycles=memory_cycles, ahead=ahead)
            for blocks in range(1, most + 1)
        )

    others = {f"{n} loads ahead": curve(ahead=n) for n in AHEADS if n != AHEAD}
    others |= {f"{n} cycles to memory": curve(memory_cycles=n) for n in MEMORY_RANGE}
    return VolkovStudy(
        theirs=theirs,
        other=other,
        old_gpu=old,
        curve=curve(),
        others=others,
        today=today,
    )


@cache
def design(name: str) -> Design:
    """Return one of the two kernels with its loops, and what it reaches on the GPUs of 2008."""
    each, now = rung(name), {}
    tile = each.default
    for arch in NOW:
        artifact = compile_cuda(
            each.source, each.expression(tile), arch=arch, include_dirs=each.include_dirs
        )
        now[arch] = loop_now(artifact)
    kernel = OldKernel(
        name=name,
        threads=tile.threads,
        registers=REGISTERS[name],
        shared_bytes=resources(artifact).shared_bytes,
        sums=tile.tm * tile.tn,
        turn_bytes=FLOAT_BYTES * tile.bk * (tile.bm + tile.bn),
        mix=loop_then(artifact),
    )
    reached = tuple(_reached(kernel, old) for old in OLD_GPUS)
    return Design(rung=each, kernel=kernel, now=now, reached=reached)


def _reached(kernel: OldKernel, old: Gpu) -> Reached:
    fits = occupancy(
        gpu=old,
        threads=kernel.threads,
        registers=kernel.registers,
        shared_bytes=kernel.shared_bytes,
    )
    published = None
    if old.name == PUBLISHED_GPU:
        published = PUBLISHED_GFLOPS[kernel.name] * 1e9 / old.fp32_flops_per_s
    return Reached(
        gpu=old,
        occupancy=fits,
        point=old_point(kernel, old, fits.active_blocks),
        published=published,
    )
