"""The ops that float32 and float64 share (PTX ISA 9.7.3), each rounded exactly by `ieee`."""

import math

from harness import op
from ieee import FORMATS, add, div, flushed, fma, mul, saturated, sqrt

MODES = ("rn", "rz", "rm", "rp")


def suffixed(expect, *, ftz=False, sat=False):
    """A reference under .ftz (operands and result flushed) and .sat."""

    def value(*operands):
        result = expect(*(map(flushed, operands) if ftz else operands))
        result = flushed(result) if ftz else result
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
        "normal": lambda a: math.isfinite(a) and abs(a) >= tiny,
        "subnormal": lambda a: 0 < abs(a) < tiny,
    }


def arithmetic(kind, suffixes):
    """Rounded operations in every mode; `suffixes` are the (name, ftz, sat) that the type takes."""
    form = FORMATS[kind]
    one, two, three = (kind,), (kind,) * 2, (kind,) * 3
    for name, ftz, sat in suffixes:

        def rounded(operation, mode, ftz=ftz, sat=sat):
            return suffixed(lambda *x: operation(*x, form, mode), ftz=ftz, sat=sat)

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


def exact(kind, suffixes):
    """What picks, moves or tests bits."""
    one, two = (kind,), (kind,) * 2
    for name, ftz in suffixes:
        tail = f"{name}.{kind}"
        yield op(f"neg{tail}", kind, one, suffixed(lambda a: -a, ftz=ftz))
        yield op(f"abs{tail}", kind, one, suffixed(abs, ftz=ftz))
        for which in ("min", "max"):
            large = which == "max"
            yield op(
                f"{which}{tail}",
                kind,
                two,
                suffixed(lambda a, b, m=large: smaller(a, b, largest=m), ftz=ftz),
            )
    yield op(f"copysign.{kind}", kind, two, lambda a, b: math.copysign(b, a))
    for name, test in classes(kind).items():
        yield op(f"testp.{name}.{kind}", "pred", one, test)
