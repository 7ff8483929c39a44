"""One LLVM function for each atomic operation: a loop over the active lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.codegen import I1, I32, I64, PTR, Emitter, bits_of, integer_of
from tilewright.emulator.lanes import WARP
from tilewright.emulator.ops.table import find, unsupported
from tilewright.emulator.runtime import SPACES
from tilewright.emulator.signature import lane_type
from tilewright.emulator.state import Fault
from tilewright.toolchain.ptx.ir import Instruction

if TYPE_CHECKING:
    from tilewright.emulator.translate import Translator

_FLOATS = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"})
_OPERATIONS = ("add", "and", "or", "xor", "exch", "cas", "min", "max", "inc", "dec")


def _operation(ins: Instruction) -> str:
    name = next((f for f in ins.flags if f in _OPERATIONS), None)
    if name is None:
        raise unsupported(ins)
    return name


def atomic_function(t: Translator, ins: Instruction) -> ir.Function:
    """Return f(context, space, addresses, values, others, olds, mask, warp, pc) -> is all well."""
    kind, operation = ins.types[-1], _operation(ins)
    name = f"tw_atom_{operation}_{kind}"
    known = t.module.globals.get(name)
    if known is not None:
        return known
    types = [PTR, I32, PTR, PTR, PTR, PTR, I32, I32, I32]
    function = ir.Function(t.module, ir.FunctionType(I1, types), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _body(t, function, ins, operation)
    return function


def _body(t: Translator, function: ir.Function, ins: Instruction, operation: str) -> None:
    context, space, addresses, values, others, olds, mask, warp, pc = function.args
    names = ("entry", "loop", "run", "aligned", "access", "next", "end", "odd", "outside")
    entry, loop, run, aligned, access, step, end, odd, outside = (
        function.append_basic_block(n) for n in names
    )
    b = ir.IRBuilder(entry)
    b.branch(loop)
    b.position_at_end(loop)
    lane = b.phi(I32)
    lane.add_incoming(ir.Constant(I32, 0), entry)
    on = b.and_(b.lshr(mask, lane), ir.Constant(I32, 1))
    b.cbranch(b.icmp_unsigned("!=", on, ir.Constant(I32, 0)), run, step)
    b.position_at_end(run)
    kind = lane_type(ins.types[-1])
    size = bits_of(kind) // 8
    wide = b.zext(lane, I64)
    address = b.load(b.gep(addresses, [wide], source_etype=I64), typ=I64)
    rest = b.and_(address, ir.Constant(I64, size - 1))
    b.cbranch(b.icmp_unsigned("==", rest, ir.Constant(I64, 0)), aligned, odd)
    b.position_at_end(aligned)
    translate = t.external("tw_translate", PTR, [PTR, I32, I64, I64, I32])
    thread = b.add(b.shl(warp, ir.Constant(I32, 5)), lane)
    args = [context, space, address, ir.Constant(I64, size), thread]
    pointer = b.call(translate, args)
    missing = b.icmp_unsigned("==", b.ptrtoint(pointer, I64), ir.Constant(I64, 0))
    b.cbranch(missing, outside, access)
    b.position_at_end(access)
    e = Emitter(t.module, b, t.e.warps, t.e.width)
    value, other = (
        b.load(b.gep(p, [wide], source_etype=kind), typ=kind, align=size) for p in (values, others)
    )
    segment = b.lshr(address, ir.Constant(I64, state.SEGMENT_SHIFT))
    shared = b.or_(
        b.icmp_unsigned("==", space, ir.Constant(I32, SPACES["shared"])),
        b.icmp_unsigned("==", segment, ir.Constant(I64, state.SHARED_SEGMENT)),
    )
    old = _apply(e, ins, operation, (pointer, shared), (value, other))
    b.store(old, b.gep(olds, [wide], source_etype=kind), align=size)
    b.branch(step)
    b.position_at_end(step)
    after = b.add(lane, ir.Constant(I32, 1))
    lane.add_incoming(after, step)
    b.cbranch(b.icmp_unsigned("<", after, ir.Constant(I32, WARP)), loop, end)
    b.position_at_end(end)
    b.ret(ir.Constant(I1, 1))
    fault = t.external("tw_fault", ir.VoidType(), [PTR, I32, I32, I32, I32, I64])
    for block, why in ((odd, Fault.MISALIGNED), (outside, Fault.BOUNDS)):
        b.position_at_end(block)
        b.call(fault, [context, ir.Constant(I32, int(why)), pc, warp, lane, address])
        b.ret(ir.Constant(I1, 0))


def _apply(
    e: Emitter,
    ins: Instruction,
    operation: str,
    place: tuple[ir.Value, ir.Value],
    values: tuple[ir.Value, ir.Value],
) -> ir.Value:
    """Emit the read-modify-write at `place` (pointer, is it shared?); returns the old content."""
    kind, (value, other), pointer = ins.types[-1], values, place[0]
    lane = value.type
    integer = integer_of(lane)
    if operation == "cas":
        expected, new = (e.cast(v, integer) for v in (value, other))
        pair = e.b.cmpxchg(pointer, expected, new, "seq_cst")
        return e.cast(e.b.extract_value(pair, 0), lane)
    if kind in _FLOATS and operation in ("add", "min", "max"):
        return _looped(e, ins, operation, place, value)
    names = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap"}
    name = names.get(operation, operation)
    if operation in ("min", "max") and kind[0] == "u":
        name = f"u{operation}"
    return e.cast(e.b.atomic_rmw(name, pointer, e.cast(value, integer), "seq_cst"), lane)


def _looped(
    e: Emitter,
    ins: Instruction,
    operation: str,
    place: tuple[ir.Value, ir.Value],
    value: ir.Value,
) -> ir.Value:
    """Compare and swap until no one came between."""
    lane = value.type
    integer = integer_of(lane)
    b, pointer = e.b, place[0]
    before = b.block
    first = b.load(pointer, typ=integer, align=bits_of(lane) // 8)
    again, done = (b.function.append_basic_block() for _ in range(2))
    b.branch(again)
    b.position_at_end(again)
    old = b.phi(integer)
    old.add_incoming(first, before)
    new = e.cast(_updated(e, ins, operation, (e.cast(old, lane), value), place[1]), integer)
    pair = b.cmpxchg(pointer, old, new, "seq_cst")
    seen, swapped = b.extract_value(pair, 0), b.extract_value(pair, 1)
    old.add_incoming(seen, b.block)
    b.cbranch(swapped, done, again)
    b.position_at_end(done)
    return e.cast(old, lane)


def _updated(
    e: Emitter,
    ins: Instruction,
    operation: str,
    operands: tuple[ir.Value, ir.Value],
    shared: ir.Value,
) -> ir.Value:
    """Compute the new content. float32 sums flush subnormals, but for those in shared memory.

    Source: PTX ISA 9.7.13.5; seen so on an H200.
    """
    step = Instruction(
        opcode=operation, types=ins.types[-1:], flags=(), ptx_line=ins.ptx_line, text=ins.text
    )
    compute = find(step)
    if compute is None:
        raise unsupported(ins)
    new = compute(e, step, *operands)
    if ins.types[-1] != "f32":
        return new
    return e.select(shared, new, compute(e, replace(step, flags=("ftz",)), *operands))
