"""A product of arrays of the host, by whatever `matmul` their library has."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.frameworks.face import Array


def product(
    matmul: Callable[[Array, Array], Array],
    operands: tuple[Array, Array, Array | None],
    alpha: float,
    beta: float,
) -> Array:
    """Return alpha·A·B + beta·C; as in BLAS, what 0 multiplies is not read."""
    a, b, c = operands
    if alpha == 0:
        # The shape alone is wanted: a product over no k is zeros.
        a, b = a[..., :0], b[:0] if len(b.shape) == 1 else b[..., :0, :]
    result = matmul(a, b)
    if alpha not in (0, 1):
        result = alpha * result
    return result if c is None or beta == 0 else result + beta * c
