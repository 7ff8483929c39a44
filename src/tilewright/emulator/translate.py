"""A PTX kernel to one LLVM function that runs a warp until it returns, waits or faults.

    tw_warp(context, warp state, warp index) -> Status

Blocks are numbered in an order where paths that part come together again below their loops, and
lanes always run from the lowest block up. `pcs` holds the block each lane is to run next. While
all of a warp's lanes are together a branch is a jump; where they part, every lane's target goes to
`pcs` and the scheduler picks the lowest block. A block that begins with a warp-wide operation
waits until the lanes it needs have come.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.block import ALL, BlockCode
from tilewright.emulator.codegen import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    Emitter,
    Value,
    declared,
    integers,
)
from tilewright.emulator.dispatch import instruction_code
from tilewright.emulator.frame import Frame
from tilewright.emulator.lanes import WARP
from tilewright.emulator.ops import branches, events, groups, sync
from tilewright.emulator.plan import Plan, decided, is_block_barrier
from tilewright.emulator.state import Fault, Status
from tilewright.toolchain.ptx.cfg import BRANCHES, LEAVES, targets_of
from tilewright.toolchain.ptx.ir import Instruction

_ENDS = (*BRANCHES, *LEAVES)
_LANES = ir.VectorType(I32, WARP)
_BITS = ir.VectorType(I1, WARP)


def _every(number: int) -> ir.Constant:
    return integers(I32, (number,) * WARP)


class Translator:
    """Builds the module of one kernel. `counting` adds the events that observers read."""

    def __init__(self, plan: Plan, frame: Frame, width: int, *, counting: bool) -> None:
        self.plan, self.frame, self.width, self.counting = plan, frame, width, counting
        self.module = ir.Module(name="kernel")
        signature = ir.FunctionType(I32, [PTR, PTR, I32])
        self.function = ir.Function(self.module, signature, "tw_warp")
        self.function.args[0].add_attribute("noalias")
        self.function.args[1].add_attribute("noalias")
        self.frame.context, self.frame.state, warp = self.function.args
        self.b = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.e = Emitter(self.module, self.b, frame.layout.warps, width)
        self.e.warp_index = warp
        self.labels = [self.function.append_basic_block(f"b{n}") for n in range(len(plan.blocks))]
        self.pick = self.function.append_basic_block("pick")
        self.retry = self.function.append_basic_block("retry")
        self.finished = self.function.append_basic_block("finished")
        self.faulted = self.function.append_basic_block("faulted")
        self.waits: dict[int, ir.Block] = {}
        self.max_events = 0
        self.offsets: dict[int, tuple[int, ...]] = {}
        self.scratch_bytes = 64
        self._entry_block = self.b.block

    def build(self) -> ir.Module:
        """Emit everything."""
        self._entry()
        self._scheduler()
        for number in range(len(self.plan.blocks)):
            self._block(number)
        self.b.position_at_end(self.finished)
        self.b.ret(ir.Constant(I32, Status.EXITED))
        self.b.position_at_end(self.faulted)
        self.b.ret(ir.Constant(I32, Status.FAULT))
        return self.module

    # --- which lanes run what ---------------------------------------------------------------------

    def _entry(self) -> None:
        self.mask = self.b.alloca(I32, name="mask")
        self.live = self.b.alloca(I32, name="live")
        self.pending = self.b.alloca(I32, name="pending")
        self.tried = self.b.alloca(I32, name="tried")
        self.turns = self.b.alloca(I32, name="turns")
        self.b.store(ir.Constant(I32, state.SLICE), self.turns)
        warp = self.b.zext(self.e.warp_index, I64)
        self.counts_row = self.b.mul(warp, ir.Constant(I64, len(self.plan.blocks)))
        self.b.branch(self.pick)

    def _pcs(self) -> ir.Value:
        return self.b.load(self.frame.state, typ=_LANES, align=64)

    def _reduce_min(self, lanes: ir.Value) -> ir.Value:
        return self.e.intrinsic("llvm.vector.reduce.umin", [lanes], I32)

    def _scheduler(self) -> None:
        """Pick the lowest block that lanes wait at, not counting those tried in vain."""
        b = self.b
        b.position_at_end(self.pick)
        b.store(ir.Constant(I32, 0), self.tried)
        pcs = self._pcs()
        gone = b.icmp_unsigned("==", pcs, _every(state.EXITED))
        b.store(b.not_(b.bitcast(gone, I32)), self.live)
        b.branch(self.retry)
        b.position_at_end(self.retry)
        pcs = self._pcs()
        tried = b.load(self.tried, typ=I32)
        left = b.select(b.bitcast(tried, _BITS), _every(state.EXITED), pcs)
        lowest = self._reduce_min(left)
        one = b.insert_element(ir.Constant(_LANES, ir.Undefined), lowest, ir.Constant(I32, 0))
        splat = b.shuffle_vector(one, one, _every(0))
        here = b.icmp_unsigned("==", left, splat)
        b.store(b.bitcast(here, I32), self.mask)
        others = b.select(here, _every(state.EXITED), pcs)
        b.store(self._reduce_min(others), self.pending)
        names = ("dispatch", "recheck", "nobody", "stuck")
        dispatch, recheck, nobody, stuck = map(self.function.append_basic_block, names)
        alone = b.icmp_unsigned("==", tried, ir.Constant(I32, 0))
        b.cbranch(alone, dispatch, recheck)
        b.position_at_end(dispatch)
        switch = b.switch(lowest, nobody)
        for number, label in enumerate(self.labels):
            switch.add_case(ir.Constant(I32, number), label)
        # Lanes wait for others, and those are past the point where they would have come: never.
        b.position_at_end(recheck)
        switch = b.switch(lowest, dispatch)
        for number in range(len(self.labels)):
            if not self.plan.divergent[number]:
                switch.add_case(ir.Constant(I32, number), stuck)
        b.position_at_end(nobody)
        b.cbranch(alone, self.finished, stuck)
        b.position_at_end(stuck)
        self.fault(Fault.WARP_SYNC, b.load(self.stuck_pc(), typ=I32), ir.Constant(I32, -1))

    def warp_barriers(self) -> list[int]:
        """Return the blocks that begin with a bar.warp.sync."""
        body = self.plan.function.body
        starts = [(n, body[b.start]) for n, b in enumerate(self.plan.blocks) if b.end > b.start]
        return [n for n, ins in starts if ins.opcode == "bar" and "warp" in ins.flags]

    def stuck_pc(self) -> ir.Value:
        """Where the instruction that lanes wait at is noted."""
        at = ir.Constant(I64, state.WARP_BARRIER_PC)
        return self.b.gep(self.frame.state, [at], source_etype=I8)

    def fault(
        self, kind: Fault, pc: ir.Value, lane: ir.Value, address: ir.Value | None = None
    ) -> None:
        """End the run: note what happened and where."""
        types = [PTR, I32, I32, I32, I32, I64]
        function = self.external("tw_fault", ir.VoidType(), types)
        where = address or ir.Constant(I64, 0)
        code = ir.Constant(I32, int(kind))
        self.b.call(function, [self.frame.context, code, pc, self.e.warp_index, lane, where])
        self.b.branch(self.faulted)

    def external(self, name: str, result: ir.Type, types: list[ir.Type]) -> ir.Function:
        """Return a function of the runtime."""
        return declared(self.module, name, result, types)

    def stack(self, lane: ir.Type) -> ir.Value:
        """Stack memory for 32 lanes, allocated once on entry."""
        with self.b.goto_block(self._entry_block):
            place = self.b.alloca(ir.ArrayType(lane, WARP))
            return self.b.inttoptr(self.b.ptrtoint(place, I64), PTR)  # llvmlite types the pointer

    def park(self, lanes: ir.Value, number: int) -> None:
        """Note that `lanes` go on at block `number`."""
        function = self.external("tw_park", ir.VoidType(), [PTR, I32, I32])
        self.b.call(function, [self.frame.state, lanes, ir.Constant(I32, number)])

    def leave(self, lanes: ir.Value) -> None:
        """Note that `lanes` have returned."""
        self.park(lanes, state.EXITED)
        left = self.b.and_(self.b.load(self.live, typ=I32), self.b.not_(lanes))
        self.b.store(left, self.live)

    def _wait_at(self, number: int) -> ir.Block:
        """Return the code that parks the lanes that run now at block `number`."""
        if number not in self.waits:
            wait = self.waits[number] = self.function.append_basic_block()
            with self.b.goto_block(wait):
                self.park(self.b.load(self.mask, typ=I32), number)
                self.b.branch(self.pick)
        return self.waits[number]

    def jump(self, code: BlockCode, target: int) -> None:
        """Go to block `target` with the lanes that run now, if no other lanes come first."""
        b = self.b
        backward = target <= code.number
        if code.divergent or self.plan.divergent[target]:
            pending = b.load(self.pending, typ=I32)
            first = b.icmp_unsigned(">", pending, ir.Constant(I32, target))
            direct = self.function.append_basic_block()
            b.cbranch(first, direct, self._wait_at(target))
            b.position_at_end(direct)
        if not backward:
            b.branch(self.labels[target])
            return
        turns = b.sub(b.load(self.turns, typ=I32), ir.Constant(I32, 1))
        b.store(turns, self.turns)
        over = self.function.append_basic_block()
        b.cbranch(b.icmp_signed(">", turns, ir.Constant(I32, 0)), self.labels[target], over)
        b.position_at_end(over)
        self.park(code.mask, target)
        b.ret(ir.Constant(I32, Status.YIELD))

    # --- blocks -----------------------------------------------------------------------------------

    def _block(self, number: int) -> None:
        b = self.b
        b.position_at_end(self.labels[number])
        if not self.plan.reached[number]:
            b.unreachable()
            return
        # Few lanes run a divergent block, seldom: short code matters there, not fast code.
        self.e.width = WARP if self.plan.divergent[number] else self.width
        self.frame.enter_block()
        code = BlockCode(self.e, self.plan, self.frame, number)
        if not code.always_full:
            code.mask = b.load(self.mask, typ=I32)
        block = self.plan.blocks[number]
        body = self.plan.function.body
        if self.counting:
            self.tally(code.number, code.mask)
            self.max_events = max(self.max_events, events.make_room(self, code))
        code.groups = groups.group_loads(body, block)
        before = body[block.start - 1] if block.start else None
        if before is not None and is_block_barrier(before) and "red" in before.flags:
            sync.reduced(self, code, before)
        for pc in range(block.start, block.end):
            ins = body[pc]
            if ins.opcode in _ENDS:
                continue
            instruction_code(self, code, pc, ins)
        events.commit(self, code)
        last = body[block.end - 1] if block.end > block.start else None
        if last is None or last.opcode not in _ENDS:
            if not (last is not None and is_block_barrier(last)):
                code.save()
                self.fall(code, block.end)
            return
        self._terminate(code, last, block.end - 1)

    def place_of(self, pc: int) -> int | None:
        """Return the block that begins at `pc`; None behind the last instruction."""
        return self.plan.number_at(pc) if pc < len(self.plan.function.body) else None

    def fall(self, code: BlockCode, pc: int) -> None:
        """Go on at instruction `pc`; behind the last one, return."""
        target = self.place_of(pc)
        if target is None:
            self.leave(code.mask)
            self.b.branch(self.pick)
        else:
            self.jump(code, target)

    def _terminate(self, code: BlockCode, ins: Instruction, pc: int) -> None:
        if ins.opcode == "trap":
            self._trap(code, ins, pc)
            return
        if ins.opcode == "brx":
            branches.indexed(self, code, pc, ins)
            return
        predicate = code.guard(ins) if ins.guard is not None else None
        code.save()
        target = None
        if ins.opcode == "bra":
            (at,) = targets_of(ins, self.plan.function.labels)
            target = self.place_of(at)
        way = (
            ins.guard and predicate and decided(ins.guard, self.plan.shapes.get(ins.guard.reg.name))
        )
        if predicate is None or way is True:
            self.go(code, target)
        elif way is False:
            self.fall(code, pc + 1)
        elif predicate.shape.uniform and not predicate.chunks:
            yes, no = (self.function.append_basic_block() for _ in range(2))
            self.b.cbranch(self.e.scalar(predicate), yes, no)
            self.b.position_at_end(yes)
            self.go(code, target)
            self.b.position_at_end(no)
            self.fall(code, pc + 1)
        else:
            self._split(code, predicate, target, pc + 1)

    def go(self, code: BlockCode, target: int | None) -> None:
        """Jump, or return where there is no target or only a bare return."""
        if target is None or self.bare_exit(target):
            self.leave_at(code.mask, target)
            self.b.branch(self.pick)
        else:
            self.jump(code, target)

    def leave_at(self, lanes: ir.Value, number: int | None) -> None:
        """Return from the kernel, by the bare return that is block `number` if there is one."""
        if self.counting and number is not None:
            self.tally(number, lanes)
        self.leave(lanes)

    def bare_exit(self, number: int) -> bool:
        """Whether a block does nothing but return."""
        block = self.plan.blocks[number]
        if not block.leaves or block.successors or block.end - block.start > 1:
            return False
        body = self.plan.function.body
        return block.end == block.start or body[block.start].opcode in ("ret", "exit")

    def _split(self, code: BlockCode, predicate: Value, target: int | None, after: int) -> None:
        """Emit a branch that some lanes may take and others not."""
        b = self.b
        bits = self.e.mask_bits(self.e.vector(predicate))
        taken = bits if code.mask is ALL else b.and_(bits, code.mask)
        rest = b.and_(b.not_(bits), code.mask)
        fallthrough = self.place_of(after)
        blocks = [self.function.append_basic_block() for _ in range(4)]
        some, all_, none, both = blocks
        zero = ir.Constant(I32, 0)
        b.cbranch(b.icmp_unsigned("==", taken, zero), none, some)
        b.position_at_end(none)
        self.go(code, fallthrough)
        b.position_at_end(some)
        b.cbranch(b.icmp_unsigned("==", rest, zero), all_, both)
        b.position_at_end(all_)
        self.go(code, target)
        b.position_at_end(both)
        if self.counting:
            self.parted(code.number, ir.Constant(I64, 1))
        remaining = []
        for lanes, number in ((taken, target), (rest, fallthrough)):
            if number is None or self.bare_exit(number):
                self.leave_at(lanes, number)
            else:
                remaining.append((lanes, number))
        if len(remaining) == 1:
            lanes, number = remaining[0]
            b.store(lanes, self.mask)
            code.mask = lanes
            self.jump(code, number)
            return
        for lanes, number in remaining:
            self.park(lanes, number)
        b.branch(self.pick)

    def _trap(self, code: BlockCode, ins: Instruction, pc: int) -> None:
        active = code.active(ins)
        if ins.guard is None:
            self.fault(Fault.TRAP, ir.Constant(I32, pc), self.first(active))
            return
        hit, on = (self.function.append_basic_block() for _ in range(2))
        code.save()
        self.b.cbranch(self.b.icmp_unsigned("!=", active, ir.Constant(I32, 0)), hit, on)
        self.b.position_at_end(hit)
        self.fault(Fault.TRAP, ir.Constant(I32, pc), self.first(active))
        self.b.position_at_end(on)
        self.fall(code, pc + 1)

    def first(self, mask: ir.Value) -> ir.Value:
        """Return the lowest lane of a mask."""
        return self.e.intrinsic("llvm.cttz", [mask, ir.Constant(I1, 0)])

    # --- counting -----------------------------------------------------------------------------

    def tally(self, number: int, lanes: ir.Value, times: int = 1) -> None:
        """Count an execution of block `number` by `lanes`; with -1 `times` take it back."""
        function = self.external("tw_tally", ir.VoidType(), [PTR, I64, I32, I64])
        cell = self.b.add(self.counts_row, ir.Constant(I64, number))
        self.b.call(function, [self.frame.context, cell, lanes, ir.Constant(I64, times)])

    def parted(self, number: int, more: ir.Value) -> None:
        """Count that lanes went from the end of block `number` to `more` places besides one."""
        function = self.external("tw_parted", ir.VoidType(), [PTR, I64, I64])
        cell = self.b.add(self.counts_row, ir.Constant(I64, number))
        self.b.call(function, [self.frame.context, cell, more])
