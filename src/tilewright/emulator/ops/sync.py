"""Barriers: of the block, and of the lanes of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import I1, I8, I32, I64, Value
from tilewright.emulator.lanes import UNIFORM, WARP
from tilewright.emulator.ops.events import record_barrier
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.state import Fault, Status
from tilewright.toolchain.ptx.ir import Instruction, Operand

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

_WIDE = ir.VectorType(I32, WARP)


def _put(t: Translator, code: BlockCode, at: int, value: ir.Value) -> None:
    place = code.b.gep(t.frame.state, [ir.Constant(I64, at)], source_etype=I8)
    code.b.store(value, place)


def _get(t: Translator, code: BlockCode, at: int) -> ir.Value:
    place = code.b.gep(t.frame.state, [ir.Constant(I64, at)], source_etype=I8)
    return code.b.load(place, typ=I32)


def wait_for(t: Translator, code: BlockCode, pc: int, needed: ir.Value) -> None:
    """Wait for the lanes `needed`: until they have come, let the warp's other lanes run.

    Only a divergent block can lack some; in the others all lanes that are left are here.
    """
    if not code.divergent:
        return
    b = code.b
    missing = _and(b, needed, b.load(t.live, typ=I32), b.not_(code.mask))
    _set_aside(t, code, pc, code.mask, when=_any(b, missing))


def _set_aside(t: Translator, code: BlockCode, pc: int, lanes: ir.Value, *, when: ir.Value) -> None:
    """Let others run in place of `lanes`, which come back to this block; or else go on."""
    b = code.b
    wait, on = (t.function.append_basic_block() for _ in range(2))
    b.cbranch(when, wait, on)
    b.position_at_end(wait)
    if t.counting:  # the block is run again, with the lanes that are missing now
        t.tally(code.number, code.mask, -1)
    _put(t, code, state.WARP_BARRIER_PC, ir.Constant(I32, pc))
    t.park(code.mask, code.number)
    b.store(b.or_(b.load(t.tried, typ=I32), lanes), t.tried)
    b.branch(t.retry)
    b.position_at_end(on)


def _and(b: ir.IRBuilder, first: ir.Value, *others: ir.Value) -> ir.Value:
    for other in others:
        first = b.and_(first, other)
    return first


def _any(b: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0))


def _meet(t: Translator, code: BlockCode, pc: int, members: ir.Value) -> None:
    """Wait at a bar.warp.sync, to which other lanes may come in other places of the kernel.

    The lanes that complete it go on, and note that those parked elsewhere have passed theirs.
    """
    elsewhere = [n for n in t.warp_barriers() if n != code.number]
    if not code.divergent or not elsewhere:
        wait_for(t, code, pc, members)
        return
    b = code.b
    passed = _get(t, code, state.WARP_PASSED)
    done, fresh = b.and_(code.mask, passed), b.and_(code.mask, b.not_(passed))
    _set_aside(t, code, pc, fresh, when=b.and_(_any(b, done), _any(b, fresh)))
    pcs = b.load(t.frame.state, typ=_WIDE, align=64)
    parked: ir.Value = ir.Constant(I32, 0)
    for number in elsewhere:
        there = b.icmp_unsigned("==", pcs, ir.Constant(_WIDE, [number] * WARP))
        parked = b.or_(parked, b.bitcast(there, I32))
    waiting = _and(b, parked, members, b.not_(passed), b.not_(code.mask))
    here = b.or_(code.mask, waiting)
    missing = _and(b, members, b.load(t.live, typ=I32), b.not_(here))
    _set_aside(t, code, pc, code.mask, when=b.and_(_any(b, missing), _any(b, fresh)))
    joined = b.select(_any(b, fresh), waiting, ir.Constant(I32, 0))
    passed = b.or_(b.and_(passed, b.not_(code.mask)), joined)
    _put(t, code, state.WARP_PASSED, passed)


def fence(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit membar and fence: what this thread wrote is there for blocks on other workers."""
    code.b.fence("seq_cst")


# --- barriers of the block ----------------------------------------------------------------------


