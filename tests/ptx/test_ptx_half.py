"""float16 and bfloat16, single and packed (PTX ISA 9.7.4), and mixed with float32 (9.7.5)."""

import math

import pytest
from float_cases import smaller, xorsign
from harness import Section, op, pairwise, parameters
from ieee import F16, F32, FORMATS, Format, add, fma, mul, saturated


def relu(x):
    return x if math.isnan(x) or x > 0 else 0.0


def flushing(kind):
    tiny = FORMATS[kind].tiny
    return lambda x: math.copysign(0.0, x) if abs(x) < tiny else x


def flushes(operation):
    """float16 under .ftz, decided as for float32 (see `float_cases.flushed_result`)."""
    flush, unbounded = flushing("f16"), Format(8, 10)

    def value(*operands):
        seen = tuple(map(flush, operands))
        result = operation(*seen, F16)
        return math.copysign(0.0, result) if abs(operation(*seen, unbounded)) < F16.tiny else result

    return value


def scalar(kind):
    """(name, number of operands, reference) of what one half does."""
    form, flush = FORMATS[kind], flushing(kind)
    operations = {"add": add, "sub": lambda a, b, to: add(a, -b, to), "mul": mul}
    for name, operation in operations.items():
        yield name, 2, lambda a, b, f=operation: f(a, b, form)
        yield f"{name}.rn", 2, lambda a, b, f=operation: f(a, b, form)
        if kind == "f16":
            yield f"{name}.sat", 2, lambda a, b, f=operation: saturated(f(a, b, form))
            yield f"{name}.ftz", 2, flushes(operation)
    yield "fma.rn", 3, lambda *x: fma(*x, form)
    yield "fma.rn.relu", 3, lambda *x: relu(fma(*x, form))
    if kind == "f16":
        yield "fma.rn.sat", 3, lambda *x: saturated(fma(*x, form))
        yield "fma.rn.ftz", 3, flushes(fma)
    yield "neg", 1, lambda a: -a
    yield "abs", 1, abs
    for name in ("min", "max"):
        large = name == "max"
        yield name, 2, lambda a, b, m=large: smaller(a, b, largest=m)
        yield f"{name}.NaN", 2, lambda a, b, m=large: smaller(a, b, largest=m, nan=True)
        yield f"{name}.xorsign.abs", 2, lambda a, b, m=large: xorsign(a, b, largest=m)
        if kind == "f16":
            yield (
                f"{name}.ftz",
                2,
                lambda a, b, m=large: smaller(flush(a), flush(b), largest=m),
            )


def ops(kind):
    for name, count, expect in scalar(kind):
        yield op(f"{name}.{kind}", kind, (kind,) * count, expect)
        pair = f"{kind}x2"
        yield op(f"{name}.{pair}", pair, (pair,) * count, pairwise(expect))


def mixed():
    for kind in ("f16", "bf16"):
        for name, sign in (("add", 1), ("sub", -1)):
            for mode in ("rn", "rz", "rm", "rp"):
                yield op(
                    f"{name}.{mode}.f32.{kind}",
                    "f32",
                    (kind, "f32"),
                    lambda a, c, s=sign, m=mode: add(a, s * c, F32, m),
                )
        yield op(
            f"add.sat.f32.{kind}", "f32", (kind, "f32"), lambda a, c: saturated(add(a, c, F32))
        )
        yield op(f"fma.rn.f32.{kind}", "f32", (kind, kind, "f32"), lambda *x: fma(*x, F32))


SECTIONS = [Section(kind, list(ops(kind))) for kind in ("f16", "bf16")]
NEWER = [Section("mixed", list(mixed()), target="sm_100", version="8.8")]


@pytest.mark.parametrize(("section", "one"), parameters([*SECTIONS, *NEWER]))
def test_half(executor, section, one):
    section.check(executor, one)
