"""Barriers and the operations in which lanes of a warp see each other's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import I1, I8, I16, I32, I64, Value, bits_of
from tilewright.emulator.lanes import UNIFORM, WARP
from tilewright.emulator.ops.integers import maximum, minimum
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.state import Fault, Status
from tilewright.toolchain.ptx.ir import Instruction, Operand, Pair

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

_WIDE = ir.VectorType(I32, WARP)


def _put(t: Translator, code: BlockCode, at: int, value: ir.Value) -> None:
    place = code.b.gep(t.frame.state, [ir.Constant(I64, at)], source_etype=I8)
    code.b.store(value, place)


def _await(t: Translator, code: BlockCode, pc: int, needed: ir.Value) -> None:
    """Wait for the lanes `needed`: until they have come, let the warp's other lanes run.

    Only a divergent block can lack some; in the others all lanes that are left are here.
    """
    if not code.divergent:
        return
    b = code.b
    live = b.load(t.live, typ=I32)
    missing = b.and_(b.and_(needed, live), b.not_(code.mask))
    wait, on = (t.function.append_basic_block() for _ in range(2))
    b.cbranch(b.icmp_unsigned("!=", missing, ir.Constant(I32, 0)), wait, on)
    b.position_at_end(wait)
    if t.counting:  # the block is run again, with the lanes that are missing now
        t.tally(code, code.number, code.mask, -1)
    _put(t, code, state.WARP_BARRIER_PC, ir.Constant(I32, pc))
    t.park(code.mask, code.number)
    b.store(b.or_(b.load(t.tried, typ=I32), code.mask), t.tried)
    b.branch(t.retry)
    b.position_at_end(on)


# --- barriers of the block ----------------------------------------------------------------------


def barrier(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """bar and barrier: sync, arrive, red, and the warp's own."""
    if "warp" in ins.flags:
        _await(t, code, pc, _member_mask(code, ins.operands[0]))
        return
    if ins.guard is not None:
        raise unsupported(ins, "a barrier under a predicate")
    _await(t, code, pc, ir.Constant(I32, -1))
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
    """What this warp adds to the count: predicates that are true (`and`: that are false)."""
    predicate = code.read(operand, "pred")
    bits = code.e.mask_bits(code.e.vector(predicate))
    if "and" in ins.flags:
        bits = code.b.not_(bits)
    return code.e.intrinsic("llvm.ctpop", [code.b.and_(bits, code.mask)])


def reduced(t: Translator, code: BlockCode, ins: Instruction) -> None:
    """The result of the bar.red that ended the block before."""
    place = code.b.gep(
        t.frame.state, [ir.Constant(I64, state.WARP_REDUCED)], source_etype=I8
    )
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


def _member_mask(code: BlockCode, operand: Operand) -> ir.Value:
    """The lanes that take part: those named by any lane that is here."""
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


# --- values of other lanes ------------------------------------------------------------------------


def _whole(code: BlockCode, value: Value) -> ir.Value:
    """All 32 lanes as one vector."""
    return _joined(code, list(code.e.vector(value)))


def _joined(code: BlockCode, chunks: list[ir.Value]) -> ir.Value:
    while len(chunks) > 1:
        count = chunks[0].type.count
        mask = ir.Constant(ir.VectorType(I32, 2 * count), list(range(2 * count)))
        chunks = [
            code.b.shuffle_vector(a, b, mask)
            for a, b in zip(chunks[::2], chunks[1::2], strict=True)
        ]
    return chunks[0]


def _chunked(code: BlockCode, whole: ir.Value) -> tuple[ir.Value, ...]:
    if code.e.chunks == 1:
        return (whole,)
    empty = ir.Constant(whole.type, ir.Undefined)
    return tuple(
        code.b.shuffle_vector(
            whole, empty, ir.Constant(ir.VectorType(I32, code.e.width), list(part))
        )
        for part in code.e.parts(range(WARP))
    )


