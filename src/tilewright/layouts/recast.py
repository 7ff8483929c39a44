"""The same bytes as elements of another size."""

from __future__ import annotations

import math
from typing import cast

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import refill
from tilewright.layouts.layout import Layout, unchecked
from tilewright.layouts.swizzle import ComposedLayout, L, Swizzle


def recast(layout: L, old_bits: int, new_bits: int) -> L:
    """Return the layout of elements of `new_bits` over a layout of elements of `old_bits`.

    >>> print(recast(Layout((8, 32), (32, 1)), 32, 128), recast(Layout((8, 8), (8, 1)), 128, 32))
    (8,8):(8,1) (8,32):(32,1)

    Units: bits an element.

    Raises:
        LayoutError: as `upcast`.
    """
    if old_bits < 1 or new_bits < 1:
        raise LayoutError(f"recast from {old_bits} to {new_bits} bits: give at least 1")
    common = math.gcd(old_bits, new_bits)
    return upcast(downcast(layout, old_bits // common), new_bits // common)


def upcast(layout: L, n: int) -> L:
    """Return the layout of groups of n consecutive indices: index // n at every coordinate.

    Modes with strides below n lose the coordinates inside a group; the others, their strides
    divided, place groups.

    >>> print(upcast(Layout((32, 8), (1, 36)), 4))
    (8,8):(1,9)

    Raises:
        LayoutError: a stride that neither divides n nor is a multiple of it, a mode that ends
            inside a group, or a swizzle that permutes the inside of groups.
    """
    _check_count(n, "upcast")
    if isinstance(layout, ComposedLayout):
        if layout.offset % n:
            raise LayoutError(f"upcast of {layout}: the offset must be a multiple of {n}")
        swizzle = _upcast_swizzle(layout.swizzle, n)
        return cast(L, ComposedLayout(swizzle, layout.offset // n, _upcast(layout.layout, n)))
    return cast(L, _upcast(layout, n))


def _upcast(layout: Layout, n: int) -> Layout:
    sizes, steps, inside = [], [], 0
    for size, step in layout.flat_modes():
        if step % n == 0:
            sizes.append(size)
            steps.append(step // n)
            continue
        if n % step or (size * step % n and n % (size * step)):
            raise LayoutError(_upcast_refusal(layout, n, size, step))
        sizes.append(max(size * step // n, 1))
        steps.append(1)
        inside += (min(size, n // step) - 1) * step
    if inside >= n:
        raise LayoutError(
            f"upcast of {layout} by {n}: its modes with strides below {n} overlap inside a group; "
            "give each a stride of at least the extent of those below it"
        )
    return unchecked(refill(layout.shape, sizes), refill(layout.shape, steps))


def downcast(layout: L, n: int) -> L:
    """Return the layout of the n parts of each element, which follow one another in memory.

    The mode with stride 1 takes the parts. Without one the layout gives the first part of each.

    >>> print(downcast(Layout((8, 8), (9, 1)), 4))
    (8,32):(36,1)

    Raises:
        LayoutError: two modes with stride 1, or a swizzle without whole powers of two.
    """
    _check_count(n, "downcast")
    if isinstance(layout, ComposedLayout):
        old = layout.swizzle
        if n & (n - 1) and old.bits:
            raise LayoutError(f"downcast of {layout} by {n}: behind a swizzle, give a power of two")
        swizzle = Swizzle(old.bits, old.base + n.bit_length() - 1, old.shift)
        return cast(L, ComposedLayout(swizzle, layout.offset * n, _downcast(layout.layout, n)))
    return cast(L, _downcast(layout, n))


def _downcast(layout: Layout, n: int) -> Layout:
    if n == 1:
        return layout
    modes = layout.flat_modes()
    units = [i for i, (_, step) in enumerate(modes) if step == 1]
    units = [i for i in units if modes[i][0] > 1] or units[:1]
    if len(units) > 1:
        raise LayoutError(
            f"downcast of {layout} by {n}: {len(units)} modes have stride 1, and the parts of an "
            "element belong to one; give the others another stride"
        )
    sizes = [size * n if i in units else size for i, (size, _) in enumerate(modes)]
    steps = [1 if i in units else step * n for i, (_, step) in enumerate(modes)]
    return unchecked(refill(layout.shape, sizes), refill(layout.shape, steps))


def _check_count(n: int, what: str) -> None:
    if n < 1:
        raise LayoutError(f"{what} by {n}: give a whole number from 1")


def _upcast_refusal(layout: Layout, n: int, size: int, step: int) -> str:
    if n % step:
        down = max(d for d in range(1, min(n, step) + 1) if n % d == 0)
        choices = [down, -(-step // n) * n]
        nearest = min(choices, key=lambda d: abs(d - step))
        return (
            f"upcast of {layout} by {n}: the stride of mode {size}:{step} must divide {n} or be a "
            f"multiple of it. Nearest that would do: {size}:{nearest}"
        )
    group = n // step
    return (
        f"upcast of {layout} by {n}: mode {size}:{step} ends inside a group of {group} elements; "
        f"its size must be a multiple of {group} or divide it. Nearest that would do: "
        f"{max(size // group, 1) * group}:{step}"
    )


def _upcast_swizzle(swizzle: Swizzle, n: int) -> Swizzle:
    if not swizzle.bits:
        return swizzle
    if n & (n - 1) or n.bit_length() - 1 > swizzle.base:
        raise LayoutError(
            f"upcast of {swizzle} by {n}: it permutes inside groups of {n}; give a power of two up "
            f"to {1 << swizzle.base}, which leaves whole groups together"
        )
    return Swizzle(swizzle.bits, swizzle.base - (n.bit_length() - 1), swizzle.shift)
