"""Approximations, within the errors that the PTX ISA states (9.7.3.8 to 9.7.3.22, 9.7.4.9)."""

import math

import pytest
from harness import Section, op, pairwise, parameters
from ieee import F32, FORMATS, flushed
from ptx_values import Domain, Within, edges
from test_ptx_half import flushing

INF, NAN = math.inf, math.nan
LEAST = 2.0**-149  # of float32
SIZES = tuple(
    F32.rounded(sign * size * 1.1**step)
    for sign in (1, -1)
    for size in (2.0**-20, 0.37, 1.0)
    for step in range(0, 60, 3)
)
# Divisors in the range that div.approx promises something for, and the infinities.
DIVISORS = Domain(
    "f32", tuple(b for b in [*edges("f32"), *SIZES, 2.0**126, 2.0**-126] if flushed(b) == b)
)
NEAR = Domain("f32", tuple(F32.rounded(2 * math.pi * i / 128) for i in range(-128, 129)))
FAR = Domain("f32", tuple(F32.rounded(100 * math.pi * i / 256) for i in range(-256, 257)))


def around(exact, relative=0.0, absolute=0.0):
    """A bound about a finite number other than 0, which is wanted exactly, as are NaN and infinity.

    A result may overflow or underflow where the exact one is that close to doing so.
    """
    if not math.isfinite(exact) or exact == 0:
        return exact
    within = Within.around(exact, relative=relative, absolute=absolute + LEAST)
    low = -INF if within.low < -F32.largest else within.low
    return Within(low, INF if within.high > F32.largest else within.high)


def flushing_bound(exact, **error):
    """The same under .ftz: a result that small may also be 0."""
    bound = around(exact, **error)
    if not isinstance(bound, Within) or abs(exact) >= 1.01 * F32.tiny:
        return bound
    return Within(min(bound.low, 0.0), max(bound.high, 0.0))


def quotient(a, b):
    if math.isnan(a) or math.isnan(b) or (a == b == 0) or (math.isinf(a) and math.isinf(b)):
        return NAN
    sign = math.copysign(1, a) * math.copysign(1, b)
    if b == 0 or math.isinf(a):
        return sign * INF
    if math.isinf(b):
        return sign * 0.0
    result = a / b
    return sign * INF if abs(result) > 2.0**128 else result


def approximate_quotient(a, b):
    """div.approx: past 2^126 the reciprocal of b is 0."""
    if abs(b) > 2.0**126:
        return NAN if math.isinf(a) or math.isnan(a) else Within(-0.0, 0.0) if a else a / b
    return quotient(a, b)


def root(a):
    return a if a == 0 or a == INF else NAN if math.isnan(a) or a < 0 else math.sqrt(a)


def reciprocal_root(a):
    if a == 0:
        return math.copysign(INF, a)
    return NAN if math.isnan(a) or a < 0 else 1 / math.sqrt(a)


def power(a):
    if math.isnan(a):
        return a
    return INF if a >= 128 else 0.0 if a < -160 else 2.0**a


def logarithm(a):
    if a == 0:
        return -INF
    return NAN if math.isnan(a) or a < 0 else a if a == INF else math.log2(a)


def wave(function):
    return lambda a: NAN if math.isinf(a) else function(a)


