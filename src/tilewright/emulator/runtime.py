"""The compiled half of the emulator that no kernel changes, as LLVM IR.

`tw_translate` turns a device address into a host pointer or null; `tw_load` and `tw_store` access
memory lane by lane, the careful way, where the fast paths of compiled code do not apply or a
fault has to be found; `tw_group` serves a group of loads that share a base address. Counting
builds call `tw_tally` and `tw_room` at the start of a block.
"""

from __future__ import annotations

from tilewright.emulator import state
from tilewright.emulator.state import EVENT_BYTES, Fault, offset

SPACES = {"generic": 0, "global": 0, "const": 0, "shared": 1, "local": 2}


def context_field(name: str, kind: str, into: str | None = None) -> str:
    """Return IR that loads a field of the context into `%into`."""
    register = into or name
    return (
        f"  %{register}.at = getelementptr i8, ptr %ctx, i64 {offset(name)}\n"
        f"  %{register} = load {kind}, ptr %{register}.at\n"
    )


def _fault() -> str:
    """IR that notes a fault in the context, unless one is noted already."""
    stores = ""
    for name, kind in (
        ("fault", "i32"),
        ("fault_pc", "i32"),
        ("fault_warp", "i32"),
        ("fault_lane", "i32"),
        ("fault_address", "i64"),
    ):
        stores += (
            f"  %{name}.at = getelementptr i8, ptr %ctx, i64 {offset(name)}\n"
            f"  store {kind} %{name}, ptr %{name}.at\n"
        )
    return (
        "define void @tw_fault(ptr %ctx, i32 %fault, i32 %fault_pc, i32 %fault_warp, "
        "i32 %fault_lane, i64 %fault_address) noinline {\nentry:\n"
        + context_field("fault", "i32", "noted")
        + "  %first = icmp eq i32 %noted, 0\n  br i1 %first, label %note, label %done\nnote:\n"
        + stores
        + "  br label %done\ndone:\n  ret void\n}\n"
    )


def _translate() -> str:
    shift, mask = state.SEGMENT_SHIFT, (1 << state.SEGMENT_SHIFT) - 1
    return f"""
; The host pointer of `width` bytes at an address of a state space; null if they are in no array.
define ptr @tw_translate(ptr %ctx, i32 %space, i64 %address, i64 %width, i32 %thread) noinline {{
entry:
  switch i32 %space, label %in.segments [ i32 1, label %in.shared  i32 2, label %in.local ]
in.segments:
{context_field("segments", "ptr")}{context_field("segment_count", "i64")}
  %high = lshr i64 %address, {shift}
  %exists = icmp ult i64 %high, %segment_count
  %number = select i1 %exists, i64 %high, i64 0
  %entry.at = getelementptr [3 x i64], ptr %segments, i64 %number
  %host = load i64, ptr %entry.at
  %first.at = getelementptr i64, ptr %entry.at, i64 1
  %first = load i64, ptr %first.at
  %size.at = getelementptr i64, ptr %entry.at, i64 2
  %size = load i64, ptr %size.at
  %low = and i64 %address, {mask}
  %from = sub i64 %low, %first
  %pointer = add i64 %host, %low
  br label %check
in.shared:
  %short = and i64 %address, 4294967295
{context_field("shared", "i64")}{context_field("shared_bytes", "i64")}
  %shared.pointer = add i64 %shared, %short
  br label %check
in.local:
{context_field("local", "i64")}{context_field("local_frame", "i64")}
  %wide = zext i32 %thread to i64
  %frames = mul i64 %wide, %local_frame
  %mine = add i64 %local, %frames
  %local.pointer = add i64 %mine, %address
  br label %check
check:
  %start = phi i64 [ %from, %in.segments ], [ %short, %in.shared ], [ %address, %in.local ]
  %bytes = phi i64 [ %size, %in.segments ], [ %shared_bytes, %in.shared ],
    [ %local_frame, %in.local ]
  %place = phi i64 [ %pointer, %in.segments ], [ %shared.pointer, %in.shared ],
    [ %local.pointer, %in.local ]
  %fits = icmp uge i64 %bytes, %width
  %room = sub i64 %bytes, %width
  %inside = icmp ule i64 %start, %room
  %ok = and i1 %fits, %inside
  %answer = inttoptr i64 %place to ptr
  %result = select i1 %ok, ptr %answer, ptr null
  ret ptr %result
}}
"""


