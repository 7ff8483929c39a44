"""Hierarchical integer tuples: an integer, or a tuple of hierarchical integer tuples.

Shapes, strides and coordinates are all of this one type. Integers inside a shape are read from
left to right with the first one fastest: the colexicographical order of CuTe.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tilewright.errors import LayoutError

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"
# A coordinate with None where a slice keeps the whole mode.
Coordinate: TypeAlias = "int | tuple[Coordinate, ...] | None"


def canonical(value: object, what: str = "integer tuple", least: int = 0) -> IntTuple:
    """Return `value` with plain ints and tuples throughout.

    Raises:
        LayoutError: an empty tuple, something that is no integer, or an integer below `least`.
    """
    if type(value) is int:
        if value < least:
            raise LayoutError(f"{what}: {value} is below {least}; give whole numbers from {least}")
        return value
    if isinstance(value, tuple):
        if not value:
            raise LayoutError(
                f"{what}: () is empty; give at least one integer, 1 for a single element"
            )
        return tuple([canonical(item, what, least) for item in value])
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(
            f"{what}: {value!r} is a {type(value).__name__}; give an integer or a tuple of them"
        ) from None
    return canonical(number, what, least)


def leaves(value: IntTuple) -> list[int]:
    """Return the integers of `value` from left to right.

    >>> leaves((3, (6, 2), 8))
    [3, 6, 2, 8]
    """
    if isinstance(value, int):
        return [value]
    found: list[int] = []
    for item in value:
        if isinstance(item, int):
            found.append(item)
        else:
            found += leaves(item)
    return found


def product(value: IntTuple) -> int:
    """Return the product of all integers: the size of a shape.

    >>> product((2, (3, 6)))
    36
    """
    return value if isinstance(value, int) else math.prod(leaves(value))


def rank(value: IntTuple) -> int:
    """Return the number of elements of the outermost tuple; 1 for an integer.

    >>> rank(8), rank((8,)), rank((4, (2, 3)))
    (1, 1, 2)
    """
    return 1 if isinstance(value, int) else len(value)


def depth(value: IntTuple) -> int:
    """Return how deep tuples nest; 0 for an integer.

    >>> depth(8), depth((8,)), depth((4, (2, 3)))
    (0, 1, 2)
    """
    return 0 if isinstance(value, int) else 1 + max(depth(item) for item in value)


def elements(value: IntTuple) -> tuple[IntTuple, ...]:
    """Return the elements of the outermost tuple; an integer is its own single element."""
    return (value,) if isinstance(value, int) else value


def unwrap(items: Iterable[int]) -> IntTuple:
    """Return the items as a tuple, or the single one bare."""
    values = tuple(items)
    return values[0] if len(values) == 1 else values


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Say whether both have the same hierarchy.

    >>> congruent((4, (2, 3)), (1, (0, 7))), congruent((4, 2), 8)
    (True, False)
    """
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(congruent, a, b))


def compatible(a: IntTuple, b: IntTuple) -> bool:
    """Say whether every coordinate of shape `a` is a coordinate of shape `b` of the same size.

    >>> compatible(24, (4, 6)), compatible((4, 6), ((2, 2), 6)), compatible((24,), 24)
    (True, True, False)
    """
    if isinstance(a, int):
        return a == product(b)
    return not isinstance(b, int) and len(a) == len(b) and all(map(compatible, a, b))


def refill(profile: IntTuple, values: Iterable[IntTuple]) -> IntTuple:
    """Return `profile` with its integers replaced, from left to right, by `values`.

    >>> refill((4, (2, 3)), [7, (1, 2), 9])
    (7, ((1, 2), 9))
    """
    return _refill(profile, iter(values))


def _refill(profile: IntTuple, values: Iterator[IntTuple]) -> IntTuple:
    if isinstance(profile, int):
        return next(values)
    return tuple([_refill(item, values) for item in profile])


def prefix_products(shape: IntTuple) -> IntTuple:
    """Return, for each integer, the product of those before it: column-major strides.

    >>> prefix_products((4, (3, 6)))
    (1, (4, 12))
    """
    strides, total = [], 1
    for size in leaves(shape):
        strides.append(total)
        total *= size
    return refill(shape, strides)


def suffix_products(shape: IntTuple) -> IntTuple:
    """Return, for each integer, the product of those after it: row-major strides.

    >>> suffix_products((2, (2, 2)))
    (4, (2, 1))
    """
    strides, total = [], 1
    for size in reversed(leaves(shape)):
        strides.append(total)
        total *= size
    return refill(shape, reversed(strides))


def idx2crd(coordinate: IntTuple, shape: IntTuple) -> IntTuple:
    """Return the natural coordinate, one integer for each of the shape's, of any coordinate.

    The last integer of a shape has no bound here, as in CuTe.

    >>> idx2crd(16, (3, (2, 3))), idx2crd((1, 5), (3, (2, 3)))
    ((1, (1, 2)), (1, (1, 2)))

    Raises:
        LayoutError: a coordinate whose tuples do not fit the shape's.
    """
    if isinstance(coordinate, int):
        if isinstance(shape, int):
            return coordinate
        digits = []
        for size in leaves(shape)[:-1]:
            coordinate, digit = divmod(coordinate, size)
            digits.append(digit)
        return refill(shape, [*digits, coordinate])
    parts = matched(coordinate, shape)
    return tuple([idx2crd(item, size) for item, size in zip(coordinate, parts, strict=True)])


def crd2idx(coordinate: IntTuple, shape: IntTuple, stride: IntTuple) -> int:
    """Return the index of a coordinate: its natural coordinate's inner product with the strides.

    The last integer of a shape has no bound here, as in CuTe: a layout goes on as its last mode.

    >>> crd2idx(16, (3, (2, 3)), (3, (12, 1))), crd2idx((1, (1, 2)), (3, (2, 3)), (3, (12, 1)))
    (17, 17)

    Raises:
        LayoutError: a coordinate whose tuples do not fit the shape's.
    """
    if not isinstance(coordinate, int):
        parts = zip(coordinate, matched(coordinate, shape), elements(stride), strict=True)
        return sum([crd2idx(*part) for part in parts])
    *head, last = zip(leaves(shape), leaves(stride), strict=True)
    total = 0
    for size, step in head:
        coordinate, digit = divmod(coordinate, size)
        total += digit * step
    return total + coordinate * last[1]


def matched(coordinate: tuple[Coordinate, ...], shape: IntTuple) -> tuple[IntTuple, ...]:
    """Return the elements of `shape`, one for each of the coordinate's."""
    if isinstance(shape, int) or len(shape) != len(coordinate):
        raise LayoutError(
            f"coordinate {text(coordinate)} has {len(coordinate)} elements, shape {text(shape)} "
            f"has {rank(shape)}; give one integer, or one element for each of the shape's"
        )
    return shape


def text(value: Coordinate) -> str:
    """Return the tuple as CuTe prints it, `_` for None.

    >>> text(((4, 8), None, (2,)))
    '((4,8),_,(2))'
    """
    if isinstance(value, tuple):
        return f"({','.join(map(text, value))})"
    return "_" if value is None else str(value)
