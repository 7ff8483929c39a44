"""Extended-precision arithmetic through the carry flag (PTX ISA 9.7.2)."""

import pytest
from harness import Section, op, parameters
from ptx_values import bits_of


def chained(*instructions, kind):
    """Instructions in a scope of their own, so that a temporary may be declared."""
    return f"{{ .reg .{kind} t; " + " ".join(instructions) + " }"


def ops():
    for t in ("u32", "s32", "u64", "s64"):
        n = bits_of(t)
        mask, four = (1 << n) - 1, (t,) * 4

        def pair(low, high, n=n, mask=mask):
            return (high << n) | (low & mask)

        def added(a, b, c, f, n=n, mask=mask, pair=pair):
            total = pair(a, c) + pair(b, f)
            return total & mask, total >> n

        def subtracted(a, b, c, f, n=n, mask=mask, pair=pair):
            total = pair(a, c) - pair(b, f)
            return total & mask, total >> n

        for name, expect in (("add", added), ("sub", subtracted)):
            text = chained(
                f"{name}.cc.{t} {{d}}, {{a}}, {{b}};", f"{name}c.{t} {{e}}, {{c}}, {{f}};", kind=t
            )
            yield op(f"{name}.cc {name}c.{t}", (t, t), four, expect, template=text)
            # Three words: the middle one both reads and writes the carry.
            text = chained(
                f"{name}.cc.{t} t, {{a}}, {{b}};",
                f"{name}c.cc.{t} {{d}}, {{c}}, {{f}};",
                f"{name}c.{t} {{e}}, 0, 0;",
                kind=t,
            )

            def three(a, b, c, f, sign=1 if name == "add" else -1, n=n, mask=mask):
                low = (a & mask) + sign * (b & mask)
                middle = (c & mask) + sign * (f & mask) + (low >> n)
                return middle & mask, middle >> n

            yield op(f"{name}.cc {name}c.cc {name}c.{t}", (t, t), four, three, template=text)

        def multiplied(a, b, c, f, n=n, mask=mask):
            total = (a * b & mask) + (c & mask)
            high = (a * b >> n) + f + (total >> n)
            return total & mask, high & mask

        text = chained(
            f"mad.lo.cc.{t} {{d}}, {{a}}, {{b}}, {{c}};",
            f"madc.hi.{t} {{e}}, {{a}}, {{b}}, {{f}};",
            kind=t,
        )
        yield op(f"mad.lo.cc madc.hi.{t}", (t, t), four, multiplied, template=text)

        def low_product(a, b, c, f, n=n, mask=mask):
            total = (a * b >> n & mask) + (c & mask)
            return total & mask, (a * b & mask) + f + (total >> n)

        text = chained(
            f"mad.hi.cc.{t} {{d}}, {{a}}, {{b}}, {{c}};",
            f"madc.lo.{t} {{e}}, {{a}}, {{b}}, {{f}};",
            kind=t,
        )
        yield op(f"mad.hi.cc madc.lo.{t}", (t, t), four, low_product, template=text)


SECTIONS = [Section("carry", list(ops()))]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_carry(executor, section, one):
    section.check(executor, one)


def test_a_guarded_instruction_leaves_the_carry_of_other_threads(executor):
    """@p add.cc sets the flag of the threads it runs in; the others keep theirs."""
    import numpy as np
    from launching import launch

    out = np.zeros(64, np.uint32)
    body = """
    and.b32 %r0, %thread, 1; setp.eq.u32 %p1, %r0, 1; and.b32 %r1, %thread, 2;
    setp.ne.u32 %p2, %r1, 0;
    mul.lo.u32 %r2, %r1, 0x7fffffff;
    add.cc.u32 %r3, %r2, 2;
    @%p1 add.cc.u32 %r3, %r0, 0xffffffff;
    addc.u32 %r4, 0, 0;
    mad.wide.u32 %d0, %thread, 4, %a0; st.global.u32 [%d0], %r4; ret;"""
    launch(executor, body, out)
    tid = np.arange(64)
    np.testing.assert_array_equal(out, (tid & 1) | (tid >> 1 & 1))
