"""atom and red (PTX ISA 9.7.13.5 and 9.7.13.6)."""

import random

import numpy as np
import pytest
from ieee import FORMATS, add, flushed
from launching import launch
from ptx_values import bits_of, edges, encode

THREADS = 64


def float_sum(kind):
    form = FORMATS[kind.removesuffix("x2")]
    if kind.endswith("x2"):
        return lambda a, b: tuple(add(x, y, form) for x, y in zip(a, b, strict=True))
    return lambda a, b: add(a, b, form)


def flushing_sum(a, b):
    """atom.add.f32 flushes subnormals where the word is not in shared memory."""
    return flushed(add(flushed(a), flushed(b), FORMATS["f32"]))


def operations():
    """(spelling after atom., type, new value from the old one and the operand)."""
    for kind in ("u32", "s32", "u64"):
        yield f"add.{kind}", kind, lambda a, b: a + b
    yield "add.f32", "f32", None  # flushes or not, by the space
    for kind in ("f64", "f16x2", "bf16x2", "f16", "bf16"):
        noftz = ".noftz" if "16" in kind else ""
        yield f"add{noftz}.{kind}", kind, float_sum(kind)
    for kind in ("u32", "s32", "u64", "s64"):
        yield f"min.{kind}", kind, min
        yield f"max.{kind}", kind, max
    for kind in ("b32", "b64"):
        yield f"and.{kind}", kind, lambda a, b: a & b
        yield f"or.{kind}", kind, lambda a, b: a | b
        yield f"xor.{kind}", kind, lambda a, b: a ^ b
        yield f"exch.{kind}", kind, lambda a, b: b
    yield "inc.u32", "u32", lambda a, b: 0 if a >= b else a + 1
    yield "dec.u32", "u32", lambda a, b: b if a == 0 or a > b else a - 1


def pairs(kind, rng):
    """An old value and an operand for each thread, without NaN: its bits are nobody's promise."""
    known = [v for v in edges(kind) if v == v and "nan" not in repr(v) and "inf" not in repr(v)]
    chosen = [(rng.choice(known), rng.choice(known)) for _ in range(THREADS)]
    for thread in range(0, THREADS, 8):
        chosen[thread] = (chosen[thread][1], chosen[thread][1])  # equal, for inc and dec
    return chosen


# How each space gets the words, what its address is, and how it gives them back.
SPACES = {
    "global": ("mov.u64 %d2, %d1;", ""),
    "generic": ("cvta.global.u64 %d2, %d1;", ""),
    "shared": (
        "mad.lo.u32 %r9, %thread, 8, %r8; ld.global.b64 %d3, [%d1]; st.shared.b64 [%r9], %d3; "
        "cvt.u64.u32 %d2, %r9;",
        "ld.shared.b64 %d3, [%r9]; st.global.b64 [%d1], %d3;",
    ),
}


@pytest.mark.parametrize("instruction", ["atom", "red"])
@pytest.mark.parametrize("space", SPACES)
def test_each_thread_at_its_own_address(executor, instruction, space):
    rng = random.Random(4)
    cases = list(operations())
    before = np.zeros((len(cases), THREADS), np.uint64)
    operand, want = before.copy(), before.copy()
    begin, end = SPACES[space]
    body = "mov.u32 %r8, room;" if space == "shared" else ""
    suffix = "" if space == "generic" else f".{space}"
    head = ".shared .align 8 .b64 room[64];" if space == "shared" else ""
    red = [n for n, (name, _, _) in enumerate(cases) if instruction == "atom" or "exch" not in name]
    for slot in red:
        name, kind, change = cases[slot]
        change = change or (float_sum(kind) if space == "shared" else flushing_sum)
        for thread, (old, value) in enumerate(pairs(kind, rng)):
            before[slot, thread], operand[slot, thread] = encode(old, kind), encode(value, kind)
            want[slot, thread] = encode(change(old, value), kind)
        width = max(16, bits_of(kind))
        register, letter = f"%{ {16: 'h', 32: 'r', 64: 'd'}[width] }", f"b{width}"
        result = f"{register}20, " if instruction == "atom" else ""
        body += f"""
    mad.wide.u32 %d1, %thread, 8, %a0; add.s64 %d1, %d1, {slot * 512}; {begin}
    mad.wide.u32 %d4, %thread, 8, %a1; ld.global.{letter} {register}21, [%d4+{slot * 512}];
    {instruction}{suffix}.{name} {result}[%d2], {register}21; {end}"""
        if instruction == "atom":
            body += f"""mad.wide.u32 %d5, %thread, 8, %a2;
    st.global.{letter} [%d5+{slot * 512}], {register}20;"""
    after, olds = before.copy(), np.zeros_like(before)
    launch(executor, body + "ret;", after, operand, olds, head=head)
    for slot in red:
        name, kind, _ = cases[slot]
        np.testing.assert_array_equal(after[slot], want[slot], err_msg=name)
        if instruction == "atom":
            np.testing.assert_array_equal(olds[slot], before[slot], err_msg=f"old of {name}")


