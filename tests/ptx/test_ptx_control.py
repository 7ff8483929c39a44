"""Branches, loops, returns and guards, against a Python function of one thread."""

from itertools import pairwise

import numpy as np
import pytest
from launching import launch

THREADS = 96
STORE = "mad.wide.u32 %d9, %thread, 4, %a0; st.global.u32 [%d9], %r9;"
LOAD = "mad.wide.u32 %d8, %thread, 4, %a1; ld.global.u32 %r0, [%d8];"


def nested(x):
    result = 1
    if x & 1:
        result = (10 + x % 7 if x & 4 else 20) if x & 2 else 30
        result += 1
    elif x & 8:
        result = 40
    return result * 3


NESTED = f"""{LOAD} mov.u32 %r9, 1;
    and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
    and.b32 %r1, %r0, 2; setp.eq.u32 %p2, %r1, 0; @%p2 bra NOT2;
    and.b32 %r1, %r0, 4; setp.ne.u32 %p3, %r1, 0; @!%p3 bra NOT4;
    rem.u32 %r9, %r0, 7; add.u32 %r9, %r9, 10; bra JOIN2;
NOT4: mov.u32 %r9, 20; bra JOIN2;
NOT2: mov.u32 %r9, 30;
JOIN2: add.u32 %r9, %r9, 1; bra JOIN;
EVEN: and.b32 %r1, %r0, 8; setp.eq.u32 %p4, %r1, 0; @%p4 bra JOIN; mov.u32 %r9, 40;
JOIN: mul.lo.u32 %r9, %r9, 3; {STORE} ret;"""


def collatz(x):
    x, steps = x % 97 + 1, 0
    while x != 1:
        x = 3 * x + 1 if x & 1 else x // 2
        steps += 1
    return steps


COLLATZ = f"""{LOAD} rem.u32 %r0, %r0, 97; add.u32 %r0, %r0, 1; mov.u32 %r9, 0;
LOOP: setp.eq.u32 %p1, %r0, 1; @%p1 bra DONE;
    and.b32 %r1, %r0, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra EVEN;
    mad.lo.u32 %r0, %r0, 3, 1; bra NEXT;
EVEN: shr.u32 %r0, %r0, 1;
NEXT: add.u32 %r9, %r9, 1; bra LOOP;
DONE: {STORE} ret;"""


def nested_loops(x):
    total = 0
    for i in range(x % 5):
        for j in range((x >> 3) % 4 + i):
            if j == 3:
                break
            if (i ^ j) & 1:
                continue
            total += i * 10 + j + 1
        total = total * 2 + 1
    return total & 0xFFFFFFFF


NESTED_LOOPS = f"""{LOAD} rem.u32 %r1, %r0, 5; shr.u32 %r2, %r0, 3; rem.u32 %r2, %r2, 4;
    mov.u32 %r9, 0; mov.u32 %r3, 0;
OUTER: setp.ge.u32 %p1, %r3, %r1; @%p1 bra DONE; add.u32 %r4, %r2, %r3; mov.u32 %r5, 0;
INNER: setp.ge.u32 %p2, %r5, %r4; @%p2 bra AFTER; setp.eq.u32 %p3, %r5, 3; @%p3 bra AFTER;
    xor.b32 %r6, %r3, %r5; and.b32 %r6, %r6, 1; setp.ne.u32 %p4, %r6, 0; @%p4 bra NEXT;
    mad.lo.u32 %r7, %r3, 10, %r5; add.u32 %r7, %r7, 1; add.u32 %r9, %r9, %r7;
NEXT: add.u32 %r5, %r5, 1; bra INNER;
AFTER: mad.lo.u32 %r9, %r9, 2, 1; add.u32 %r3, %r3, 1; bra OUTER;
DONE: {STORE} ret;"""


def early(x):
    for step in range(8):
        if x % 11 == step:
            return 100 + step
        x //= 2
        if step == 3 and x & 1:
            return 7  # the store that follows is skipped
    return 500


EARLY = f"""{LOAD} mov.u32 %r9, 7; {STORE} mov.u32 %r1, 0;
LOOP: rem.u32 %r2, %r0, 11; setp.eq.u32 %p1, %r2, %r1; @%p1 bra FOUND;
    shr.u32 %r0, %r0, 1; setp.eq.u32 %p2, %r1, 3; and.b32 %r3, %r0, 1;
    setp.ne.and.u32 %p3, %r3, 0, %p2; @%p3 ret;
    add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 8; @%p4 bra LOOP;
    mov.u32 %r9, 500; {STORE} exit;
FOUND: add.u32 %r9, %r1, 100; {STORE} ret;"""


