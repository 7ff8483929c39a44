"""bar and barrier (PTX ISA 9.7.13.1 and 9.7.13.2)."""

import numpy as np
import pytest
from launching import launch

from tilewright.errors import BarrierError

STORE = "mad.wide.u32 %d9, %thread, 4, %a0; st.global.u32 [%d9], %r9; ret;"


@pytest.mark.parametrize(
    "spelling", ["bar.sync 0", "barrier.sync 0", "bar.cta.sync 0", "barrier.cta.sync.aligned 0"]
)
@pytest.mark.parametrize("block", [64, 80, 256])
def test_all_threads_meet(executor, spelling, block):
    """Three rounds through shared memory; each reads what a thread of another warp wrote."""
    body = f"""
    .shared .align 4 .b32 room[256];
    mov.u32 %r0, room; mad.lo.u32 %r1, %thread, 4, %r0; sub.u32 %r2, {block - 1}, %thread;
    mad.lo.u32 %r2, %r2, 4, %r0; mov.u32 %r9, %thread; mov.u32 %r3, 0;
LOOP: st.shared.u32 [%r1], %r9; {spelling}; ld.shared.u32 %r4, [%r2]; {spelling};
    mad.lo.u32 %r9, %r9, 3, %r4; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 3; @%p0 bra LOOP;
    {STORE}"""
    out = np.zeros(block, np.uint32)
    launch(executor, body, out, block=block)
    want = np.arange(block)
    for _ in range(3):
        want = want * 3 + want[::-1]
    np.testing.assert_array_equal(out, want)


