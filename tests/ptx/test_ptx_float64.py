"""float64 arithmetic (PTX ISA 9.7.3)."""

import pytest
from float_cases import arithmetic, exact
from harness import Section, parameters

SECTIONS = [
    Section("float64 arithmetic", list(arithmetic("f64", (("", False, False),)))),
    Section("float64 bits", list(exact("f64", (("", False),)))),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_float64(executor, section, one):
    section.check(executor, one)