def barrier(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit bar and barrier: sync, arrive, red, and the warp's own."""
    if "warp" in ins.flags:
        _meet(t, code, pc, member_mask(code, ins.operands[0]))
        return
    if ins.guard is not None:
        raise unsupported(ins, "a barrier under a predicate")
    wait_for(t, code, pc, ir.Constant(I32, -1))
    b = code.b
    reducing = "red" in ins.flags
    operands = list(ins.operands[1:] if reducing else ins.operands)
    votes: ir.Value = ir.Constant(I32, 0)
    if reducing:
        votes = _votes(code, ins, operands.pop())
    number, expected, *_ = [*(_uniform(code, ins, o) for o in operands), ir.Constant(I32, 0)]
    _require_whole_warp(t, code, pc, number)
    _put(t, code, state.WARP_BARRIER, b.and_(number, ir.Constant(I32, state.BARRIERS - 1)))
    _put(t, code, state.WARP_EXPECTED, expected)
    _put(t, code, state.WARP_BLOCKING, ir.Constant(I32, 0 if "arrive" in ins.flags else 1))
    _put(t, code, state.WARP_BARRIER_PC, ir.Constant(I32, pc))
    _put(t, code, state.WARP_REDUCED, votes)
    if t.counting:
        record_barrier(t, code, pc)
    code.save()
    after = t.plan.number_at(pc + 1)
    t.park(code.mask, after)
    b.ret(ir.Constant(I32, Status.BARRIER))


def _require_whole_warp(t: Translator, code: BlockCode, pc: int, number: ir.Value) -> None:
    """Fault where some lanes of the warp have returned: the barrier counts whole warps."""
    if t.plan.full:
        return
    b, layout = code.b, t.frame.layout
    tail = layout.launch.threads - WARP * (layout.warps - 1)
    last = b.icmp_unsigned("==", t.e.warp_index, ir.Constant(I32, layout.warps - 1))
    whole = b.select(last, ir.Constant(I32, (1 << tail) - 1), ir.Constant(I32, -1))
    gone = b.and_(whole, b.not_(code.mask))
    short, on = (t.function.append_basic_block() for _ in range(2))
    b.cbranch(b.icmp_unsigned("!=", gone, ir.Constant(I32, 0)), short, on)
    b.position_at_end(short)
    t.fault(Fault.BARRIER, ir.Constant(I32, pc), t.first(gone), b.zext(number, I64))
    b.position_at_end(on)


def _votes(code: BlockCode, ins: Instruction, operand: Operand) -> ir.Value:
    """Count what this warp adds to the count: predicates that are true (`and`: that are false)."""
    predicate = code.read(operand, "pred")
    bits = code.e.mask_bits(code.e.vector(predicate))
    if "and" in ins.flags:
        bits = code.b.not_(bits)
    return code.e.intrinsic("llvm.ctpop", [code.b.and_(bits, code.mask)])


def reduced(t: Translator, code: BlockCode, ins: Instruction) -> None:
    """Write the result of the bar.red that ended the block before."""
    place = code.b.gep(t.frame.state, [ir.Constant(I64, state.WARP_REDUCED)], source_etype=I8)
    total = code.b.load(place, typ=I32)
    zero = ir.Constant(I32, 0)
    if "popc" in ins.flags:
        code.write(ins.operands[0], Value(I32, UNIFORM, total), ins, "u32")
        return
    relation = "==" if "and" in ins.flags else "!="
    truth = code.b.icmp_unsigned(relation, total, zero)
    code.write(ins.operands[0], Value(I1, UNIFORM, truth), ins, "pred")


def _uniform(code: BlockCode, ins: Instruction, operand: Operand) -> ir.Value:
    value = code.read(operand, "u32")
    if not value.shape.uniform:
        raise unsupported(ins, "a barrier whose number differs between the lanes of a warp")
    return code.e.scalar(value)


def member_mask(code: BlockCode, operand: Operand) -> ir.Value:
    """Return the lanes that take part: those named by any lane that is here."""
    value = code.read(operand, "u32")
    if value.shape.uniform and not value.chunks:
        return code.e.scalar(value)
    here = code.e.mask_chunks(code.mask)
    chunks = code.e.map(
        lambda m, c: code.e.select(m, c, code.e.const(c, 0)), here, code.e.vector(value)
    )
    total = chunks[0]
    for chunk in chunks[1:]:
        total = code.b.or_(total, chunk)
    return code.e.intrinsic("llvm.vector.reduce.or", [total], I32)
