"""Logic and shifts (PTX ISA 9.7.8)."""

import pytest
from harness import Section, op, parameters
from ptx_values import AMOUNT, Domain, bits_of, wrap

# prmt's modes: the bytes of d, lowest first, for each value of the selector's low two bits.
MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def logic():
    for t in ("pred", "b16", "b32", "b64"):
        two = (t, t)
        yield op(f"and.{t}", t, two, lambda a, b: a & b)
        yield op(f"or.{t}", t, two, lambda a, b: a | b)
        yield op(f"xor.{t}", t, two, lambda a, b: a ^ b)
        yield op(f"not.{t}", t, (t,), (lambda a: not a) if t == "pred" else (lambda a: ~a))
        if t != "pred":
            yield op(f"cnot.{t}", t, (t,), lambda a: int(a == 0))
    for table in (0x00, 0x1E, 0x80, 0x96, 0xCA, 0xE8, 0x2D, 0xFF):

        def looked_up(a, b, c, table=table):
            rows = ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1 for i in range(32))
            return sum((table >> row & 1) << i for i, row in enumerate(rows))

        text = "lop3.b32 {d}, {a}, {b}, {c}, " + f"{table:#x};"
        name = f"lop3.b32 {table:#04x}"
        yield op(name, "b32", ("b32",) * 3, looked_up, template=text)


def lop3_and_a_predicate():
    """d|p: p is whether d is not 0, joined with q."""
    for name, join in (("or", lambda x, q: x or q), ("and", lambda x, q: x and q)):
        yield op(
            f"lop3.{name}.b32",
            ("b32", "pred"),
            ("b32", "b32", "b32", "pred"),
            lambda a, b, c, q, j=join: (a & b & ~c, j(a & b & ~c != 0, q)),
            template=f"lop3.{name}.b32 {{d}}|{{e}}, {{a}}, {{b}}, {{c}}, 0x40, {{f}};",
        )


def shifted_right(a, amount, kind):
    bits = bits_of(kind)
    return wrap(a, kind) >> min(amount, bits)


def shifts():
    for n in (16, 32, 64):
        yield op(f"shl.b{n}", f"b{n}", (f"b{n}", AMOUNT), lambda a, s: a << s if s < 64 else 0)
        for x in "bus":
            t = f"{x}{n}"
            yield op(f"shr.{t}", t, (t, AMOUNT), lambda a, s, t=t: shifted_right(a, s, t))
    three = ("b32", "b32", AMOUNT)
    for name, amount in (("wrap", lambda c: c & 31), ("clamp", lambda c: min(c, 32))):
        yield op(
            f"shf.l.{name}.b32",
            "b32",
            three,
            lambda a, b, c, f=amount: ((b << 32 | a) << f(c)) >> 32,
        )
        yield op(f"shf.r.{name}.b32", "b32", three, lambda a, b, c, f=amount: (b << 32 | a) >> f(c))


def permuted(a, b, c):
    pair, result = b << 32 | a, 0
    for i in range(4):
        nibble = c >> 4 * i & 15
        byte = pair >> 8 * (nibble & 7) & 255
        if nibble & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * i
    return result


def permutes():
    selectors = Domain("b32", (0x3210, 0x7654, 0x0123, 0x4440, 0xBA98, 0xFEDC, 0x8F01, 0x12345678))
    yield op("prmt.b32", "b32", ("b32", "b32", selectors), permuted)
    for mode, rows in MODES.items():

        def moded(a, b, c, rows=rows):
            return sum(
                (b << 32 | a) >> 8 * n << 8 * i & 255 << 8 * i for i, n in enumerate(rows[c & 3])
            )

        yield op(f"prmt.b32.{mode}", "b32", ("b32",) * 3, moded)


SECTIONS = [
    Section("logic", [*logic(), *lop3_and_a_predicate()]),
    Section("shifts", list(shifts())),
    Section("permutes", list(permutes())),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_logic_and_shift(executor, section, one):
    section.check(executor, one)
