"""The layout: a shape and a stride for each of its integers, which is a map from coordinates.

A coordinate may be one integer (counted with the first mode fastest), one for each mode, or any
hierarchy in between; the index is the inner product of the natural coordinate with the strides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import (
    Coordinate,
    IntTuple,
    canonical,
    congruent,
    crd2idx,
    depth,
    elements,
    leaves,
    matched,
    prefix_products,
    product,
    rank,
    text,
)


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """A map from the coordinates of `shape` to indices, by `stride`.

    Without a stride it is column-major: the first mode has stride 1.

    >>> tile = Layout((4, (2, 3)), (2, (1, 8)))
    >>> print(tile, tile.size, tile.cosize)
    (4,(2,3)):(2,(1,8)) 24 24
    >>> tile(13), tile(1, 3), tile(1, (1, 1))
    (11, 11, 11)
    >>> print(Layout((4, (3, 6))))
    (4,(3,6)):(1,(4,12))

    Shapes: every size >= 1; every stride >= 0; `stride` has the hierarchy of `shape`.

    Raises:
        LayoutError: a size or a stride out of its range, or hierarchies that differ.
    """

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: IntTuple, stride: IntTuple | None = None) -> None:
        shape = canonical(shape, "shape", 1)
        if stride is None:
            stride = prefix_products(shape)
        else:
            stride = canonical(stride, "stride", 0)
            if not congruent(shape, stride):
                raise LayoutError(_incongruent(shape, stride))
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return product(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest index."""
        return 1 + sum((size - 1) * step for size, step in self.flat_modes())

    @property
    def rank(self) -> int:
        """The number of modes; 1 for an integer shape."""
        return rank(self.shape)

    @property
    def depth(self) -> int:
        """How deep the shape's tuples nest; 0 for an integer shape."""
        return depth(self.shape)

    def flat_modes(self) -> list[tuple[int, int]]:
        """Return (size, stride) of each integer of the shape, from left to right."""
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def __iter__(self) -> Iterator[Layout]:
        """Yield the modes, each a layout."""
        return starmap(unchecked, zip(elements(self.shape), elements(self.stride), strict=True))

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, path: int | tuple[int, ...]) -> Layout:
        """Return one mode, or by several integers a mode of a mode.

        >>> print(Layout((4, (3, 6)))[1], Layout((4, (3, 6)))[1, 0])
        (3,6):(4,12) 3:4
        """
        shape, stride = self.shape, self.stride
        for index in path if isinstance(path, tuple) else (path,):
            if not -rank(shape) <= index < rank(shape):
                raise LayoutError(
                    f"mode {index} of {text(shape)}:{text(stride)}: it has modes 0 to "
                    f"{rank(shape) - 1}"
                )
            shape, stride = elements(shape)[index], elements(stride)[index]
        return unchecked(shape, stride)

    def __call__(self, *coordinate: IntTuple) -> int:
        """Return the index of a coordinate: flat, one element a mode, or anything between.

        Raises:
            LayoutError: a coordinate outside the shape, or one that does not fit its hierarchy.
        """
        one = coordinate[0] if len(coordinate) == 1 else coordinate
        return crd2idx(checked(one, self.shape), self.shape, self.stride)

    def indices(self) -> list[int]:
        """Return the index of every coordinate, in the order of flat coordinates.

        >>> Layout((2, 3), (3, 1)).indices()
        [0, 3, 1, 4, 2, 5]
        """
        values = [0]
        for size, step in self.flat_modes():
            values = (
                [value + i for i in range(0, size * step, step) for value in values]
                if step
                else values * size
            )
        return values

    def slice(self, *coordinate: Coordinate) -> tuple[Layout, int]:
        """Fix the coordinates given, keep those with None: (layout of the kept ones, offset).

        As in CuTe the kept ones stand side by side: there are as many modes as Nones.

        >>> row, offset = Layout((4, (2, 3)), (2, (1, 8))).slice(2, (None, 1))
        >>> print(row, offset)
        (2):(1) 12
        >>> print(Layout((4, (2, 3)), (2, (1, 8))).slice(2, None)[0])
        ((2,3)):((1,8))

        Raises:
            LayoutError: a coordinate that does not fit, or one that keeps nothing.
        """
        one = coordinate[0] if len(coordinate) == 1 else coordinate
        shapes, strides, offset = _sliced(one, self.shape, self.stride)
        if one is None:
            return self, 0
        if not shapes:
            raise LayoutError(
                f"slice {text(one)} of {self} keeps no mode; call the layout for an index"
            )
        return unchecked(tuple(shapes), tuple(strides)), offset

    def __str__(self) -> str:
        return f"{text(self.shape)}:{text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self.shape!r}, {self.stride!r})"


def unchecked(shape: IntTuple, stride: IntTuple) -> Layout:
    """Return the layout of parts that are those of valid layouts: four times as fast to make."""
    layout = object.__new__(Layout)
    object.__setattr__(layout, "shape", shape)
    object.__setattr__(layout, "stride", stride)
    return layout


def checked(coordinate: Coordinate, shape: IntTuple) -> IntTuple:
    """Return the coordinate in plain integers, or raise a LayoutError where it is none."""
    if isinstance(coordinate, tuple):
        parts = zip(coordinate, matched(coordinate, shape), strict=True)
        return tuple([checked(item, part) for item, part in parts])
    if coordinate is None:
        raise LayoutError(
            "coordinate None: an index needs every coordinate; use .slice to keep one"
        )
    number = coordinate if isinstance(coordinate, int) else canonical(coordinate, "coordinate")
    if not isinstance(number, int) or not 0 <= number < product(shape):
        raise LayoutError(
            f"coordinate {coordinate} is outside shape {text(shape)}: from 0 to "
            f"{product(shape) - 1}"
        )
    return number


def _sliced(
    coordinate: Coordinate, shape: IntTuple, stride: IntTuple
) -> tuple[list[IntTuple], list[IntTuple], int]:
    """Return the shapes and strides that None keeps, and the offset of the rest."""
    if coordinate is None:
        return [shape], [stride], 0
    if not isinstance(coordinate, tuple):
        return [], [], crd2idx(checked(coordinate, shape), shape, stride)
    shapes: list[IntTuple] = []
    strides: list[IntTuple] = []
    offset = 0
    parts = matched(coordinate, shape)
    for item, part, step in zip(coordinate, parts, elements(stride), strict=True):
        kept, steps, more = _sliced(item, part, step)
        shapes += kept
        strides += steps
        offset += more
    return shapes, strides, offset


def _incongruent(shape: IntTuple, stride: IntTuple) -> str:
    """Say where the hierarchies of shape and stride part."""
    path: list[int] = []
    while not isinstance(shape, int) and not isinstance(stride, int) and len(shape) == len(stride):
        at = next(
            i for i, pair in enumerate(zip(shape, stride, strict=True)) if not congruent(*pair)
        )
        shape, stride = shape[at], stride[at]
        path.append(at)
    where = f"mode {','.join(map(str, path))}: " if path else ""
    return (
        f"{where}shape {text(shape)} and stride {text(stride)} differ in hierarchy; "
        "give each size of the shape its stride"
    )
