"""Integer arithmetic (PTX ISA 9.7.1), against Python's unbounded integers."""

import pytest
from harness import Section, op, pairwise, parameters
from ptx_values import AMOUNT, Domain, bits_of, wrap

ALL = ("u16", "u32", "u64", "s16", "s32", "s64")
WIDE = ("u32", "u64", "s32", "s64")


def clamped(value, kind):
    """The nearest value of the type (.sat)."""
    least = -(1 << (bits_of(kind) - 1)) if kind[0] == "s" else 0
    return max(least, min(value, least + (1 << bits_of(kind)) - 1))


def quotient(a, b):
    """Towards zero; by zero all ones, which GPUs give, though the ISA leaves it open."""
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a, b):
    return a - quotient(a, b) * b if b else -1


def arithmetic():
    for t in ALL:
        bits, two, three = bits_of(t), (t, t), (t, t, t)
        yield op(f"add.{t}", t, two, lambda a, b: a + b)
        yield op(f"sub.{t}", t, two, lambda a, b: a - b)
        yield op(f"mul.lo.{t}", t, two, lambda a, b: a * b)
        yield op(f"mul.hi.{t}", t, two, lambda a, b, n=bits: a * b >> n)
        yield op(f"mad.lo.{t}", t, three, lambda a, b, c: a * b + c)
        yield op(f"mad.hi.{t}", t, three, lambda a, b, c, n=bits: (a * b >> n) + c)
        yield op(f"div.{t}", t, two, quotient)
        yield op(f"rem.{t}", t, two, remainder)
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
    s = "s32"
    yield op("add.sat.s32", s, (s, s), lambda a, b: clamped(a + b, s))
    yield op("sub.sat.s32", s, (s, s), lambda a, b: clamped(a - b, s))
    yield op("mad.hi.sat.s32", s, (s, s, s), lambda a, b, c: clamped((a * b >> 32) + c, s))
    yield op("min.relu.s32", s, (s, s), lambda a, b: max(min(a, b), 0))
    yield op("max.relu.s32", s, (s, s), lambda a, b: max(a, b, 0))


def products():
    for t in ("u32", "s32"):
        small = f"{t[0]}24"

        def product(a, b, shift, kind=small):
            return wrap(a, kind) * wrap(b, kind) >> shift

        yield op(f"mul24.lo.{t}", t, (t, t), lambda a, b, p=product: p(a, b, 0))
        yield op(f"mul24.hi.{t}", t, (t, t), lambda a, b, p=product: p(a, b, 16))
        yield op(f"mad24.lo.{t}", t, (t, t, t), lambda a, b, c, p=product: p(a, b, 0) + c)
        yield op(f"mad24.hi.{t}", t, (t, t, t), lambda a, b, c, p=product: p(a, b, 16) + c)
    s = "s32"
    yield op(
        "mad24.hi.sat.s32",
        s,
        (s, s, s),
        lambda a, b, c: clamped(wrap(wrap(a, "s24") * wrap(b, "s24") >> 16, s) + c, s),
    )
    for x in "us":
        for y in "us":
            names, to = f"{x}32.{y}32", "u32" if x == y == "u" else "s32"
            kinds = (f"{x}32", f"{y}32", to)

            def four(a, b, c, x=x, y=y):
                places = range(0, 32, 8)
                return c + sum(wrap(a >> i, f"{x}8") * wrap(b >> i, f"{y}8") for i in places)

            def two(a, b, c, first, x=x, y=y):
                pairs = ((a >> 16 * i, b >> 8 * (first + i)) for i in range(2))
                return c + sum(wrap(p, f"{x}16") * wrap(q, f"{y}8") for p, q in pairs)

            yield op(f"dp4a.{names}", to, kinds, four)
            yield op(f"dp2a.lo.{names}", to, kinds, lambda a, b, c, f=two: f(a, b, c, 0))
            yield op(f"dp2a.hi.{names}", to, kinds, lambda a, b, c, f=two: f(a, b, c, 2))


def highest(a, kind):
    """The place of the highest bit that differs from the sign; None where there is none."""
    size = ~a if a < 0 else a
    return size.bit_length() - 1 if size else None


