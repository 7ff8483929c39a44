"""Loads and stores (PTX ISA 9.7.9.8 to 9.7.9.12): widths, spaces, vectors, qualifiers."""

import numpy as np
import pytest
from launching import launch

THREADS = 64
BYTES = 1536  # 64 threads, 3 · 8 bytes apart
INTEGERS = ("b8", "u8", "s8", "b16", "s16", "u32", "s32", "b64", "s64")
PERMUTATION = np.random.default_rng(1).permutation(THREADS).astype(np.uint32)
TID = np.arange(THREADS)


def source():
    return np.random.default_rng(2).integers(0, 256, BYTES, dtype=np.uint8)


def size_of(kind):
    return int(kind[1:]) // 8


# How a thread's offset follows from its number: (PTX that gives it in %r1, in numpy).
PLACES = {
    "contiguous": ("mul.lo.u32 %r1, %thread, {size};", lambda size: TID * size),
    "strided": (
        "mul.lo.u32 %r1, %thread, {size}; mul.lo.u32 %r1, %r1, 3;",
        lambda size: TID * 3 * size,
    ),
    "uniform": ("mov.u32 %r1, {size}; mul.lo.u32 %r1, %r1, 5;", lambda size: TID * 0 + 5 * size),
    "backward": (
        "sub.u32 %r1, 63, %thread; mul.lo.u32 %r1, %r1, {size};",
        lambda size: (63 - TID) * size,
    ),
    "anywhere": ("mul.lo.u32 %r1, %r9, {size};", lambda size: PERMUTATION * size),
}

# How each space gets the source's bytes, and what its address (%d10) is.
SPACES = {
    "global": ("", "", "mov.u64 %d10, %a0;", ".global"),
    "generic": ("", "", "cvta.global.u64 %d10, %a0;", ""),
    "const": (".const .align 16 .b8 table[1536] = {BYTES};", "", "mov.u64 %d10, table;", ".const"),
    "shared": (
        ".shared .align 16 .b8 room[1536];",
        "mov.u32 %r3, room;",
        "cvt.u64.u32 %d10, %r3;",
        ".shared",
    ),
    "generic shared": (
        ".shared .align 16 .b8 room[1536];",
        "mov.u32 %r3, room;",
        "mov.u64 %d10, room; cvta.shared.u64 %d10, %d10;",
        "",
    ),
    "local": ("", ".local .align 16 .b8 own[1536];", "mov.u64 %d10, own;", ".local"),
    "generic local": (
        "",
        ".local .align 16 .b8 own[1536];",
        "mov.u64 %d10, own; cvta.local.u64 %d10, %d10;",
        "",
    ),
}
# Copies the source to shared memory, a word a thread and round.
FILL_SHARED = """
    mov.u32 %r4, %thread;
FILL: mul.wide.u32 %d1, %r4, 4; add.s64 %d1, %d1, %a0; ld.global.u32 %r5, [%d1];
    shl.b32 %r6, %r4, 2; add.u32 %r6, %r6, %r3; st.shared.u32 [%r6], %r5;
    add.u32 %r4, %r4, 64; setp.lt.u32 %p1, %r4, 384; @%p1 bra FILL;
    bar.sync 0;"""
# Copies the source to local memory; each thread adds its number to every byte of its copy.
FILL_LOCAL = """
    mul.lo.u32 %r7, %thread, 0x01010101; mov.u32 %r4, 0; mov.u64 %d3, own;
FILL: mul.wide.u32 %d1, %r4, 4; add.s64 %d2, %d1, %a0; ld.global.u32 %r5, [%d2];
    and.b32 %r5, %r5, 0x3f3f3f3f; add.u32 %r5, %r5, %r7;
    add.s64 %d1, %d1, %d3; st.local.u32 [%d1], %r5;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 384; @%p1 bra FILL;"""


def prepared(space):
    """The head and the body's beginning for a space: %d10 its base, %r9 the permuted number."""
    head, declared, address, suffix = SPACES[space]
    head = head.replace("BYTES", ",".join(map(str, source())))
    fill = FILL_SHARED if "room" in head else FILL_LOCAL if "own" in declared else ""
    body = f"""{declared}
    mul.wide.u32 %d0, %thread, 4; add.s64 %d0, %d0, %a1; ld.global.u32 %r9, [%d0];
    {fill}
    {address}"""
    return head, body, suffix


def contents(space):
    """What each thread finds in a space, [thread, byte]."""
    data = np.tile(source(), (THREADS, 1))
    return (data & 0x3F) + TID[:, None].astype(np.uint8) if "local" in space else data


