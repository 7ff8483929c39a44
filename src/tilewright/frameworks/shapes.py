"""The shapes of a matrix product: vectors, matrices and batches of them, as the array API says.

Source: Python array API standard, `matmul`: a vector on the left is a row and on the right a
column, which the result then lacks; the sizes before the last two are broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ProblemError

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductShape:
    """The sizes of D = A·B for each of a batch; A may be one row and B one column, as vectors."""

    batch: Shape
    m: int
    n: int
    k: int
    a_vector: bool
    b_vector: bool

    @property
    def result(self) -> Shape:
        """The shape of D: without the rows or the columns where A or B is a vector."""
        rows, cols = () if self.a_vector else (self.m,), () if self.b_vector else (self.n,)
        return (*self.batch, *rows, *cols)


def product_shape(a: Shape, b: Shape) -> ProductShape:
    """Return the shape of the product of arrays of two shapes.

    Raises:
        ProblemError: a number instead of an array, inner sizes that differ, batches that do not
            broadcast.
    """
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ProblemError(
                f"{name} has shape (): a matrix product takes vectors, matrices and batches of "
                "matrices: multiply by a number with *"
            )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        where = "second to last" if len(b) > 1 else "only"
        raise ProblemError(
            f"a has shape {tuple(a)} and b {tuple(b)}: the last size of a ({a[-1]}) and the "
            f"{where} of b ({inner}) must be equal{_transposed(a, b)}"
        )
    a_vector, b_vector = len(a) == 1, len(b) == 1
    return ProductShape(
        batch=_broadcast(a, b),
        m=1 if a_vector else a[-2],
        n=1 if b_vector else b[-1],
        k=a[-1],
        a_vector=a_vector,
        b_vector=b_vector,
    )


def _transposed(a: Shape, b: Shape) -> str:
    """Return which transposed operand would fit."""
    if len(a) > 1 and len(b) > 1:
        if a[-1] == b[-1]:
            return "; b with its last two axes swapped would fit"
        if a[-2] == b[-2]:
            return "; a with its last two axes swapped would fit"
    return ""


def _broadcast(a: Shape, b: Shape) -> Shape:
    left, right = a[:-2], b[:-2]
    length = max(len(left), len(right))
    pairs = zip(
        (1,) * (length - len(left)) + tuple(left),
        (1,) * (length - len(right)) + tuple(right),
        strict=True,
    )
    batch = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise ProblemError(
                f"a has shape {tuple(a)} and b {tuple(b)}: their batches {tuple(left)} and "
                f"{tuple(right)} do not broadcast: {one} and {other} must be equal, or one of "
                "them 1"
            )
        batch.append(other if one == 1 else one)
    return tuple(batch)
