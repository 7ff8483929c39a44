"""Asynchronous copies that are under way, as LLVM IR: each warp has a queue of them.

What the PTX ISA leaves open is decided so that a program which forgets to wait goes wrong:

* A copy reads and writes when its thread waits for it, the latest time that is legal. The ISA
  orders neither with anything the thread does in between, so whoever stores to the source before
  the wait races with the copy, and here the copy has what was stored.
* Until then the target holds ones (NaN; -1): who reads it early, or still needs what was there,
  sees neither the old data nor the new. Either is a race on a GPU.
* What is not waited for when a thread returns is dropped: no thread may count on it any more.

Addresses are checked when a copy is issued, so that a fault has its place in the program. Groups
belong to a thread: an entry of the queue holds the number that each lane's group will have, and a
wait takes the lanes whose group is old enough.

Source: PTX ISA 9.0, section 9.7.9.25.3, Data Movement and Conversion: Non-bulk copy.
"""

from __future__ import annotations

from tilewright.emulator import state
from tilewright.emulator.runtime import context_field, lane_loop

# The fields of a copy by one warp, in bytes: host pointers, and what is a number in each lane.
SOURCES = 0  # <32 x i64>
TARGETS = 256  # <32 x i64>
GROUPS = 512  # <32 x i32>: of each lane's groups, the one it belongs to
SIZES = 640  # <32 x i32>: bytes to read, the rest of the target is zero
MASK = 768  # i32: the lanes that it is pending for
SIZE = 772  # i32: bytes to write
ENTRY_BYTES = 832
# Enough for any GPU: 2048 copies of 4 bytes by whole warps fill more shared memory than a block
# can have (227 KiB). Where a kernel has more under way (to the same places), all complete early.
CAPACITY = 2048
QUEUE_BYTES = CAPACITY * ENTRY_BYTES
_KEEP = 64  # entries that are done before the queue moves to its start


def copies_ir() -> str:
    """Return the functions that compiled code calls for copies."""
    return _reach() + _queue() + _complete() + _move()


def _at(register: str, base: str, place: int) -> str:
    return f"  %{register} = getelementptr i8, ptr %{base}, i64 {place}\n"


def _reach() -> str:
    head = (
        "tw_reach(ptr %ctx, ptr %addresses, ptr %widths, i64 %align, i32 %mask, i32 %warp,\n"
        "    i32 %pc)"
    )
    width = """  %width.at = getelementptr i32, ptr %widths, i64 %wide
  %width = load i32, ptr %width.at
  %bytes = zext i32 %width to i64"""
    access = "  store ptr %pointer, ptr %address.at"
    return """
; Lane by lane: turns generic addresses into host pointers of `widths[lane]` bytes, in place.
""" + lane_loop(head, space="0", extra="0", width=width, access=access)


def _queue() -> str:
    return f"""
; The first entry of a warp's queue.
define ptr @tw_copies(ptr %ctx, i32 %warp) {{
entry:
{context_field("copies", "ptr")}  %wide = zext i32 %warp to i64
  %skip = mul i64 %wide, {QUEUE_BYTES}
  %queue = getelementptr i8, ptr %copies, i64 %skip
  ret ptr %queue
}}

; Where the warp's next copy is to be noted.
define ptr @tw_copy_slot(ptr %ctx, ptr %state, i32 %warp) noinline {{
entry:
{_at("end.at", "state", state.WARP_END_COPY)}  %before = load i32, ptr %end.at
  %full = icmp uge i32 %before, {CAPACITY}
  br i1 %full, label %early, label %place
early:
  call void @tw_complete(ptr %ctx, ptr %state, i32 %warp, i32 -1, i32 -1)
  br label %place
place:
  %end = load i32, ptr %end.at
  %after = add i32 %end, 1
  store i32 %after, ptr %end.at
  %queue = call ptr @tw_copies(ptr %ctx, i32 %warp)
  %wide = zext i32 %end to i64
  %slot = getelementptr [{ENTRY_BYTES} x i8], ptr %queue, i64 %wide
  ret ptr %slot
}}

; The copies that the lanes of `mask` have issued are a group of theirs.
define void @tw_commit(ptr %state, i32 %mask) noinline {{
  %groups.at = getelementptr i8, ptr %state, i64 {state.WARP_GROUPS}
  %groups = load <32 x i32>, ptr %groups.at
  %on = bitcast i32 %mask to <32 x i1>
  %one = zext <32 x i1> %on to <32 x i32>
  %more = add <32 x i32> %groups, %one
  store <32 x i32> %more, ptr %groups.at
  ret void
}}
"""


