"""A kernel's machine code, each instruction with its bits, its control fields and its registers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from tilewright.errors import UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.control import INSTRUCTION_BYTES, Control, control_codes
from tilewright.toolchain.elf import elf_sections
from tilewright.toolchain.sass import (
    SassFunction,
    SassInstruction,
    disassemble,
    disassemble_part,
)
from tilewright.toolchain.schedule.operands import Operands, operands

_WAYS = frozenset({"BRA", "EXIT", "BSSY", "BSYNC"})  # they end a basic block, or name one
_ELSEWHERE = frozenset({"BRX", "JMP", "JMX", "CALL", "RET"})


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
    text = _text(artifact)
    lines = tuple(_line(ins, text, control) for ins in function.instructions)
    start, end = _main_loop(artifact.name, function.instructions)
    return Code(function, lines, start, end)


def with_loop_of(code: Code, artifact: Artifact) -> Code:
    """Return the code of an artifact that differs from that of `code` in the loop alone.

    Its loop is disassembled on its own. Of the instruction before it, only control fields may
    differ.
    """
    control = control_codes(artifact)
    text = _text(artifact)
    first, last = code.loop[0].ins.address, code.loop[-1].ins.address + INSTRUCTION_BYTES
    before = code.lines[code.start - 1]
    loop = tuple(
        _line(replace(ins, address=ins.address + first), text, control)
        for ins in disassemble_part(text[first:last], artifact.arch)
    )
    lines = (
        *code.lines[: code.start - 1],
        _line(before.ins, text, control),
        *loop,
        *code.lines[code.end :],
    )
    return Code(code.function, lines, code.start, code.end)


def _line(ins: SassInstruction, text: bytes, control: Mapping[int, Control]) -> Line:
    at = ins.address
    word = int.from_bytes(text[at : at + INSTRUCTION_BYTES], "little")
    return Line(ins, word, control[at], operands(ins))


def _text(artifact: Artifact) -> bytes:
    return elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].data


def _main_loop(name: str, code: tuple[SassInstruction, ...]) -> tuple[int, int]:
    """Return where the loop with the most FFMAs starts and ends: one block, entered from above."""
    index_at = {ins.address: index for index, ins in enumerate(code)}
    for ins in code:
        if ins.opcode in _ELSEWHERE:
            raise UnsupportedError(
                f"{ins.mnemonic} at {ins.address:#x}: where {name} goes from there is not known, "
                "so what its registers hold is not either"
            )
    target = [index_at.get(-1 if ins.target is None else ins.target, -1) for ins in code]
    ways = [index for index, ins in enumerate(code) if ins.opcode in _WAYS]
    most, start, end = 0, 0, 0
    for before, index in pairwise([-1, *ways]):
        first = target[index]
        if code[index].opcode == "BRA" and before < first < index:
            count = sum(ins.opcode == "FFMA" for ins in code[first:index])
            if count > most:
                most, start, end = count, first, index + 1
    if not most:
        raise UnsupportedError(f"{name} has no loop of one basic block with an FFMA in it")
    for index in ways:
        if index != end - 1 and start <= target[index] < end:
            raise UnsupportedError(
                f"the jump at {code[index].address:#x} goes into the main loop of {name}: it must "
                "be entered from the instruction before it"
            )
    return start, end