def float32():
    for ftz in (False, True):
        bound, seen = (flushing_bound, flushed) if ftz else (around, lambda x: x)
        tail = ".ftz.f32" if ftz else ".f32"

        def unary(name, function, operand="f32", bound=bound, seen=seen, tail=tail, **error):
            expect = lambda a: bound(function(seen(a)), **error)  # noqa: E731
            short, _, where = name.partition(" ")
            template = f"{short}{tail} {{d}}, {{a}};"
            return op(f"{short}{tail} {where}", "f32", (operand,), expect, template=template)

        def near(a, b, quotient, bound=bound, seen=seen):
            want = quotient(seen(a), seen(b))
            return want if isinstance(want, Within) else bound(want, relative=2.0**-22)

        yield op(
            f"div.approx{tail}",
            "f32",
            ("f32", DIVISORS),
            lambda a, b, f=near: f(a, b, approximate_quotient),
        )
        yield op(
            f"div.full{tail}", "f32", ("f32", DIVISORS), lambda a, b, f=near: f(a, b, quotient)
        )
        yield unary("rcp.approx", lambda a: quotient(1.0, a), relative=2.0**-23)
        yield unary("sqrt.approx", root, relative=2.0**-23)
        yield unary("rsqrt.approx", reciprocal_root, relative=2.0**-22.4)
        yield unary("ex2.approx", power, relative=2.0**-22)
        yield unary("lg2.approx", logarithm, relative=2.0**-22, absolute=2.0**-22)
        for name, function in (("sin", math.sin), ("cos", math.cos)):
            yield unary(f"{name}.approx near 0", wave(function), NEAR, absolute=2.0**-20.5)
            yield unary(f"{name}.approx far", wave(function), FAR, absolute=2.0**-14.7)
    yield op("tanh.approx.f32", "f32", ("f32",), lambda a: around(math.tanh(a), relative=2.0**-11))


def gross(function):
    """The .ftz.f64 forms look at the upper word of the operand alone: 20 bits of mantissa."""

    def expect(a):
        exact = function(0.0 * a if abs(a) < 2.0**-1022 else a)
        if not math.isfinite(exact) or exact == 0:
            return exact
        low, high = exact * (1 - 2.0**-18), exact * (1 + 2.0**-18)
        bound = Within(min(low, high), max(low, high))
        return bound if abs(exact) > 2.0**-1021 else Within(min(bound.low, 0), max(bound.high, 0))

    return expect


def float64():
    one = ("f64",)
    yield op("rcp.approx.ftz.f64", "f64", one, gross(lambda a: quotient64(1.0, a)))
    yield op("rsqrt.approx.f64", "f64", one, gross64(reciprocal_root))
    yield op("rsqrt.approx.ftz.f64", "f64", one, gross(reciprocal_root))


def quotient64(a, b):
    if math.isnan(b):
        return b
    return math.copysign(INF, b) if b == 0 else math.copysign(0.0, b) if math.isinf(b) else a / b


def gross64(function):
    def expect(a):
        exact = function(a)
        return Within.around(exact, relative=2.0**-20) if math.isfinite(exact) and exact else exact

    return expect


def halves():
    for kind, wave_error, power_error in (
        ("f16", 2.0**-10.987, 2.0**-9.9),
        ("bf16", 2.0**-7.99, 2.0**-7),
    ):
        form = FORMATS[kind]
        least = math.ldexp(form.tiny, -form.mantissa)
        flush = flushing(kind) if kind == "bf16" else lambda a: a

        def tanh(a, error=wave_error):
            return a if math.isnan(a) else Within.around(math.tanh(a), absolute=error)

        def ex2(a, error=power_error, form=form, least=least, flush=flush):
            exact = power(flush(a))
            if not math.isfinite(exact) or exact == 0:
                return exact
            bound = Within.around(exact, relative=error, absolute=least)
            if exact < form.tiny * 1.01 and flush(form.tiny / 2) == 0:
                bound = Within(0.0, bound.high)
            return Within(bound.low, INF) if bound.high > form.largest else bound

        ftz = ".ftz" if kind == "bf16" else ""
        for name, one in ((f"tanh.approx.{kind}", tanh), (f"ex2.approx{ftz}.{kind}", ex2)):
            yield op(name, kind, (kind,), one)
            yield op(f"{name}x2", f"{kind}x2", (f"{kind}x2",), pairwise(one))


SECTIONS = [
    Section("float32 approximations", list(float32())),
    Section("float64 approximations", list(float64())),
    Section("half approximations", list(halves())),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_approx(executor, section, one):
    section.check(executor, one)
