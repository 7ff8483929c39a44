"""A kernel's machine code, each instruction with its bits, its control fields and its registers."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.control import INSTRUCTION_BYTES, Control, control_codes
from tilewright.toolchain.elf import elf_sections
from tilewright.toolchain.sass import SassFunction, SassInstruction, disassemble
from tilewright.toolchain.schedule.operands import Operands, operands


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction, from all of its sides."""

    ins: SassInstruction
    word: int
    control: Control
    ops: Operands

    def __str__(self) -> str:
        guard = f"@{self.ins.predicate} " if self.ins.predicate else ""
        return f"{guard}{self.ins.mnemonic} {', '.join(self.ins.operands)} at {self.ins.address:#x}"


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's instructions in order, and the span `start` to `end` of its main loop."""

    function: SassFunction
    lines: tuple[Line, ...]
    start: int
    end: int

    @property
    def loop(self) -> tuple[Line, ...]:
        """The main loop, its branch back as the last."""
        return self.lines[self.start : self.end]


def read_code(artifact: Artifact) -> Code:
    """Return the machine code of an artifact with its main loop, the one with the most FFMAs.

    Raises:
        UnsupportedError: no loop of FFMAs, or one that is entered, or left, in its middle.
    """
    function = disassemble(artifact).functions[artifact.symbol]
    control = control_codes(artifact)
    text = elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].data
    lines = tuple(
        Line(
            ins=ins,
            word=int.from_bytes(text[ins.address : ins.address + INSTRUCTION_BYTES], "little"),
            control=control[ins.address],
            ops=operands(ins),
        )
        for ins in function.instructions
    )
    start, end = _main_loop(artifact.name, function.instructions)
    return Code(function, lines, start, end)


def _main_loop(name: str, code: tuple[SassInstruction, ...]) -> tuple[int, int]:
    """Return where the loop with the most FFMAs starts and ends: one block, entered from above."""
    index_at = {ins.address: index for index, ins in enumerate(code)}
    sums = [0]
    for ins in code:
        sums.append(sums[-1] + (ins.opcode == "FFMA"))
    loops = [
        (sums[index + 1] - sums[index_at[ins.target]], index_at[ins.target], index + 1)
        for index, ins in enumerate(code)
        if ins.opcode == "BRA" and ins.target is not None and index_at.get(ins.target, index) < index
    ]
    most, start, end = max(loops, default=(0, 0, 0), key=lambda loop: (loop[0], loop[1]))
    if not most:
        raise UnsupportedError(f"{name} has no loop with an FFMA in it: there is none to schedule")
    for index, ins in enumerate(code):
        inside = start <= index < end - 1
        if inside and ins.opcode in ("BRA", "EXIT", "BRX", "JMP", "JMX", "CALL", "RET", "BSSY", "BSYNC"):
            raise UnsupportedError(
                f"{ins.mnemonic} at {ins.address:#x} is inside the main loop of {name}: the loop "
                "must be one basic block"
            )
        if ins.opcode in ("BRX", "JMX", "CALL", "RET"):
            raise UnsupportedError(
                f"{ins.mnemonic} at {ins.address:#x}: where {name} goes from there is not known, so "
                "what its registers hold is not either"
            )
        target = index_at.get(-1 if ins.target is None else ins.target, -1)
        if index != end - 1 and ins.opcode == "BRA" and start <= target < end:
            raise UnsupportedError(
                f"the jump at {ins.address:#x} goes into the main loop of {name}: it must be "
                "entered from the instruction before it"
            )
    return start, end
