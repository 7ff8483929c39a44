"""What the algebra refuses: messages name the modes, the condition, and choices that do work."""

from __future__ import annotations

import re
from typing import Any

import pytest
from layout_samples import random_draw, value

from tilewright.errors import LayoutError
from tilewright.layouts import (
    Layout,
    Swizzle,
    complement,
    composition,
    downcast,
    flat_divide,
    left_inverse,
    logical_divide,
    logical_product,
    parse,
    parse_layout,
    recast,
    upcast,
)


def refusal(operation: Any, *operands: Any) -> str:
    with pytest.raises(LayoutError) as caught:
        operation(*operands)
    return str(caught.value)


def test_a_step_that_is_neither_divisor_nor_multiple() -> None:
    assert refusal(composition, Layout((6, 2), (8, 2)), Layout(4, 4)) == (
        "composition of (6,2):(8,2) with 4:4: mode 4:4 of the latter would take 4 coordinates 4 "
        "apart in mode 6:8 of the former; the step must divide 6, be a multiple of it, or stay "
        "inside its 6 elements. Nearest that would do: 4:3 or 2:4"
    )


def test_a_size_that_ends_inside_a_mode() -> None:
    message = refusal(composition, Layout(((2, 3), 4), ((1, 2), 10)), Layout(8, 2))
    assert message == (
        "composition of ((2,3),4):((1,2),10) with 8:2: mode 8:2 of the latter would take 8 "
        "coordinates 2 apart in mode 6:1 of the former, coalesced (6,4):(1,10); it has room for 3 "
        "of them, which must divide 8. Nearest that would do: 8:3 or 9:2"
    )


def test_modes_that_carry_together() -> None:
    # Each mode alone composes; together they reach 3 + 2 = 5 of 4. CuTe gives (2,2):(3,2), which
    # is 5 at (1,1), where the left side at 5 is 11.
    message = refusal(composition, Layout((4, 4), (1, 10)), Layout((2, 2), (3, 2)))
    assert "mode 2:2 of the latter would take 2 coordinates 2 apart in mode 4:1" in message
    assert "reaches coordinate 5 of 4, and would carry into the next mode" in message
    message = refusal(composition, Layout((12, 8), (1, 100)), Layout((5, 3), (1, 5)))
    assert "reaches coordinate 14 of 12" in message
    # 3:3 reaches 6; of the four steps of 6 two belong to this mode, and reach 6 more.
    message = refusal(composition, Layout((12, 8), (1, 100)), Layout((3, 4), (3, 6)))
    assert "reaches coordinate 12 of 12" in message


# Operands that CuTe's headers accept, with what they print: not the law's function.
CUTE_BREAKS_THE_LAW = [
    ("((4,8),(4,1,3)):((3,4),(1,4,0))", "(8,2):(2,3)", "((2,4),2):((6,4),9)"),
    ("(8,3,1):(3,2,3)", "6:3", "(3,2):(9,2)"),
    ("((4),2):((3),36)", "8:3", "(2,4):(9,36)"),
    ("((2,2),3):((3,6),1)", "6:3", "(2,3):(9,1)"),
    ("((4,3),3,4):((0,48),4,12)", "(4,3):(1,1)", "(4,3):(0,0)"),
    ("((3,6,2),(6)):((0,3,18),(0))", "4:2", "(2,2):(0,3)"),
    ("((6,4,1)):((4,1,1))", "6:4", "(2,3):(16,1)"),
]


@pytest.mark.parametrize(("left", "right", "printed"), CUTE_BREAKS_THE_LAW)
def test_refused_where_cute_breaks_the_law(left: str, right: str, printed: str) -> None:
    a, b, result = parse(left), parse(right), parse(printed)
    assert isinstance(a, Layout)
    assert result.indices() != [value(a, index) for index in b.indices()]
    refusal(composition, a, b)


def test_what_is_suggested_for_a_composition_is_admissible() -> None:
    draw, suggested = random_draw(seed=5), 0
    while suggested < 2000:
        a = draw.layout(limit=256)
        b = Layout(draw.pick((2, 3, 4, 6, 8, 9, 12)), draw.pick((1, 2, 3, 4, 5, 6, 7, 9, 10, 14)))
        try:
            composition(a, b)
        except LayoutError as error:
            choices = re.findall(r"(\d+):(\d+)", str(error).partition("that would do: ")[2])
            assert choices
            for size, step in choices:
                near = Layout(int(size), int(step))
                assert near != b
                result = composition(a, near)
                assert result.indices() == [value(a, index) for index in near.indices()]
            suggested += 1


