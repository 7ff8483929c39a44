"""What a layout is as a function: injective, surjective, contiguous."""

from __future__ import annotations

from tilewright.layouts.layout import Layout
from tilewright.layouts.swizzle import AnyLayout


def is_injective(layout: AnyLayout) -> bool:
    """Say whether no two coordinates share an index. A swizzle changes nothing about it.

    >>> is_injective(Layout((4, 8), (8, 1))), is_injective(Layout((4, 8), (1, 0)))
    (True, False)
    """
    plain = layout if isinstance(layout, Layout) else layout.layout
    modes = sorted((step, size) for size, step in plain.flat_modes() if size > 1)
    if any(step == 0 for step, _ in modes):
        return False
    reach = 0
    for step, size in modes:
        if step <= reach:
            # Interleaved modes: only the indices themselves tell.
            return len(set(plain.indices())) == plain.size
        reach += (size - 1) * step
    return True


def is_surjective(layout: AnyLayout) -> bool:
    """Say whether every index from 0 to cosize - 1 is reached.

    >>> is_surjective(Layout((4, 8), (1, 2))), is_surjective(Layout((8, 8), (1, 9)))
    (True, False)
    """
    if not isinstance(layout, Layout):
        found = set(layout.indices())
        return len(found) == max(found) + 1
    reach = 0
    for step, size in sorted((step, size) for size, step in layout.flat_modes()):
        if step > reach + 1 and size > 1:
            return False
        reach += (size - 1) * step
    return True


def is_contiguous(layout: AnyLayout) -> bool:
    """Say whether the indices are 0 to size - 1, each once: a permutation, without padding.

    >>> is_contiguous(Layout((4, 8), (8, 1))), is_contiguous(Layout((8, 8), (1, 9)))
    (True, False)
    """
    return is_surjective(layout) and layout.cosize == layout.size