@pytest.mark.parametrize("space", ["global", "shared"])
def test_compare_and_swap(executor, space):
    """The word changes where it was what was expected, and the old one comes back in any case."""
    sizes = (16, 32, 64)
    rng = np.random.default_rng(5)
    before = rng.integers(0, 2**63, (3, THREADS), dtype=np.uint64)
    for row, bits in enumerate(sizes):
        before[row] &= np.uint64((1 << bits) - 1)
    expected = np.where(np.arange(THREADS) % 3 == 0, before ^ np.uint64(1), before)
    fresh = ~before
    begin, end = SPACES[space]
    body = "mov.u32 %r8, room;" if space == "shared" else ""
    for row, (bits, letter) in enumerate(zip(sizes, "hrd", strict=True)):
        at = row * 512
        body += f"""
    mad.wide.u32 %d1, %thread, 8, %a0; add.s64 %d1, %d1, {at}; {begin}
    mad.wide.u32 %d4, %thread, 8, %a1; mad.wide.u32 %d5, %thread, 8, %a2;
    ld.global.b{bits} %{letter}21, [%d4+{at}]; ld.global.b{bits} %{letter}22, [%d5+{at}];
    atom.{space}.cas.b{bits} %{letter}20, [%d2], %{letter}21, %{letter}22; {end}
    mad.wide.u32 %d6, %thread, 8, %a3; st.global.b{bits} [%d6+{at}], %{letter}20;"""
    after, olds = before.copy(), np.zeros_like(before)
    head = ".shared .align 8 .b64 room[64];" if space == "shared" else ""
    launch(executor, body + "ret;", after, expected, fresh, olds, head=head)
    np.testing.assert_array_equal(olds, before)
    for row, bits in enumerate(sizes):
        mask = np.uint64((1 << bits) - 1)
        want = np.where(
            expected[row] == before[row], fresh[row] & mask | before[row] & ~mask, before[row]
        )
        np.testing.assert_array_equal(after[row], want, err_msg=f"b{bits}")


def test_all_threads_of_a_grid_at_one_address(executor):
    """Every update counts once: final values, and the old ones are each seen by one thread."""
    body = """
    mad.lo.u32 %r1, %cta, 64, %thread; mad.wide.u32 %d1, %r1, 4, %a1; mov.b32 %r9, 3;
    atom.global.add.u32 %r2, [%a0], 1; st.global.u32 [%d1], %r2;
    red.global.add.f32 [%a0+4], 0f3F800000; red.global.gpu.max.u32 [%a0+8], %r1;
    atom.relaxed.gpu.global.inc.u32 %r3, [%a0+12], 6; red.global.xor.b32 [%a0+16], %r1;
    and.b32 %r4, %thread, 3; setp.eq.u32 %p0, %r4, 1; @%p0 red.global.add.u32 [%a0+20], %r9;
    mov.f64 %g0, 0d3FE0000000000000; red.global.add.f64 [%a0+24], %g0;
    mov.b32 %r5, 0x3C003800; red.global.add.noftz.f16x2 [%a0+32], %r5;
    setp.lt.u32 %p1, %thread, 20; @%p1 bra LOW; red.global.add.u32 [%a0+36], 1; bra END;
LOW: red.global.add.u32 [%a0+36], 100;
END: ret;"""
    words, olds = np.zeros(16, np.uint32), np.zeros(4 * THREADS, np.uint32)
    launch(executor, body, words, olds, grid=4)
    n = 4 * THREADS
    assert words[0] == n
    np.testing.assert_array_equal(np.sort(olds), np.arange(n))
    assert words[1:2].view(np.float32)[0] == n
    assert (words[2], words[3]) == (n - 1, n % 7)
    assert words[4] == np.bitwise_xor.reduce(np.arange(n))
    assert words[5] == 3 * n // 4
    assert words[6:8].view(np.float64)[0] == n / 2
    assert words[8:9].view(np.float16).tolist() == [n / 2, n]
    assert words[9] == 4 * (20 * 100 + 44)


def test_shared_atomics_build_a_histogram(executor):
    body = """
    .shared .align 4 .b32 bins[16];
    mov.u32 %r0, bins; setp.lt.u32 %p0, %thread, 16; mad.lo.u32 %r1, %thread, 4, %r0;
    @%p0 st.shared.u32 [%r1], 0; bar.sync 0;
    mad.wide.u32 %d0, %thread, 4, %a0; ld.global.u32 %r2, [%d0]; and.b32 %r2, %r2, 15;
    mad.lo.u32 %r3, %r2, 4, %r0; atom.shared.add.u32 %r4, [%r3], 1;
    red.shared::cta.max.s32 [%r3], -5;
    bar.sync 0; @!%p0 ret;
    ld.shared.u32 %r5, [%r1]; mad.wide.u32 %d1, %thread, 4, %a1; st.global.u32 [%d1], %r5; ret;"""
    data = np.random.default_rng(7).integers(0, 2**32, 256, dtype=np.uint32)
    out = np.zeros(16, np.uint32)
    launch(executor, body, data, out, block=256)
    np.testing.assert_array_equal(out, np.bincount(data & 15, minlength=16))