def test_what_is_suggested_for_a_divide_divides() -> None:
    draw, suggested = random_draw(seed=9), 0
    while suggested < 300:
        a, tile = (
            draw.layout(limit=256),
            Layout(draw.pick((3, 4, 5, 6, 8, 9)), draw.pick((1, 2, 3))),
        )
        try:
            logical_divide(a, tile)
        except LayoutError as error:
            near = parse_layout(str(error).partition("that would do: ")[2])
            assert near != tile
            logical_divide(a, near)
            suggested += 1


def test_overlapping_modes_have_no_complement() -> None:
    assert refusal(complement, Layout((4, 3), (1, 2)), 24) == (
        "complement of (4,3):(1,2): modes 4:1 and 3:2 overlap: a stride must be at least the "
        "extent (size × stride) of the modes with smaller ones, here 4. Nearest that would do: 3:4"
    )
    assert str(complement(Layout((4, 3), (1, 4)), 24)) == "2:12"


def test_divides_and_products_say_what_does_not_divide() -> None:
    assert refusal(logical_divide, Layout((64, 10), (10, 1)), 24) == (
        "(64,10):(10,1) does not divide by 24:1: composition of (64,10):(10,1) with "
        "(24,27):(1,24): mode 27:24 of the latter would take 27 coordinates 24 apart in mode 64:10 "
        "of the former; the step must divide 64, be a multiple of it, or stay inside its 64 "
        "elements. Nearest that would do: 16:1"
    )
    logical_divide(Layout((64, 10), (10, 1)), 16)
    message = refusal(logical_divide, Layout((6, 4), (1, 10)), Layout((2, 2), (1, 2)))
    assert message.endswith(
        "Divide by its modes one after the other to see which of them does not fit"
    )
    message = refusal(logical_divide, Layout(24), Layout((2, 2), (1, 1)))
    assert message.startswith("24:1 does not divide by (2,2):(1,1): complement of (2,2):(1,1)")
    message = refusal(logical_product, Layout((4, 3), (1, 2)), 2)
    assert message.startswith("(4,3):(1,2) does not repeat by 2:1: complement of (4,3):(1,2)")
    message = refusal(logical_divide, Layout((8, 8)), (4, 4, 4))
    assert "the tiler has 3 elements, (8,8):(1,8) has 2 modes" in message
    assert "give the size" in refusal(flat_divide, Layout((8, 8)), None)


def test_left_inverses_that_are_no_layouts() -> None:
    message = refusal(left_inverse, Layout((4, 8), (1, 0)))
    assert "it is not injective" in message
    message = refusal(left_inverse, Layout((4, 4, 2), (1, 5, 22)))
    assert message == (
        "left_inverse of (4,4,2):(1,5,22): the stride 22 must be a multiple of 5, the stride below "
        "it. Nearest that would do: 2:25"
    )
    assert str(left_inverse(Layout((4, 4, 2), (1, 5, 25)))) == "(5,5,2):(1,4,16)"


def test_recasts_that_cut_elements() -> None:
    assert "mode 6:1 ends inside a group of 4 elements" in refusal(upcast, Layout(6), 4)
    assert refusal(upcast, Layout(6), 4).endswith("4:1")
    assert "stride of mode 4:3 must divide 8" in refusal(upcast, Layout(4, 3), 8)
    assert "overlap inside a group" in refusal(upcast, Layout((2, 2), (1, 1)), 2)
    assert "2 modes have stride 1" in refusal(downcast, Layout((2, 2), (1, 1)), 2)
    assert "give at least 1" in refusal(recast, Layout(8), 0, 32)
    assert "give a whole number from 1" in refusal(upcast, Layout(8), 0)
    swizzled = composition(Swizzle(2, 2, 3), Layout((8, 8), (8, 1)))
    assert "give a power of two" in refusal(downcast, swizzled, 3)
    assert "no modes to compose" in refusal(composition, Swizzle(2, 2, 3), (4, 4))