def _complete() -> str:
    return f"""
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

; Complete the copies of `mask`'s lanes but for those of their `keep` newest groups; -1: all.
define void @tw_complete(ptr %ctx, ptr %state, i32 %warp, i32 %mask, i32 %keep) noinline {{
entry:
{_at("first.at", "state", state.WARP_FIRST_COPY)}{_at("end.at", "state", state.WARP_END_COPY)}\
{_at("groups.at", "state", state.WARP_GROUPS)}  %first = load i32, ptr %first.at
  %end = load i32, ptr %end.at
  %committed = load <32 x i32>, ptr %groups.at
  %one = insertelement <32 x i32> poison, i32 %keep, i32 0
  %kept = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %limit = sub <32 x i32> %committed, %kept
  %queue = call ptr @tw_copies(ptr %ctx, i32 %warp)
  br label %scan
scan:
  %i = phi i32 [ %first, %entry ], [ %i.next, %next ]
  %more = icmp ult i32 %i, %end
  br i1 %more, label %look, label %trim
look:
  %wide = zext i32 %i to i64
  %copy = getelementptr [{ENTRY_BYTES} x i8], ptr %queue, i64 %wide
{_at("mask.at", "copy", MASK)}{_at("group.at", "copy", GROUPS)}  %pending = load i32, ptr %mask.at
  %on = and i32 %pending, %mask
  %group = load <32 x i32>, ptr %group.at
  %old = icmp slt <32 x i32> %group, %limit
  %old.bits = bitcast <32 x i1> %old to i32
  %due = and i32 %old.bits, %on
  %some = icmp ne i32 %due, 0
  br i1 %some, label %move, label %skip
skip:
  ; Groups rise along the queue: where all these lanes have one to keep, they keep the rest.
  %everyone = icmp eq i32 %on, %mask
  br i1 %everyone, label %trim, label %next
move:
  call void @tw_move(ptr %copy, i32 %due)
  %not.due = xor i32 %due, -1
  %left = and i32 %pending, %not.due
  store i32 %left, ptr %mask.at
  br label %next
next:
  %i.next = add i32 %i, 1
  br label %scan
trim:
  %f = phi i32 [ %first, %scan ], [ %first, %skip ], [ %f.next, %drop ]
  %f.more = icmp ult i32 %f, %end
  br i1 %f.more, label %drop, label %empty
drop:
  %f.wide = zext i32 %f to i64
  %f.copy = getelementptr [{ENTRY_BYTES} x i8], ptr %queue, i64 %f.wide
{_at("f.mask.at", "f.copy", MASK)}  %f.mask = load i32, ptr %f.mask.at
  %f.done = icmp eq i32 %f.mask, 0
  %f.next = add i32 %f, 1
  br i1 %f.done, label %trim, label %rest
empty:
  store i32 0, ptr %first.at
  store i32 0, ptr %end.at
  ret void
rest:
  store i32 %f, ptr %first.at
  %live = sub i32 %end, %f
  %long = icmp uge i32 %f, {_KEEP}
  %most = icmp uge i32 %f, %live
  %back = and i1 %long, %most
  br i1 %back, label %to.start, label %done
to.start:
  %live.wide = zext i32 %live to i64
  %bytes = mul i64 %live.wide, {ENTRY_BYTES}
  call void @llvm.memmove.p0.p0.i64(ptr %queue, ptr %f.copy, i64 %bytes, i1 false)
  store i32 0, ptr %first.at
  store i32 %live, ptr %end.at
  ret void
done:
  ret void
}}
"""


