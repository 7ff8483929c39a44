"""setp and set: comparisons of any type, with the optional second result and boolean operand."""

from __future__ import annotations

from llvmlite import ir

from tilewright.emulator.codegen import FLOAT, HALF, I16, INTS, Emitter, like
from tilewright.emulator.lanes import BITS
from tilewright.emulator.ops import floats, halves, integers
from tilewright.emulator.ops.packed import Operation, pack, scalar_form, unpack
from tilewright.emulator.ops.table import elementwise, unsupported
from tilewright.toolchain.ptx.ir import Instruction

_BOOLEAN = frozenset({"and", "or", "xor"})


def compare(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit the bare comparison, without the boolean operand."""
    kind = ins.types[-1]
    relation = next(f for f in ins.flags if f not in _BOOLEAN and f != "ftz")
    if kind in ("f16", "bf16"):
        return halves.compare(e, ins, relation, a, b)
    if kind in ("f32", "f64"):
        return floats.compare(e, relation, *floats.inputs(e, ins, a, b))
    if kind.endswith("x2"):
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
    """Give the first result of setp."""
    return combine(e, ins, compare(e, ins, a, b), *p)


def setp_second(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
    """Give the second result of setp: the comparison negated, joined likewise."""
    return combine(e, ins, e.b.not_(compare(e, ins, a, b)), *p)


def setp_half(half: int) -> Operation:
    """Return setp on one half of packed operands: 0 for the low one, 1 for the high."""

    def one(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
        x, y = unpack(e, a)[half], unpack(e, b)[half]
        return setp(e, scalar_form(ins), x, y, *p)

    return one


@elementwise("set")
def set_(e: Emitter, ins: Instruction, a: ir.Value, b: ir.Value, *p: ir.Value) -> ir.Value:
    """Give the comparison as a number: all ones for an integer, 1.0 for a float."""
    result = ins.types[0]
    if not ins.types[-1].endswith("x2"):
        return _number(e, setp(e, ins, a, b, *p), result)
    part = result.removesuffix("x2") if result.endswith("x2") else "u16"
    pairs = zip(unpack(e, a), unpack(e, b), strict=True)
    return pack(e, *(_number(e, setp(e, scalar_form(ins), x, y, *p), part) for x, y in pairs))


def _number(e: Emitter, truth: ir.Value, kind: str) -> ir.Value:
    if kind == "f32":
        return e.b.uitofp(truth, like(truth, FLOAT))
    if kind in ("f16", "bf16"):
        one = e.const_of(like(truth, I16), 0x3C00 if kind == "f16" else 0x3F80)
        number = e.select(truth, one, e.const(one, 0))
        return e.cast(number, HALF) if kind == "f16" else number
    return e.b.sext(truth, like(truth, INTS[BITS[kind]]))
