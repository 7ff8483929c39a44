"""float32 arithmetic (PTX ISA 9.7.3)."""

import pytest
from float_cases import arithmetic, exact, smaller, suffixed, xorsign
from harness import Section, op, parameters
from ieee import F32, add, fma

SUFFIXES = (("", False, False), (".ftz", True, False), (".sat", False, True))


def more():
    """Shorter spellings, and the suffixes that float64 lacks."""
    two, three = ("f32",) * 2, ("f32",) * 3
    rounded = lambda a, b: add(a, b, F32)  # noqa: E731
    yield op("add.f32", "f32", two, rounded)
    yield op("add.ftz.sat.f32", "f32", two, suffixed(rounded, ftz=True, sat=True))
    yield op("mad.rn.f32", "f32", three, lambda *x: fma(*x, F32))
    for which in ("min", "max"):
        large = which == "max"
        yield op(
            f"{which}.NaN.f32", "f32", two, lambda a, b, m=large: smaller(a, b, largest=m, nan=True)
        )
        yield op(
            f"{which}.xorsign.abs.f32", "f32", two, lambda a, b, m=large: xorsign(a, b, largest=m)
        )
        yield op(
            f"{which}.ftz.NaN.xorsign.abs.f32",
            "f32",
            two,
            suffixed(lambda a, b, m=large: xorsign(a, b, largest=m, nan=True), ftz=True),
        )


SECTIONS = [
    Section("float32 arithmetic", list(arithmetic("f32", SUFFIXES))),
    Section("float32 bits", list(exact("f32", (("", False), (".ftz", True))))),
    Section("float32 variants", list(more())),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_float32(executor, section, one):
    section.check(executor, one)
