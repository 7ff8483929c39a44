"""Operations in which lanes of a warp see each other (PTX ISA 9.7.9.6 and 9.7.13.9 to 14)."""

import numpy as np
import pytest
from launching import launch

THREADS = 64
LANES = np.arange(THREADS) % 32


def shuffled(mode, lane, b, c):
    """(source lane, predicate), as the ISA's pseudocode has them."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    most, least = lane & segment | clamp & ~segment & 31, lane & segment
    if mode == "up":
        source, valid = lane - b, lane - b >= most
    elif mode == "down":
        source, valid = lane + b, lane + b <= most
    elif mode == "bfly":
        source, valid = lane ^ b, lane ^ b <= most
    else:
        source = least | b & ~segment & 31
        valid = source <= most
    return (source if valid else lane), valid


# The third operand: clamp in the low bits, segment mask above (as __shfl_*_sync makes them).
BY_WIDTH = {width: (32 - width) << 8 | 31 for width in (32, 16, 4)}
SHUFFLES = [
    (mode, b, (32 - w) << 8 if mode == "up" else c)
    for mode in ("up", "down", "bfly", "idx")
    for w, c in BY_WIDTH.items()
    for b in (0, 1, 9, 31, 45)
] + [("idx", 20, 15), ("down", 2, 0x0307), ("bfly", 5, 20)]


def test_shuffles_by_the_same_amount(executor):
    body = "mad.wide.u32 %d0, %thread, 4, %a0; ld.global.u32 %r0, [%d0];"
    body += "mad.wide.u32 %d1, %thread, 8, %a1;"
    for slot, (mode, b, c) in enumerate(SHUFFLES):
        body += f"""
    shfl.sync.{mode}.b32 %r1|%p1, %r0, {b}, {c}, -1; selp.u32 %r2, 1, 0, %p1;
    st.global.v2.u32 [%d1+{slot * 512}], {{%r1, %r2}};"""
    data = np.random.default_rng(3).integers(0, 2**32, THREADS, dtype=np.uint32)
    out = np.zeros((len(SHUFFLES), THREADS, 2), np.uint32)
    launch(executor, body + "ret;", data, out)
    for slot, (mode, b, c) in enumerate(SHUFFLES):
        for thread in range(THREADS):
            lane, valid = shuffled(mode, thread % 32, b, c)
            want = (data[thread & ~31 | lane], valid)
            assert tuple(out[slot, thread]) == want, (mode, b, c, thread)


def test_shuffles_by_an_amount_of_each_lane(executor):
    """b and c may differ from lane to lane; the result alone, without a predicate; b from %tid."""
    body = """
    mad.wide.u32 %d0, %thread, 16, %a0; ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0];
    shfl.sync.idx.b32 %r4, %r0, %r1, %r2, 0xffffffff; xor.b32 %r9, %thread, 21;
    shfl.sync.bfly.b32 %r5, %r0, %r1, 0x1f, %r3; shfl.sync.idx.b32 %r6, %r0, %r9, 0x1f, -1;
    shfl.sync.down.b32 %r7|%p7, %thread, %r1, %r2, -1; @!%p7 mov.u32 %r7, 999;
    mad.wide.u32 %d1, %thread, 16, %a1; st.global.v4.u32 [%d1], {%r4, %r5, %r6, %r7}; ret;"""
    rng = np.random.default_rng(4)
    data = rng.integers(0, 2**32, (THREADS, 4), dtype=np.uint32)
    data[:, 2] = rng.choice(list(BY_WIDTH.values()), THREADS)
    data[:, 3] = 0xFFFFFFFF
    out = np.zeros((THREADS, 4), np.uint32)
    launch(executor, body, data, out)
    for thread in range(THREADS):
        value, b, c, _ = (int(x) for x in data[thread])
        at = lambda lane, t=thread: t & ~31 | lane  # noqa: E731
        idx, _ = shuffled("idx", thread % 32, b, c)
        bfly, _ = shuffled("bfly", thread % 32, b, 0x1F)
        down, valid = shuffled("down", thread % 32, b, c)
        own = at((thread ^ 21) % 32)
        want = [data[at(idx), 0], data[at(bfly), 0], data[own, 0], at(down) if valid else 999]
        assert out[thread].tolist() == [int(w) for w in want], (thread, value)


def test_votes(executor):
    body = """
    mad.wide.u32 %d0, %thread, 4, %a0; ld.global.u32 %r0, [%d0]; mad.wide.u32 %d1, %thread, 32, %a1;
    and.b32 %r1, %r0, 1; setp.ne.u32 %p0, %r1, 0;
    vote.sync.all.pred %p1, %p0, -1; vote.sync.any.pred %p2, %p0, -1;
    vote.sync.uni.pred %p3, %p0, -1;
    vote.sync.ballot.b32 %r2, %p0, -1; vote.sync.ballot.b32 %r3, !%p0, -1;
    vote.sync.all.pred %p4, !%p0, -1; setp.lt.u32 %p5, %lane, 9; vote.sync.ballot.b32 %r4, %p5, -1;
    vote.sync.any.pred %p6, %p5, -1; activemask.b32 %r5;
    selp.u32 %r10, 1, 0, %p1; selp.u32 %r11, 1, 0, %p2; selp.u32 %r12, 1, 0, %p3;
    selp.u32 %r13, 1, 0, %p4; selp.u32 %r14, 1, 0, %p6; mad.lo.u32 %r14, %r14, 16, %r5;
    st.global.v4.u32 [%d1], {%r10, %r11, %r12, %r13};
    st.global.v4.u32 [%d1+16], {%r2, %r3, %r4, %r14}; ret;"""
    bits = np.zeros((4, 32), np.uint32)
    bits[1] = 1
    bits[2, 5] = 1
    bits[3] = np.random.default_rng(5).integers(0, 2, 32)
    out = np.zeros((4, 32, 8), np.uint32)
    launch(executor, body, bits, out, block=128)
    for warp in range(4):
        ballot = sum(int(b) << i for i, b in enumerate(bits[warp]))
        every, some = ballot == 2**32 - 1, ballot != 0
        want = [every, some, every or not some, not some, ballot, ballot ^ 2**32 - 1, 0x1FF, 15]
        assert (out[warp] == np.array(want, np.uint32)).all(), warp


def test_match_and_redux(executor):
    body = """
    mad.wide.u32 %d0, %thread, 8, %a0; ld.global.u64 %d2, [%d0]; cvt.u32.u64 %r0, %d2;
    mad.wide.u32 %d1, %thread, 64, %a1;
    match.any.sync.b32 %r1, %r0, -1; match.any.sync.b64 %r2, %d2, -1;
    match.all.sync.b32 %r3|%p1, %r0, -1; match.all.sync.b32 %r4, 7, -1; selp.u32 %r5, 1, 0, %p1;
    st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; st.global.u32 [%d1+16], %r5;
    redux.sync.add.u32 %r6, %r0, -1; redux.sync.min.s32 %r7, %r0, -1;
    redux.sync.max.s32 %r8, %r0, -1;
    redux.sync.min.u32 %r9, %r0, -1; redux.sync.max.u32 %r10, %r0, -1;
    redux.sync.and.b32 %r11, %r0, -1;
    redux.sync.or.b32 %r12, %r0, -1; redux.sync.xor.b32 %r13, %r0, -1;
    redux.sync.add.s32 %r14, 3, -1;
    st.global.v4.u32 [%d1+32], {%r6, %r7, %r8, %r9};
    st.global.v4.u32 [%d1+48], {%r10, %r11, %r12, %r13}; st.global.u32 [%d1+20], %r14; ret;"""
    rng = np.random.default_rng(6)
    data = rng.integers(0, 3, (3, 32)).astype(np.uint64) * np.uint64(0x1_8000_0001)
    data[1] = np.uint64(0x5_0000_0009)
    data[2] = rng.integers(0, 2**63, 32, dtype=np.uint64)
    out = np.zeros((3, 32, 16), np.uint32)
    launch(executor, body, data, out, block=96)
    for warp in range(3):
        low = data[warp].astype(np.uint32)
        same = bool((low == low[0]).all())
        assert (out[warp, :, 2] == (0xFFFFFFFF if same else 0)).all()
        assert (out[warp, :, 3:6] == [0xFFFFFFFF, same, 96]).all()
        for lane in range(32):
            for column, values in ((0, low), (1, data[warp])):
                equal = sum(int(v == values[lane]) << i for i, v in enumerate(values))
                assert out[warp, lane, column] == equal
        ints = low.view(np.int32)
        want = [
            low.sum(dtype=np.uint32),
            ints.min(),
            ints.max(),
            low.min(),
            low.max(),
            np.bitwise_and.reduce(low),
            np.bitwise_or.reduce(low),
            np.bitwise_xor.reduce(low),
        ]
        assert (out[warp, :, 8:] == np.array([int(w) & 0xFFFFFFFF for w in want], np.uint32)).all()


def test_redux_of_floats(executor):
    """sm_100a: NaN is ignored unless .NaN says that it wins; .abs compares sizes."""
    names = ("min", "max", "min.abs", "max.abs", "min.NaN", "max.NaN", "max.abs.NaN")
    body = "mad.wide.u32 %d0, %thread, 4, %a0; ld.global.f32 %f0, [%d0];"
    for slot, name in enumerate(names):
        body += f"""redux.sync.{name}.f32 %f1, %f0, -1; mad.wide.u32 %d1, %thread, 4, %a1;
    st.global.f32 [%d1+{slot * 4 * 128}], %f1;"""
    data = np.random.default_rng(9).standard_normal((4, 32)).astype(np.float32)
    data[1, 7] = np.nan
    data[2] = np.nan
    data[3, :2] = -np.inf, 0.0
    body += """setp.lt.u32 %p0, %lane, 9; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000;
    mad.wide.u32 %d1, %thread, 8, %a2; @%p0 redux.sync.min.f32 %f1, %f0, 0x1ff;
    @%p0 redux.sync.min.NaN.f32 %f2, %f0, 0x1ff; st.global.v2.f32 [%d1], {%f1, %f2};"""
    out, few = np.zeros((len(names), 4, 32), np.float32), np.zeros((4, 32, 2), np.float32)
    launch(executor, body + "ret;", data, out, few, block=128, target="sm_100a", version="8.8")
    for slot, name in enumerate(names):
        sizes = np.abs(data) if "abs" in name else data
        pick = getattr(
            np, f"{'' if 'NaN' in name else 'f'}{name[:3]}{'imum' if 'NaN' in name else ''}"
        )
        want = pick.reduce(sizes, axis=1)
        np.testing.assert_array_equal(out[slot], np.repeat(want[:, None], 32, axis=1), err_msg=name)
    for place, pick in enumerate((np.fmin, np.minimum)):  # of the first lanes alone
        least = pick.reduce(data[:, :9], axis=1)[:, None]
        np.testing.assert_array_equal(few[:, :, place], np.where(np.arange(32) < 9, least, 0))


MASKS = (0x0000FFFF, 0xFFFF0000)


def test_two_halves_of_a_warp_work_apart(executor):
    """Under a divergent branch each side names its own lanes; values of the other do not matter."""
    side = """
    vote.sync.ballot.b32 %r2, %p1, {mask}; redux.sync.add.u32 %r3, %r0, {mask};
    shfl.sync.bfly.b32 %r4, %r0, {by}, 0x1f, {mask}; match.any.sync.b32 %r5, %r8, {mask};
    vote.sync.all.pred %p2, %p3, {mask}; selp.u32 %r6, {one}, 0, %p2; activemask.b32 %r7;"""
    body = f"""
    mad.wide.u32 %d0, %thread, 4, %a0; ld.global.u32 %r0, [%d0]; and.b32 %r1, %r0, 1;
    and.b32 %r8, %r0, 3; setp.ne.u32 %p1, %r1, 0; setp.lt.u32 %p3, %lane, 16;
    setp.ge.u32 %p0, %lane, 16; @%p0 bra HIGH;
    {side.format(mask=MASKS[0], by=3, one=1)} bra.uni JOIN;