def find_nth(mask, base, n):
    """The n-th set bit from `base` on, by the loop of the ISA."""
    if n == 0:
        return base if mask >> base & 1 else -1
    place, left = base, abs(n) - 1
    while 0 <= place < 32:
        if mask >> place & 1:
            if left == 0:
                return place
            left -= 1
        place += 1 if n > 0 else -1
    return -1


def extract(a, position, length, kind):
    """bfe, bit by bit as the ISA has it."""
    position, length, top = position & 255, length & 255, bits_of(kind) - 1
    bit = lambda i: a >> i & 1  # noqa: E731
    fill = bit(min(position + length - 1, top)) if kind[0] == "s" and length else 0
    result = 0
    for i in range(top + 1):
        inside = i < length and position + i <= top
        result |= (bit(position + i) if inside else fill) << i
    return result


def insert(a, b, position, length, bits):
    """bfi, bit by bit as the ISA has it."""
    position, length = position & 255, length & 255
    for i in range(length):
        if position + i < bits:
            b = b & ~(1 << position + i) | (a >> i & 1) << position + i
    return b


def mask(start, width, *, clamp):
    """bmsk: `width` ones from `start` up."""
    if not clamp:
        start, width = start & 31, width & 31
    return ((1 << min(width, 32)) - 1) << min(start, 32)


def extend(a, size, kind, *, clamp):
    """szext: the low `size` bits, extended."""
    size = min(size, 32) if clamp else size & 31
    return wrap(a, f"{kind[0]}{size}") if size else 0


def place_in(size):
    """Positions and lengths. ptxas cuts them to 8 bits, as the ISA says, for 32 bits alone."""
    return AMOUNT if size == 32 else Domain("u32", AMOUNT.literals)


def bits():
    for n in (32, 64):
        b = f"b{n}"
        yield op(f"popc.{b}", "u32", (b,), lambda a: a.bit_count())
        yield op(f"clz.{b}", "u32", (b,), lambda a, n=n: n - a.bit_length())
        yield op(f"brev.{b}", b, (b,), lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2))
        field = (b, b, place_in(n), place_in(n))
        yield op(f"bfi.{b}", b, field, lambda a, b, p, s, n=n: insert(a, b, p, s, n))
    for t in WIDE:
        top = bits_of(t) - 1

        def found(a, t=t):
            place = highest(a, t)
            return -1 if place is None else place

        def shift(a, t=t, top=top):
            place = highest(a, t)
            return -1 if place is None else top - place

        yield op(f"bfind.{t}", "u32", (t,), found)
        yield op(f"bfind.shiftamt.{t}", "u32", (t,), shift)
        yield op(
            f"bfe.{t}",
            t,
            (t, place_in(top + 1), place_in(top + 1)),
            lambda a, p, n, t=t: extract(a, p, n, t),
        )
    lane, count = Domain("u32", tuple(range(32))), Domain("s32", (0, 1, -1, 2, -2, 5, -7, 32, -40))
    yield op("fns.b32", "u32", ("b32", lane, count), find_nth)
    for clamp in (True, False):
        name = "clamp" if clamp else "wrap"
        two = (AMOUNT, AMOUNT)
        yield op(f"bmsk.{name}.b32", "b32", two, lambda a, b, c=clamp: mask(a, b, clamp=c))
        for t in ("u32", "s32"):
            yield op(
                f"szext.{name}.{t}",
                t,
                (t, AMOUNT),
                lambda a, n, t=t, c=clamp: extend(a, n, t, clamp=c),
            )


def packed():
    for t in ("u16x2", "s16x2"):
        two = (t, t)
        yield op(f"add.{t}", t, two, pairwise(lambda a, b: a + b))
        yield op(f"min.{t}", t, two, pairwise(min))
        yield op(f"max.{t}", t, two, pairwise(max))
    yield op("min.relu.s16x2", "s16x2", ("s16x2",) * 2, pairwise(lambda a, b: max(min(a, b), 0)))
    yield op("max.relu.s16x2", "s16x2", ("s16x2",) * 2, pairwise(lambda a, b: max(a, b, 0)))


SECTIONS = [
    Section("integer arithmetic", list(arithmetic())),
    Section("integer products", list(products())),
    Section("bits", list(bits())),
    Section("packed integers", list(packed())),
]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_integer(executor, section, one):
    section.check(executor, one)