@pytest.mark.parametrize("space", SPACES)
def test_loads_of_every_width_fill_a_wide_register(executor, space):
    """ld.s8 and the like extend by sign, all others with zeros, to the register's 64 bits."""
    head, body, suffix = prepared(space)
    cases = [(kind, place) for kind in INTEGERS for place in PLACES]
    for slot, (kind, place) in enumerate(cases):
        body += f"""
    {PLACES[place][0].format(size=size_of(kind))} cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, %d10;
    ld{suffix}.{kind} %d2, [%d1]; mad.wide.u32 %d3, %thread, 8, %a2;
    st.global.u64 [%d3+{slot * 512}], %d2;"""
    out = np.zeros((len(cases), THREADS), np.uint64)
    launch(executor, body + "ret;", source(), PERMUTATION, out, head=head)
    data = contents(space)
    for slot, (kind, place) in enumerate(cases):
        offsets = PLACES[place][1](size_of(kind))
        dtype = f"{'i' if kind[0] == 's' else 'u'}{size_of(kind)}"
        want = [
            row[o : o + size_of(kind)].view(dtype)[0] for row, o in zip(data, offsets, strict=True)
        ]
        want = np.array(want).astype(np.int64 if kind[0] == "s" else np.uint64).view(np.uint64)
        np.testing.assert_array_equal(out[slot], want, err_msg=f"ld{suffix}.{kind} {place}")


VECTORS = [
    (kind, n) for kind in ("b8", "u8", "b16", "b32", "u32", "f32", "b64", "f64") for n in (2, 4)
]
VECTORS = [(kind, n) for kind, n in VECTORS if size_of(kind) * n <= 16]


def registers(kind, first, count):
    prefix = {"b8": "h", "u8": "h", "b16": "h", "b32": "r", "u32": "r", "f32": "f", "f64": "g"}
    names = [f"%{prefix.get(kind, 'd')}{first + i}" for i in range(count)]
    return "{" + ", ".join(names) + "}"


@pytest.mark.parametrize("space", ["global", "generic", "shared", "local"])
def test_vectors_are_loaded_and_stored_whole(executor, space):
    """ld.v2/.v4 and st.v2/.v4 move consecutive elements; the store goes to the same space."""
    head, body, suffix = prepared(space)
    cases = [(kind, n, place) for kind, n in VECTORS for place in ("contiguous", "anywhere")]
    for slot, (kind, n, place) in enumerate(cases):
        size = size_of(kind) * n
        values = registers(kind, 20, n)
        body += f"""
    {PLACES[place][0].format(size=size)} cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, %d10;
    ld{suffix}.v{n}.{kind} {values}, [%d1]; mad.wide.u32 %d3, %thread, {size}, %a2;
    st.global.v{n}.{kind} [%d3+{slot * 1024}], {values};"""
    out = np.zeros((len(cases), 1024), np.uint8)
    launch(executor, body + "ret;", source(), PERMUTATION, out, head=head)
    data = contents(space)
    for slot, (kind, n, place) in enumerate(cases):
        size = size_of(kind) * n
        offsets = PLACES[place][1](size)
        want = np.stack([row[o : o + size] for row, o in zip(data, offsets, strict=True)])
        np.testing.assert_array_equal(
            out[slot, : THREADS * size].reshape(THREADS, size), want, err_msg=f"v{n}.{kind} {place}"
        )


STORES = ("contiguous", "strided", "backward", "anywhere")


