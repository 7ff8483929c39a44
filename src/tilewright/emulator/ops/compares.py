"""setp and set: comparisons of any type, with the optional second result and boolean operand."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import FLOAT, I16, Emitter, like
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops import floats, halves, integers
from tilewright.emulator.ops.table import Operation, elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction

_BOOLEAN = frozenset({"and", "or", "xor"})


def relation_of(ins: Instruction) -> str:
    """The comparison an instruction makes."""
    return next(f for f in ins.flags if f not in _BOOLEAN and f not in ("ftz", "CmpOp"))


def compare(e: Emitter, ins: Instruction, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """The bare comparison, without the boolean operand."""
    relation = relation_of(ins)
    if kind in ("f16", "bf16"):
        return halves.compare(e, relation, kind, a, b)
    if kind in ("f32", "f64"):
        return floats.compare(e, relation, *floats.inputs(e, ins, a, b))
    if kind in ("f16x2", "bf16x2"):
        raise unsupported(ins, f"{ins.opcode} on packed halves with one result")
    return integers.compare(e, relation, kind, a, b)


def combine(e: Emitter, ins: Instruction, truth: ir.Value, *other: ir.Value) -> ir.Value:
    """Join a comparison with the instruction's boolean operand, if it has one."""
    if not other:
        return truth
    name = next(f for f in ins.flags if f in _BOOLEAN)
    return {"and": e.b.and_, "or": e.b.or_, "xor": e.b.xor}[name](truth, other[0])


@elementwise("setp")
def setp(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
    """The first result of setp."""
    return combine(e, ins, compare(e, ins, ins.types[-1], a, b), *p)


def setp_second(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
    """The second result of setp: the comparison negated, joined likewise."""
    return combine(e, ins, e.b.not_(compare(e, ins, ins.types[-1], a, b)), *p)


def packed_half(half: int) -> Operation:
    """setp on one half of packed operands: 0 for the low one, 1 for the high."""

    def one(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
        x, y = halves.unpack(e, a)[half], halves.unpack(e, b)[half]
        return combine(e, ins, compare(e, ins, ins.types[-1].removesuffix("x2"), x, y), *p)

    return one


@elementwise("set")
def set_(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
    """The comparison as a number: all ones for an integer, 1.0 for a float."""
    kind, result = ins.types[-1], ins.types[0]
    if kind in ("f16x2", "bf16x2"):
        pairs = zip(halves.unpack(e, a), halves.unpack(e, b), strict=True)
        low, high = (
            _number(e, combine(e, ins, compare(e, ins, kind[:-2], x, y), *p), result[:-2])
            for x, y in pairs
        )
        return halves.pack(e, low, high)
    truth = combine(e, ins, compare(e, ins, kind, a, b), *p)
    if result == "f32":
        return e.b.uitofp(truth, like(truth, FLOAT))
    return _number(e, truth, result)


def _number(e: Emitter, truth: ir.Value, kind: str) -> ir.Value:
    if kind in ("f16", "bf16"):
        one = e.const_of(like(truth, I16), 0x3C00 if kind == "f16" else 0x3F80)
        return e.select(truth, one, e.const(one, 0))
    return e.b.sext(truth, like(truth, integers.INTS[BITS[kind]]))
