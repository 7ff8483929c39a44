"""What each PTX instruction does, one family a file. `instruction_code` is the way in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tilewright.emulator.codegen import Value
from tilewright.emulator.lanes import VARYING, Known, shape_of
from tilewright.emulator.ops import (  # noqa: F401 - importing a family registers it
    bits,
    compares,
    convert,
    copies,
    exchange,
    floats,
    halves,
    integers,
    memory,
    moves,
    sync,
)
from tilewright.emulator.ops.packed import Operation
from tilewright.emulator.ops.table import find, unsupported
from tilewright.emulator.signature import lane_type, signature
from tilewright.toolchain.ptx.ir import Instruction, Pair

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

Code: TypeAlias = "Callable[[Translator, BlockCode, int, Instruction], None]"

# Hints, and what concerns only the order of clusters and proxies, which are not emulated.
_NOTHING = frozenset(
    {
        "nanosleep",
        "prefetch",
        "prefetchu",
        "discard",
        "applypriority",
        "brkpt",
        "pmevent",
        "griddepcontrol",
        "setmaxnreg",
    }
)

_SPECIAL: dict[str, Code] = {
    "ld": memory.load,
    "ldu": memory.load,
    "st": memory.store,
    "atom": memory.atomic,
    "red": memory.atomic,
    "bar": sync.barrier,
    "barrier": sync.barrier,
    "membar": sync.fence,
    "fence": sync.fence,
    "shfl": exchange.shuffle,
    "vote": exchange.vote,
    "match": exchange.match,
    "redux": exchange.redux,
    "activemask": exchange.activemask,
    "elect": exchange.elect,
    "cp": copies.copy,
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
    else:
        _elementwise(code, ins)


def _elementwise(code: BlockCode, ins: Instruction) -> None:
    if not ins.operands or not ins.types:
        raise unsupported(ins)
    operations, results = [find(ins)], [ins.operands[0]]
    if isinstance(ins.operands[0], Pair):
        operations, results = _two_results(ins), [ins.operands[0].first, ins.operands[0].second]
    if None in operations:
        raise unsupported(ins)
    result_kinds, kinds = signature(ins)
    args = [code.read(o, k) for o, k in zip(ins.operands[1:], kinds, strict=True)]
    for operation, result, kind in zip(operations, results, result_kinds, strict=True):
        if operation is not None:
            code.write(result, apply(code, ins, operation, args, kind), ins, kind)


def _two_results(ins: Instruction) -> list[Operation | None]:
    """Return the code of each result of `d|p`."""
    if ins.opcode == "lop3":
        return [bits.lop3, bits.lop3_truth]
    if ins.opcode != "setp":
        return [None]
    if ins.types[-1].endswith("x2"):
        return [compares.setp_half(0), compares.setp_half(1)]
    return [compares.setp, compares.setp_second]


def apply(
    code: BlockCode, ins: Instruction, operation: Operation, args: list[Value], kind: str
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
    return Value(lane, shape, operation(e, ins, *(e.scalar(a) for a in args)))
