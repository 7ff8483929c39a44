"""What a variant asks of an SM, as columns of numbers: all that the cost model knows of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tilewright.errors import LaunchError
from tilewright.gpus import Gpu, occupancy
from tilewright.kernels.gemm.candidates import registers
from tilewright.kernels.gemm.gemv import GEMV
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.narrow import Share, share
from tilewright.kernels.gemm.operation import Access, Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.kernels.gemm.skinny import SKINNY
from tilewright.kernels.gemm.tiny import TINY
from tilewright.kernels.tiles import FLOAT_BYTES, VECTOR_FLOATS, WARP_THREADS, Tile

# A 128-bit load of a warp takes two cycles of the shared memory where lanes share addresses in
# pairs, as they do in a 4 x 8 warp. Source: ncu on an H200, 2026-11-30 (docs/counting.md).
_WAVEFRONTS = 2
_LINE_BYTES = 128  # of the L1, which looks up one a cycle
_LANES_A_CYCLE = 8  # whose 128 bits the shared memory delivers

Column: TypeAlias = npt.NDArray[np.float64]

# A tile that the others are told apart from, and by how much a doubling of what counts.
SHAPE = ("outputs", "tall", "warps", "threads", "step", "stages", "block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Variants as columns, one number each.

    `bm`, `bn` and `bk` are a block's sides and its step along k; `products` of a batch are in a
    block; `resident` blocks are on an SM at a time, `workers` share the last tiles. Of one step of
    a block: `multiply` and `load` are the cycles that its multiply-adds and the loads of its
    fragments take of an SM at least, `single` and `quad` the instructions of warps that copy 4 or
    16 bytes a lane, `lines` the lines of 128 bytes that they touch where threads read B
    straight into registers, `run` the steps of k that a thread makes one after the other, and
    `ahead` the tiles that are under way. `warps` are a block's on each of an SM's four schedulers.
    `fold` is what adding a block's sums takes, in instructions of warps and cycles of the shared
    memory. `output_bytes` is what a block writes. `shape` has a row for each variant and a column
    for each of SHAPE: zeros but for tiled, whose tiles are many.
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
    shape: Column


_COLUMNS = tuple(f.name for f in fields(Features) if f.name != "variants")