def lane_loop(head: str, *, space: str, extra: str, width: str, access: str) -> str:
    """Return a function of IR: a loop over the active lanes that finds and checks each address.

    `head` are its name and arguments, among them ctx, addresses, align, mask, warp and pc. Each
    lane's address plus `extra` must be a multiple of `align`, with the bytes there that `width`
    puts into %bytes; then `access` is done with the host's %pointer to them, and false is returned,
    with the fault noted, if one fails. `%wide` is the lane.
    """
    return f"""define i1 @{head} noinline {{
entry:
  %base = shl i32 %warp, 5
  %less = sub i64 %align, 1
  br label %loop
loop:
  %lane = phi i32 [ 0, %entry ], [ %next, %done ]
  %bit = shl i32 1, %lane
  %on = and i32 %mask, %bit
  %active = icmp ne i32 %on, 0
  br i1 %active, label %run, label %done
run:
  %wide = zext i32 %lane to i64
  %address.at = getelementptr i64, ptr %addresses, i64 %wide
  %start = load i64, ptr %address.at
  %address = add i64 %start, {extra}
  %odd = and i64 %address, %less
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %translate, label %misaligned
translate:
  %thread = add i32 %base, %lane
{width}
  %pointer = call ptr @tw_translate(ptr %ctx, i32 {space}, i64 %address, i64 %bytes, i32 %thread)
  %bad = icmp eq ptr %pointer, null
  br i1 %bad, label %outside, label %access
access:
{access}
  br label %done
done:
  %next = add i32 %lane, 1
  %more = icmp ult i32 %next, 32
  br i1 %more, label %loop, label %finished
finished:
  ret i1 true
misaligned:
  call void @tw_fault(ptr %ctx, i32 {Fault.MISALIGNED}, i32 %pc, i32 %warp, i32 %lane, i64 %address)
  ret i1 false
outside:
  call void @tw_fault(ptr %ctx, i32 {Fault.BOUNDS}, i32 %pc, i32 %warp, i32 %lane, i64 %address)
  ret i1 false
}}
"""


def _lane_access(name: str, copy: str) -> str:
    """Return a function that copies `width` bytes between addresses and an array of values."""
    head = (
        f"{name}(ptr %ctx, i32 %space, ptr %addresses, ptr %values, i64 %extra, i64 %width,\n"
        "    i64 %align, i32 %mask, i32 %warp, i32 %pc)"
    )
    access = f"""  %offset = mul i64 %wide, %width
  %value = getelementptr i8, ptr %values, i64 %offset
  {copy}"""
    width = "  %bytes = add i64 %align, 0"
    return f"""
; Lane by lane: {name} `width` bytes at addresses[lane] + extra. `align` bytes there must exist.
""" + lane_loop(head, space="%space", extra="%extra", width=width, access=access)


