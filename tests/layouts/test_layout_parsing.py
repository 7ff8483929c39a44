"""Reading layouts: every printed form comes back; an error points at its character."""

from __future__ import annotations

import pytest
from layout_samples import random_draw

from tilewright.errors import LayoutError
from tilewright.layouts import ComposedLayout, Layout, Swizzle, Tiler, parse, parse_tiler


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("8", Layout(8)),
        ("8:2", Layout(8, 2)),
        ("(8):(2)", Layout((8,), (2,))),
        ("(4,8)", Layout((4, 8))),
        ("((4,8),2):((8,1),32)", Layout(((4, 8), 2), ((8, 1), 32))),
        (" ( (4, 8) , 2 ) : ( (8, 1), 32 ) ", Layout(((4, 8), 2), ((8, 1), 32))),
        ("(_4,_8):(_8,_1)", Layout((4, 8), (8, 1))),
        (
            "Sw<3,4,3> o 0 o (8,64):(64,1)",
            ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1))),
        ),
        (
            "Sw<3,4,3> o _0 o (_8,_64):(_64,_1)",
            ComposedLayout(Swizzle(3, 4, 3), 0, Layout((8, 64), (64, 1))),
        ),
        ("S<3,5,4> o 16 o (8,4):(1,8)", ComposedLayout(Swizzle(3, 5, 4), 16, Layout((8, 4)))),
        ("Sw<3,4,3> o 8", ComposedLayout(Swizzle(3, 4, 3), 0, Layout(8))),
        ("Sw<3,4,3> o 8:2", ComposedLayout(Swizzle(3, 4, 3), 0, Layout(8, 2))),
        ("Sw<2,0,-3>∘8", ComposedLayout(Swizzle(2, 0, -3), 0, Layout(8))),
    ],
)
def test_forms_of_layouts(text: str, layout: object) -> None:
    assert parse(text) == layout


@pytest.mark.parametrize(
    ("text", "tiler"),
    [
        ("8", 8),
        ("(4,8)", (4, 8)),
        ("4:2", Layout(4, 2)),
        ("<4,8>", (4, 8)),
        ("<3:3,(2,4):(1,8)>", (Layout(3, 3), Layout((2, 4), (1, 8)))),
        ("<_,4>", (None, 4)),
        ("<_3,<2,_>>", (3, (2, None))),
        ("_", None),
    ],
)
def test_forms_of_tilers(text: str, tiler: Tiler) -> None:
    assert parse_tiler(text) == tiler


def test_swizzled_layouts_come_back() -> None:
    draw = random_draw(seed=8)
    for _ in range(1000):
        swizzle = Swizzle(draw.pick((0, 1, 3)), draw.pick((0, 2, 4)), draw.pick((3, 4, -3)))
        layout = ComposedLayout(swizzle, draw.pick((0, 8, 100)), draw.layout())
        assert parse(str(layout)) == layout


@pytest.mark.parametrize(
    ("text", "at", "says"),
    [
        ("", 0, "expected a size or '('"),
        ("(4,8", 4, "expected ',' or ')'"),
        ("(4,)", 3, "expected a size or '('"),
        ("()", 1, "expected a size or '('"),
        ("(4,8):", 6, "expected a stride or '('"),
        ("(4,8):(8,x)", 9, "expected a stride or '('"),
        ("(4,0):(8,1)", 3, "0 is below 1"),
        ("(4,-8)", 3, "expected a size or '('"),
        ("(4,8):(8,1) x", 12, "expected the end"),
        ("(4,8):(8,1):2", 11, "expected the end"),
        ("(4,8):8", 0, "shape (4,8) and stride 8 differ in hierarchy"),
        ("Sw<3,4,3>", 9, "a swizzle needs a layout behind it"),
        ("Sw<3,4>", 6, "Sw<bits,base,shift>"),
        ("Sw<3,4,3 o 8", 9, "expected '>'"),
        ("Sw<3,4,2> o 8", 0, "shorter than the 3 bits"),
        ("Sw<,4,2> o 8", 3, "expected the number of bits"),
        ("Sw<3,4,3> 8", 10, "expected 'o'"),
        ("Sw<3,4,3> o 0 o", 15, "expected a size"),
        ("4²", 1, "expected the end"),
    ],
)
def test_errors_point_at_the_character(text: str, at: int, says: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse(text)
    message, shown, caret = str(caught.value).rsplit("\n", 2)
    assert says in message
    assert shown == f"  {text}"
    assert caret == " " * (at + 2) + "^"


@pytest.mark.parametrize(
    ("text", "at"), [("<4", 2), ("<4,>", 3), ("<>", 1), ("4:x", 2), ("<4>x", 3)]
)
def test_errors_of_tilers_point_at_the_character(text: str, at: int) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_tiler(text)
    assert str(caught.value).rsplit("\n", 1)[1] == " " * (at + 2) + "^"
