"""setp, set, selp and slct (PTX ISA 9.7.6 and 9.7.7)."""

import math
import operator

import pytest
from harness import Section, op, parameters
from ptx_values import Domain
from test_ptx_half import flushing

ORDER = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
JOINS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def is_nan(a, b):
    return math.isnan(a) or math.isnan(b)


def ordered(relation):
    """A comparison that is false on NaN (Python's != is not)."""
    return lambda a, b: not is_nan(a, b) and relation(a, b)


FLOATING = {name: ordered(relation) for name, relation in ORDER.items()}
FLOATING |= {
    f"{name}u": lambda a, b, r=relation: is_nan(a, b) or r(a, b) for name, relation in ORDER.items()
}
FLOATING |= {"num": lambda a, b: not is_nan(a, b), "nan": is_nan}


def relations(kind):
    if kind[0] == "b" and kind != "bf16":
        return {name: ORDER[name] for name in ("eq", "ne")}
    if kind[0] in "fb":
        return FLOATING
    return {**ORDER, **(UNSIGNED if kind[0] == "u" else {})}


SCALARS = [f"{s}{n}" for n in (16, 32, 64) for s in "bus"] + ["f32", "f64", "f16", "bf16"]


def comparisons():
    for kind in SCALARS:
        two = (kind, kind)
        for name, relation in relations(kind).items():
            yield op(f"setp.{name}.{kind}", "pred", two, relation)
    for kind in ("f32", "f16"):
        flush = flushing(kind)
        for name in ("lt", "eq", "geu"):
            yield op(
                f"setp.{name}.ftz.{kind}",
                "pred",
                (kind, kind),
                lambda a, b, r=FLOATING[name], f=flush: r(f(a), f(b)),
            )


def joined():
    """A second result, and a third operand that both are joined with."""
    for kind in ("s32", "f32", "f16"):
        relation = relations(kind)["lt"]
        both = ("pred", "pred")
        for name, join in JOINS.items():
            yield op(
                f"setp.lt.{name}.{kind}",
                "pred",
                (kind, kind, "pred"),
                lambda a, b, c, r=relation, j=join: j(r(a, b), c),
            )
        if kind == "f16":
            continue
        yield op(
            f"setp.lt.{kind} d|p",
            both,
            (kind,) * 2,
            lambda a, b, r=relation: (r(a, b), not r(a, b)),
            template=f"setp.lt.{kind} {{d}}|{{e}}, {{a}}, {{b}};",
        )
        for name, join in JOINS.items():
            yield op(
                f"setp.lt.{name}.{kind} d|p",
                both,
                (kind, kind, "pred"),
                lambda a, b, c, r=relation, j=join: (j(r(a, b), c), j(not r(a, b), c)),
                template=f"setp.lt.{name}.{kind} {{d}}|{{e}}, {{a}}, {{b}}, {{c}};",
            )
            yield op(
                f"setp.lt.{name}.{kind} !p",
                "pred",
                (kind, kind, "pred"),
                lambda a, b, c, r=relation, j=join: j(r(a, b), not c),
                template=f"setp.lt.{name}.{kind} {{d}}, {{a}}, {{b}}, !{{c}};",
            )
    for kind in ("f16x2", "bf16x2"):
        yield op(
            f"setp.ge.{kind}",
            ("pred", "pred"),
            (kind, kind),
            lambda a, b: tuple(FLOATING["ge"](*pair) for pair in zip(a, b, strict=True)),
        )


def numbers():
    """set: all ones for an integer, 1.0 for a float."""
    for kind in ("u32", "s16", "b64", "f32", "f64"):
        for to in ("u32", "s32", "f32"):
            name = "eq" if kind[0] == "b" else "lt"
            relation, one = relations(kind)[name], 1.0 if to == "f32" else -1
            yield op(
                f"set.{name}.{to}.{kind}",
                to,
                (kind,) * 2,
                lambda a, b, r=relation, n=one: r(a, b) * n,
            )
    yield op(
        "set.gt.or.u32.f32",
        "u32",
        ("f32", "f32", "pred"),
        lambda a, b, c: -(FLOATING["gt"](a, b) or c),
    )
    for to, one in (("f16", 1.0), ("u16", -1), ("u32", -1)):
        test = FLOATING["neu"]
        yield op(f"set.neu.{to}.f16", to, ("f16",) * 2, lambda a, b, n=one, t=test: t(a, b) * n)
    for kind in ("f16x2", "bf16x2"):
        yield op(
            f"set.le.{kind}.{kind}",
            kind,
            (kind, kind),
            lambda a, b: tuple(1.0 * FLOATING["le"](*pair) for pair in zip(a, b, strict=True)),
        )
    yield op(
        "set.le.u32.f16x2",
        "u16x2",
        ("f16x2", "f16x2"),
        lambda a, b: tuple(-FLOATING["le"](*pair) for pair in zip(a, b, strict=True)),
    )


def selections():
    for kind in ("b16", "b32", "u16", "s32", "u64", "f32", "f64"):
        yield op(f"selp.{kind}", kind, (kind, kind, "pred"), lambda a, b, p: a if p else b)
        for by in ("s32", "f32"):
            sign = Domain(by, literals=(0, 1, -1))
            yield op(
                f"slct.{kind}.{by}", kind, (kind, kind, sign), lambda a, b, c: a if c >= 0 else b
            )
    yield op(
        "slct.ftz.f32.f32",
        "f32",
        ("f32",) * 3,
        lambda a, b, c: a if c > -(2.0**-126) else b,
    )


SECTIONS = [
    Section("comparisons", list(comparisons())),
    Section("joined comparisons", list(joined())),
    Section("set", list(numbers())),
    Section("selections", list(selections())),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_compare_select(executor, section, one):
    section.check(executor, one)
