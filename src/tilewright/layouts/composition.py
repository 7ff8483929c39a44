"""The composition of layouts, R(c) = A(B(c)): A's elements in the order of B's.

B's integers are taken one by one. The coordinate size:step of B walks through A's coalesced modes
as digits of a number: a digit is skipped by a step that is a multiple of it, filled by a step that
divides it, and ends the walk where the rest stays inside it. A's last mode has no bound, so B may
reach beyond A, as in CuTe. Whatever would carry from one digit into the next is no layout and is
refused; CuTe accepts some of those and gives a layout that breaks the law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, overload

from tilewright.errors import LayoutError
from tilewright.layouts.int_tuple import IntTuple, refill, unwrap
from tilewright.layouts.layout import Layout, unchecked
from tilewright.layouts.modes import concat
from tilewright.layouts.simplify import Mode, Modes, from_modes, merged
from tilewright.layouts.swizzle import AnyLayout, ComposedLayout, Swizzle

# What divides or selects a layout: a layout (on flat coordinates), a size n (the layout n:1), None
# (leave the mode alone), or a tuple of those, one a mode.
Tiler: TypeAlias = "Layout | int | tuple[Tiler, ...] | None"


class CompositionError(LayoutError):
    """A composition that is no layout: why, and what would do."""

    def __init__(self, reason: str, nearest: str) -> None:
        super().__init__(f"{reason}. Nearest that would do: {nearest}")
        self.reason = reason


class Piece(NamedTuple):
    """The part of a walk in one mode of A: `size` coordinates, `step` apart."""

    mode: int
    size: int
    step: int


class Refusal(NamedTuple):
    """Why a walk is no layout: at which mode of A, with what left of it."""

    mode: int
    size: int
    step: int


@overload
def composition(a: Layout, b: Layout) -> Layout: ...
@overload
def composition(a: Layout, b: Tiler) -> Layout: ...
@overload
def composition(a: Swizzle, b: Layout) -> ComposedLayout: ...
@overload
def composition(a: ComposedLayout, b: Tiler) -> ComposedLayout: ...
def composition(a: AnyLayout | Swizzle, b: Tiler) -> AnyLayout:
    """Return the layout of c -> a(b(c)); its shape is b's, with modes split where needed.

    With a tuple as `b`, its elements are composed with the modes of `a` one by one: None keeps a
    mode, further modes of `a` are dropped. An integer n stands for the layout n:1.

    >>> print(composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))))
    ((2,2),3):((24,2),8)
    >>> print(composition(Layout((12, (4, 8)), (59, (13, 1))), (3, 8)))
    (3,(4,2)):(59,(13,1))
    >>> print(composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1))))
    Sw<3,3,3> o 0 o (8,64):(64,1)

    Raises:
        LayoutError: no layout is that function. The message names the modes, the condition and the
            nearest sizes or steps that would do.
    """
    if isinstance(a, Swizzle):
        if not isinstance(b, Layout):
            raise LayoutError(f"{a} has no modes to compose one by one; give a layout")
        return ComposedLayout(a, 0, b)
    if isinstance(a, ComposedLayout):
        return a.map(lambda inner: composition(inner, b))
    if isinstance(b, Layout):
        return _compose(a, b)
    if isinstance(b, tuple):
        pairs = zip_modes(a, b, "composition")[: len(b)]
        return concat(*[composition(mode, part) for mode, part in pairs])
    return a if b is None else _compose(a, Layout(b))


def zip_modes(layout: Layout, tiler: Sequence[Tiler], what: str) -> list[tuple[Layout, Tiler]]:
    """Pair the modes of a layout with a tuple of tilers, None for those that it does not name."""
    if len(tiler) > layout.rank:
        raise LayoutError(
            f"{what} by mode: the tiler has {len(tiler)} elements, {layout} has {layout.rank} "
            "modes; give at most one for each mode"
        )
    return list(itertools.zip_longest(layout, tiler))


def _compose(a: Layout, b: Layout) -> Layout:
    modes = digits(a)
    used = [0] * len(modes)  # the largest coordinate reached in each mode of A
    shapes: list[IntTuple] = []
    strides: list[IntTuple] = []
    for size, step in b.flat_modes():
        walk = pieces(modes, used, size, step)
        if isinstance(walk, Refusal):
            reason = _explain(a, (size, step), modes, used, walk)
            nearest = _nearest(modes, used, size, step)
            raise CompositionError(f"composition of {a} with {b}: {reason}", nearest)
        if size == 1:
            shapes.append(1)
            strides.append(extended(modes, step))
            continue
        for mode, count, stride in walk:
            used[mode] += (count - 1) * stride
        shapes.append(unwrap([piece.size for piece in walk]))
        strides.append(unwrap([piece.step * modes[piece.mode][1] for piece in walk]))
    return unchecked(refill(b.shape, shapes), refill(b.shape, strides))


def digits(layout: Layout) -> Modes:
    """Return the modes of a layout as digits: coalesced, the last one kept to go on without end."""
    *head, last = layout.flat_modes()
    modes = merged(head)
    if modes and modes[-1][0] * modes[-1][1] == last[1]:
        modes[-1] = (modes[-1][0] * last[0], modes[-1][1])
    else:
        modes.append(last)
    return modes


def extended(modes: Modes, index: int) -> int:
    """Return the layout's value at a flat coordinate of any size."""
    total = 0
    for size, step in modes[:-1]:
        index, digit = divmod(index, size)
        total += digit * step
    return total + index * modes[-1][1]