def _group() -> str:
    """Return IR. A group is i64 members, span, members x {i64 offset, width, pc}, 32 x i64."""
    return """
; Loads that share a base: checks each active lane of each member and copies what they read to
; `scratch`, laid out as in memory. Null, with the fault noted, if one fails.
define ptr @tw_group(ptr %ctx, i32 %space, i64 %start, ptr %scratch, ptr %group, i32 %mask,
    i32 %warp) noinline {
entry:
  %addresses = alloca [32 x i64]
  %values = alloca [1024 x i8], align 64
  %members = load i64, ptr %group
  %list = getelementptr i64, ptr %group, i64 2
  %skip = mul i64 %members, 3
  %steps = getelementptr i64, ptr %list, i64 %skip
  br label %member
member:
  %m = phi i64 [ 0, %entry ], [ %m.next, %member.done ]
  %at = mul i64 %m, 3
  %record = getelementptr i64, ptr %list, i64 %at
  %offset = load i64, ptr %record
  %width.at = getelementptr i64, ptr %record, i64 1
  %width = load i64, ptr %width.at
  %pc.at = getelementptr i64, ptr %record, i64 2
  %pc.wide = load i64, ptr %pc.at
  %pc = trunc i64 %pc.wide to i32
  br label %fill
fill:
  %l = phi i64 [ 0, %member ], [ %l.next, %fill ]
  %step.at = getelementptr i64, ptr %steps, i64 %l
  %step = load i64, ptr %step.at
  %relative = add i64 %step, %offset
  %address = add i64 %relative, %start
  %slot = getelementptr i64, ptr %addresses, i64 %l
  store i64 %address, ptr %slot
  %l.next = add i64 %l, 1
  %l.more = icmp ult i64 %l.next, 32
  br i1 %l.more, label %fill, label %check
check:
  %ok = call i1 @tw_load(ptr %ctx, i32 %space, ptr %addresses, ptr %values, i64 0, i64 %width,
    i64 %width, i32 %mask, i32 %warp, i32 %pc)
  br i1 %ok, label %copy, label %failed
copy:
  %c = phi i64 [ 0, %check ], [ %c.next, %copied ]
  %c.narrow = trunc i64 %c to i32
  %bit = shl i32 1, %c.narrow
  %on = and i32 %mask, %bit
  %active = icmp ne i32 %on, 0
  br i1 %active, label %move, label %copied
move:
  %c.step.at = getelementptr i64, ptr %steps, i64 %c
  %c.step = load i64, ptr %c.step.at
  %place = add i64 %c.step, %offset
  %to = getelementptr i8, ptr %scratch, i64 %place
  %from.at = mul i64 %c, %width
  %from = getelementptr i8, ptr %values, i64 %from.at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %width, i1 false)
  br label %copied
copied:
  %c.next = add i64 %c, 1
  %c.more = icmp ult i64 %c.next, 32
  br i1 %c.more, label %copy, label %member.done
member.done:
  %m.next = add i64 %m, 1
  %m.more = icmp ult i64 %m.next, %members
  br i1 %m.more, label %member, label %finished
finished:
  ret ptr %scratch
failed:
  ret ptr null
}
"""


def _counting() -> str:
    """Return IR of what only counting builds call."""
    return f"""
; Where the next `more` events go: hands over those that are there if they might not fit.
define ptr @tw_room(ptr %ctx, i64 %more) noinline {{
entry:
{context_field("events", "ptr")}{context_field("event_count", "i64")}
{context_field("event_capacity", "i64")}{context_field("flush", "ptr")}
  %most = sub i64 %event_capacity, %more
  %full = icmp sgt i64 %event_count, %most
  br i1 %full, label %hand.over, label %place
hand.over:
  call void %flush(ptr %ctx)
  br label %place
place:
  %count = load i64, ptr %event_count.at
  %room = getelementptr [{EVENT_BYTES} x i8], ptr %events, i64 %count
  ret ptr %room
}}

; Count `times` executions by the lanes of `mask` in a cell of the worker's counts.
define void @tw_tally(ptr %ctx, i64 %cell, i32 %mask, i64 %times) noinline {{
{context_field("counts", "ptr")}
  %times.at = getelementptr [3 x i64], ptr %counts, i64 %cell
  %times.before = load i64, ptr %times.at
  %times.after = add i64 %times.before, %times
  store i64 %times.after, ptr %times.at
  %lanes = call i32 @llvm.ctpop.i32(i32 %mask)
  %lanes.wide = zext i32 %lanes to i64
  %threads = mul i64 %lanes.wide, %times
  %threads.at = getelementptr i64, ptr %times.at, i64 1
  %threads.before = load i64, ptr %threads.at
  %threads.after = add i64 %threads.before, %threads
  store i64 %threads.after, ptr %threads.at
  ret void
}}

; Count that a branch at the end of a cell's block sent lanes to `more` places besides one.
define void @tw_parted(ptr %ctx, i64 %cell, i64 %more) noinline {{
{context_field("counts", "ptr")}
  %times.at = getelementptr [3 x i64], ptr %counts, i64 %cell
  %parted.at = getelementptr i64, ptr %times.at, i64 2
  %before = load i64, ptr %parted.at
  %after = add i64 %before, %more
  store i64 %after, ptr %parted.at
  ret void
}}
"""


def runtime_ir() -> str:
    """Return the module, without its driver."""
    copy = "call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 %width, i1 false)"
    return "".join(
        (
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n",
            "declare i32 @llvm.ctpop.i32(i32)\n",
            _fault(),
            _translate(),
            _lane_access("tw_load", copy.format(to="%value", source="%pointer")),
            _lane_access("tw_store", copy.format(to="%pointer", source="%value")),
            _group(),
            _counting(),
        )
    )
