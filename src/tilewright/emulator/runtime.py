"""The compiled half of the emulator that no kernel changes, as LLVM IR.

`tw_translate` turns a device address into a host pointer or null; `tw_load` and `tw_store` access
memory lane by lane, the careful way, where the fast paths of compiled code do not apply or a
fault has to be found; `tw_group` serves a group of loads that share a base address; `tw_run` runs
blocks: every warp in turn until it returns or waits, releasing barriers as they fill.
"""

from __future__ import annotations

from tilewright.emulator import state
from tilewright.emulator.state import Fault, Status, offset

SPACES = {"generic": 0, "global": 0, "const": 0, "shared": 1, "local": 2}


def _field(name: str, kind: str, into: str | None = None) -> str:
    """IR that loads a field of the context into `%into`."""
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
        + _field("fault", "i32", "noted")
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
{_field("segments", "ptr")}{_field("segment_count", "i64")}
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
{_field("shared", "i64")}{_field("shared_bytes", "i64")}
  %shared.pointer = add i64 %shared, %short
  br label %check
in.local:
{_field("local", "i64")}{_field("local_frame", "i64")}
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


def _lane_access(name: str, copy: str) -> str:
    """Return IR: a loop over the active lanes that checks, then copies `width` bytes."""
    return f"""
; Lane by lane: {name} `width` bytes at addresses[lane] + extra. `align` bytes there must exist, and
; the address be a multiple of it. False, with the fault noted, if one fails.
define i1 @{name}(ptr %ctx, i32 %space, ptr %addresses, ptr %values, i64 %extra, i64 %width,
    i64 %align, i32 %mask, i32 %warp, i32 %pc) noinline {{
entry:
  %base = shl i32 %warp, 5
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
  %address = add i64 %start, %extra
  %less = sub i64 %align, 1
  %odd = and i64 %address, %less
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %translate, label %misaligned
translate:
  %thread = add i32 %base, %lane
  %pointer = call ptr @tw_translate(ptr %ctx, i32 %space, i64 %address, i64 %align, i32 %thread)
  %bad = icmp eq ptr %pointer, null
  br i1 %bad, label %outside, label %access
access:
  %offset = mul i64 %wide, %width
  %value = getelementptr i8, ptr %values, i64 %offset
  {copy}
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


def _run(warps: int, threads: int, state_bytes: int) -> str:
    """Return the driver: `warps`, `threads` a block and the bytes of a warp's state are fixed."""
    last = threads - 32 * (warps - 1)
    return f"""
declare i32 @tw_warp(ptr, ptr, i32)

; Run blocks[0..count). 0, or 1 with the fault noted in the context.
define i32 @tw_run(ptr %ctx, ptr %blocks, i64 %count) {{
entry:
  %status = alloca [{warps} x i32]
  %arrived = alloca [{state.BARRIERS} x i32]
  %reduced = alloca [{state.BARRIERS} x i32]
{_field("shared", "ptr")}{_field("shared_bytes", "i64")}{_field("warps", "ptr")}
{_field("step_limit", "i64")}{_field("stop", "ptr")}
  %steps.at = getelementptr i8, ptr %ctx, i64 {offset("steps")}
  %block.at = getelementptr i8, ptr %ctx, i64 {offset("block")}
  %grid.at = getelementptr i8, ptr %ctx, i64 {offset("grid")}
  %ctaid.at = getelementptr i8, ptr %ctx, i64 {offset("ctaid")}
  %gx = load i32, ptr %grid.at
  %gy.at = getelementptr i32, ptr %grid.at, i64 1
  %gy = load i32, ptr %gy.at
  %x.at = getelementptr i32, ptr %ctaid.at, i64 0
  %y.at = getelementptr i32, ptr %ctaid.at, i64 1
  %z.at = getelementptr i32, ptr %ctaid.at, i64 2
  %gx.wide = zext i32 %gx to i64
  %gy.wide = zext i32 %gy to i64
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %block, label %finished
block:
  %i = phi i64 [ 0, %entry ], [ %i.next, %block.done ]
  %id.at = getelementptr i64, ptr %blocks, i64 %i
  %id = load i64, ptr %id.at
  store i64 %id, ptr %block.at
  %x.wide = urem i64 %id, %gx.wide
  %rest = udiv i64 %id, %gx.wide
  %y.wide = urem i64 %rest, %gy.wide
  %z.wide = udiv i64 %rest, %gy.wide
  %x = trunc i64 %x.wide to i32
  %y = trunc i64 %y.wide to i32
  %z = trunc i64 %z.wide to i32
  store i32 %x, ptr %x.at
  store i32 %y, ptr %y.at
  store i32 %z, ptr %z.at
  store i64 %step_limit, ptr %steps.at
  ; Shared memory is not cleared on a GPU: all ones are NaN as floats and -1 as integers.
  call void @llvm.memset.p0.i64(ptr %shared, i8 -1, i64 %shared_bytes, i1 false)
  call void @llvm.memset.p0.i64(ptr %arrived, i8 0, i64 {4 * state.BARRIERS}, i1 false)
  call void @llvm.memset.p0.i64(ptr %reduced, i8 0, i64 {4 * state.BARRIERS}, i1 false)
  br label %start
start:
  %s = phi i32 [ 0, %block ], [ %s.next, %start ]
  %s.wide = zext i32 %s to i64
  %s.offset = mul i64 %s.wide, {state_bytes}
  %s.state = getelementptr i8, ptr %warps, i64 %s.offset
  %tail = icmp eq i32 %s, {warps - 1}
  %lanes = select i1 %tail, i32 {last}, i32 32
  call void @tw_start(ptr %s.state, i32 %lanes)
  %s.status = getelementptr i32, ptr %status, i64 %s.wide
  store i32 {Status.YIELD}, ptr %s.status
  %s.next = add i32 %s, 1
  %s.more = icmp ult i32 %s.next, {warps}
  br i1 %s.more, label %start, label %round
round:
  br label %turn
turn:
  %w = phi i32 [ 0, %round ], [ %w.next, %turn.done ]
  %ran = phi i32 [ 0, %round ], [ %ran.next, %turn.done ]
  %waiting = phi i32 [ 0, %round ], [ %waiting.next, %turn.done ]
  %w.wide = zext i32 %w to i64
  %w.offset = mul i64 %w.wide, {state_bytes}
  %w.state = getelementptr i8, ptr %warps, i64 %w.offset
  %w.status.at = getelementptr i32, ptr %status, i64 %w.wide
  %w.status = load i32, ptr %w.status.at
  switch i32 %w.status, label %turn.done [
    i32 {Status.YIELD}, label %go
    i32 {Status.BARRIER}, label %turn.waits
  ]
turn.waits:
  br label %turn.done
go:
  %result = call i32 @tw_warp(ptr %ctx, ptr %w.state, i32 %w)
  store i32 %result, ptr %w.status.at
  switch i32 %result, label %turn.done [
    i32 {Status.FAULT}, label %failed
    i32 {Status.YIELD}, label %yielded
    i32 {Status.BARRIER}, label %arrive
  ]
yielded:
  %steps = load i64, ptr %steps.at
  %left = sub i64 %steps, {state.SLICE}
  store i64 %left, ptr %steps.at
  %over = icmp slt i64 %left, 0
  %stop.byte = load volatile i8, ptr %stop
  %stopped = icmp ne i8 %stop.byte, 0
  %end = or i1 %over, %stopped
  br i1 %end, label %limit, label %turn.done
limit:
  call void @tw_fault(ptr %ctx, i32 {Fault.LIMIT}, i32 -1, i32 %w, i32 -1, i64 0)
  ret i32 1
arrive:
  %id32.at = getelementptr i8, ptr %w.state, i64 {state.WARP_BARRIER}
  %id32 = load i32, ptr %id32.at
  %barrier = zext i32 %id32 to i64
  %expected.at = getelementptr i8, ptr %w.state, i64 {state.WARP_EXPECTED}
  %expected.given = load i32, ptr %expected.at
  %everyone = icmp eq i32 %expected.given, 0
  %expected = select i1 %everyone, i32 {32 * warps}, i32 %expected.given
  %blocking.at = getelementptr i8, ptr %w.state, i64 {state.WARP_BLOCKING}
  %blocking = load i32, ptr %blocking.at
  %blocks.here = icmp ne i32 %blocking, 0
  %new.status = select i1 %blocks.here, i32 {Status.BARRIER}, i32 {Status.YIELD}
  store i32 %new.status, ptr %w.status.at
  %count.at = getelementptr i32, ptr %arrived, i64 %barrier
  %before = load i32, ptr %count.at
  %after = add i32 %before, 32
  store i32 %after, ptr %count.at
  ; bar.red: each warp brings a number, and every waiting warp gets the sum.
  %part.at = getelementptr i8, ptr %w.state, i64 {state.WARP_REDUCED}
  %part = load i32, ptr %part.at
  %sum.at = getelementptr i32, ptr %reduced, i64 %barrier
  %sum.before = load i32, ptr %sum.at
  %sum = add i32 %sum.before, %part
  store i32 %sum, ptr %sum.at
  %full = icmp uge i32 %after, %expected
  br i1 %full, label %release, label %turn.done
release:
  store i32 0, ptr %count.at
  store i32 0, ptr %sum.at
  br label %release.one
release.one:
  %r = phi i32 [ 0, %release ], [ %r.next, %release.next ]
  %r.wide = zext i32 %r to i64
  %r.status.at = getelementptr i32, ptr %status, i64 %r.wide
  %r.status = load i32, ptr %r.status.at
  %r.offset = mul i64 %r.wide, {state_bytes}
  %r.state = getelementptr i8, ptr %warps, i64 %r.offset
  %r.barrier.at = getelementptr i8, ptr %r.state, i64 {state.WARP_BARRIER}
  %r.barrier = load i32, ptr %r.barrier.at
  %r.waits = icmp eq i32 %r.status, {Status.BARRIER}
  %r.same = icmp eq i32 %r.barrier, %id32
  %r.free = and i1 %r.waits, %r.same
  br i1 %r.free, label %release.it, label %release.next
release.it:
  store i32 {Status.YIELD}, ptr %r.status.at
  %r.sum.at = getelementptr i8, ptr %r.state, i64 {state.WARP_REDUCED}
  store i32 %sum, ptr %r.sum.at
  br label %release.next
release.next:
  %r.next = add i32 %r, 1
  %r.more = icmp ult i32 %r.next, {warps}
  br i1 %r.more, label %release.one, label %turn.done
turn.done:
  %did = phi i32 [ 0, %turn ], [ 0, %turn.waits ], [ 1, %go ], [ 1, %yielded ], [ 1, %arrive ],
    [ 1, %release.next ]
  %waits = phi i32 [ 0, %turn ], [ 1, %turn.waits ], [ 0, %go ], [ 0, %yielded ], [ 0, %arrive ],
    [ 0, %release.next ]
  %ran.next = or i32 %ran, %did
  %waiting.next = or i32 %waiting, %waits
  %w.next = add i32 %w, 1
  %w.more = icmp ult i32 %w.next, {warps}
  br i1 %w.more, label %turn, label %round.done
round.done:
  %progress = icmp ne i32 %ran.next, 0
  br i1 %progress, label %round, label %idle
idle:
  %stuck = icmp ne i32 %waiting.next, 0
  br i1 %stuck, label %deadlock, label %block.done
deadlock:
  br label %find
find:
  %f = phi i32 [ 0, %deadlock ], [ %f.next, %find ]
  %f.wide = zext i32 %f to i64
  %f.status.at = getelementptr i32, ptr %status, i64 %f.wide
  %f.status = load i32, ptr %f.status.at
  %f.hit = icmp eq i32 %f.status, {Status.BARRIER}
  %f.next = add i32 %f, 1
  br i1 %f.hit, label %report, label %find
report:
  %f.offset = mul i64 %f.wide, {state_bytes}
  %f.state = getelementptr i8, ptr %warps, i64 %f.offset
  %f.pc.at = getelementptr i8, ptr %f.state, i64 {state.WARP_BARRIER_PC}
  %f.pc = load i32, ptr %f.pc.at
  %f.id.at = getelementptr i8, ptr %f.state, i64 {state.WARP_BARRIER}
  %f.id = load i32, ptr %f.id.at
  %f.id.wide = zext i32 %f.id to i64
  call void @tw_fault(ptr %ctx, i32 {Fault.BARRIER}, i32 %f.pc, i32 %f, i32 -1, i64 %f.id.wide)
  ret i32 1
block.done:
  %i.next = add i64 %i, 1
  %i.more = icmp slt i64 %i.next, %count
  %halt = load volatile i8, ptr %stop
  %go.on = icmp eq i8 %halt, 0
  %again = and i1 %i.more, %go.on
  br i1 %again, label %block, label %finished
finished:
  ret i32 0
failed:
  ret i32 1
}}

; The lanes of `mask` go on at block `number`.
define void @tw_park(ptr %state, i32 %mask, i32 %number) noinline {{
  %on = bitcast i32 %mask to <32 x i1>
  %one = insertelement <32 x i32> poison, i32 %number, i32 0
  %all = shufflevector <32 x i32> %one, <32 x i32> poison, <32 x i32> zeroinitializer
  %old = load <32 x i32>, ptr %state, align 64
  %new = select <32 x i1> %on, <32 x i32> %all, <32 x i32> %old
  store <32 x i32> %new, ptr %state, align 64
  ret void
}}

; Lanes below `lanes` begin at block 0; the others have returned.
define void @tw_start(ptr %state, i32 %lanes) {{
entry:
  %passed.at = getelementptr i8, ptr %state, i64 {state.WARP_PASSED}
  store i32 0, ptr %passed.at
  br label %lane
lane:
  %l = phi i32 [ 0, %entry ], [ %next, %lane ]
  %wide = zext i32 %l to i64
  %at = getelementptr i32, ptr %state, i64 %wide
  %alive = icmp ult i32 %l, %lanes
  %pc = select i1 %alive, i32 0, i32 {state.EXITED}
  store i32 %pc, ptr %at
  %next = add i32 %l, 1
  %more = icmp ult i32 %next, 32
  br i1 %more, label %lane, label %done
done:
  ret void
}}
"""


def runtime_ir(warps: int, threads: int, state_bytes: int) -> str:
    """Return the whole module."""
    copy = "call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 %width, i1 false)"
    return "".join(
        (
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n",
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n",
            _fault(),
            _translate(),
            _lane_access("tw_load", copy.format(to="%value", source="%pointer")),
            _lane_access("tw_store", copy.format(to="%pointer", source="%value")),
            _group(),
            _run(warps, threads, state_bytes),
        )
    )
