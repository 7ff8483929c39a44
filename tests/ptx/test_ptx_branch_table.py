"""brx.idx: a branch to the place that a number picks, against a Python function of one thread."""

import numpy as np
import pytest
from launching import launch

THREADS = 96
STORE = "mad.wide.u32 %d9, %thread, 4, %a0; st.global.u32 [%d9], %r9;"
LOAD = "mad.wide.u32 %d8, %thread, 4, %a1; ld.global.u32 %r0, [%d8];"
PLACES = 6


def cases(x, tid):
    result = {0: 5, 1: x & 0xF, 3: 77, 4: 78}.get(x % PLACES, 1)
    return result + 1 if x % PLACES in (3, 4) else result  # 3 falls through to 4


CASES = f"""mov.u32 %r9, 1;
TABLE: .branchtargets ZERO, ONE, END, THREE, FOUR, END;
    brx.idx %r1, TABLE;
ZERO: mov.u32 %r9, 5; bra END;
ONE: and.b32 %r9, %r0, 15; bra END;
THREE: mov.u32 %r9, 77; bra BOTH;
FOUR: mov.u32 %r9, 78;
BOTH: add.u32 %r9, %r9, 1;
END: {STORE} ret;"""


def returning(x, tid):
    """Some places are a return, one the end of the kernel; the rest meet again."""
    place = x % PLACES
    if place in (0, 2, 5):
        return 3
    return (10 if place == 1 else 20) + tid


RETURNING = f"""mov.u32 %r9, 3; {STORE}
TABLE: .branchtargets OUT, ONE, END, TWO, TWO, OUT;
    brx.idx %r1, TABLE;
ONE: mov.u32 %r9, 10; bra JOIN;
OUT: ret;
TWO: mov.u32 %r9, 20;
JOIN: add.u32 %r9, %r9, %thread; {STORE}
END:"""


def guarded(x, tid):
    """Threads below 40 take the table, the others go on behind the branch."""
    if tid >= 40:
        return 100 + x % 7
    return (1, 2, 1, 2, 3, 3)[x % PLACES]


GUARDED = f"""setp.lt.u32 %p1, %thread, 40;
TABLE: .branchtargets ONE, TWO, ONE, TWO, THREE, THREE;
    @%p1 brx.idx %r1, TABLE;
    rem.u32 %r9, %r0, 7; add.u32 %r9, %r9, 100; bra END;
ONE: mov.u32 %r9, 1; bra END;
TWO: mov.u32 %r9, 2; bra END;
THREE: mov.u32 %r9, 3;
END: {STORE} ret;"""


def machine(x, tid):
    """A loop that runs a program of base-6 digits: every step branches by the next one."""
    total, steps = tid, 0
    while True:
        digit, x = x % PLACES, x // PLACES
        if digit == 0:
            break
        total = (total + 1, total * 3, total ^ 0x55, total + 7, total * 2)[digit - 1]
        steps += 1
    return (total * 16 + steps) & 0xFFFFFFFF


MACHINE = f"""mov.u32 %r9, %thread; mov.u32 %r3, 0; bra NEXT;
LOOP: add.u32 %r3, %r3, 1; rem.u32 %r1, %r0, 6;
NEXT: div.u32 %r0, %r0, 6;
TABLE: .branchtargets END, ONE, TWO, THREE, FOUR, FIVE;
    brx.idx %r1, TABLE;
ONE: add.u32 %r9, %r9, 1; bra LOOP;
TWO: mul.lo.u32 %r9, %r9, 3; bra LOOP;
THREE: xor.b32 %r9, %r9, 0x55; bra LOOP;
FOUR: add.u32 %r9, %r9, 7; bra LOOP;
FIVE: shl.b32 %r9, %r9, 1; bra LOOP;
END: mad.lo.u32 %r9, %r9, 16, %r3; {STORE} ret;"""

