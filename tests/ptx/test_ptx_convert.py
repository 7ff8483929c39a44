"""cvt between all types (PTX ISA 9.7.9.21)."""

import math
from fractions import Fraction

import pytest
from float_cases import flushed_result
from harness import Section, op, parameters
from ieee import BF16, E4M3, E5M2, F16, F32, F64, FORMATS, TF32, flushed, saturated
from ptx_values import Domain, bits_of, wrap
from test_ptx_half import relu
from test_ptx_integer import clamped

INTEGERS = [f"{s}{n}" for s in "us" for n in (8, 16, 32, 64)]
MODES = ("rn", "rz", "rm", "rp")
INTEGRAL = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def register(kind):
    """The type of a register that cvt writes for `kind`: none has 8 bits."""
    return f"{kind[0]}16" if kind[1:] == "8" else kind


def least(kind):
    return -(1 << bits_of(kind) - 1) if kind[0] == "s" else 0


def most(kind):
    return least(kind) + (1 << bits_of(kind)) - 1


def between_integers():
    for source in INTEGERS:
        for to in INTEGERS:
            narrow = (register(source),)
            name = f"cvt.{to}.{source}"
            yield op(name, register(to), narrow, lambda a, s=source, t=to: wrap(wrap(a, s), t))
            if clamped(least(source), to) != least(source) or clamped(most(source), to) != most(
                source
            ):
                yield op(
                    f"cvt.sat.{to}.{source}",
                    register(to),
                    narrow,
                    lambda a, s=source, t=to: clamped(wrap(a, s), t),
                )


def wide_registers():
    """A destination wider than the type is filled by its sign or with zeros."""
    for to, wide in (("s8", "s32"), ("u8", "u32"), ("s16", "s32"), ("u16", "u64"), ("s32", "s64")):
        for source in ("s32", "u64"):
            yield op(
                f"cvt.{to}.{source} %{wide}",
                wide,
                (source,),
                lambda a, t=to: wrap(a, t),
                template=f"cvt.{to}.{source} {{d}}, {{a}};",
            )


def to_floats():
    for source in INTEGERS:
        for to in ("f16", "bf16", "f32", "f64"):
            for mode in MODES:
                if to in ("f16", "bf16") and (mode != "rn" or source[1:] == "8"):
                    continue
                yield op(
                    f"cvt.{mode}.{to}.{source}",
                    to,
                    (register(source),),
                    lambda a, s=source, f=FORMATS[to], m=mode: f.rounded(Fraction(wrap(a, s)), m),
                )
    # Next to a tie of bfloat16, past what float64 holds: 2^52 is half of its last bit at 2^60.
    for source, signs in (("u64", (1,)), ("s64", (1, -1))):
        near = tuple(
            s * ((k << 52) + d) for s in signs for k in (257, 259, 511) for d in (-1, 0, 1)
        )
        yield op(
            f"cvt.rn.bf16.{source} ties",
            "bf16",
            (Domain(source, near),),
            lambda a: BF16.rounded(Fraction(a)),
            template=f"cvt.rn.bf16.{source} {{d}}, {{a}};",
        )
    yield op("cvt.rn.sat.f32.s32", "f32", ("s32",), lambda a: saturated(F32.rounded(Fraction(a))))


def integer(a, to, source, rounding):
    """Rounded, then clamped; a NaN gives 0, or the top bit where one side has 64 bits."""
    if math.isnan(a):
        top = wrap(1 << bits_of(to) - 1, to)
        return top if source == "f64" or to[1:] == "64" else 0
    if math.isinf(a):
        return clamped(math.copysign(2.0**70, a).__trunc__(), to)
    return clamped(INTEGRAL[rounding](a), to)


def to_integers():
    for source in ("f16", "bf16", "f32", "f64"):
        for to in INTEGERS:
            for rounding in INTEGRAL:
                if to[1:] == "8" and (source == "bf16" or rounding != "rzi"):
                    continue
                yield op(
                    f"cvt.{rounding}.{to}.{source}",
                    register(to),
                    (source,),
                    lambda a, t=to, s=source, r=rounding: integer(a, t, s, r),
                )
    yield op(
        "cvt.rpi.ftz.s32.f32", "s32", ("f32",), lambda a: integer(flushed(a), "s32", "f32", "rpi")
    )
    yield op("cvt.rzi.sat.u8.f32", "u16", ("f32",), lambda a: integer(a, "u8", "f32", "rzi"))


def integral(a, rounding):
    if not math.isfinite(a):
        return a
    return math.copysign(float(INTEGRAL[rounding](a)), a)


