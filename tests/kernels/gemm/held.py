"""Holds a production kernel to its contract: D within the bound of float32, the same every time."""

from dataclasses import replace

import numpy as np

from tilewright.bench.emulated_gemm import emulate_gemm
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation, Strides

UNIT_ROUNDOFF = 2.0**-24


def assert_held(
    operation: Operation,
    variant: Variant,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    on: str = "H200",
) -> None:
    """Compute a product on the emulator, twice, and compare it with float64."""
    o = operation
    rng = np.random.default_rng(o.m + 7 * o.n + 31 * o.k)

    def drawn(rows: int, cols: int, repeats: bool) -> np.ndarray:
        return rng.standard_normal((1 if repeats else o.batch, rows, cols), np.float32)

    a, b = drawn(o.m, o.k, o.a.batch == 0), drawn(o.k, o.n, o.b.batch == 0)
    c = None if o.c is None else drawn(o.m, o.n, o.c.batch == 0)
    if o.c is not None and o.c.row == 0:
        c = np.repeat(c[:, :1], o.m, axis=1)
    if c is not None and beta == 0:
        c[:] = np.nan  # not to be read
    first, second = (
        emulate_gemm(o, variant, a, b, c, alpha=alpha, beta=beta, on=on) for _ in range(2)
    )
    assert np.array_equal(first, second)
    added = 0.0 if c is None or beta == 0 else beta * c.astype(np.float64)
    expected = alpha * np.matmul(a.astype(np.float64), b) + added
    size = abs(alpha) * np.matmul(np.abs(a).astype(np.float64), np.abs(b)) + np.abs(added)
    # gamma of k products and three roundings more: alpha, beta and their sum.
    steps = (o.k + 3) * UNIT_ROUNDOFF
    assert np.all(np.abs(first - expected) <= steps / (1 - steps) * size)


def strided(rows: int, batched_rows: int) -> list[Operation]:
    """Return two products whose operands lie in memory as few do."""
    return [
        # A begins off a boundary of 16 bytes, B has gaps between its columns and runs backwards.
        replace(
            Operation.plain(rows, 13, 70),
            a=Strides(row=72, col=1, vector=False),
            b=Strides(row=-40, col=3),
            d=Strides(row=17, col=1),
        ),
        # All of the batch have the same A, B and C, and C the same in every row.
        Operation(
            m=batched_rows, n=12, k=40, batch=3,
            a=Strides(row=40, col=1), b=Strides(row=1, col=40), d=Strides(row=12, col=1, batch=60),
            c=Strides(row=0, col=1),
        ),
    ]  # fmt: skip
