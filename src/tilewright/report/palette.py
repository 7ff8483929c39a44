"""The colours of pictures: told apart with any colour vision, readable on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.layouts.drawing import Colouring


@dataclass(frozen=True, slots=True)
class Fill:
    """The colour of a cell and that of the text on it, as #rrggbb."""

    ground: str
    ink: str


_DARK, _LIGHT = "#111111", "#ffffff"

# Source: Paul Tol, "Colour Schemes" (SRON/EPS/TN/09-002, issue 3.2), the qualitative scheme
# "light", made for labelled cells; neighbours in this order differ in hue and in lightness.
QUALITATIVE = tuple(
    Fill(ground, _DARK)
    for ground in (
        "#77aadd",
        "#eedd88",
        "#44bb99",
        "#ffaabb",
        "#99ddff",
        "#ee8866",
        "#bbcc33",
        "#dddddd",
    )
)

# One hue, from light to dark, for what is in order: low indices to high ones.
SEQUENTIAL = (
    Fill("#e8f1fa", _DARK),
    Fill("#d0e3f4", _DARK),
    Fill("#b4d2ec", _DARK),
    Fill("#94bce0", _DARK),
    Fill("#73a6d3", _DARK),
    Fill("#5590c6", _DARK),
    Fill("#336fac", _LIGHT),
    Fill("#1f5490", _LIGHT),
)


def fills(by: Colouring) -> tuple[Fill, ...]:
    """Return the eight fills of a drawing: ordered ones for indices, distinct ones otherwise."""
    return SEQUENTIAL if by == "index" else QUALITATIVE
