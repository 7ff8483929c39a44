"""The compiled driver, as LLVM IR: runs blocks, every warp in turn until it returns or waits."""

from __future__ import annotations

from tilewright.emulator import state
from tilewright.emulator.runtime import context_field
from tilewright.emulator.state import Fault, Status, offset


def driver_ir(warps: int, threads: int, state_bytes: int) -> str:
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
{context_field("shared", "ptr")}{context_field("shared_bytes", "i64")}
{context_field("warps", "ptr")}{context_field("step_limit", "i64")}{context_field("stop", "ptr")}
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
  ; Copies that the block before did not wait for are dropped: nobody can have read them.
  %copy.at = getelementptr i8, ptr %state, i64 {state.WARP_FIRST_COPY}
  store i64 0, ptr %copy.at
  %groups.at = getelementptr i8, ptr %state, i64 {state.WARP_GROUPS}
  store <32 x i32> zeroinitializer, ptr %groups.at
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
