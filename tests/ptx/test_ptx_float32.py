"""float32 arithmetic (PTX ISA 9.7.3)."""

from functools import partial

import pytest
from float_cases import MODES, arithmetic, at_the_edge, exact, smaller, suffixed, xorsign
from harness import Section, op, pairwise, parameters
from ieee import F32, add, flushed, fma, mul

SUFFIXES = (("", False, False), (".ftz", True, False), (".sat", False, True))


def more():
    """Shorter spellings, and the suffixes that float64 lacks."""
    two, three = ("f32",) * 2, ("f32",) * 3
    yield op("add.f32", "f32", two, lambda a, b: add(a, b, F32))
    yield op("add.ftz.sat.f32", "f32", two, suffixed(add, ftz=True, sat=True))
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
            lambda a, b, m=large: xorsign(flushed(a), flushed(b), largest=m, nan=True),
        )


def newer():
    """What sm_100 adds: two float32 in a register, and the extreme of three."""
    pair, three = ("f32x2",) * 2, ("f32",) * 3
    for mode in MODES:
        yield op(
            f"add.{mode}.f32x2", "f32x2", pair, pairwise(lambda a, b, m=mode: add(a, b, F32, m))
        )
        yield op(
            f"fma.{mode}.f32x2",
            "f32x2",
            (*pair, "f32x2"),
            pairwise(lambda *x, m=mode: fma(*x, F32, m)),
        )
    yield op("mul.ftz.f32x2", "f32x2", pair, pairwise(suffixed(mul, ftz=True)))
    for which in ("min", "max"):
        for nan in (False, True):
            pick = partial(smaller, largest=which == "max", nan=nan)
            yield op(
                f"{which}{'.NaN' if nan else ''}.f32 three",
                "f32",
                three,
                lambda a, b, c, f=pick: f(f(a, b), c),
                template=f"{which}{'.NaN' if nan else ''}.f32 {{d}}, {{a}}, {{b}}, {{c}};",
            )


NEWER = [Section("float32 of sm_100", list(newer()), target="sm_100", version="8.8")]
SECTIONS = [
    Section("float32 arithmetic", list(arithmetic("f32", SUFFIXES))),
    Section("float32 bits", list(exact("f32", (("", False), (".ftz", True))))),
    Section("float32 variants", list(more())),
    Section("float32 edge", list(at_the_edge())),
]


@pytest.mark.parametrize(("section", "one"), parameters([*SECTIONS, *NEWER]))
def test_float32(executor, section, one):
    section.check(executor, one)
