"""Integer arithmetic (PTX ISA 9.7.1)."""

import pytest
from harness import AMOUNT, Domain, Section, bits_of, op, parameters, wrap

ALL = ("u16", "u32", "u64", "s16", "s32", "s64")
WIDE = ("u32", "u64", "s32", "s64")


def clamp(value, kind):
    low = -(1 << (bits_of(kind) - 1)) if kind[0] == "s" else 0
    return max(low, min(value, low + (1 << bits_of(kind)) - 1))


def quotient(a, b):
    """Towards zero; by zero, all ones: what NVIDIA GPUs give, though the ISA leaves it open."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def ops():
    for t in ALL:
        bits = bits_of(t)
        two, three = (t, t), (t, t, t)
        yield op(f"add.{t}", t, two, lambda a, b: a + b)
        yield op(f"sub.{t}", t, two, lambda a, b: a - b)
        yield op(f"mul.lo.{t}", t, two, lambda a, b: a * b)
        yield op(f"mul.hi.{t}", t, two, lambda a, b, n=bits: a * b >> n)
        yield op(f"mad.lo.{t}", t, three, lambda a, b, c: a * b + c)
        yield op(f"mad.hi.{t}", t, three, lambda a, b, c, n=bits: (a * b >> n) + c)
        yield op(f"div.{t}", t, two, quotient)
        yield op(f"rem.{t}", t, two, lambda a, b: a - quotient(a, b) * b if b else a)
        yield op(f"min.{t}", t, two, min)
        yield op(f"max.{t}", t, two, max)
        yield op(f"sad.{t}", t, three, lambda a, b, c: abs(a - b) + c)
        if bits < 64:
            wide = f"{t[0]}{2 * bits}"
            yield op(f"mul.wide.{t}", wide, two, lambda a, b: a * b)
            yield op(f"mad.wide.{t}", wide, (t, t, wide), lambda a, b, c: a * b + c)
        if t[0] == "s":
            yield op(f"abs.{t}", t, (t,), abs)
            yield op(f"neg.{t}", t, (t,), lambda a: -a)

SECTION = Section("integer", list(ops()))


@pytest.mark.parametrize("one", parameters(SECTION))
def test_integer(executor, one):
    SECTION.check(executor, one)
