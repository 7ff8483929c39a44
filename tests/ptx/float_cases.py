"""The ops that float32 and float64 share (PTX ISA 9.7.3), each rounded exactly by `ieee`."""

import math

from harness import op
from ieee import F32, FORMATS, Format, add, div, flushed, fma, mul, saturated, sqrt
from ptx_values import Domain

MODES = ("rn", "rz", "rm", "rp")


# As precise as float32, with the exponents of float64. What .ftz flushes is decided there: some
# results below the least normal number are flushed that would round up to it (seen on an H200).
UNBOUNDED = Format(11, 23)


def flushed_result(compute):
    """What .ftz makes of compute(format), a result rounded to that format."""
    result = compute(F32)
    return math.copysign(0.0, result) if abs(compute(UNBOUNDED)) < F32.tiny else result


def suffixed(expect, *, ftz=False, sat=False):
    """A reference expect(*operands, format) under .ftz and .sat."""

    def value(*operands):
        if ftz:
            seen = tuple(map(flushed, operands))
            result = flushed_result(lambda form: expect(*seen, form))
        else:
            result = expect(*operands, F32)
        return saturated(result) if sat else result

    return value


def smaller(a, b, *, largest=False, nan=False):
    """min or max: a NaN is ignored (or for .NaN wins), and -0 is under +0."""
    if math.isnan(a) or math.isnan(b):
        return math.nan if nan else b if math.isnan(a) else a
    key = lambda x: (x, math.copysign(1, x))  # noqa: E731
    return max(a, b, key=key) if largest else min(a, b, key=key)


def xorsign(a, b, *, largest=False, nan=False):
    """The same of the sizes, with the sign of the product."""
    size = smaller(abs(a), abs(b), largest=largest, nan=nan)
    return math.copysign(size, math.copysign(1, a) * math.copysign(1, b))


def classes(kind):
    """What testp tells."""
    tiny = FORMATS[kind].tiny
    return {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda a: not math.isnan(a),
        "notanumber": math.isnan,
        "normal": lambda a: math.isfinite(a) and (abs(a) >= tiny or a == 0),
        "subnormal": lambda a: 0 < abs(a) < tiny,
    }


def arithmetic(kind, suffixes):
    """Rounded operations in every mode; `suffixes` are the (name, ftz, sat) that the type takes."""
    form = FORMATS[kind]
    one, two, three = (kind,), (kind,) * 2, (kind,) * 3
    for name, ftz, sat in suffixes:

        def rounded(operation, mode, ftz=ftz, sat=sat):
            if kind == "f64":
                return lambda *x: operation(*x, form, mode)
            return suffixed(lambda *x: operation(*x, mode), ftz=ftz, sat=sat)

        for mode in MODES if not sat else ("rn", "rz"):
            tail = f"{mode}{name}.{kind}"
            yield op(f"add.{tail}", kind, two, rounded(add, mode))
            yield op(f"sub.{tail}", kind, two, rounded(lambda a, b, *r: add(a, -b, *r), mode))
            yield op(f"mul.{tail}", kind, two, rounded(mul, mode))
            yield op(f"fma.{tail}", kind, three, rounded(fma, mode))
            if not sat:
                yield op(f"div.{tail}", kind, two, rounded(div, mode))
                yield op(f"rcp.{tail}", kind, one, rounded(lambda a, *r: div(1.0, a, *r), mode))
                yield op(f"sqrt.{tail}", kind, one, rounded(sqrt, mode))


def at_the_edge():
    """.ftz next to the least normal number: (1 + x)(1 - x) and the like, just below 1."""
    small = [2.0**-12 * k for k in (1, 2, 3)] + [2.0**-13, 2.0**-23, 0.0]
    near = Domain("f32", tuple(s * (0.5 + x) for x in small for s in (1, -1)), literals=())
    tiny = Domain("f32", tuple(math.ldexp(1 - x, -125) for x in small), literals=())
    big = Domain("f32", tuple(math.ldexp(1 + x, 126) for x in small), literals=())
    for mode in MODES:
        tail = f"{mode}.ftz.f32"
        for name, operation, operands in (
            ("mul", mul, (near, tiny)),
            ("fma", lambda a, b, *r: fma(a, b, 0.0, *r), (near, tiny)),
            ("div", div, (near, big)),
        ):
            text = f"{name}.{tail} {{d}}, {{a}}, {{b}}" + (
                ", 0f00000000;" if name == "fma" else ";"
            )
            expect = suffixed(lambda *x, f=operation, m=mode: f(*x, m), ftz=True)
            yield op(f"{name}.{tail} edge", "f32", operands, expect, template=text)
        yield op(
            f"cvt.{tail}.f64 edge",
            "f32",
            (Domain("f64", tuple(math.ldexp(1 - 2.0**-k, -126) for k in range(20, 30))),),
            lambda a, m=mode: flushed_result(lambda form: form.rounded(a, m)),
            template=f"cvt.{tail}.f64 {{d}}, {{a}};",
        )


def exact(kind, suffixes):
    """What picks, moves or tests bits."""
    one, two = (kind,), (kind,) * 2
    for name, ftz in suffixes:
        tail = f"{name}.{kind}"
        seen = flushed if ftz else lambda a: a
        yield op(f"neg{tail}", kind, one, lambda a, f=seen: -f(a))
        yield op(f"abs{tail}", kind, one, lambda a, f=seen: abs(f(a)))
        for which in ("min", "max"):
            large = which == "max"
            yield op(
                f"{which}{tail}",
                kind,
                two,
                lambda a, b, m=large, f=seen: smaller(f(a), f(b), largest=m),
            )
    yield op(f"copysign.{kind}", kind, two, lambda a, b: math.copysign(b, a))
    for name, test in classes(kind).items():
        yield op(f"testp.{name}.{kind}", "pred", one, test)
