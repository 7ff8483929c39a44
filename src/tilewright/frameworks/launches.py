"""From arrays in memory to launches: strides to an operation, a batch to as few launches as can be.

Nothing is copied: transposes, slices and broadcasts are strides. Axes of the batch that lie one
after the other in every operand become one, and so they do with the rows where B is the same for
all: a batch of rows times one matrix is one large product. Where more than one axis is left, the
host loops over all but the largest.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.frameworks.shapes import ProductShape, Shape
from tilewright.frameworks.views import View
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.tiles import FLOAT_BYTES, VECTOR_FLOATS

_MOST = 2**31 - 1  # of any size of an operation

Steps = tuple[int, int, int, int]  # along one axis: in A, B, C and D


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """A product as launches of one operation.

    `offsets` has a row for each launch: what to add to the addresses of A, B, C and D, in bytes.
    `swapped` says that it is the transposed product: A is the caller's b, and B the caller's a.
    """

    operation: Operation
    offsets: tuple[Steps, ...]
    swapped: bool


@dataclass(frozen=True, slots=True)
class _Axis:
    size: int
    steps: Steps

    def joined(self, inner: _Axis) -> _Axis | None:
        """Return this axis and the one inside it as one, if they are."""
        size = self.size * inner.size
        follows = all(o == i * inner.size for o, i in zip(self.steps, inner.steps, strict=True))
        return _Axis(size, inner.steps) if follows and size <= _MOST else None


@dataclass(frozen=True, slots=True)
class _Operands:
    """A [*batch, m, k], B [*batch, k, n], C and D [*batch, m, n]; without a C, C is D's place."""

    a: View
    b: View
    c: View
    d: View

    @property
    def transposed(self) -> _Operands:
        a, b, c, d = (_transposed(view) for view in (self.a, self.b, self.c, self.d))
        return _Operands(b, a, c, d)

    def steps(self, axis: int) -> Steps:
        """Return the steps along an axis of the batch."""
        views = (self.a, self.b, self.c, self.d)
        a, b, c, d = (view.strides[axis] for view in views)
        return a, b, c, d


def writable(shape: ProductShape, d: View) -> bool:
    """Return whether kernels can write the result there: neighbours in a row or a column."""
    row, col = _with_axes(shape, d).strides[-2:]
    return col == 1 or shape.n == 1 or row == 1 or shape.m == 1


def plan_launches(shape: ProductShape, a: View, b: View, c: View | None, d: View) -> Launches:
    """Return how D = A·B + C is computed, where D is `writable` and nothing but k is 0.

    The views are those of the caller's arrays; c may have to be broadcast.

    Raises:
        ProblemError: a size past 2^31 - 1.
    """
    operands = _Operands(
        (a.with_axis(0) if shape.a_vector else a).broadcast((*shape.batch, shape.m, shape.k)),
        (b.with_axis(1) if shape.b_vector else b).broadcast((*shape.batch, shape.k, shape.n)),
        _with_axes(shape, (c or d).broadcast(shape.result)),
        _with_axes(shape, d).broadcast((*shape.batch, shape.m, shape.n)),
    )
    swapped = shape.n != 1 and operands.d.strides[-1] != 1
    if swapped:
        operands = operands.transposed
    return _planned(operands, shape, c is not None, swapped)


def _planned(o: _Operands, shape: ProductShape, has_c: bool, swapped: bool) -> Launches:
    m, n = o.d.shape[-2:]
    rows = _Axis(m, (o.a.strides[-2], 0, o.c.strides[-2], o.d.strides[-2]))
    axes = _joined([_Axis(size, o.steps(i)) for i, size in enumerate(shape.batch)])
    axes, rows = _rows_joined(axes, rows)
    axes.sort(key=lambda axis: axis.size)
    batch = axes.pop() if axes else _Axis(1, (0, 0, 0, 0))

    def place(i: int, view: View, sizes: tuple[int, int], row: int) -> Strides:
        row, col = _canonical(*sizes, row, view.strides[-1])
        moves = [batch.steps[i], *(axis.steps[i] for axis in axes)]
        whole = all(step % VECTOR_FLOATS == 0 for step in moves)
        return Strides(row=row, col=col, batch=batch.steps[i], vector=view.aligned and whole)

    operation = Operation(
        m=rows.size,
        n=n,
        k=shape.k,
        batch=batch.size,
        a=place(0, o.a, (rows.size, shape.k), rows.steps[0]),
        b=place(1, o.b, (shape.k, n), o.b.strides[-2]),
        c=place(2, o.c, (rows.size, n), rows.steps[2]) if has_c else None,
        d=place(3, o.d, (rows.size, n), rows.steps[3]),
    )
    return Launches(operation=operation, offsets=_offsets(axes, has_c), swapped=swapped)


def _with_axes(shape: ProductShape, view: View) -> View:
    """Return a view of the result with the rows and columns that vectors leave out."""
    if shape.b_vector:
        view = view.with_axis(len(view.shape))
    return view.with_axis(len(view.shape) - 1) if shape.a_vector else view


def _transposed(view: View) -> View:
    def swap(values: Shape) -> Shape:
        return (*values[:-2], values[-1], values[-2])

    return View(shape=swap(view.shape), strides=swap(view.strides), aligned=view.aligned)


def _joined(axes: Sequence[_Axis]) -> list[_Axis]:
    """Return axes, outermost first, those that are one joined and those of size 1 left out."""
    found: list[_Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        one = found[-1].joined(axis) if found else None
        if one is not None:
            found.pop()
        found.append(one or axis)
    return found


def _rows_joined(axes: list[_Axis], rows: _Axis) -> tuple[list[_Axis], _Axis]:
    """Join the rows with the innermost axis of the batch, where B is the same along it."""
    if axes and axes[-1].steps[1] == 0:
        one = axes[-1] if rows.size == 1 else axes[-1].joined(rows)
        if one is not None:
            return axes[:-1], one
    return axes, rows


def _canonical(rows: int, cols: int, row: int, col: int) -> tuple[int, int]:
    """Return the strides with those that no step is made along as in a packed matrix.

    So a vector is read along its elements, four at a time where they allow it.
    """
    if cols == 1:
        col = rows if row == 1 else 1
    if rows == 1:
        row = cols if col == 1 else 1
    return row, col


def _offsets(axes: Sequence[_Axis], has_c: bool) -> tuple[Steps, ...]:
    """Return the offsets of every place along the axes, in bytes."""
    found = []
    for place in itertools.product(*(range(axis.size) for axis in axes)):
        steps = [
            sum(FLOAT_BYTES * i * axis.steps[at] for i, axis in zip(place, axes, strict=True))
            for at in range(4)
        ]
        found.append((steps[0], steps[1], steps[2] if has_c else 0, steps[3]))
    return tuple(found)
