"""Random layouts: by the thousand and quickly, or through hypothesis, which shrinks a failure.

Both draw through `Draw`, so both make the same kinds of layouts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tilewright.errors import LayoutError
from tilewright.layouts import Layout
from tilewright.layouts.int_tuple import IntTuple, leaves, refill

COUNT = 10_000
SIZES = (1, 2, 2, 3, 4, 4, 5, 6, 8)
KINDS = ("compact", "compact", "padded", "broadcast", "any")
INJECTIVE = ("compact", "padded")


class Draw:
    """Draws by `pick`, which returns one of the items of a tuple."""

    def __init__(self, pick: Callable[[Any], Any]) -> None:
        self.pick = pick

    def shape(self, depth: int = 2, sizes: tuple[int, ...] = SIZES) -> IntTuple:
        rank = self.pick((0, 1, 2, 2, 3)) if depth else 0
        if rank == 0:
            size: int = self.pick(sizes)
            return size
        return tuple([self.shape(depth - 1, sizes) for _ in range(rank)])

    def layout(
        self,
        kinds: tuple[str, ...] = KINDS,
        *,
        depth: int = 2,
        sizes: tuple[int, ...] = SIZES,
        limit: int = 64,
    ) -> Layout:
        """A layout of at most `limit` elements; sizes that would make it more become 1."""
        return self.of(self.shape(depth, sizes), kinds, limit)

    def matrix(self, kinds: tuple[str, ...] = KINDS, limit: int = 64) -> Layout:
        """A layout of two modes, each of at most two."""
        return self.of((self.shape(1), self.shape(1)), kinds, limit)

    def of(self, shape: IntTuple, kinds: tuple[str, ...], limit: int) -> Layout:
        total, sizes = 1, []
        for size in leaves(shape):
            sizes.append(size if total * size <= limit else 1)
            total *= sizes[-1]
        strides = self.strides(sizes, self.pick(kinds))
        return Layout(refill(shape, sizes), refill(shape, strides))

    def strides(self, sizes: list[int], kind: str) -> list[int]:
        """Strides in a random order of modes: tight, padded, with broadcasts, or any at all."""
        order: list[int] = []
        for at in range(len(sizes)):
            order.insert(self.pick(tuple(range(at + 1))), at)
        strides, step = [0] * len(sizes), 1
        for at in order:
            if kind == "any":
                strides[at] = self.pick((0, 1, 2, 3, 4, 6, 8, 10, 16, 24))
                continue
            if kind == "padded":
                step *= self.pick((1, 1, 1, 2, 3))
            strides[at] = 0 if kind == "broadcast" and self.pick((True, False, False)) else step
            step *= sizes[at]
            if kind == "padded":
                step += self.pick((0, 0, 0, 1, 4))
        return strides

    def tiler(self) -> Any:
        """A tile for one mode: an integer, a vector or a small matrix, strided or not."""
        if self.pick((True, False)):
            return self.pick((1, 2, 3, 4, 6))
        return self.layout(
            ("compact", "compact", "padded"), depth=1, sizes=(1, 2, 2, 3, 4), limit=16
        )


def random_draw(seed: int) -> Draw:
    """A Draw from the standard library's generator."""
    number = random.Random(seed).random
    return Draw(lambda items: items[int(number() * len(items))])


class Law(NamedTuple):
    """How to make operands, the operation on them, and the check of (operands, result)."""

    make: Callable[[Draw], tuple[Any, ...]]
    operation: Callable[..., Any]
    check: Callable[..., None]

    def hold(self, count: int, draw: Draw) -> None:
        """Check `count` results, leaving out the operands that the operation refuses."""
        while count:
            count -= self.hold_or_refuse(draw)

    def hold_or_refuse(self, draw: Draw) -> bool:
        """Check the result on one draw of operands; say whether there was one."""
        operands = self.make(draw)
        try:
            result = self.operation(*operands)
        except LayoutError:
            return False
        self.check(*operands, result)
        return True


def value(layout: Layout, index: int) -> int:
    """The layout at a flat coordinate by the definition, its last mode without end."""
    modes = list(zip(leaves(layout.shape), leaves(layout.stride), strict=True))
    total = 0
    for size, step in modes[:-1]:
        total += index % size * step
        index //= size
    return total + index * modes[-1][1]


def values(layout: Layout) -> list[int]:
    """The layout at every flat coordinate, by the definition."""
    return [value(layout, index) for index in range(layout.size)]
