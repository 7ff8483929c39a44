"""Moves that are more than a copy: packing, address spaces, and arithmetic with a carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import I1, I64, INTS, Emitter, Value, bits_of, element
from tilewright.emulator.lanes import BITS, UNIFORM, Affine, affine, constant
from tilewright.emulator.ops.integers import narrow, widen
from tilewright.emulator.ops.packed import Operation
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.signature import lane_type
from tilewright.toolchain.ptx.ir import Instruction, Vec

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

CARRY = "%carry"


def is_packing(ins: Instruction) -> bool:
    """Tell whether an instruction is a mov between a register and several narrower ones."""
    return ins.opcode == "mov" and any(isinstance(o, Vec) for o in ins.operands)


def pack_or_unpack(code: BlockCode, ins: Instruction) -> None:
    """mov.b64 {lo, hi}, d and mov.b64 d, {lo, hi}, for 2 or 4 parts."""
    to, source = ins.operands
    kind = ins.types[-1]
    if isinstance(to, Vec):
        width = BITS[kind] // len(to.items)
        whole = code.read(source, kind)
        for place, item in enumerate(to.items):
            part = elementwise(
                code, [whole], INTS[width], lambda e, x, p=place: _part(e, x, p, width)
            )
            code.write(item, part, ins, f"b{width}")
        return
    if not isinstance(source, Vec):
        raise AssertionError("mov without a vector")
    width = BITS[kind] // len(source.items)
    parts = [code.read(i, f"b{width}") for i in source.items]
    code.write(to, elementwise(code, parts, lane_type(kind), lambda e, *p: _join(e, p)), ins, kind)


def _part(e: Emitter, x: ir.Value, place: int, width: int) -> ir.Value:
    return narrow(e, e.b.lshr(x, e.const(x, place * width)), width)


def _join(e: Emitter, parts: tuple[ir.Value, ...]) -> ir.Value:
    width = bits_of(element(parts[0]))
    total: ir.Value | None = None
    for place, part in enumerate(parts):
        wide = widen(e, part, "u", width * len(parts))
        wide = e.b.shl(wide, e.const(wide, place * width))
        total = wide if total is None else e.b.or_(total, wide)
    if total is None:
        raise AssertionError("nothing to join")
    return total


def elementwise(code: BlockCode, args: list[Value], lane: ir.Type, operation: Operation) -> Value:
    """Run `operation(e, *lanes)` once where all arguments are uniform, else on chunks."""
    e = code.e
    if all(a.shape.uniform and not a.chunks for a in args):
        return Value(lane, UNIFORM, operation(e, *(e.scalar(a) for a in args)))
    chunks = e.map(lambda *c: operation(e, *c), *(e.vector(a) for a in args))
    return e.varying(lane, chunks)


def cvta(_t: Translator, code: BlockCode, _pc: int, ins: Instruction) -> None:
    """Turn an address of a state space into a generic one, or back."""
    value = code.read(ins.operands[1], ins.types[-1])
    if ins.space in ("shared", "local", "param"):
        value = _other_space(code, value, ins.space, inward="to" in ins.flags)
    code.write(ins.operands[0], value, ins, ins.types[-1])


def _other_space(code: BlockCode, value: Value, space: str, *, inward: bool) -> Value:
    """Add or remove where shared, param or a thread's part of local memory begins."""
    window = Value(I64, code.frame.layout.local_window)
    if space != "local":
        segment = state.SHARED_SEGMENT if space == "shared" else state.PARAM_SEGMENT
        window = Value(I64, constant(segment << state.SEGMENT_SHIFT, 64, code.e.warps))
    have, step = affine(value.shape), affine(window.shape)
    e = code.e
    if have is not None and step is not None:
        sign = -1 if inward else 1
        offsets = tuple(a + sign * b for a, b in zip(have.offsets, step.offsets, strict=True))
        a, b = e.scalar(value), e.scalar(window)
        return Value(I64, Affine(offsets), e.b.sub(a, b) if inward else e.b.add(a, b))
    operation = e.b.sub if inward else e.b.add
    return e.varying(I64, e.map(operation, e.vector(value), e.vector(window)))


def isspacep(_t: Translator, code: BlockCode, _pc: int, ins: Instruction) -> None:
    """Tell whether a generic address lies in a state space."""
    shift = state.SEGMENT_SHIFT
    segment = {
        "shared": state.SHARED_SEGMENT,
        "local": state.LOCAL_SEGMENT,
        "param": state.PARAM_SEGMENT,
    }.get(ins.space or "")

    def test(e: Emitter, x: ir.Value) -> ir.Value:
        high = e.b.lshr(x, e.const(x, shift))
        if segment is not None:
            return e.b.icmp_unsigned("==", high, e.const(x, segment))
        if ins.space != "global":
            raise unsupported(ins)
        return e.b.icmp_unsigned(">=", high, e.const(x, state.FIRST_ARRAY))

    value = code.read(ins.operands[1], "u64")
    code.write(ins.operands[0], elementwise(code, [value], I1, test), ins, "pred")


def uses_carry(ins: Instruction) -> bool:
    """Tell whether an instruction reads or writes the carry flag."""
    return ins.opcode in ("addc", "subc", "madc") or "cc" in ins.flags


def with_carry(code: BlockCode, ins: Instruction) -> None:
    """add.cc, addc, sub.cc, subc, mad.cc, madc: the operation in twice the width, and its carry."""
    kind = ins.types[-1]
    bits = BITS[kind]
    args = [code.read(o, kind) for o in ins.operands[1:]]
    carried = ins.opcode in ("addc", "subc", "madc")
    if carried:
        if CARRY not in code.env:
            raise unsupported(ins, f"{ins.opcode} with the carry of another basic block")
        args.append(code.env[CARRY])
    join = code.b.sub if ins.opcode.startswith("sub") else code.b.add

    def full(e: Emitter, *values: ir.Value) -> ir.Value:
        *plain, carry = values if carried else (*values, None)
        if ins.opcode in ("mad", "madc"):
            product = e.b.mul(*(widen(e, v, kind, 2 * bits) for v in plain[:2]))
            half = e.b.lshr(product, e.const(product, bits)) if "hi" in ins.flags else product
            plain = [narrow(e, half, bits), plain[2]]
        total = join(*(widen(e, v, "u", 2 * bits) for v in plain))
        return total if carry is None else join(total, e.b.zext(carry, total.type))

    def overflows(e: Emitter, total: ir.Value) -> ir.Value:
        return e.b.icmp_unsigned(
            "!=", e.b.and_(total, e.const(total, 1 << bits)), e.const(total, 0)
        )

    total = elementwise(code, args, INTS[2 * bits], full)
    low = elementwise(code, [total], lane_type(kind), lambda e, x: narrow(e, x, bits))
    code.write(ins.operands[0], low, ins, kind)
    if "cc" in ins.flags:
        code.env[CARRY] = _guarded(code, ins, elementwise(code, [total], I1, overflows))


def _guarded(code: BlockCode, ins: Instruction, new: Value) -> Value:
    """Keep the flag of the lanes in which the instruction does not run."""
    old = code.env.get(CARRY)
    if ins.guard is None or old is None:
        return new
    return elementwise(code, [code.guard(ins), new, old], I1, lambda e, *lanes: e.select(*lanes))