KERNELS = {
    "cases": (CASES, cases),
    "returns": (RETURNING, returning),
    "under a guard": (GUARDED, guarded),
    "a state machine": (MACHINE, machine),
}


def expected(reference, data):
    return np.array([reference(int(x), t) for t, x in enumerate(data)], np.uint32)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("block", [THREADS, 50])
def test_each_thread_goes_its_own_way(executor, name, block):
    body, reference = KERNELS[name]
    data = np.random.default_rng(21).integers(0, 5000, block, dtype=np.uint32)
    out = np.full(block, 12345, np.uint32)
    launch(executor, f"{LOAD} rem.u32 %r1, %r0, {PLACES}; {body}", out, data, block=block)
    np.testing.assert_array_equal(out, expected(reference, data))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("block", [THREADS, 50])
def test_a_number_that_is_the_same_for_all_threads(executor, name, block):
    body, reference = KERNELS[name]
    for number in (0, 1, 8, 3, 4, 5, 1234):
        out = np.full(block, 12345, np.uint32)
        start = f"mov.u32 %r0, %a1; rem.u32 %r1, %r0, {PLACES};"
        launch(executor, f"{start} {body}", out, np.uint32(number), block=block)
        want = expected(reference, np.full(block, number))
        np.testing.assert_array_equal(out, want, err_msg=str(number))


@pytest.mark.parametrize("name", KERNELS)
def test_a_number_that_follows_from_the_thread(executor, name):
    """The index is known when the kernel is compiled."""
    body, reference = KERNELS[name]
    out = np.full(THREADS, 12345, np.uint32)
    start = f"mov.u32 %r0, %thread; rem.u32 %r1, %r0, {PLACES};"
    launch(executor, f"{start} {body}", out, block=THREADS)
    np.testing.assert_array_equal(out, expected(reference, np.arange(THREADS)))


@pytest.mark.parametrize("flag", [0, 1])
def test_a_guard_that_is_the_same_for_all_threads(executor, flag):
    body = f"""{LOAD} setp.ne.u32 %p1, %a2, 0; and.b32 %r1, %r0, 1;
TABLE: .branchtargets ZERO, ONE;
    @!%p1 brx.idx %r1, TABLE;
    mov.u32 %r9, 3; bra END;
ZERO: mov.u32 %r9, 1; bra END;
ONE: mov.u32 %r9, 2;
END: {STORE} ret;"""
    data = np.random.default_rng(22).integers(0, 5000, THREADS, dtype=np.uint32)
    out = np.zeros(THREADS, np.uint32)
    launch(executor, body, out, data, np.uint32(flag), block=THREADS)
    np.testing.assert_array_equal(out, 3 if flag else 1 + (data & 1))


def test_in_a_device_function_that_is_called_twice(executor):
    """Each call has its own copy of the table."""
    head = """
.func (.param .b32 out) pick(.param .b32 x)
{ .reg .b32 %r<4>; ld.param.b32 %r1, [x]; and.b32 %r2, %r1, 1; mov.u32 %r3, 10;
TABLE: .branchtargets ZERO, ONE;
  brx.idx %r2, TABLE;
ZERO: mov.u32 %r3, 20;
ONE: st.param.b32 [out], %r3; ret; }"""
    call = """{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {x};
    call (b), pick, (a); ld.param.b32 {to}, [b]; }}"""
    body = f"""{LOAD} {call.format(x="%r0", to="%r1")} {call.format(x="%thread", to="%r2")}
    mad.lo.u32 %r9, %r1, 1000, %r2; {STORE} ret;"""
    data = np.random.default_rng(23).integers(0, 5000, THREADS, dtype=np.uint32)
    out = np.zeros(THREADS, np.uint32)
    launch(executor, body, out, data, block=THREADS, head=head)
    tids = np.arange(THREADS)
    np.testing.assert_array_equal(out, (20 - data % 2 * 10) * 1000 + 20 - tids % 2 * 10)