def between_floats():
    for source, form in (("f64", F64), ("f32", F32), ("f16", F16), ("bf16", BF16)):
        for to in ("f64", "f32", "f16", "bf16"):
            target = FORMATS[to]
            if target.mantissa < form.mantissa or target.exponent < form.exponent:
                modes = MODES if to in ("f32", "f16") else ("rn",)
                for mode in modes:
                    yield op(
                        f"cvt.{mode}.{to}.{source}",
                        to,
                        (source,),
                        lambda a, f=target, m=mode: f.rounded(a, m),
                    )
            elif to != source:
                yield op(f"cvt.{to}.{source}", to, (source,), lambda a: a)
        if source != "bf16":
            for rounding in INTEGRAL:
                yield op(
                    f"cvt.{rounding}.{source}.{source}",
                    source,
                    (source,),
                    lambda a, r=rounding: integral(a, r),
                )
    yield op(
        "cvt.rn.ftz.f32.f64",
        "f32",
        ("f64",),
        lambda a: flushed_result(lambda form: form.rounded(a)),
    )
    yield op("cvt.rn.sat.f32.f64", "f32", ("f64",), lambda a: saturated(F32.rounded(a)))
    yield op("cvt.ftz.f64.f32", "f64", ("f32",), flushed)
    yield op("cvt.sat.f32.f32", "f32", ("f32",), saturated)
    yield op("cvt.ftz.f32.f32", "f32", ("f32",), flushed)
    yield op("cvt.rni.ftz.f32.f32", "f32", ("f32",), lambda a: integral(flushed(a), "rni"))
    yield op("cvt.rn.sat.f16.f32", "f16", ("f32",), lambda a: F16.rounded(saturated(a)))
    yield op("cvt.rz.bf16.f32", "bf16", ("f32",), lambda a: BF16.rounded(a, "rz"))


def finite(form, a, mode="rn"):
    """.satfinite: past the range, the largest number."""
    result = form.rounded(a, mode)
    return math.copysign(form.largest, a) if math.isinf(result) else result


def packed():
    """Two float32 to a pair: the first operand is the high half."""
    for kind in ("f16", "bf16"):
        form, two = FORMATS[kind], ("f32", "f32")
        variants = {
            "rn": form.rounded,
            "rz": lambda a, f=form: f.rounded(a, "rz"),
            "rn.relu": lambda a, f=form: relu(f.rounded(a)),
            "rz.relu": lambda a, f=form: relu(f.rounded(a, "rz")),
            "rn.satfinite": lambda a, f=form: finite(f, a),
            "rn.relu.satfinite": lambda a, f=form: relu(finite(f, a)),
        }
        for name, one in variants.items():
            yield op(f"cvt.{name}.{kind}x2.f32", f"{kind}x2", two, lambda a, b, f=one: (f(b), f(a)))
            if name not in ("rn", "rz"):
                yield op(f"cvt.{name}.{kind}.f32", kind, ("f32",), one)


def tensor_float():
    for name, mode in (("rna", "rna"), ("rn", "rn"), ("rz", "rz"), ("rn.relu", "rn")):
        change = relu if "relu" in name else lambda x: x
        yield op(
            f"cvt.{name}.tf32.f32",
            "tf32",
            ("f32",),
            lambda a, m=mode, f=change: f(TF32.rounded(a, m)),
        )
    ties = tuple(
        s * (1 + k * 2.0**-11 + d) for s in (1, -1) for k in range(6) for d in (0, 2.0**-23)
    )
    for mode in ("rna", "rn"):
        yield op(
            f"cvt.{mode}.tf32.f32 ties",
            "tf32",
            (Domain("f32", ties),),
            lambda a, m=mode: TF32.rounded(a, m),
            template=f"cvt.{mode}.tf32.f32 {{d}}, {{a}};",
        )
    yield op("cvt.rna.satfinite.tf32.f32", "tf32", ("f32",), lambda a: finite(TF32, a, "rna"))


EIGHTH_BITS = tuple(range(0, 2**16, 257)) + tuple(range(3, 2**16, 263))


def eighths():
    for name, form in (("e4m3", E4M3), ("e5m2", E5M2)):
        pair = f"{name}x2"
        for tail, change in (("", lambda x: x), (".relu", relu)):

            def one(a, f=form, change=change):
                return change(finite(f, a))

            yield op(
                f"cvt.rn.satfinite{tail}.{pair}.f32",
                pair,
                ("f32", "f32"),
                lambda a, b, f=one: (f(b), f(a)),
            )
            yield op(
                f"cvt.rn.satfinite{tail}.{pair}.f16x2",
                pair,
                ("f16x2",),
                lambda a, f=one: tuple(map(f, a)),
            )
            source = Domain("b16", EIGHTH_BITS, literals=())
            yield op(
                f"cvt.rn{tail}.f16x2.{pair}",
                "f16x2",
                (source,),
                lambda a, f=form, c=change: tuple(c(f.decode(a >> s & 255)) for s in (0, 8)),
            )


def beside_each_other():
    """cvt.pack: a and b saturated, side by side, under the low bits of c."""
    for kind in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"):
        bits = int(kind[1:])

        def pair(a, b, c=0, kind=kind, bits=bits):
            high, low = (clamped(x, kind) & (1 << bits) - 1 for x in (a, b))
            return c << 2 * bits | high << bits | low

        under = () if bits == 16 else ("b32",)
        name = f"cvt.pack.sat.{kind}.s32" + (".b32" if under else "")
        yield op(name, "b32", ("s32", "s32", *under), pair)


SECTIONS = [
    Section("integers to integers", list(between_integers())),
    Section("wide registers", list(wide_registers())),
    Section("integers to floats", list(to_floats())),
    Section("floats to integers", list(to_integers())),
    Section("floats to floats", list(between_floats())),
    Section("packed conversions", list(packed())),
    Section("tf32", list(tensor_float())),
    Section("cvt.pack", list(beside_each_other())),
    Section("eighths", list(eighths())),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_convert(executor, section, one):
    section.check(executor, one)