@pytest.mark.parametrize("space", ["global", "generic", "shared", "generic shared"])
@pytest.mark.parametrize("guarded", [False, True])
def test_stores_write_their_width_and_no_more(executor, space, guarded):
    """st.u8 takes the low byte of a wide register; under a guard other threads write nothing."""
    cases = [(kind, place) for kind in ("b8", "u16", "s32", "b64") for place in STORES]
    guard = "@%p9 " if guarded else ""
    shared = "shared" in space
    head = ".shared .align 16 .b8 room[1536];" if shared else ""
    target, suffix = (
        ("%d10", ".shared" if space == "shared" else "") if shared else ("%d11", f".{space}")
    )
    suffix = "" if space.startswith("generic") else suffix
    body = """
    mul.wide.u32 %d0, %thread, 4; add.s64 %d0, %d0, %a0; ld.global.u32 %r9, [%d0];
    and.b32 %r8, %r9, 5; setp.ne.u32 %p9, %r8, 0;
    mul.wide.u32 %d5, %r9, 0x01234567; mul.lo.u64 %d5, %d5, 0x9e3779b97f4a7c15; mov.u64 %d6, %a1;
    """
    if shared:
        body += "mov.u64 %d10, room; mov.u32 %r3, room;"
        body += "cvta.shared.u64 %d10, %d10;" if space == "generic shared" else ""
    for kind, place in cases:
        clear = copy = ""
        if shared:
            body += """
    mad.lo.u32 %r4, %thread, 24, %r3; mov.b64 %d7, 0x5555555555555555;
    st.shared.v2.b64 [%r4], {%d7, %d7}; st.shared.b64 [%r4+16], %d7; bar.sync 0;""".replace(
                "st.shared.v2.b64 [%r4], {%d7, %d7};",
                "st.shared.b64 [%r4], %d7; st.shared.b64 [%r4+8], %d7;",
            )
            copy = """
    bar.sync 0; ld.shared.b64 %d7, [%r4]; ld.shared.b64 %d8, [%r4+8]; ld.shared.b64 %d9, [%r4+16];
    mad.wide.u32 %d1, %thread, 24, %d6; st.global.b64 [%d1], %d7; st.global.b64 [%d1+8], %d8;
    st.global.b64 [%d1+16], %d9; bar.sync 0;"""
        else:
            clear = "mov.u64 %d11, %d6;" + (" cvta.global.u64 %d11, %d11;" if not suffix else "")
        body += f"""{clear}
    {PLACES[place][0].format(size=size_of(kind))} cvt.u64.u32 %d1, %r1; add.s64 %d1, %d1, {target};
    {guard}st{suffix}.{kind} [%d1], %d5; {copy}
    add.s64 %d6, %d6, {BYTES};"""
    out = np.full((len(cases), BYTES), 0x55, np.uint8)
    launch(executor, body + "ret;", PERMUTATION, out, head=head)
    values = PERMUTATION.astype(np.uint64) * np.uint64(0x01234567) * np.uint64(0x9E3779B97F4A7C15)
    active = (PERMUTATION & 5) != 0 if guarded else np.ones(THREADS, bool)
    for slot, (kind, place) in enumerate(cases):
        size = size_of(kind)
        want = np.full(BYTES, 0x55, np.uint8)
        for thread, offset in enumerate(PLACES[place][1](size)):
            if active[thread]:
                want[offset : offset + size] = values[thread : thread + 1].view(np.uint8)[:size]
        np.testing.assert_array_equal(out[slot], want, err_msg=f"st{suffix}.{kind} {place}")


QUALIFIED = [
    "ld.volatile.global.u32",
    "ld.relaxed.gpu.global.u32",
    "ld.acquire.sys.global.u32",
    "ld.weak.global.u32",
    "ld.global.nc.u32",
    "ld.global.ca.u32",
    "ld.global.cg.u32",
    "ld.global.cs.u32",
    "ld.global.lu.u32",
    "ld.global.cv.u32",
    "ld.global.L1::no_allocate.u32",
    "ld.global.L2::128B.u32",
    "ld.global.nc.L1::evict_last.L2::256B.b32",
    "ld.volatile.u32",
    "ldu.global.u32",
]
QUALIFIED_STORES = [
    "st.volatile.global.u32",
    "st.relaxed.gpu.global.u32",
    "st.release.cta.global.u32",
    "st.weak.global.u32",
    "st.global.wb.u32",
    "st.global.cg.u32",
    "st.global.cs.u32",
    "st.global.wt.u32",
    "st.global.L1::no_allocate.b32",
    "st.volatile.u32",
]


def test_orderings_and_cache_hints_change_no_value(executor):
    body = "mad.wide.u32 %d0, %thread, 4, %a0; mad.wide.u32 %d1, %thread, 4, %a1;"
    body += "cvta.global.u64 %d2, %d0; cvta.global.u64 %d3, %d1;"
    for slot, load in enumerate(QUALIFIED):
        store = QUALIFIED_STORES[slot % len(QUALIFIED_STORES)]
        to = "%d1" if "global" in store else "%d3"
        at = "%d0" if "global" in load else "%d2"
        body += f"{load} %r{slot}, [{at}]; add.u32 %r{slot}, %r{slot}, {slot}; fence.acq_rel.gpu;"
        body += f"{store} [{to}+{slot * 256}], %r{slot}; membar.gl;"
    data = np.arange(1000, 1000 + THREADS, dtype=np.uint32)
    out = np.zeros((len(QUALIFIED), THREADS), np.uint32)
    launch(executor, body + "ret;", data, out)
    np.testing.assert_array_equal(out, data + np.arange(len(QUALIFIED), dtype=np.uint32)[:, None])


