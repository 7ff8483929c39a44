"""The search space of a product on a GPU, and the table that a choice is made from."""

from __future__ import annotations

from dataclasses import replace

from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.candidates import NARROWER, suits, workers_of
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import GEMM_KERNELS, gemm_kernel, variants
from tilewright.kernels.tiles import VECTOR_FLOATS
from tilewright.tuning.cost import Table, with_free_splits
from tilewright.tuning.features import features
from tilewright.tuning.predict import predict

# Which tiles are worth measuring depends on m and n up to here, as they are, and on the power of
# two that k is below; larger sizes are all alike, but for those that two tiles of 112 suit.
_SMALL = 128
_OF_112 = frozenset(
    size
    for size in range(_SMALL + 1, 2 * NARROWER[0].bm + 1)
    if suits(NARROWER[0], size, NARROWER[0].bn)
)
_LARGE = 4096

_TABLES: dict[tuple[object, ...], Table] = {}


def space(operation: Operation, gpu: Gpu) -> tuple[Variant, ...]:
    """Return every legal variant worth measuring, the one of least predicted time first."""
    found = tuple(dict.fromkeys(variants(operation, gpu)))
    times = dict(zip(found, predict(operation, found, gpu), strict=True))
    return tuple(sorted(found, key=lambda v: times[v]))


def legal(operation: Operation, variant: Variant) -> bool:
    """Return whether the kernel can compute the product so."""
    try:
        gemm_kernel(variant.kernel).check(operation, variant)
    except TilewrightError:
        return False
    return True


def table(operation: Operation, gpu: Gpu) -> Table:
    """Return the tiles for products like this one, whose splits the model is to choose.

    Products are alike where their operands are read alike, and their sizes are large or the same:
    the same tiles are worth measuring for them.

    Raises:
        UnsupportedError: no kernel can be compiled for this GPU.
    """
    o = operation
    m, n = _alike(o.m), _alike(o.n)
    k = _whole(min(_LARGE, 1 << (max(o.k, 1) - 1).bit_length()), o.k)
    sizes = (m, n, k, _LARGE if o.batch > 1 else 1)
    key = (gpu.name, o.access, *sizes)
    found = _TABLES.get(key)
    if found is None:
        gpu.require_arch()
        typical = replace(o, m=m, n=n, k=k, batch=sizes[-1])
        # Whether sums are too long is for the model to see, when it knows the parts of k.
        cut = (v for kernel in GEMM_KERNELS.values() for v in kernel.only_cut(typical, gpu))
        ways = (*variants(typical, gpu), *cut)
        alone = dict.fromkeys(replace(v, splits=1, workers=0) for v in ways)
        sharing = [v for v in alone if gemm_kernel(v.kernel).shares]
        tiles = [*alone, *(replace(v, workers=workers_of(v.tile, gpu)) for v in sharing)]
        found = with_free_splits(features(tiles, typical, gpu), gpu)
        _TABLES[key] = found
    return found


def _alike(size: int) -> int:
    """Return the size whose table stands for this one's."""
    if size <= _SMALL:
        return size
    return _whole(max(_OF_112) if size in _OF_112 else _LARGE, size)


def _whole(bound: int, size: int) -> int:
    """Return `bound`, less 1 where `size` is no whole number of vectors: the same is read alike."""
    return bound if size % VECTOR_FLOATS == 0 or bound < VECTOR_FLOATS else bound - 1
