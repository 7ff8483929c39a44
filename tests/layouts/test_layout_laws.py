"""The law that defines each operation, at every coordinate of ten thousand random operands each.

The same laws go through hypothesis, in few examples: it finds the smallest operands that fail.
A law's right side is computed here from the definition, by division and remainder.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layout_samples import COUNT, INJECTIVE, Draw, Law, random_draw, value, values

from tilewright.layouts import (
    ComposedLayout,
    Layout,
    Swizzle,
    coalesce,
    compatible,
    complement,
    composition,
    concat,
    downcast,
    filter,
    flatten,
    is_contiguous,
    is_injective,
    is_surjective,
    left_inverse,
    like,
    max_common_layout,
    max_common_vector,
    parse,
    recast,
    right_inverse,
    upcast,
)
from tilewright.layouts.int_tuple import idx2crd, leaves, refill


def a_layout(draw: Draw) -> tuple[Layout]:
    return (draw.layout(),)


def an_injective(draw: Draw) -> tuple[Layout]:
    return (draw.layout(INJECTIVE),)


def check_values(layout: Layout, result: list[int]) -> None:
    assert result == values(layout)
    assert layout.size == len(result)
    assert layout.cosize == max(result) + 1


def check_coalesce(layout: Layout, result: Layout) -> None:
    assert result.indices() == layout.indices()
    assert result.depth <= 1
    modes = result.flat_modes()
    assert all(size > 1 for size, _ in modes) or result == Layout(1, 0)
    assert all(s * d != e for (s, d), (_, e) in itertools.pairwise(modes))


def check_coalesce_by_mode(layout: Layout, profile: tuple[int, ...], result: Layout) -> None:
    assert result.rank == layout.rank
    for number, (mode, old) in enumerate(zip(result, layout, strict=True)):
        assert mode == (coalesce(old) if number < len(profile) else old)


def check_filter(layout: Layout, result: Layout) -> None:
    assert set(result.indices()) == set(layout.indices())
    assert all(step for _, step in result.flat_modes()) or result == Layout(1, 0)


def check_composition(a: Layout, b: Layout, result: Layout) -> None:
    assert compatible(b.shape, result.shape)
    assert result.indices() == [value(a, index) for index in b.indices()]


def make_composition(draw: Draw) -> tuple[Layout, Layout]:
    """Half of the left sides start with a big mode: random small ones refuse nearly everything."""
    b = draw.layout(limit=48, depth=draw.pick((0, 1, 2)))
    if draw.pick((True, False)):
        return draw.layout(sizes=(2, 4, 8), limit=64), b
    return draw.layout(sizes=(4, 6, 12, 24), limit=1024), b


def check_complement(layout: Layout, size: int, result: Layout) -> None:
    assert result.indices() == sorted(set(result.indices()))
    both = concat(filter(layout), result)
    assert len(set(both.indices())) == both.size, "shifted copies meet"
    sizes, steps = zip(*sorted(filter(layout).flat_modes(), key=lambda mode: mode[1]), strict=True)
    spans = [1, *[s * d for s, d in zip(sizes, steps, strict=True)]]
    if all(step % span == 0 for step, span in zip(steps, spans, strict=False)) and steps[0]:
        assert set(range(size)) <= set(both.indices()), "without padding nothing is left out"


def check_right_inverse(layout: Layout, result: Layout) -> None:
    table = layout.indices()
    assert [table[i] for i in result.indices()] == list(range(result.size))
    if sorted(table) == list(range(layout.size)):
        assert result.size == layout.size
    elif layout.size == len(set(table)) and result.size not in table:
        assert set(range(result.size)) <= set(table)


def check_left_inverse(layout: Layout, result: Layout) -> None:
    assert [value(result, index) for index in layout.indices()] == list(range(layout.size))


def two_injective(draw: Draw) -> tuple[Layout, Layout]:
    a = draw.layout(INJECTIVE)
    return a, draw.of(a.shape, INJECTIVE, 96)


def check_common_layout(a: Layout, b: Layout, result: Layout) -> None:
    ours, theirs = a.indices(), b.indices()
    for index, place in enumerate(result.indices()):
        assert ours[place] == theirs[place] == index
    longest = 0
    while longest in ours and longest in theirs and ours.index(longest) == theirs.index(longest):
        longest += 1
    assert result.size == longest


def check_common_vector(a: Layout, b: Layout, result: int) -> None:
    assert result == max_common_layout(a, b).size


def check_upcast(layout: Layout, n: int, result: Layout) -> None:
    groups = [n // step if 0 < step < n else 1 for _, step in layout.flat_modes()]
    table = result.indices()
    for index, old in zip(digits(layout), layout.indices(), strict=True):
        group = [d // g for d, g in zip(index, groups, strict=True)]
        assert table[place(group, result)] == old // n


def check_downcast(layout: Layout, n: int, result: Layout) -> None:
    modes = layout.flat_modes()
    units = [at for at, (_, step) in enumerate(modes) if step == 1]
    unit = next((at for at in units if modes[at][0] > 1), units[0] if units else None)
    table = result.indices()
    for index, old in zip(digits(layout), layout.indices(), strict=True):
        for part in range(1 if unit is None else n):
            finer = [d * n + part if at == unit else d for at, d in enumerate(index)]
            assert table[place(finer, result)] == old * n + part


def digits(layout: Layout) -> list[tuple[int, ...]]:
    """The natural coordinates without their hierarchy, the first number fastest."""
    sizes = leaves(layout.shape)
    return [turned[::-1] for turned in itertools.product(*map(range, reversed(sizes)))]


def place(coordinate: Sequence[int], layout: Layout) -> int:
    """The flat coordinate of a natural one."""
    flat = 0
    for digit, size in zip(reversed(coordinate), reversed(leaves(layout.shape)), strict=True):
        flat = flat * size + digit
    return flat


def make_recast(draw: Draw) -> tuple[Layout, int, int]:
    bits = (4, 8, 16, 32, 64, 128)
    return draw.layout(sizes=(1, 2, 4, 8), limit=32), draw.pick(bits), draw.pick(bits)


def check_recast(layout: Layout, old: int, new: int, result: Layout) -> None:
    if new >= old:
        check_upcast(layout, new // old, result)
    else:
        check_downcast(layout, old // new, result)


def make_swizzled(draw: Draw) -> tuple[Swizzle, int, Layout, Layout]:
    swizzle = Swizzle(draw.pick((0, 1, 2, 3)), draw.pick((0, 1, 2, 4)), draw.pick((3, 4, -3)))
    return swizzle, draw.pick((0, 3, 16)), *make_composition(draw)


def swizzled(swizzle: Swizzle, offset: int, a: Layout, b: Layout) -> ComposedLayout:
    return composition(ComposedLayout(swizzle, offset, a), b)


def check_swizzled(
    swizzle: Swizzle, offset: int, a: Layout, b: Layout, result: ComposedLayout
) -> None:
    size = 1 << swizzle.bits
    for place, index in enumerate(b.indices()):
        plain = offset + value(a, index)
        low, high = swizzle.base, swizzle.base + abs(swizzle.shift)
        source, target = (high, low) if swizzle.shift > 0 else (low, high)
        assert result(place) == plain ^ ((plain >> source) % size << target)


def check_predicates(layout: Layout, result: tuple[bool, bool, bool]) -> None:
    table = layout.indices()
    distinct = set(table)
    injective, surjective = len(distinct) == len(table), len(distinct) == max(table) + 1
    assert result == (injective, surjective, injective and surjective)


def make_slice(draw: Draw) -> tuple[Layout, Any]:
    layout = draw.layout()
    digits = [draw.pick((None, draw.pick(tuple(range(size))))) for size in leaves(layout.shape)]
    return layout, refill(layout.shape, digits)


def nones(coordinate: Any) -> int:
    if isinstance(coordinate, tuple):
        return sum(map(nones, coordinate))
    return coordinate is None


def check_slice(layout: Layout, coordinate: Any, result: tuple[Layout, int]) -> None:
    kept, offset = result
    count = nones(coordinate)
    assert kept.rank == count or layout.depth == 0
    fixed = refill(layout.shape, [0 if d is None else 1 for d in flat(coordinate)])
    sizes = [s for s, d in zip(leaves(layout.shape), flat(coordinate), strict=True) if d is None]
    for index in range(kept.size):
        inner = iter(leaves(idx2crd(index, tuple(sizes))))
        full = [next(inner) if d is None else d for d in flat(coordinate)]
        assert layout(refill(fixed, full)) == kept(index) + offset


def flat(coordinate: Any) -> list[int | None]:
    if isinstance(coordinate, tuple):
        return [leaf for part in coordinate for leaf in flat(part)]
    return [coordinate]


def check_like(layout: Layout, result: Layout) -> None:
    assert result.shape == layout.shape
    assert is_contiguous(filter(result))
    old, new = leaves(layout.stride), leaves(result.stride)
    for at, a in enumerate(old):
        assert (a == 0) == (new[at] == 0)
        assert all(new[at] <= n for n, b in zip(new, old, strict=True) if a < b)


def _equal(a: Layout, b: object) -> None:
    assert a == b
    assert hash(a) == hash(b)


LAWS: dict[str, Law] = {
    "evaluation": Law(a_layout, Layout.indices, check_values),
    "coalesce": Law(a_layout, coalesce, check_coalesce),
    "coalesce by mode": Law(
        lambda draw: ((a := draw.layout()), (1,) * draw.pick(tuple(range(1, a.rank + 1)))),
        coalesce,
        check_coalesce_by_mode,
    ),
    "flatten": Law(a_layout, flatten, lambda a, r: check_values(a, r.indices())),
    "filter": Law(a_layout, filter, check_filter),
    "composition": Law(make_composition, composition, check_composition),
    "swizzled composition": Law(make_swizzled, swizzled, check_swizzled),
    "complement": Law(
        lambda draw: (draw.layout(), draw.pick((1, 8, 24, 64, 100))), complement, check_complement
    ),
    "right_inverse": Law(a_layout, right_inverse, check_right_inverse),
    "left_inverse": Law(an_injective, left_inverse, check_left_inverse),
    "max_common_layout": Law(two_injective, max_common_layout, check_common_layout),
    "max_common_vector": Law(two_injective, max_common_vector, check_common_vector),
    "upcast": Law(
        lambda draw: (draw.layout(sizes=(1, 2, 4, 8), limit=32), draw.pick((1, 2, 4, 8))),
        upcast,
        check_upcast,
    ),
    "downcast": Law(
        lambda draw: (draw.layout(limit=24), draw.pick((1, 2, 3, 4))), downcast, check_downcast
    ),
    "recast": Law(make_recast, recast, check_recast),
    "slice": Law(make_slice, Layout.slice, check_slice),
    "like": Law(a_layout, like, check_like),
    "parse": Law(a_layout, lambda a: parse(str(a)), lambda a, r: _equal(a, r)),
    "predicates": Law(
        a_layout, lambda a: (is_injective(a), is_surjective(a), is_contiguous(a)), check_predicates
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_law_over_ten_thousand_random_operands(name: str) -> None:
    LAWS[name].hold(COUNT, random_draw(seed=len(name)))


@pytest.mark.parametrize("name", LAWS)
@settings(max_examples=30, deadline=None, database=None)
@given(data=st.data())
def test_law_on_examples_that_shrink(name: str, data: st.DataObject) -> None:
    LAWS[name].hold_or_refuse(Draw(lambda items: data.draw(st.sampled_from(items))))
