"""What one step along k takes of a block, by kernel: instructions of warps, cycles, lines."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.kernels.gemm import narrow
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.tiled import copied_at_once
from tilewright.kernels.tiles import FLOAT_BYTES, VECTOR_FLOATS, WARP_THREADS

# A 128-bit load of a warp takes two cycles of the shared memory where lanes share addresses in
# pairs, as they do in a 4 x 8 warp. Source: ncu on an H200, 2026-11-30 (docs/counting.md).
_WAVEFRONTS = 2
# Of a warp's 128-bit loads at different addresses, the shared memory serves so many lanes a cycle.
_LANES_A_CYCLE = 8
_LINE_BYTES = 128  # of the L1
_QUAD_BYTES = VECTOR_FLOATS * FLOAT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Of a block: what one step takes, and the adding of its threads' sums at the end.

    `load` are cycles in which the shared memory delivers fragments. `single` and `quad` are
    instructions of warps that copy 4 bytes a lane or more, `lines` the lines of 128 bytes that are
    asked for where threads read B straight into registers. `ahead` steps are under way at a time.
    `fold` is what adding takes: exchanges of lanes on each of four schedulers, which are halved
    each time (lib/fold.cuh), and cycles of the shared memory.
    """

    load: float
    single: float
    quad: float
    ahead: int
    lines: float = 0.0
    fold: float = 0.0


def staged(variant: Variant, operation: Operation, *, bm: float, bn: float, floats: float) -> Step:
    """Return a step of `tiled` or `tiny`, of `floats` of k: of all products of a block.

    The tile of A lies along m and that of B along n: what lies along k is copied float by float.
    Tiny keeps the operands' own order.
    """
    tile, access = variant.tile, operation.access
    tiny = variant.kernel == "tiny"
    a: int = access.a_vector if tiny or not access.a_along_k else 1
    b: int = access.b_vector if tiny or access.b_along_n else 1
    if not tiny:
        a, b = copied_at_once(tile, tile.bm, a), copied_at_once(tile, tile.bn, b)
    quads = sum(side / VECTOR_FLOATS for side, vector in ((bm, a), (bn, b)) if vector > 1)
    singles = sum(side for side, vector in ((bm, a), (bn, b)) if vector == 1)
    vectors = (tile.tm + tile.tn) / (tile.tm * tile.tn * VECTOR_FLOATS)
    return Step(
        load=_WAVEFRONTS * bm * bn * floats * vectors / WARP_THREADS,
        single=singles * floats / WARP_THREADS,
        quad=quads * floats / WARP_THREADS,
        ahead=1 if tiny else max(tile.stages - 1, 1),
    )


def streamed(variant: Variant, operation: Operation) -> Step:
    """Return a step of `skinny` or `gemv`, as lib/narrow.cuh shares it out among lanes.

    Every thread reads four of k of each of its columns of B; A comes to each warp through shared
    memory (skinny) or to each thread (gemv).
    """
    tile, skinny = variant.tile, variant.kernel == "skinny"
    read = narrow.reads(operation, tile)
    few, each = (tile.bm, tile.tn) if narrow.by_rows(tile) else (tile.bn, tile.tm)
    beside = narrow.lanes(tile)
    deep = WARP_THREADS // beside
    warps = tile.threads / WARP_THREADS
    of_b = each if read.b_quads else narrow.RUN * each
    if skinny:
        depth = narrow.RUN * deep
        width = (VECTOR_FLOATS if depth >= WARP_THREADS else 2) if read.a_quads else 1
        of_a = few * depth / width / WARP_THREADS
    else:
        of_a = few if read.a_quads else narrow.RUN * few
    bytes_a_lane = _QUAD_BYTES if read.b_quads else FLOAT_BYTES
    runs, long = (deep, beside) if read.b_along else (beside, deep)
    return Step(
        load=warps * few * math.ceil(deep / _LANES_A_CYCLE) if skinny else 0.0,
        single=warps * (of_a * (not read.a_quads) + of_b * (not read.b_quads)),
        quad=warps * (of_a * read.a_quads + of_b * read.b_quads),
        ahead=tile.stages,
        lines=warps * of_b * runs * math.ceil(long * bytes_a_lane / _LINE_BYTES),
        fold=warps * (few * each * (1 - 1 / deep) / 4 + tile.bm * tile.bn / 16),
    )