def test_dynamic_shared_memory_follows_the_static(executor):
    """Every extern array begins at the same place, behind the static ones, aligned as it asks."""
    head = """.shared .align 4 .b8 fixed[12];
.extern .shared .align 16 .b8 first[];
.extern .shared .align 16 .b8 second[];"""
    body = """
    mov.u32 %r0, fixed; mov.u32 %r1, first; mov.u32 %r2, second;
    mad.lo.u32 %r3, %thread, 4, %r1; st.shared.u32 [%r3], %thread; setp.lt.u32 %p1, %thread, 3;
    mad.lo.u32 %r4, %thread, 4, %r0; @%p1 st.shared.u32 [%r4], 77; bar.sync 0;
    xor.b32 %r5, %thread, 63; mad.lo.u32 %r5, %r5, 4, %r2; ld.shared.u32 %r6, [%r5];
    mad.wide.u32 %d0, %thread, 4, %a0; st.global.u32 [%d0], %r6;
    sub.u32 %r7, %r1, %r2; and.b32 %r8, %r1, 15; or.b32 %r7, %r7, %r8; setp.lt.u32 %p2, %r1, 12;
    @%p2 add.u32 %r7, %r7, 1000; mov.u32 %r8, %dynamic_smem_size;
    mad.wide.u32 %d1, %thread, 8, %a1; st.global.v2.u32 [%d1], {%r7, %r8}; ret;"""
    out, facts = np.zeros(THREADS, np.uint32), np.ones((THREADS, 2), np.uint32)
    launch(executor, body, out, facts, head=head, shared=256)
    np.testing.assert_array_equal(out, 63 - TID)
    assert (facts == [0, 256]).all()


def test_module_variables_hold_their_initial_values_and_addresses(executor):
    """An initialised .global array, a pointer to one, and one that is written and read back."""
    head = """
.const .align 8 .f64 weights[4] = {0d3FF8000000000000, 2.5, -1.0, 0d7FF0000000000000};
.global .align 4 .u32 table[8] = {1, 2, 3, 4, 5};
.global .align 8 .u64 where[2] = {generic(table), generic(table)+8};
.global .align 4 .u32 scratch[64];"""
    body = """
    mov.u64 %d0, where; ld.global.u64 %d1, [%d0]; ld.global.u64 %d2, [where+8];
    and.b32 %r0, %thread, 7; mul.wide.u32 %d3, %r0, 4; add.s64 %d4, %d1, %d3; ld.u32 %r1, [%d4];
    ld.u32 %r2, [%d2+4]; and.b32 %r3, %thread, 3; mul.wide.u32 %d5, %r3, 8; mov.u64 %d6, weights;
    add.s64 %d6, %d6, %d5; ld.const.f64 %g0, [%d6]; ld.const.f64 %g1, [weights+8];
    mov.u64 %d7, scratch; mad.wide.u32 %d7, %thread, 4, %d7; st.global.u32 [%d7], %thread;
    bar.sync 0;
    mov.u64 %d8, scratch; sub.u32 %r4, 63, %thread; mad.wide.u32 %d8, %r4, 4, %d8;
    ld.global.u32 %r5, [%d8]; mad.wide.u32 %d9, %thread, 16, %a0;
    st.global.v4.u32 [%d9], {%r1, %r2, %r5, 0};
    mad.wide.u32 %d9, %thread, 16, %a1; st.global.v2.f64 [%d9], {%g0, %g1}; ret;"""
    out, floats = np.zeros((THREADS, 4), np.uint32), np.zeros((THREADS, 2))
    launch(executor, body, out, floats, head=head)
    np.testing.assert_array_equal(out[:, 0], np.array([1, 2, 3, 4, 5, 0, 0, 0])[TID & 7])
    assert (out[:, 1] == 4).all()
    np.testing.assert_array_equal(out[:, 2], 63 - TID)
    np.testing.assert_array_equal(floats[:, 0], np.array([1.5, 2.5, -1.0, np.inf])[TID & 3])
    assert (floats[:, 1] == 2.5).all()