def guarded(x):
    result = x & 0xFF
    if x & 1:
        result += 1000
    if not x & 2:
        result ^= 0x5555
    if x & 4:
        result = 0xFFFFFFFF - result
    return result


GUARDED = f"""{LOAD} and.b32 %r9, %r0, 255; and.b32 %r1, %r0, 1; setp.ne.u32 %p1, %r1, 0;
    and.b32 %r2, %r0, 2; setp.ne.u32 %p2, %r2, 0; and.b32 %r3, %r0, 4; setp.ne.u32 %p3, %r3, 0;
    @%p1 add.u32 %r9, %r9, 1000; @!%p2 xor.b32 %r9, %r9, 0x5555; @%p3 not.b32 %r9, %r9;
    {STORE} ret;"""


def switch(x):
    result = {0: 5, 1: x & 0xF, 3: 77, 4: 78}.get(x % 6, 1)
    return result + 1 if x % 6 in (3, 4) else result  # 3 falls through to 4


SWITCH = f"""{LOAD} rem.u32 %r1, %r0, 6; mov.u32 %r9, 1;
    setp.eq.u32 %p0, %r1, 0; @%p0 bra ZERO; setp.eq.u32 %p1, %r1, 1; @%p1 bra ONE;
    setp.eq.u32 %p2, %r1, 3; @%p2 bra THREE; setp.eq.u32 %p3, %r1, 4; @%p3 bra FOUR; bra END;
ZERO: mov.u32 %r9, 5; bra END;
ONE: and.b32 %r9, %r0, 15; bra END;
THREE: mov.u32 %r9, 77; bra BOTH;
FOUR: mov.u32 %r9, 78;
BOTH: add.u32 %r9, %r9, 1;
END: {STORE} ret;"""


def irreducible(x):
    """A loop that is entered in its middle by some threads: no header of its own."""
    total, count = 0, x % 9
    at_b = bool(x & 16)
    while True:
        if not at_b:
            total += 3
            if count == 0:
                return total
        at_b = False
        total = total * 2 + 1
        if count == 0:
            return total & 0xFFFFFFFF
        count -= 1


IRREDUCIBLE = f"""{LOAD} rem.u32 %r1, %r0, 9; mov.u32 %r9, 0; and.b32 %r2, %r0, 16;
    setp.ne.u32 %p0, %r2, 0; @%p0 bra B;
A: add.u32 %r9, %r9, 3; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
B: mad.lo.u32 %r9, %r9, 2, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra END; sub.u32 %r1, %r1, 1; bra A;
END: {STORE} ret;"""


def uniform_in_divergent(x):
    """A counter that is one number for the warp, changed where only some lanes run."""
    k = 5
    if x & 1:
        k += 2
        if x & 2:
            k *= 3
    for _ in range(x % 3):
        k += 100
    return k


UNIFORM = f"""{LOAD} mov.u32 %r9, 5; and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra SKIP;
    add.u32 %r9, %r9, 2; and.b32 %r2, %r0, 2; setp.eq.u32 %p2, %r2, 0; @%p2 bra SKIP;
    mul.lo.u32 %r9, %r9, 3;
SKIP: rem.u32 %r3, %r0, 3; mov.u32 %r4, 0;
LOOP: setp.ge.u32 %p3, %r4, %r3; @%p3 bra END; add.u32 %r9, %r9, 100; add.u32 %r4, %r4, 1; bra LOOP;
END: {STORE} ret;"""


def by_thread(x, tid):
    """Branches that follow from %thread alone, and an affine value that survives them."""
    value = x * 0 + tid * 4 + 3
    if tid >= 40:
        value += 1000
    if tid & 1:
        return value * 2
    return value


BY_THREAD = f"""{LOAD} mad.lo.u32 %r9, %thread, 4, 3; setp.lt.u32 %p0, %thread, 40; @%p0 bra LOW;
    add.u32 %r9, %r9, 1000;
LOW: and.b32 %r1, %thread, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra END; shl.b32 %r9, %r9, 1;
END: {STORE} ret;"""

