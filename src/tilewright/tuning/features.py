"""What a variant asks of an SM, as columns of numbers: all that the cost model knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.gpus import Gpu, occupancy
from tilewright.kernels.gemm.candidates import registers
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.kernels.tiles import FLOAT_BYTES, VECTOR_FLOATS, WARP_THREADS, Tile

# A 128-bit load of a warp takes two cycles of the shared memory where lanes share addresses in
# pairs, as they do in a 4 x 8 warp. Source: ncu on an H200, 2026-11-30 (docs/counting.md).
_WAVEFRONTS = 2

Column: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Variants as columns, one number each.

    `bm`, `bn` and `bk` are a block's sides and its step along k; `products` of a batch are in a
    block; `resident` blocks are on an SM at a time, `workers` share the last tiles. Of one step of
    a block: `multiply`, `load` and `copy` are the cycles that its multiply-adds, the loads of its
    fragments and its copies take of an SM at least, `run` the steps of k that a thread makes one
    after the other, and `ahead` the tiles that are under way. `output_bytes` is what a block
    writes.
    """

    variants: tuple[Variant, ...]
    bm: Column
    bn: Column
    bk: Column
    products: Column
    most_splits: Column
    least_steps: Column
    resident: Column
    workers: Column
    multiply: Column
    load: Column
    copy: Column
    run: Column
    ahead: Column
    output_bytes: Column


_COLUMNS = tuple(f.name for f in fields(Features) if f.name != "variants")


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
    return Features(variants=tuple(rows), **columns)


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
    vectors = (tile.tm + tile.tn) / (tile.tm * tile.tn * VECTOR_FLOATS)
    return {
        "bm": bm,
        "bn": bn,
        "bk": bk,
        "products": products,
        "most_splits": kernel.most_splits,
        "least_steps": kernel.least_steps,
        "resident": resident,
        "workers": variant.workers,
        "multiply": outputs * bk / gpu.limits.fp32_lanes,
        "load": _WAVEFRONTS * outputs * bk * vectors / WARP_THREADS,
        "copy": products * bk * _copies(bm, bn, operation) / WARP_THREADS,
        "run": bk / tile.kparts,
        "ahead": max(tile.stages - 1, 1),
        "output_bytes": FLOAT_BYTES * outputs,
    }


def _copies(bm: int, bn: int, operation: Operation) -> float:
    """Return the copy instructions of one row of a step, over all threads.

    The tile of A lies along m and that of B along n: what lies along k is copied float by float.
    """
    access = operation.access
    a = 1 if access.a_along_k else access.a_vector
    b = access.b_vector if access.b_along_n else 1
    return bm / a + bn / b


def _registers(tile: Tile, threads: int, gpu: Gpu) -> int:
    """Return about how many registers a thread has: what it is kept to, or what it needs."""
    if not tile.min_blocks:
        return min(registers(tile), gpu.limits.max_registers_per_thread)
    unit = gpu.limits.register_unit // WARP_THREADS
    kept_to = gpu.limits.registers // (threads * tile.min_blocks) // unit * unit
    return min(kept_to, gpu.limits.max_registers_per_thread)
