"""Our results beside those of CuTe's own C++ headers, recorded, on random operands.

The stride of a mode of one element means nothing; CuTe and we choose it differently, so it is left
out of the comparison. Everything else, hierarchy included, must be the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright import layouts
from tilewright.layouts import AnyLayout, ComposedLayout, Layout, Tiler, parse, parse_tiler
from tilewright.layouts.int_tuple import refill

RECORD = json.loads((Path(__file__).parent / "data" / "cute_results.json").read_text())
OPERATIONS = sorted({name for name, _, _ in RECORD["results"]})


def operand(text: str) -> Tiler | AnyLayout:
    return int(text) if text.isdigit() else parse_tiler(text)


def meaningful(layout: AnyLayout) -> str:
    inner = layout.layout if isinstance(layout, ComposedLayout) else layout
    steps = [step if size > 1 else 0 for size, step in inner.flat_modes()]
    return str(Layout(inner.shape, refill(inner.shape, steps)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_those_of_cute(name: str) -> None:
    operation = getattr(layouts, name)
    cases = [case[1:] for case in RECORD["results"] if case[0] == name]
    assert len(cases) >= 12
    for operands, printed in cases:
        result = operation(*map(operand, operands))
        if isinstance(result, int):
            assert result == int(printed), operands
        else:
            assert meaningful(result) == meaningful(parse(printed)), operands
