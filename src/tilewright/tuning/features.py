"""What a variant asks of an SM, as columns of numbers: all that the cost model knows of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.gpus import Gpu, occupancy
from tilewright.kernels.gemm.candidates import registers
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.narrow import by_rows
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import GEMM_KERNELS, gemm_kernel
from tilewright.kernels.tiles import FLOAT_BYTES, WARP_THREADS, Tile
from tilewright.tuning.steps import staged, streamed

Column: TypeAlias = npt.NDArray[np.floating[Any]]

# In what tiles differ beside the work of a step, in doublings from a tile in the middle of them.
SHAPE = ("outputs", "tall", "occupied", "threads", "step", "stages", "aspect")
# What trees ask of a tile (forest.py), beside what the model makes of it.
TRAITS = ("kernel", "bm", "bn", "bk", "tm", "tn", "stages", "kparts", "min_blocks", "resident",
          "workers", "warps", "ahead", "multiply", "load", "single", "quad", "lines", "run", "fold",
          "a_along_k", "b_along_n", "a_vector", "b_vector")  # fmt: skip
# And what they ask of a product, and of what the model makes of both, which is filled in there.
MADE = ("tiles", "each", "splits", "waves")
SIZES = ("m", "n", "k", "batch")
INPUTS = (*TRAITS, *MADE, *SIZES)
# Where few sums meet, all threads add the parts, and each reads one float of some of them.
_FEW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Variants as columns, one number each.

    `bm`, `bn` and `bk` are a block's sides and its step along k; `products` of a batch are in a
    block; `resident` blocks are on an SM at a time, `workers` share the last tiles. Of one step of
    a block: `multiply` are the cycles that its multiply-adds take of an SM at least, `run` the
    steps of k that a thread makes one after the other; the others are those of `Step`. `warps` are
    a block's on each of the four schedulers. `output_bytes` is what a block writes, `part_bytes`
    what adding a tile's parts of k reads of each, if it is `cut`. `shape` and `inputs` have a row
    for each variant, and a column for each of SHAPE and of INPUTS.
    """

    variants: tuple[Variant, ...]
    bm: Column
    bn: Column
    bk: Column
    products: Column
    most_splits: Column
    least_steps: Column
    most_steps: Column
    resident: Column
    workers: Column
    warps: Column
    multiply: Column
    load: Column
    single: Column
    quad: Column
    lines: Column
    run: Column
    ahead: Column
    fold: Column
    output_bytes: Column
    part_bytes: Column
    cut: Column
    shape: Column
    inputs: Column


_COLUMNS = tuple(f.name for f in fields(Features) if f.name not in ("variants", "shape", "inputs"))


def features(variants: Sequence[Variant], operation: Operation, gpu: Gpu) -> Features:
    """Return the features of variants, for all operations that are read as `operation` is.

    Those whose blocks no SM of the GPU holds are left out.
    """
    rows: dict[Variant, dict[str, float]] = {}
    for variant in variants:
        try:
            rows[variant] = _row(variant, operation, gpu)
        except LaunchError:
            continue
    columns = {n: np.array([float(row[n]) for row in rows.values()]) for n in _COLUMNS}
    shapes = [_shape(variant, row["resident"]) for variant, row in rows.items()]
    shape = np.array(shapes).reshape(len(rows), len(SHAPE))
    traits = [_traits(variant, operation, row) for variant, row in rows.items()]
    inputs = np.zeros((len(rows), len(INPUTS)), np.float32)
    inputs[:, : len(TRAITS)] = np.reshape(traits, (len(rows), len(TRAITS)))
    return Features(variants=tuple(rows), shape=shape, inputs=inputs, **columns)


def _row(variant: Variant, operation: Operation, gpu: Gpu) -> dict[str, float]:
    tile, kernel = variant.tile, gemm_kernel(variant.kernel)
    launch = kernel.launch(operation, variant)
    resident = occupancy(
        gpu=gpu,
        threads=launch.threads,
        registers=_registers(tile, launch.threads, gpu),
        dynamic_shared_bytes=launch.shared_bytes,
    ).active_blocks
    if resident == 0:
        raise LaunchError(f"{variant}: an SM of {gpu.name} holds no block of it")
    # A block without steps along k takes whole products, as many as fit.
    whole = not tile.bk
    bm, bn, bk = (operation.m, operation.n, 1) if whole else (tile.bm, tile.bn, tile.bk)
    products = operation.batch / launch.blocks if whole else 1.0
    outputs = products * bm * bn
    if variant.kernel in ("skinny", "gemv"):
        step = streamed(variant, operation)
        few = _FEW * outputs <= tile.threads
    else:
        step = staged(variant, operation, bm=bm, bn=bn, floats=products * bk)
        few = False
    return {
        "bm": bm,
        "bn": bn,
        "bk": bk,
        "products": products,
        "most_splits": kernel.most_splits,
        "least_steps": kernel.least_steps,
        "most_steps": kernel.most_steps(operation, tile, gpu),
        "resident": resident,
        "workers": variant.workers,
        "warps": max(launch.threads / WARP_THREADS, 1) / gpu.limits.partitions,
        "multiply": outputs * bk / gpu.limits.fp32_lanes,
        "load": step.load,
        "single": step.single,
        "quad": step.quad,
        "lines": step.lines,
        "run": bk / tile.kparts,
        "ahead": step.ahead,
        "fold": step.fold,
        "output_bytes": FLOAT_BYTES * outputs,
        "part_bytes": 0.0 if few else FLOAT_BYTES * outputs,
        "cut": variant.splits > 1 or variant.workers > 0,
    }


def _traits(variant: Variant, operation: Operation, row: Mapping[str, float]) -> tuple[float, ...]:
    """Return what trees ask of a tile, by the names of TRAITS."""
    kernel = list(GEMM_KERNELS).index(variant.kernel)
    known = {**asdict(variant.tile), **asdict(operation.access), **row, "kernel": kernel}
    return tuple(map(float, (known[name] for name in TRAITS)))


def _shape(variant: Variant, resident: float) -> tuple[float, ...]:
    """Return a tile's place among others, by the names of SHAPE; those of few tiles are alike."""
    tile = variant.tile
    if variant.kernel in ("tiny", "shallow"):
        return (0.0,) * len(SHAPE)
    if variant.kernel == "tiled":
        few, each, step, aspect = tile.tm, tile.tn, tile.bk / 12, tile.bm / tile.bn
    else:
        rows = by_rows(tile)
        few, each = (tile.tm, tile.tn) if rows else (tile.tn, tile.tm)
        step, aspect = tile.bk / 64, 1.0
    doublings = (
        (few * each / 32) ** 0.5,
        (few / each) ** 0.5,
        tile.threads * resident / 256,
        tile.threads / 128,
        step**0.5,
        2.0 ** (tile.stages - 3),
        aspect**0.5,
    )
    return tuple(map(math.log2, doublings))


def _registers(tile: Tile, threads: int, gpu: Gpu) -> int:
    """Return about how many registers a thread has: what it is kept to, or what it needs."""
    if not tile.min_blocks:
        return min(registers(tile), gpu.limits.max_registers_per_thread)
    unit = gpu.limits.register_unit // WARP_THREADS
    kept_to = gpu.limits.registers // (threads * tile.min_blocks) // unit * unit
    return min(kept_to, gpu.limits.max_registers_per_thread)
