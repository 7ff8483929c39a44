"""What a memory instruction names: its space, address and width, and the address in LLVM.

A base that is s + offsets is checked once for all lanes, by the span of its offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator.codegen import I1, I64, Value, bits_of
from tilewright.emulator.lanes import BITS, Affine
from tilewright.emulator.ops import scattered
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.runtime import SPACES
from tilewright.toolchain.ptx.ir import Imm, Instruction, Mem, Operand, Reg, Vec

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

SPAN_LIMIT = 1 << 16  # bytes that the lanes of an access, or the loads of a group, may lie apart


def space_of(ins: Instruction) -> str:
    """Return the state space of an access, `generic` where it names none."""
    space = ins.space or "generic"
    if space not in SPACES:
        raise unsupported(ins, f"the state space .{space}")
    return space


def address_of(ins: Instruction) -> Mem:
    """Return the memory operand."""
    at = ins.operands[0 if ins.opcode in ("st", "red") else 1]
    if not isinstance(at, Mem):
        raise unsupported(ins, "this form of memory operand")
    return at


def access_bytes(ins: Instruction) -> int:
    """Bytes that one lane moves."""
    if ins.opcode == "cp":
        return copied_bytes(ins)
    return BITS[ins.types[-1]] // 8 * ins.vector


def copied_bytes(ins: Instruction) -> int:
    """Bytes that one lane of a cp.async writes; 0 for a form that names no such number."""
    size = ins.operands[2] if len(ins.operands) > 2 else None
    return size.value if isinstance(size, Imm) else 0


def is_copy(ins: Instruction) -> bool:
    """Whether an instruction issues an asynchronous copy of one thread."""
    return ins.opcode == "cp" and copied_bytes(ins) > 0


def results_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the registers of a load or store, one a vector element."""
    return operand.items if isinstance(operand, Vec) else (operand,)


def base_value(code: BlockCode, at: Mem) -> Value:
    """Return the base address as a register holds it: 32 or 64 bits."""
    if isinstance(at.base, Reg):
        value = code.register(at.base.name)
        bits = bits_of(value.type)
        return code.read(at.base, f"u{bits}")
    return code.read(at.base, "u64")


def start_of(code: BlockCode, base: Value, lowest: int) -> ir.Value:
    """Return the scalar part of an address plus `lowest`, as an i64."""
    scalar = code.e.scalar(base)
    if bits_of(base.type) < 64:
        scalar = code.b.zext(scalar, I64)
    return code.b.add(scalar, ir.Constant(I64, lowest)) if lowest else scalar


def lane_addresses(code: BlockCode, base: Value, offset: int) -> tuple[ir.Value, ...]:
    """Every lane's address as i64 chunks."""
    kind = ir.VectorType(I64, code.e.width)

    def one(chunk: ir.Value) -> ir.Value:
        bits = chunk.type.element.width
        wide = chunk if bits == 64 else code.b.zext(chunk, kind)
        return code.b.add(wide, code.e.const(wide, offset)) if offset else wide

    return code.e.map(one, code.e.vector(base))


def span_of(shape: Affine) -> int:
    """Return how many bytes the lanes of a base lie apart."""
    return max(shape.offsets) - min(shape.offsets)


def span_check(
    t: Translator, code: BlockCode, space: str, start: ir.Value, span: int
) -> tuple[ir.Value, ir.Value]:
    """Whether [start, start + span) lies in one array, and the host pointer to start (as i64)."""
    b = code.b
    if space == "shared":
        size = t.frame.layout.shared_bytes
        pointer = b.add(code.context("shared", I64), start)
        if span > size:
            return ir.Constant(I1, 0), pointer
        return b.icmp_unsigned("<=", start, ir.Constant(I64, size - span)), pointer
    host, first, size, low = scattered.segment_of(b, code.context, start)
    room = b.sub(size, ir.Constant(I64, span))
    fits = b.icmp_unsigned(">=", size, ir.Constant(I64, span))
    inside = b.icmp_unsigned("<=", b.sub(low, first), room)
    return b.and_(fits, inside), b.add(host, low)


def alignment(
    code: BlockCode, start: ir.Value, shape: Affine, places: list[tuple[int, int]]
) -> ir.Value | None:
    """Whether start + place is a multiple of its width, for all (place, width). None: surely."""
    checks: dict[tuple[int, int], None] = {}
    for place, width in places:
        if width > 1:
            checks[place % width, width] = None
    result: ir.Value | None = None
    for rest, width in checks:
        moved = code.b.add(start, ir.Constant(I64, rest))
        low = code.b.and_(moved, ir.Constant(I64, width - 1))
        one = code.b.icmp_unsigned("==", low, ir.Constant(I64, 0))
        result = one if result is None else code.b.and_(result, one)
    return result
