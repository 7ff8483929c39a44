"""The registry of elementwise instructions: opcode (and operand family) to the code for a lane."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.emulator.ops.packed import Operation, on_halves, scalar_form
from tilewright.errors import UnsupportedError
from tilewright.toolchain.ptx.ir import Instruction

_TABLE: dict[tuple[str, str], Operation] = {}

_FAMILIES = {"f32": "float", "f64": "float", "f16": "half", "bf16": "half"}
# Their packed forms are not the scalar form on each half: they convert, or give predicates.
_WHOLE = frozenset({"cvt", "set", "setp"})


def family_of(ins: Instruction) -> str:
    """Return `float`, `half`, `integer`, or `mixed` where a float takes halves (add.f32.f16)."""
    family = _FAMILIES.get(ins.types[-1] if ins.types else "b32", "integer")
    if family == "half" and ins.opcode in ("add", "sub", "fma") and len(ins.types) > 1:
        return "mixed"
    return family


def elementwise(*opcodes: str, family: str = "any") -> Callable[[Operation], Operation]:
    """Register the code of `opcodes` for operands of `family`."""

    def register(operation: Operation) -> Operation:
        for opcode in opcodes:
            _TABLE[opcode, family] = operation
        return operation

    return register


def find(ins: Instruction) -> Operation | None:
    """Return the code for an elementwise instruction; None where it is not one."""
    packed = bool(ins.types) and ins.types[-1].endswith("x2") and ins.opcode not in _WHOLE
    one = scalar_form(ins) if packed else ins
    operation = _TABLE.get((one.opcode, family_of(one))) or _TABLE.get((one.opcode, "any"))
    return on_halves(operation) if packed and operation is not None else operation


def unsupported(ins: Instruction, what: str | None = None) -> UnsupportedError:
    """Return the error for an instruction that the emulator lacks, with its lines."""
    where = f"{ins.location.file}:{ins.location.line}, " if ins.location else ""
    spelled = next((w for w in ins.text.split() if w[0] != "@"), ins.opcode).rstrip(";")
    return UnsupportedError(
        f"the emulator does not execute {what or spelled}: {where}PTX line "
        f"{ins.ptx_line}: {ins.text}"
    )
