"""mov, cvta and isspacep (PTX ISA 9.7.9.3, 9.7.9.19 and 9.7.9.20)."""

import numpy as np
import pytest
from harness import Section, op, parameters
from launching import launch
from ptx_values import encode


def parts(value, count, bits):
    return tuple(value >> bits * i & (1 << bits) - 1 for i in range(count))


def joined(values, bits):
    return sum((v & (1 << bits) - 1) << bits * i for i, v in enumerate(values))


def bits(value):
    return encode(value, "f32")


def ops():
    for kind in ("b16", "b32", "b64", "u16", "s32", "u64", "f32", "f64", "pred"):
        yield op(f"mov.{kind}", kind, (kind,), lambda a: a)
    for whole in (32, 64):
        half = whole // 2
        yield op(
            f"mov.b{whole} unpack",
            (f"b{half}",) * 2,
            (f"b{whole}",),
            lambda a, h=half: parts(a, 2, h),
            template=f"mov.b{whole} " + "{{d}, {e}}, {a};",
        )
        yield op(
            f"mov.b{whole} pack",
            f"b{whole}",
            (f"b{half}",) * 2,
            lambda a, b, h=half: joined((a, b), h),
            template=f"mov.b{whole} " + "{d}, {{a}, {b}};",
        )
    yield op(
        "mov.b64 pack 4",
        "b64",
        ("b16",) * 4,
        lambda *x: joined(x, 16),
        template="mov.b64 {d}, {{a}, {b}, {c}, {f}};",
    )
    yield op(
        "mov.b64 unpack into sinks",
        ("b16", "b16"),
        ("b64",),
        lambda a: (parts(a, 4, 16)[1], parts(a, 4, 16)[3]),
        template="mov.b64 {_, {d}, _, {e}}, {a};",
    )
    yield op(
        "mov.b32 float bits",
        "b32",
        ("f32",),
        lambda a: bits(a),
        template="mov.b32 {d}, {a};",
    )
    yield op(
        "mov.b64 pair of floats",
        "b64",
        ("f32", "f32"),
        lambda a, b: bits(a) | bits(b) << 32,
        template="mov.b64 {d}, {{a}, {b}};",
    )


SECTIONS = [Section("moves", list(ops()))]


@pytest.mark.parametrize(("section", "one"), parameters(SECTIONS))
def test_moves(executor, section, one):
    section.check(executor, one)


def test_integers_that_step_from_lane_to_lane_are_read_as_floats(executor):
    """The bits of s + 4·lane, and of %thread, in a float register."""
    body = """
    mad.lo.u32 %r0, %thread, 4, %a1; mov.b32 %f0, %r0; add.f32 %f1, %f0, %f0; mov.b32 %r1, %f1;
    mov.b32 %f2, %thread; abs.f32 %f3, %f2; mov.b32 %r2, %f3; mov.b64 %d0, {%thread, %r0};
    mov.b64 %g0, %d0;
    add.f64 %g1, %g0, %g0; mov.b64 {%r3, %r4}, %g1;
    mad.wide.u32 %d9, %thread, 16, %a0; st.global.v4.u32 [%d9], {%r1, %r2, %r3, %r4}; ret;"""
    out = np.zeros((64, 4), np.uint32)
    launch(executor, body, out, np.uint32(0x3F800000))
    tid = np.arange(64, dtype=np.uint32)
    words = np.uint32(0x3F800000) + 4 * tid
    np.testing.assert_array_equal(out[:, 0].view(np.float32), 2 * words.view(np.float32))
    np.testing.assert_array_equal(out[:, 1], tid)
    pairs = np.stack([tid, words], axis=1).view(np.float64)[:, 0]
    np.testing.assert_array_equal(
        np.ascontiguousarray(out[:, 2:]).view(np.float64)[:, 0], 2 * pairs
    )