def pieces(modes: Modes, used: Sequence[int], size: int, step: int) -> list[Piece] | Refusal:
    """Walk `size` coordinates, `step` apart, through the modes; the pieces, or where it fails.

    `used` is what other walks reach in each mode: together they must stay inside it.
    """
    last = len(modes) - 1
    if size == 1 or step == 0:
        return [Piece(last, size, 0)]
    found: list[Piece] = []
    for mode in range(last):
        bound = modes[mode][0]
        if step % bound == 0:
            step //= bound
            continue
        if (size - 1) * step < bound:
            count = size
        elif bound % step == 0 and size % (bound // step) == 0:
            count = bound // step
        else:
            return Refusal(mode, size, step)
        if used[mode] + (count - 1) * step >= bound:
            return Refusal(mode, size, step)
        found.append(Piece(mode, count, step))
        size //= count
        step = 1
        if size == 1:
            return found
    found.append(Piece(last, size, step))
    return found


def _explain(a: Layout, mode: Mode, modes: Modes, used: Sequence[int], refusal: Refusal) -> str:
    """Say in which mode of `a` a mode of the right side fails, and why."""
    at, left, pace = refusal
    bound, stride = modes[at]
    coalesced = "" if modes == a.flat_modes() else f", coalesced {from_modes(modes)}"
    if step_fits(left, pace, bound):
        count = left if (left - 1) * pace < bound else bound // pace
        reason = (
            f"with the modes before it that reaches coordinate {used[at] + (count - 1) * pace} of "
            f"{bound}, and would carry into the next mode"
        )
    elif bound % pace == 0:
        reason = f"it has room for {bound // pace} of them, which must divide {left}"
    else:
        reason = (
            f"the step must divide {bound}, be a multiple of it, or stay inside its {bound} "
            "elements"
        )
    return (
        f"mode {mode[0]}:{mode[1]} of the latter would take {left} coordinates {pace} apart in "
        f"mode {bound}:{stride} of the former{coalesced}; {reason}"
    )


def step_fits(size: int, step: int, bound: int) -> bool:
    """Say whether a walk alone gets through a mode of `bound` elements."""
    if step % bound == 0 or (size - 1) * step < bound:
        return True
    return bound % step == 0 and size % (bound // step) == 0


def around(size: int) -> Iterator[int]:
    """Yield the sizes nearest to one, the nearest first, from 2 up and not without end."""
    yield from (n for k in range(1, min(size, 4096)) for n in (size - k, size + k) if n > 1)


def _nearest(modes: Modes, used: Sequence[int], size: int, step: int) -> str:
    """Name the nearest admissible step for the size, and the nearest size for the step."""

    def first(candidates: Iterable[tuple[int, int]]) -> str | None:
        good = (c for c in candidates if not isinstance(pieces(modes, used, *c), Refusal))
        found = next(good, None)
        return f"{found[0]}:{found[1]}" if found else None

    steps, before = set(), 1
    for bound, _ in modes[:-1]:
        lower = [d for d in range(1, math.isqrt(bound) + 1) if bound % d == 0]
        steps |= {before * d for d in lower} | {before * (bound // d) for d in lower}
        before *= bound
    steps |= {before * max(step // before + near, 1) for near in (0, 1)}
    by_step = first((size, s) for s in sorted(steps, key=lambda s: (abs(s - step), s)))
    by_size = first((n, step) for n in around(size))
    return " or ".join(choice for choice in (by_step, by_size) if choice) or f"1:{step}"