def test_warps_pass_values_on_through_named_barriers(executor):
    """Producers arrive and go on; consumers wait. Each pair of warps has a barrier of its own."""
    body = f"""
    .shared .align 4 .b32 room[128];
    shr.u32 %r0, %thread, 5; and.b32 %r1, %r0, 1; shr.u32 %r2, %r0, 1; add.u32 %r2, %r2, 1;
    mov.u32 %r3, room; mad.lo.u32 %r4, %r2, 128, %r3; sub.u32 %r4, %r4, 128;
    mad.lo.u32 %r4, %lane, 4, %r4; mov.u32 %r9, 0;
    setp.eq.u32 %p0, %r1, 0; @%p0 bra CONSUMER;
    mad.lo.u32 %r5, %thread, 7, 1; st.shared.u32 [%r4], %r5; bar.arrive %r2, 64; mov.u32 %r9, 1;
    bra END;
CONSUMER: bar.sync %r2, 64; ld.shared.u32 %r9, [%r4];
END: {STORE}"""
    out = np.zeros(256, np.uint32)
    launch(executor, body, out, block=256)
    tid = np.arange(256)
    np.testing.assert_array_equal(out, np.where(tid // 32 % 2, 1, (tid + 32) * 7 + 1))


def test_a_barrier_of_some_warps_leaves_the_others_alone(executor):
    """barrier.sync id, 64 joins warps 0 and 1 many times, while warps 2 and 3 use another."""
    body = f"""
    .shared .align 4 .b32 room[128];
    shr.u32 %r0, %thread, 6; mov.u32 %r3, room; mad.lo.u32 %r4, %thread, 4, %r3;
    xor.b32 %r5, %thread, 32;
    mad.lo.u32 %r5, %r5, 4, %r3; mov.u32 %r9, %thread; mov.u32 %r6, 0; mad.lo.u32 %r7, %r0, 4, 5;
    setp.eq.u32 %p0, %r0, 1;
LOOP: st.shared.u32 [%r4], %r9; @%p0 bra.uni OTHER;
    barrier.sync 3, 64; ld.shared.u32 %r8, [%r5]; barrier.sync 3, 64; bra.uni NEXT;
OTHER: barrier.sync 9, 64; ld.shared.u32 %r8, [%r5]; barrier.sync 9, 64;
NEXT: add.u32 %r9, %r9, %r8; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r7; @%p1 bra LOOP;
    bar.sync 0; {STORE}"""
    out = np.zeros(128, np.uint32)
    launch(executor, body, out, block=128)
    tid = np.arange(128)
    rounds = np.where(tid < 64, 5, 9)
    # After one round both of a pair hold their sum, and each further round doubles it.
    np.testing.assert_array_equal(out, (tid + (tid ^ 32)) * 2 ** (rounds - 1))


@pytest.mark.parametrize("block", [64, 72, 128])
def test_reductions_over_the_block(executor, block):
    """bar.red counts the threads whose predicate holds; no thread that is not there."""
    body = f"""
    mad.wide.u32 %d0, %thread, 4, %a1; ld.global.u32 %r0, [%d0];
    and.b32 %r1, %r0, 1; setp.ne.u32 %p1, %r1, 0; and.b32 %r1, %r0, 2; setp.ne.u32 %p2, %r1, 0;
    and.b32 %r1, %r0, 4; setp.ne.u32 %p3, %r1, 0;
    bar.red.popc.u32 %r2, 0, %p1; bar.red.and.pred %p4, 0, %p2; bar.red.or.pred %p5, 0, %p3;
    bar.red.popc.u32 %r3, 1, {(block + 31) // 32 * 32}, !%p1; bar.red.or.pred %p6, 0, !%p2;
    barrier.cta.red.and.pred %p7, 2, !%p3;
    selp.u32 %r4, 1, 0, %p4; selp.u32 %r5, 2, 0, %p5; selp.u32 %r6, 4, 0, %p6;
    selp.u32 %r7, 8, 0, %p7;
    or.b32 %r4, %r4, %r5; or.b32 %r6, %r6, %r7; or.b32 %r4, %r4, %r6;
    shl.b32 %r2, %r2, 8; shl.b32 %r3, %r3, 20; add.u32 %r9, %r4, %r2; add.u32 %r9, %r9, %r3;
    {STORE}"""
    rng = np.random.default_rng(block)
    for bits in (rng.integers(0, 8, block), np.full(block, 2), np.full(block, 6), np.zeros(block)):
        bits = bits.astype(np.uint32)
        bits[block // 2] &= 3
        ones, twos, fours = bits & 1 != 0, bits & 2 != 0, bits & 4 != 0
        flags = twos.all() + 2 * fours.any() + 4 * (~twos).any() + 8 * (~fours).all()
        out = np.zeros(block, np.uint32)
        launch(executor, body, out, bits, block=block)
        assert (out == flags + (int(ones.sum()) << 8) + (int((~ones).sum()) << 20)).all()


def test_threads_of_a_warp_wait_for_each_other(executor):
    """bar.warp.sync orders shared memory between lanes that came by different paths."""
    body = f"""
    .shared .align 4 .b32 room[64];
    mov.u32 %r0, room; mad.lo.u32 %r1, %thread, 4, %r0; xor.b32 %r2, %thread, 1;
    mad.lo.u32 %r2, %r2, 4, %r0;
    and.b32 %r3, %thread, 1; setp.eq.u32 %p0, %r3, 1; @%p0 bra ODD;
    mad.lo.u32 %r4, %thread, 10, 3; st.shared.u32 [%r1], %r4; bar.warp.sync 0xffffffff; bra JOIN;
ODD: mad.lo.u32 %r4, %thread, 20, 5; st.shared.u32 [%r1], %r4; bar.warp.sync 0xffffffff;
JOIN: bar.warp.sync -1; ld.shared.u32 %r9, [%r2]; {STORE}"""
    out = np.zeros(64, np.uint32)
    launch(executor, body, out)
    partner = np.arange(64) ^ 1
    np.testing.assert_array_equal(out, np.where(partner & 1, partner * 20 + 5, partner * 10 + 3))


def test_two_sides_of_a_branch_pass_values_to_and_fro(executor):
    """Each side has syncs of its own, in a loop: a lane must not run ahead of its partner."""
    side = """
    mov.u32 %r6, 0;
{name}: mad.lo.u32 %r4, %r9, {times}, %thread; st.shared.u32 [%r1], %r4; bar.warp.sync -1;
    ld.shared.u32 %r5, [%r2]; add.u32 %r9, %r9, %r5; bar.warp.sync -1;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 4; @%p1 bra {name};"""
    body = f"""
    .shared .align 4 .b32 room[64];
    mov.u32 %r0, room; mad.lo.u32 %r1, %thread, 4, %r0; xor.b32 %r2, %thread, 1;
    mad.lo.u32 %r2, %r2, 4, %r0; and.b32 %r3, %thread, 1; mov.u32 %r9, %thread;
    setp.eq.u32 %p0, %r3, 1; @%p0 bra ODD;
    {side.format(name="EVENS", times=3)} bra JOIN;
ODD: {side.format(name="ODDS", times=5)}
JOIN: {STORE}"""
    out = np.zeros(64, np.uint32)
    launch(executor, body, out)
    thread = np.arange(64)
    want = thread.copy()
    for _ in range(4):
        sent = want * np.where(thread & 1, 5, 3) + thread
        want = want + sent[thread ^ 1]
    np.testing.assert_array_equal(out, want)


def test_a_barrier_after_a_divergent_branch(executor):
    """All lanes come to one bar.sync again, whichever side of the branch they took."""
    body = f"""
    .shared .align 4 .b32 room[128];
    mov.u32 %r0, room; mad.lo.u32 %r1, %thread, 4, %r0; and.b32 %r2, %thread, 3; mov.u32 %r3, 0;
    mov.u32 %r4, 0;
LOOP: setp.gt.u32 %p0, %r4, %r2; @%p0 bra OUT; add.u32 %r3, %r3, %thread; add.u32 %r4, %r4, 1;
    bra LOOP;
OUT: st.shared.u32 [%r1], %r3; bar.sync 0; xor.b32 %r5, %thread, 77; mad.lo.u32 %r5, %r5, 4, %r0;
    ld.shared.u32 %r9, [%r5]; {STORE}"""
    out = np.zeros(128, np.uint32)
    launch(executor, body, out, block=128)
    other = np.arange(128) ^ 77
    np.testing.assert_array_equal(out, other * ((other & 3) + 1))


def test_a_barrier_that_a_warp_never_reaches_is_an_error():
    """Without a GPU: there the kernel would hang."""
    from tilewright.emulator import run

    body = f"setp.lt.u32 %p0, %thread, 32; mov.u32 %r9, 1; @%p0 bra END; bar.sync 0;\nEND: {STORE}"
    with pytest.raises(BarrierError, match="barrier 0"):
        launch(run, body, np.zeros(64, np.uint32))
