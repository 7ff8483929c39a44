"""Operations in which lanes of a warp see each other's values (PTX ISA 9.7.9.6, 9.7.13.9 to 14)."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator.codegen import I1, I32, Value
from tilewright.emulator.lanes import WARP
from tilewright.emulator.ops import floats
from tilewright.emulator.ops.sync import member_mask, wait_for
from tilewright.emulator.ops.table import unsupported
from tilewright.toolchain.ptx.ir import Instruction, Pair

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

_WIDE = ir.VectorType(I32, WARP)


def _whole(code: BlockCode, value: Value) -> ir.Value:
    """All 32 lanes as one vector."""
    return code.e.joined(code.e.vector(value))


def _splat(code: BlockCode, scalar: ir.Value) -> ir.Value:
    one = code.b.insert_element(ir.Constant(_WIDE, ir.Undefined), scalar, ir.Constant(I32, 0))
    return code.b.shuffle_vector(one, one, ir.Constant(_WIDE, [0] * WARP))


def shuffle(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """shfl.sync: each lane reads another's register (PTX ISA 9.7.9.6)."""
    if "sync" in ins.flags:
        wait_for(t, code, pc, member_mask(code, ins.operands[4]))
    b = code.b
    value = _whole(code, code.read(ins.operands[1], "b32"))
    lane_operand, clamp_operand = (_whole(code, code.read(o, "u32")) for o in ins.operands[2:4])
    lanes = ir.Constant(_WIDE, list(range(WARP)))
    five = ir.Constant(_WIDE, [31] * WARP)
    by = b.and_(lane_operand, five)
    clamp = b.and_(clamp_operand, five)
    segment = b.and_(b.lshr(clamp_operand, ir.Constant(_WIDE, [8] * WARP)), five)
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
    if isinstance(destination, Pair):
        code.write(destination.second, code.e.varying(I1, code.e.divided(valid)), ins, "pred")
        destination = destination.first
    code.write(destination, code.e.varying(I32, code.e.divided(result)), ins, "b32")


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
        members = member_mask(code, ins.operands[2])
        wait_for(t, code, pc, members)
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
    """Give the lanes that run together here."""
    _write_uniform(code, ins, I32, code.mask, "b32")


def elect(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """elect.sync: the lowest lane of the mask is the leader."""
    members = member_mask(code, ins.operands[1])
    wait_for(t, code, pc, members)
    members = code.b.and_(members, code.mask)
    leader = t.first(members)
    lanes = ir.Constant(_WIDE, list(range(WARP)))
    truth = code.b.icmp_unsigned("==", lanes, _splat(code, leader))
    pair = ins.operands[0]
    if not isinstance(pair, Pair):
        raise unsupported(ins)
    leaders = code.e.varying(I32, (code.e.splat(leader),) * code.e.chunks)
    code.write(pair.first, leaders, ins, "b32")
    code.write(pair.second, code.e.varying(I1, code.e.divided(truth)), ins, "pred")


def match(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """match.sync: the lanes that hold the same value; for .all, whether all do."""
    members = member_mask(code, ins.operands[2])
    wait_for(t, code, pc, members)
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
        code.write(destination, code.e.varying(I32, code.e.divided(result)), ins, "b32")
        return
    same = b.icmp_unsigned("==", result, _splat(code, members))
    picked = b.select(same, result, ir.Constant(_WIDE, [0] * WARP))
    if not isinstance(destination, Pair):
        code.write(destination, code.e.varying(I32, code.e.divided(picked)), ins, "b32")
        return
    code.write(destination.first, code.e.varying(I32, code.e.divided(picked)), ins, "b32")
    code.write(destination.second, code.e.varying(I1, code.e.divided(same)), ins, "pred")


# What lanes that take no part bring to a reduction.
_NEUTRAL = {"and": -1, "or": 0, "xor": 0, "add": 0}


def redux(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """redux.sync: one number over the lanes that take part."""
    members = member_mask(code, ins.operands[2])
    wait_for(t, code, pc, members)
    masks = code.e.mask_chunks(code.b.and_(members, code.mask))
    kind = ins.types[-1]
    name = next((f for f in ins.flags if f in (*_NEUTRAL, "min", "max")), None)
    if name is None:
        raise unsupported(ins)
    e, signed = code.e, kind[0] == "s"
    ends: tuple[float, float] = (-(1 << 31), (1 << 31) - 1) if signed else (0, (1 << 32) - 1)
    if kind == "f32":  # a NaN is ignored, but for .NaN
        ends = (-inf, inf) if "NaN" in ins.flags else (nan, nan)
    neutral = _NEUTRAL.get(name, ends[name == "min"])
    value = e.vector(code.read(ins.operands[1], kind))
    chunks = e.map(lambda m, c: e.select(m, c, e.const(c, neutral)), masks, value)
    whole = code.e.joined(chunks)
    if kind == "f32":
        total = _extreme(code, replace(ins, opcode=name), whole)
    else:
        suffix = name if name in _NEUTRAL else ("s" if signed else "u") + name
        total = e.intrinsic(f"llvm.vector.reduce.{suffix}", [whole], I32)
    _write_uniform(code, ins, total.type, total, kind)


def _extreme(code: BlockCode, ins: Instruction, values: ir.Value) -> ir.Value:
    """Fold a vector in halves to its smallest or largest number."""
    while (count := values.type.count) > 1:
        halves = [
            ir.Constant(ir.VectorType(I32, count // 2), list(range(first, first + count // 2)))
            for first in (0, count // 2)
        ]
        parts = tuple(code.b.shuffle_vector(values, values, half) for half in halves)
        values = floats.extreme_of(code.e, ins, parts)
    number = code.b.extract_element(values, ir.Constant(I32, 0))
    return code.e.intrinsic("llvm.fabs", [number]) if "abs" in ins.flags else number