def test_lanes_of_one_load_may_address_different_spaces(executor):
    """One generic ld whose lanes go to global, shared and local memory, in two arrays."""
    head = ".shared .align 8 .b64 room[64];"
    body = """
    .local .align 8 .b64 own[2];
    mov.u64 %d0, own; mul.wide.u32 %d1, %thread, 1000; st.local.u64 [%d0+8], %d1;
    cvta.local.u64 %d0, %d0; add.s64 %d0, %d0, 8;
    mov.u64 %d2, room; mad.wide.u32 %d2, %thread, 8, %d2; add.s64 %d3, %d1, 1;
    st.shared.u64 [%d2], %d3;
    cvta.shared.u64 %d2, %d2;
    mad.wide.u32 %d4, %thread, 8, %a0; mad.wide.u32 %d5, %thread, 8, %a1;
    cvta.global.u64 %d4, %d4; cvta.global.u64 %d5, %d5;
    and.b32 %r0, %thread, 3; setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r0, 1;
    setp.eq.u32 %p2, %r0, 2;
    selp.b64 %d6, %d0, %d5, %p0; selp.b64 %d6, %d2, %d6, %p1; selp.b64 %d6, %d4, %d6, %p2;
    ld.u64 %d7, [%d6]; add.s64 %d8, %d7, 500000; st.u64 [%d6], %d8;
    ld.local.u64 %d9, [own+8]; mad.wide.u32 %d10, %thread, 16, %a2;
    st.global.v2.u64 [%d10], {%d7, %d9};
    ret;"""
    one, two = np.arange(64, dtype=np.uint64) + 7000, np.arange(64, dtype=np.uint64) + 9000
    out = np.zeros((THREADS, 2), np.uint64)
    launch(executor, body, one, two, out, head=head)
    want = np.choose(TID & 3, [TID * 1000, TID * 1000 + 1, TID + 7000, TID + 9000])
    np.testing.assert_array_equal(out[:, 0], want)
    np.testing.assert_array_equal(out[:, 1], TID * 1000 + np.where(TID & 3 == 0, 500000, 0))
    np.testing.assert_array_equal(one, TID + 7000 + np.where(TID & 3 == 2, 500000, 0))
    np.testing.assert_array_equal(two, TID + 9000 + np.where(TID & 3 == 3, 500000, 0))


def test_guarded_lanes_may_hold_addresses_of_nothing(executor):
    """Lanes whose predicate is false neither read nor write, whatever their address."""
    body = """
    setp.lt.u32 %p0, %thread, 40; mad.wide.u32 %d0, %thread, 4, %a0; mov.u32 %r0, 5;
    @%p0 ld.global.u32 %r0, [%d0]; mul.lo.u32 %r1, %thread, 0x10000; cvt.u64.u32 %d1, %r1;
    selp.b64 %d2, %d0, %d1, %p0; mov.u32 %r2, 6; @%p0 ld.global.u32 %r2, [%d2];
    mad.wide.u32 %d3, %thread, 8, %a1; st.global.v2.u32 [%d3], {%r0, %r2};
    add.u32 %r3, %thread, 100; @%p0 st.global.u32 [%d2], %r3; ret;"""
    data, out = np.arange(40, dtype=np.uint32) * 3, np.zeros((THREADS, 2), np.uint32)
    launch(executor, body, data, out)
    np.testing.assert_array_equal(out[:40, 0], np.arange(40) * 3)
    np.testing.assert_array_equal(out[:40, 1], np.arange(40) * 3)
    assert (out[40:] == [5, 6]).all()
    np.testing.assert_array_equal(data, np.arange(40) + 100)


def test_wide_vectors_of_sm_100(executor):
    """ld.global.v8.b32 and v4.b64 move 32 bytes."""
    body = """
    mad.wide.u32 %d0, %thread, 32, %a0; mad.wide.u32 %d1, %thread, 32, %a1;
    ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d0];
    st.global.v8.b32 [%d1], {%r7, %r6, %r5, %r4, %r3, %r2, %r1, %r0};
    ld.global.v4.b64 {%d4, %d5, %d6, %d7}, [%d0];
    st.global.v4.b64 [%d1+2048], {%d7, %d6, %d5, %d4}; ret;"""
    data = np.arange(64 * 8, dtype=np.uint32).reshape(64, 8)
    out = np.zeros((2, 64, 8), np.uint32)
    launch(executor, body, data, out, target="sm_100", version="8.8")
    np.testing.assert_array_equal(out[0], data[:, ::-1])
    np.testing.assert_array_equal(out[1].view(np.uint64), data.view(np.uint64)[:, ::-1])