HIGH: {side.format(mask=MASKS[1], by=9, one=2)}
JOIN: mad.wide.u32 %d1, %thread, 32, %a1; activemask.b32 %r9; bar.warp.sync -1;
    st.global.v4.u32 [%d1], {{%r2, %r3, %r4, %r5}}; st.global.v4.u32 [%d1+16], {{%r6, %r7, %r9, 0}};
    ret;"""
    data = np.random.default_rng(8).integers(0, 1000, THREADS, dtype=np.uint32)
    out = np.zeros((THREADS, 8), np.uint32)
    launch(executor, body, data, out)
    for thread in range(THREADS):
        lane, warp = thread % 32, thread & ~31
        members = range(warp + 16, warp + 32) if lane >= 16 else range(warp, warp + 16)
        ballot = sum(int(data[m] & 1) << m % 32 for m in members)
        equal = sum(int(data[m] & 3 == data[thread] & 3) << m % 32 for m in members)
        partner = data[warp | lane ^ (9 if lane >= 16 else 3)]
        want = [ballot, sum(data[m] for m in members), partner, equal, int(lane < 16)]
        assert out[thread, :5].tolist() == [int(w) for w in want], thread
        assert int(out[thread, 5]) & ~MASKS[lane >= 16] == 0


def test_guarded_operations_of_some_lanes(executor):
    """Under a predicate only its lanes take part; the others keep what their registers held."""
    body = """
    mad.wide.u32 %d0, %thread, 4, %a0; ld.global.u32 %r0, [%d0]; mad.wide.u32 %d1, %thread, 32, %a1;
    mov.u32 %r1, 11; mov.u32 %r2, 12; mov.u32 %r3, 13; mov.u32 %r4, 14; mov.u32 %r5, 15;
    and.b32 %r8, %r0, 1; setp.eq.u32 %p1, %r8, 0; setp.lt.u32 %p0, %lane, 12; and.b32 %r9, %r0, 3;
    @%p0 redux.sync.add.u32 %r1, %r0, 0xfff; @%p0 vote.sync.ballot.b32 %r2, %p1, 0xfff;
    @%p0 match.any.sync.b32 %r3, %r9, 0xfff; @%p0 shfl.sync.bfly.b32 %r4, %r0, 3, 0x1f, 0xfff;
    @!%p0 redux.sync.max.u32 %r5, %r0, 0xfffff000;
    st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; st.global.u32 [%d1+16], %r5; ret;"""
    data = np.random.default_rng(10).integers(0, 1000, THREADS, dtype=np.uint32)
    out = np.zeros((THREADS, 8), np.uint32)
    launch(executor, body, data, out)
    for thread in range(THREADS):
        warp, lane = thread & ~31, thread % 32
        members = data[warp : warp + 12]
        equal = sum(int(v & 3 == data[thread] & 3) << i for i, v in enumerate(members))
        even = sum(int(v & 1 == 0) << i for i, v in enumerate(members))
        want = [members.sum(), even, equal, data[warp | lane ^ 3], 15]
        if lane >= 12:
            want = [11, 12, 13, 14, data[warp + 12 : warp + 32].max()]
        assert out[thread, :5].tolist() == [int(w) for w in want], thread


def test_a_sync_waits_for_lanes_that_come_by_another_path(executor):
    """Volta's rule: shfl.sync meets lanes that are still in a longer branch before it."""
    body = """
    mov.u32 %r0, %lane; mov.u32 %r1, 0; and.b32 %r9, %lane, 7;
LOOP: setp.ge.u32 %p0, %r1, %r9; @%p0 bra DONE; add.u32 %r1, %r1, 1; add.u32 %r0, %r0, 100;
    bra LOOP;
DONE: shfl.sync.idx.b32 %r2, %r0, 7, 0x1f, -1; vote.sync.ballot.b32 %r3, %p0, -1;
    mad.wide.u32 %d1, %thread, 8, %a0; st.global.v2.u32 [%d1], {%r2, %r3}; ret;"""
    out = np.zeros((THREADS, 2), np.uint32)
    launch(executor, body, out)
    assert (out == [707, 0xFFFFFFFF]).all()


