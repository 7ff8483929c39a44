"""What each PTX instruction does, one family a file. `instruction_code` is the way in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tilewright.emulator.lanes import VARYING, Known
from tilewright.emulator.ops import (  # noqa: F401 - importing a family registers it
    bits,
    compares,
    convert,
    floats,
    halves,
    integers,
    memory,
    moves,
    sync,
)
from tilewright.emulator.codegen import Value
from tilewright.emulator.lanes import shape_of
from tilewright.emulator.signature import lane_type, signature
from tilewright.emulator.ops.table import find, unsupported
from tilewright.toolchain.ptx.ir import Instruction, Pair

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

Code: TypeAlias = "Callable[[Translator, BlockCode, int, Instruction], None]"

# Hints, and orderings that hold anyway because a warp's accesses happen one after another.
_NOTHING = frozenset(
    {"membar", "fence", "nanosleep", "prefetch", "prefetchu", "discard", "applypriority",
     "brkpt", "pmevent", "griddepcontrol", "setmaxnreg"}
)

_SPECIAL: dict[str, Code] = {
    "ld": memory.load,
    "ldu": memory.load,
    "st": memory.store,
    "atom": memory.atomic,
    "red": memory.atomic,
    "bar": sync.barrier,
    "barrier": sync.barrier,
    "shfl": sync.shuffle,
    "vote": sync.vote,
    "match": sync.match,
    "redux": sync.redux,
    "activemask": sync.activemask,
    "elect": sync.elect,
    "cvta": moves.cvta,
    "isspacep": moves.isspacep,
}


def instruction_code(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit one instruction that is not a branch."""
    if ins.opcode in _NOTHING:
        return
    special = _SPECIAL.get(ins.opcode)
    if special is not None:
        special(t, code, pc, ins)
    elif moves.is_packing(ins):
        moves.pack_or_unpack(code, ins)
    elif moves.uses_carry(ins):
        moves.with_carry(code, ins)
    elif ins.opcode == "setp" and _two_results(ins):
        _setp_pair(code, ins)
    else:
        _elementwise(code, ins)


def _two_results(ins: Instruction) -> bool:
    return isinstance(ins.operands[0], Pair)


def _elementwise(code: BlockCode, ins: Instruction) -> None:
    operation = find(ins)
    if operation is None or not ins.types:
        raise unsupported(ins, ins.text.split()[0] if not ins.known else None)
    results, kinds = signature(ins)
    args = [code.read(o, k) for o, k in zip(ins.operands[1:], kinds, strict=True)]
    code.write(ins.operands[0], apply(code, ins, operation, args, results[0]), ins, results[0])


def apply(
    code: BlockCode,
    ins: Instruction,
    operation: Callable[..., object],
    args: list[Value],
    kind: str,
) -> Value:
    """Run an elementwise operation on scalars where the shapes allow it, else on chunks."""
    e = code.e
    shape = shape_of(ins, [a.shape for a in args])
    lane = lane_type(kind)
    if isinstance(shape, Known):
        return Value(lane, shape)
    if shape is VARYING:
        chunks = e.map(lambda *c: operation(e, ins, *c), *(e.vector(a) for a in args))
        return e.varying(lane, chunks)
    return Value(lane, shape, operation(e, ins, *(e.scalar(a) for a in args)))  # type: ignore[arg-type]


def _setp_pair(code: BlockCode, ins: Instruction) -> None:
    pair = ins.operands[0]
    _, kinds = signature(ins)
    args = [code.read(o, k) for o, k in zip(ins.operands[1:], kinds, strict=True)]
    if not isinstance(pair, Pair):
        raise AssertionError("setp with one result")
    if ins.types[-1].endswith("x2"):
        both = [compares.packed_half(i) for i in (0, 1)]
    else:
        both = [compares.setp, compares.setp_second]
    values = [apply(code, ins, operation, args, "pred") for operation in both]
    if isinstance(values[0].shape, Known):  # the table is the first result's
        values = [_chunked(code, ins, operation, args) for operation in both]
    for operand, value in zip((pair.first, pair.second), values, strict=True):
        code.write(operand, value, ins, "pred")


def _chunked(
    code: BlockCode, ins: Instruction, operation: Callable[..., object], args: list[Value]
) -> Value:
    e = code.e
    return e.varying(
        lane_type("pred"),
        e.map(lambda *c: operation(e, ins, *c), *(e.vector(a) for a in args)),
    )