KERNELS = {
    "nested ifs": (NESTED, nested),
    "loops of different length": (COLLATZ, collatz),
    "nested loops with break and continue": (NESTED_LOOPS, nested_loops),
    "early returns": (EARLY, early),
    "guarded instructions": (GUARDED, guarded),
    "a chain of cases": (SWITCH, switch),
    "an irreducible loop": (IRREDUCIBLE, irreducible),
    "a uniform value under divergence": (UNIFORM, uniform_in_divergent),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("block", [THREADS, 50])
def test_each_thread_goes_its_own_way(executor, name, block):
    body, reference = KERNELS[name]
    data = np.random.default_rng(11).integers(0, 5000, block, dtype=np.uint32)
    out = np.full(block, 12345, np.uint32)
    launch(executor, body, out, data, block=block)
    np.testing.assert_array_equal(out, [reference(int(x)) for x in data])


@pytest.mark.parametrize("name", KERNELS)
def test_all_threads_together(executor, name):
    """The same where no warp diverges: every thread has the same number."""
    body, reference = KERNELS[name]
    for number in (0, 7, 27, 95, 1234):
        out = np.zeros(THREADS, np.uint32)
        launch(executor, body, out, np.full(THREADS, number, np.uint32), block=THREADS)
        assert (out == reference(number)).all(), number


def test_branches_that_follow_from_the_thread_number(executor):
    data, out = np.zeros(THREADS, np.uint32), np.zeros(THREADS, np.uint32)
    launch(executor, BY_THREAD, out, data, block=THREADS)
    np.testing.assert_array_equal(out, [by_thread(0, t) for t in range(THREADS)])


def test_many_registers_change_places_under_divergence(executor):
    """Each of 40 registers takes the next one's value: a block must read all before it writes."""
    first, count = 20, 40
    names = [f"%r{first + i}" for i in range(count)]
    start = " ".join(f"add.u32 {name}, %r0, {i * i};" for i, name in enumerate(names))
    turn = " ".join(f"mov.u32 {a}, {b};" for a, b in pairwise(names))
    total = " ".join(f"mad.lo.u32 %r9, %r9, 31, {name};" for name in names)
    body = f"""{LOAD} {start} and.b32 %r1, %r0, 3; mov.u32 %r2, 0;
LOOP: setp.ge.u32 %p0, %r2, %r1; @%p0 bra DONE; mov.u32 %r3, {names[0]}; {turn}
    mov.u32 {names[-1]}, %r3; add.u32 %r2, %r2, 1; bra LOOP;
DONE: mov.u32 %r9, 0; {total} {STORE} ret;"""
    data = np.random.default_rng(13).integers(0, 5000, THREADS, dtype=np.uint32)
    out = np.zeros(THREADS, np.uint32)
    launch(executor, body, out, data, block=THREADS)
    for x, found in zip(map(int, data), out, strict=True):
        values = [x + i * i for i in range(count)]
        values = values[x & 3 :] + values[: x & 3]
        want = 0
        for value in values:
            want = want * 31 + value
        assert found == want & 0xFFFFFFFF


def test_calls_of_device_functions(executor):
    """A function called from two places, under divergence, that calls another."""
    head = """
.func (.param .b32 out) square(.param .b32 x)
{ .reg .b32 %r<4>; ld.param.b32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }
.func (.param .b32 out) chosen(.param .b32 x, .param .b32 y)
{ .reg .b32 %r<8>; .reg .pred %p<2>; ld.param.b32 %r1, [x]; ld.param.b32 %r2, [y];
  setp.lt.u32 %p1, %r1, %r2; @%p1 bra LESS;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), square, (a);
    ld.param.b32 %r3, [b]; }
  st.param.b32 [out], %r3; ret;
LESS: add.u32 %r4, %r2, 1000; st.param.b32 [out], %r4; ret; }"""
    call = """{{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], {x};
    st.param.b32 [b], {y}; call (c), chosen, (a, b); ld.param.b32 {to}, [c]; }}"""
    body = f"""{LOAD} {call.format(x="%r0", y="%thread", to="%r1")}
    and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra EVEN;
    {call.format(x="%thread", y="%r1", to="%r9")} bra END;
EVEN: add.u32 %r9, %r1, 5;
END: {STORE} ret;"""
    data = np.random.default_rng(12).integers(0, THREADS, THREADS, dtype=np.uint32)
    out = np.zeros(THREADS, np.uint32)
    launch(executor, body, out, data, block=THREADS, head=head)

    def chosen(x, y):
        return y + 1000 if x < y else y * y

    for tid, x in enumerate(map(int, data)):
        one = chosen(x, tid)
        assert out[tid] == (chosen(tid, one) if x & 1 else one + 5) & 0xFFFFFFFF
