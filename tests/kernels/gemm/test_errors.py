"""How large errors are, on the emulator, beside a model of what roundings add up to.

Each rounding errs by up to half a unit in the last place of its sum, by itself; so the mean squares
add up. The model needs how large every intermediate sum is, and thereby the order of the additions,
which is here by hand.

Source: N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM J.
Sci. Comput. 41 (2019).
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tilewright.bench.emulated_gemm import emulate_gemm
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile

# The mean square of a rounding, in units of the last place: anywhere in between, or none of it or
# half a unit, as for two floats whose own last place is half of their sum's.
ANYWHERE, HALF = 1 / 12, 1 / 8

# How many products are in an intermediate sum, and the mean square of its rounding.
Sum = tuple[int, float]


def threads(count: int, products: int) -> Iterator[Sum]:
    """Yield the sums of so many threads, each of so many products one after another."""
    for _ in range(count):
        yield from ((i, ANYWHERE) for i in range(1, products + 1))


def stretches(*lengths: int) -> Iterator[Sum]:
    """Yield the sums of stretches of one thread, and theirs one after another."""
    for length in lengths:
        yield from threads(1, length)
    yield from ((int(size), ANYWHERE) for size in np.cumsum(lengths)[1:])


def tree(count: int, products: int) -> Iterator[Sum]:
    """Yield the sums of pairs, and of pairs of these, from `count` values on, a power of two."""
    while count > 1:
        count, products = count // 2, 2 * products
        yield from [(products, HALF)] * count


def square_of_unit(size: float) -> float:
    """Return the square of the unit in the last place of a float."""
    return 4.0 ** (math.floor(math.log2(size)) - 23)


def normal_unit(deviation: float) -> float:
    """Return its mean over a normal distribution."""
    top = math.ceil(math.log2(deviation)) + 4
    bounds = [2.0**e for e in range(top - 24, top)]
    within = [math.erf(bound / deviation / math.sqrt(2)) for bound in bounds]
    shares = np.diff(within)
    return sum(p * square_of_unit(x) for p, x in zip(shares, bounds[:-1], strict=True))


def modelled(sums: list[Sum], uniform: bool) -> float:
    """Return the root of the mean square error; products are 1/4 on average, or of variance 1."""
    units = {n: square_of_unit(n / 4) if uniform else normal_unit(math.sqrt(n)) for n, _ in sums}
    return math.sqrt(sum(square * units[n] for n, square in sums))


TINY = Variant(kernel="tiny", tile=Tile(bm=16, bn=16))
TINY_4 = Variant(kernel="tiny", tile=Tile(bm=16, bn=32, tm=2, tn=2))
TINY_8 = Variant(kernel="tiny", tile=Tile(bm=32, bn=32, tm=4, tn=2))
TILED = Variant(
    kernel="tiled",
    tile=Tile(bm=32, bn=64, bk=16, tm=4, tn=4, wm=16, wn=32, min_blocks=5, stages=4),
)
# 512 threads along k, in 16 warps.
GEMV = Variant(kernel="gemv", tile=Tile(bm=1, bn=1, bk=2048, min_blocks=2, stages=2, kparts=512))
# 64 along k, 8 of them in a warp, in 8 blocks.
GEMV_PARTS = Variant(
    kernel="gemv",
    tile=Tile(bm=2, bn=16, bk=256, tm=2, tn=4, min_blocks=1, stages=4, kparts=64),
    splits=8,
)

# The same of more rows.
SKINNY = Variant(
    kernel="skinny",
    tile=Tile(bm=3, bn=16, bk=256, tm=3, tn=4, min_blocks=1, stages=3, kparts=64),
    splits=8,
)


@pytest.mark.parametrize("uniform", [False, True], ids=["normal", "uniform"])
@pytest.mark.parametrize(
    ("variant", "shape", "batch", "layout", "sums"),
    [
        # Eight products at a time, the rest in double; with more outputs a thread 32, in float.
        (TINY, (1, 100, 200), 30, "nn", [*threads(25, 8), (200, ANYWHERE)]),
        (TINY, (1, 100, 100), 30, "nt", [*threads(12, 8), *threads(1, 4), (100, ANYWHERE)]),
        (TINY_4, (16, 16, 200), 12, "nt", [*stretches(*[32] * 6, 8)]),
        (TINY_8, (16, 16, 128), 12, "nn", [*stretches(128)]),
        (TILED, (64, 64, 2057), 1, "nn", [*stretches(473, 528, 528, 528)]),
        # Four products at a time, the rest in double.
        (GEMV, (1, 512, 6144), 1, "nt", [*threads(512 * 3, 4), (6144, ANYWHERE)]),
        (GEMV_PARTS, (2, 256, 6144), 1, "nn", [*threads(512 * 3, 4), (6144, ANYWHERE)]),
        # Pairs of threads in float, the rest in double.
        (
            SKINNY, (3, 256, 6144), 1, "nn",
            [*threads(512, 12), *[(24, HALF)] * 256, (6144, ANYWHERE)],
        ),
        # More rows: all in float.
        (
            replace(GEMV_PARTS, tile=replace(GEMV_PARTS.tile, bm=3, tm=3)), (3, 256, 6144), 1, "nn",
            [*threads(512, 12), *tree(512, 12)],
        ),
    ],
)  # fmt: skip
def test_errors_are_as_large_as_the_order_of_the_additions_makes_them(
    variant: Variant,
    shape: tuple[int, int, int],
    batch: int,
    layout: str,
    sums: list[Sum],
    uniform: bool,
) -> None:
    o = Operation.plain(*shape, layout=layout, batch=batch)
    rng = np.random.default_rng(o.k)
    draw = rng.random if uniform else rng.standard_normal
    a, b = draw((batch, o.m, o.k), np.float32), draw((batch, o.k, o.n), np.float32)
    d = emulate_gemm(o, variant, a, b)
    error = d - np.matmul(a.astype(np.float64), b)
    found = math.sqrt(np.mean(error**2)) / modelled(sums, uniform)
    assert 0.88 < found < 1.12