def _splat(code: BlockCode, scalar: ir.Value) -> ir.Value:
    one = code.b.insert_element(
        ir.Constant(_WIDE, ir.Undefined), scalar, ir.Constant(I32, 0)
    )
    return code.b.shuffle_vector(one, one, ir.Constant(_WIDE, [0] * WARP))


def shuffle(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """shfl.sync: each lane reads another's register (PTX ISA 9.7.9.6)."""
    if "sync" in ins.flags:
        _await(t, code, pc, _member_mask(code, ins.operands[4]))
    b = code.b
    value = _whole(code, code.read(ins.operands[1], "b32"))
    lane_operand, clamp_operand = (_whole(code, code.read(o, "u32")) for o in ins.operands[2:4])
    lanes = ir.Constant(_WIDE, list(range(WARP)))
    five = ir.Constant(_WIDE, [31] * WARP)
    by = b.and_(lane_operand, five)
    clamp = b.and_(clamp_operand, five)
    segment = b.and_(
        b.lshr(clamp_operand, ir.Constant(_WIDE, [8] * WARP)), five
    )
    outside = b.not_(segment)
    base = b.and_(lanes, segment)
    limit = b.or_(base, b.and_(clamp, outside))
    mode = next(f for f in ins.flags if f in ("up", "down", "bfly", "idx"))
    if mode == "up":
        source = b.sub(lanes, by)
        valid = b.icmp_signed(">=", source, limit)
    else:
        if mode == "down":
            source = b.add(lanes, by)
        elif mode == "bfly":
            source = b.xor(lanes, by)
        else:
            source = b.or_(base, b.and_(by, outside))
        valid = b.icmp_signed("<=", source, limit)
    source = b.and_(b.select(valid, source, lanes), five)
    result = _pick(t, code, value, source)
    destination = ins.operands[0]
    truth = None
    if isinstance(destination, Pair):
        destination, truth = destination.first, destination.second
    code.write(destination, code.e.varying(I32, _chunked(code, result)), ins, "b32")
    if truth is not None:
        code.write(truth, code.e.varying(I1, _chunked(code, valid)), ins, "pred")


def _pick(t: Translator, code: BlockCode, value: ir.Value, source: ir.Value) -> ir.Value:
    """value[source[lane]] in every lane, through memory: LLVM has no variable shuffle."""
    b = code.b
    buffer = t.stack(I32)
    b.store(value, buffer, align=4)
    result: ir.Value = ir.Constant(_WIDE, ir.Undefined)
    for lane in range(WARP):
        place = b.extract_element(source, ir.Constant(I32, lane))
        item = b.load(b.gep(buffer, [place], source_etype=I32), typ=I32)
        result = b.insert_element(result, item, ir.Constant(I32, lane))
    return result


def vote(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """vote.sync: all, any, uni, ballot over the lanes that take part."""
    predicate = code.read(ins.operands[1], "pred")
    members: ir.Value = code.mask
    if "sync" in ins.flags:
        members = _member_mask(code, ins.operands[2])
        _await(t, code, pc, members)
        members = code.b.and_(members, code.mask)
    bits = code.b.and_(code.e.mask_bits(code.e.vector(predicate)), members)
    if "ballot" in ins.flags:
        _write_uniform(code, ins, I32, bits, "b32")
        return
    none = code.b.icmp_unsigned("==", bits, ir.Constant(I32, 0))
    every = code.b.icmp_unsigned("==", bits, members)
    if "any" in ins.flags:
        truth = code.b.not_(none)
    else:
        truth = every if "all" in ins.flags else code.b.or_(every, none)
    _write_uniform(code, ins, I1, truth, "pred")


def _write_uniform(
    code: BlockCode, ins: Instruction, lane: ir.Type, scalar: ir.Value, kind: str
) -> None:
    """Write a number that all lanes here share, as a Varying register keeps it."""
    chunk = code.e.splat(scalar)
    code.write(ins.operands[0], code.e.varying(lane, (chunk,) * code.e.chunks), ins, kind)


def activemask(_t: Translator, code: BlockCode, _pc: int, ins: Instruction) -> None:
    """The lanes that run together here."""
    _write_uniform(code, ins, I32, code.mask, "b32")


def elect(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """elect.sync: the lowest lane of the mask is the leader."""
    members = _member_mask(code, ins.operands[1])
    _await(t, code, pc, members)
    members = code.b.and_(members, code.mask)
    leader = t.first(members)
    lanes = ir.Constant(_WIDE, list(range(WARP)))
    truth = code.b.icmp_unsigned("==", lanes, _splat(code, leader))
    pair = ins.operands[0]
    if not isinstance(pair, Pair):
        raise unsupported(ins)
    leaders = code.e.varying(I32, (code.e.splat(leader),) * code.e.chunks)
    code.write(pair.first, leaders, ins, "b32")
    code.write(pair.second, code.e.varying(I1, _chunked(code, truth)), ins, "pred")


def match(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """match.sync: the lanes that hold the same value; for .all, whether all do."""
    members = _member_mask(code, ins.operands[2])
    _await(t, code, pc, members)
    b = code.b
    members = b.and_(members, code.mask)
    kind = ins.types[-1]
    whole = _whole(code, code.read(ins.operands[1], kind))
    lane_type = whole.type.element
    wide = ir.VectorType(lane_type, WARP)
    result: ir.Value = ir.Constant(_WIDE, [0] * WARP)
    for lane in range(WARP):
        item = b.extract_element(whole, ir.Constant(I32, lane))
        one = b.insert_element(ir.Constant(wide, ir.Undefined), item, ir.Constant(I32, 0))
        everywhere = b.shuffle_vector(one, one, ir.Constant(_WIDE, [0] * WARP))
        bits = b.bitcast(b.icmp_unsigned("==", whole, everywhere), I32)
        result = b.insert_element(result, b.and_(bits, members), ir.Constant(I32, lane))
    destination = ins.operands[0]
    if "any" in ins.flags:
        code.write(destination, code.e.varying(I32, _chunked(code, result)), ins, "b32")
        return
    same = b.icmp_unsigned("==", result, _splat(code, members))
    picked = b.select(same, result, ir.Constant(_WIDE, [0] * WARP))
    if not isinstance(destination, Pair):
        code.write(destination, code.e.varying(I32, _chunked(code, picked)), ins, "b32")
        return
    code.write(destination.first, code.e.varying(I32, _chunked(code, picked)), ins, "b32")
    code.write(destination.second, code.e.varying(I1, _chunked(code, same)), ins, "pred")


_NEUTRAL = {"and": -1, "or": 0, "xor": 0, "add": 0}


def redux(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """redux.sync: one number over the lanes that take part."""
    members = _member_mask(code, ins.operands[2])
    _await(t, code, pc, members)
    members = code.b.and_(members, code.mask)
    kind = ins.types[-1]
    name = next((f for f in ins.flags if f in (*_NEUTRAL, "min", "max")), None)
    if name is None or kind[0] == "f":
        raise unsupported(ins)
    e, signed = code.e, kind[0] == "s"
    least, most = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
    neutral = _NEUTRAL.get(name, most if name == "min" else least)
    masks = e.mask_chunks(members)
    value = e.vector(code.read(ins.operands[1], kind))
    chunks = e.map(lambda m, c: e.select(m, c, e.const(c, neutral)), masks, value)
    total = chunks[0]
    for chunk in chunks[1:]:
        total = {
            "and": code.b.and_,
            "or": code.b.or_,
            "xor": code.b.xor,
            "add": code.b.add,
            "min": lambda x, y: minimum(e, kind, x, y),
            "max": lambda x, y: maximum(e, kind, x, y),
        }[name](total, chunk)
    suffix = name if name in _NEUTRAL else ("s" if signed else "u") + name
    _write_uniform(
        code, ins, I32, e.intrinsic(f"llvm.vector.reduce.{suffix}", [total], I32), kind
    )


__all__ = ["I16", "bits_of"]
