"""The registry of elementwise instructions: opcode (and operand family) to the code for a lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from tilewright.errors import UnsupportedError
from tilewright.toolchain.ptx.ir import Instruction

Operation: TypeAlias = Callable[..., ir.Value]
_TABLE: dict[tuple[str, str], Operation] = {}

_HALF = {"f16", "f16x2", "bf16", "bf16x2"}


def family_of(ins: Instruction) -> str:
    """`float`, `half` or `integer`, by the instruction's last type."""
    last = ins.types[-1] if ins.types else "b32"
    if last in ("f32", "f64"):
        return "float"
    return "half" if last in _HALF else "integer"


def elementwise(*opcodes: str, family: str = "any") -> Callable[[Operation], Operation]:
    """Register the code of `opcodes` for operands of `family`."""

    def register(operation: Operation) -> Operation:
        for opcode in opcodes:
            _TABLE[opcode, family] = operation
        return operation

    return register


def find(ins: Instruction) -> Operation | None:
    """The code for an elementwise instruction; None where it is not one."""
    return _TABLE.get((ins.opcode, family_of(ins))) or _TABLE.get((ins.opcode, "any"))


def unsupported(ins: Instruction, what: str | None = None) -> UnsupportedError:
    """The error for an instruction that the emulator lacks, with its lines."""
    where = f"{ins.location.file}:{ins.location.line}, " if ins.location else ""
    return UnsupportedError(
        f"the emulator does not execute {what or ins.opcode!r}: {where}PTX line "
        f"{ins.ptx_line}: {ins.text}"
    )