def test_generic_addresses_and_the_spaces_they_fall_in(executor):
    head = """.shared .align 8 .b64 room[64]; .const .align 8 .b64 fixed[2] = {11, 22};
.global .align 8 .b64 table[2] = {33, 44};"""
    body = """
    .local .align 8 .b64 own[4];
    mov.u64 %d1, room; cvta.shared.u64 %d1, %d1; mov.u64 %d2, own; cvta.local.u64 %d2, %d2;
    mov.u64 %d3, fixed; cvta.const.u64 %d3, %d3; mov.u64 %d4, table; cvta.global.u64 %d4, %d4;
    cvta.global.u64 %d5, %a0; mul.wide.u32 %d6, %thread, 8; add.s64 %d1, %d1, %d6; mov.u32 %r9, 0;
"""
    for place, register in enumerate(("%d1", "%d2", "%d3", "%d4", "%d5")):
        for flag, space in enumerate(("shared", "local", "const", "global")):
            if space == "const":
                continue
            body += f"""isspacep.{space} %p1, {register};
    selp.u32 %r1, {1 << 4 * place + flag}, 0, %p1; or.b32 %r9, %r9, %r1;"""
    body += """
    mul.wide.u32 %d7, %thread, 5; st.u64 [%d1], %d7; add.s64 %d7, %d7, 1; st.u64 [%d2+16], %d7;
    ld.u64 %d10, [%d3+8]; ld.u64 %d11, [%d4]; cvta.to.shared.u64 %d12, %d1;
    ld.shared.u64 %d13, [%d12];
    cvta.to.local.u64 %d14, %d2; ld.local.u64 %d15, [%d14+16]; cvta.to.const.u64 %d16, %d3;
    ld.const.u64 %d17, [%d16]; cvta.to.global.u64 %d18, %d4; ld.global.u64 %d19, [%d18+8];
    mad.wide.u32 %d20, %thread, 64, %a0; cvt.u64.u32 %d21, %r9;
    st.global.v2.u64 [%d20], {%d10, %d11}; st.global.v2.u64 [%d20+16], {%d13, %d15};
    st.global.v2.u64 [%d20+32], {%d17, %d19}; st.global.u64 [%d20+48], %d21; ret;"""
    out = np.zeros((64, 8), np.uint64)
    launch(executor, body, out, head=head)
    tid = np.arange(64)
    np.testing.assert_array_equal(out[:, :2], np.tile([22, 33], (64, 1)))
    np.testing.assert_array_equal(out[:, 2], tid * 5)
    np.testing.assert_array_equal(out[:, 3], tid * 5 + 1)
    np.testing.assert_array_equal(out[:, 4:6], np.tile([11, 44], (64, 1)))
    # Shared, local, then global for the arrays; nobody promises anything of constant memory.
    assert set((out[:, 6] & 0xFF0FF).tolist()) == {0x88021}


def test_128_bits_in_one_register(executor):
    body = """
    .reg .b128 %q<4>;
    mad.wide.u32 %d0, %thread, 16, %a0; ld.global.v2.b64 {%d1, %d2}, [%d0];
    mov.b128 %q0, {%d2, %d1}; ld.global.b128 %q1, [%d0]; mov.b128 {%d3, %d4}, %q1;
    mov.b128 {%d5, %d6}, %q0;
    mad.wide.u32 %d7, %thread, 48, %a1; st.global.b128 [%d7], %q0;
    st.global.v2.b64 [%d7+16], {%d3, %d4}; st.global.v2.b64 [%d7+32], {%d5, %d6}; ret;"""
    data = np.random.default_rng(1).integers(0, 2**63, (64, 2), dtype=np.uint64)
    out = np.zeros((64, 3, 2), np.uint64)
    launch(executor, body, data, out)
    np.testing.assert_array_equal(out, np.stack([data[:, ::-1], data, data[:, ::-1]], axis=1))


def test_special_registers(executor):
    """What the launch decides (not %warpid), and clocks that do not run backwards."""
    names = ["%laneid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt"]
    names += ["%lanemask_ge", "%ntid.x", "%nctaid.x", "%ctaid.x", "%tid.y", "%ntid.z", "%ctaid.y"]
    body = "mad.lo.u32 %r0, %cta, 64, %thread; mad.wide.u32 %d0, %r0, 4, %a0;"
    for slot, name in enumerate(names):
        body += f"mov.u32 %r1, {name}; st.global.u32 [%d0+{slot * 512}], %r1;"
    body += """mov.u64 %d1, %clock64; mov.u64 %d3, %globaltimer; nanosleep.u32 100;
    mov.u64 %d2, %clock64; mov.u64 %d4, %globaltimer; setp.gt.u64 %p0, %d1, %d2;
    setp.gt.or.u64 %p0, %d3, %d4, %p0; mov.u32 %r2, %smid; mov.u32 %r3, %nsmid;
    setp.ge.or.u32 %p0, %r2, %r3, %p0; selp.u32 %r1, 1, 0, %p0;"""
    body += f"st.global.u32 [%d0+{len(names) * 512}], %r1; ret;"
    out = np.full((len(names) + 1, 2, 64), 7, np.uint32)
    launch(executor, body, out, grid=2)
    thread, block = np.arange(64), np.arange(2)[:, None]
    bit = 1 << (thread % 32)
    below = bit - 1
    above = 2**32 - 1 - below - bit
    want = [thread % 32, bit, below, below + bit, above, above + bit]
    want += [64, 2, block, 0, 1, 0, 0]
    for got, expected, name in zip(out, want, [*names, "clocks"], strict=True):
        assert (got == expected).all(), name