def _move() -> str:
    vectors = "".join(_words(size, kind, count) for size, kind, count in _KINDS)
    gathers = "".join(_GATHERS.format(kind) for kind in ("i32", "i64"))
    return f"""{gathers}
; Do a copy for the lanes of `mask`: by vectors where each reads all bytes or none.
define void @tw_move(ptr %copy, i32 %mask) noinline {{
entry:
{_at("sizes.at", "copy", SIZES)}{_at("size.at", "copy", SIZE)}{_at("targets.at", "copy", TARGETS)}\
  %size = load i32, ptr %size.at
  %sizes = load <32 x i32>, ptr %sizes.at
  %from = load <32 x ptr>, ptr %copy
  %to = load <32 x ptr>, ptr %targets.at
  %one = insertelement <32 x i32> poison, i32 %size, i32 0
  %all = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %on = bitcast i32 %mask to <32 x i1>
  %whole = icmp eq <32 x i32> %sizes, %all
  %none = icmp eq <32 x i32> %sizes, zeroinitializer
  %plain = or <32 x i1> %whole, %none
  %part = xor <32 x i1> %plain, splat (i1 true)
  %parts = and <32 x i1> %part, %on
  %reads = and <32 x i1> %whole, %on
  %some = bitcast <32 x i1> %parts to i32
  %slow = icmp ne i32 %some, 0
  br i1 %slow, label %lanes, label %vectors
vectors:
  switch i32 %size, label %words4 [ i32 8, label %words8  i32 16, label %words16 ]
{vectors}lanes:
  %size.wide = zext i32 %size to i64
  br label %lane
lane:
  %l = phi i64 [ 0, %lanes ], [ %l.next, %lane.done ]
  %l.narrow = trunc i64 %l to i32
  %bit = shl i32 1, %l.narrow
  %mine = and i32 %mask, %bit
  %active = icmp ne i32 %mine, 0
  br i1 %active, label %run, label %lane.done
run:
  %l.size.at = getelementptr i32, ptr %sizes.at, i64 %l
  %l.size = load i32, ptr %l.size.at
  %l.bytes = zext i32 %l.size to i64
  %l.from.at = getelementptr ptr, ptr %copy, i64 %l
  %l.from = load ptr, ptr %l.from.at
  %l.to.at = getelementptr ptr, ptr %targets.at, i64 %l
  %l.to = load ptr, ptr %l.to.at
  call void @llvm.memset.p0.i64(ptr %l.to, i8 0, i64 %size.wide, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %l.to, ptr %l.from, i64 %l.bytes, i1 false)
  br label %lane.done
lane.done:
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, 32
  br i1 %l.more, label %lane, label %finished
finished:
  ret void
}}
"""


_KINDS = ((4, "i32", 1), (8, "i64", 1), (16, "i64", 2))
_GATHERS = """
declare <32 x {0}> @llvm.masked.gather.v32{0}.v32p0(<32 x ptr>, i32, <32 x i1>, <32 x {0}>)
declare void @llvm.masked.scatter.v32{0}.v32p0(<32 x {0}>, <32 x ptr>, i32, <32 x i1>)
"""


def _words(size: int, kind: str, count: int) -> str:
    """Return IR that copies `count` words of `kind` in each lane; the source's idle lanes are 0."""
    lines = [f"words{size}:"]
    for word in range(count):
        name, step = f"s{size}.{word}", f"i64 {8 * word}"
        lines += [
            f"  %{name}.from = getelementptr i8, <32 x ptr> %from, {step}",
            f"  %{name}.to = getelementptr i8, <32 x ptr> %to, {step}",
            f"  %{name} = call <32 x {kind}> @llvm.masked.gather.v32{kind}.v32p0(<32 x ptr> "
            f"%{name}.from, i32 4, <32 x i1> %reads, <32 x {kind}> zeroinitializer)",
            f"  call void @llvm.masked.scatter.v32{kind}.v32p0(<32 x {kind}> %{name}, <32 x ptr> "
            f"%{name}.to, i32 4, <32 x i1> %on)",
        ]
    return "\n".join([*lines, "  ret void", ""])