def test_elect_picks_one_leader(executor):
    body = """
    elect.sync %r1|%p1, 0xffffffff; selp.u32 %r2, 1, 0, %p1; setp.ge.u32 %p0, %lane, 20;
    mov.u32 %r3, 99; mov.u32 %r4, 0; @!%p0 bra JOIN; elect.sync %r3|%p2, 0xfff00000;
    selp.u32 %r4, 1, 0, %p2;
JOIN: mad.wide.u32 %d1, %thread, 16, %a0; st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; ret;"""
    out = np.zeros((THREADS, 4), np.uint32)
    launch(executor, body, out)
    per_warp = out.reshape(2, 32, 4)
    assert (per_warp[:, :, 1].sum(axis=1) == 1).all()
    leader = per_warp[:, 0, 0]
    for warp in range(2):
        assert per_warp[warp, leader[warp], 1] == 1
        assert (per_warp[warp, :20, 2:] == [99, 0]).all()
        assert (per_warp[warp, 20:, 2] >= 20).all()
        assert per_warp[warp, 20:, 3].sum() == 1
        assert per_warp[warp, per_warp[warp, 20, 2], 3] == 1


@pytest.mark.parametrize("block", [1, 31, 48, 65])
def test_a_last_warp_that_is_not_whole(executor, block):
    """Votes, reductions and activemask see the threads that exist."""
    body = """
    setp.ge.u32 %p0, %lane, 0; activemask.b32 %r0; vote.sync.ballot.b32 %r1, %p0, %r0;
    redux.sync.add.u32 %r2, 1, %r0; match.any.sync.b32 %r3, 5, %r0;
    vote.sync.all.pred %p1, %p0, %r0;
    selp.u32 %r4, 1, 0, %p1; mad.wide.u32 %d1, %thread, 32, %a0;
    st.global.v4.u32 [%d1], {%r0, %r1, %r2, %r3}; st.global.u32 [%d1+16], %r4; ret;"""
    out = np.zeros((block, 8), np.uint32)
    launch(executor, body, out, block=block)
    for thread in range(block):
        live = min(32, block - (thread & ~31))
        mask = (1 << live) - 1
        assert out[thread, :5].tolist() == [mask, mask, live, mask, 1]
