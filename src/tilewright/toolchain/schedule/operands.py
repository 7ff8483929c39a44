"""Which registers a machine instruction reads and writes, from nvdisasm's text of it.

Registers are named as there: `R4` (general), `UR4` (uniform), `P0` and `UP0` (predicates); wide
operands are spelled out, `LDS.128 R4` writes R4 to R7. RZ, URZ, PT and UPT are no registers.

Source: CUDA Binary Utilities, "Instruction Set Reference"; the widths and destinations below are
those of the listings of sm_90 that the tests read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.toolchain.sass import SassInstruction


def opcodes(names: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(names.split())


# Results come a fixed time after the issue: the stall counts of the code alone keep them apart.
FIXED = opcodes(
    "FFMA FMUL FADD FSEL FSETP FMNMX HFMA2 IADD3 VIADD LEA IMAD LOP3 SHF MOV SEL ISETP PLOP3 PRMT "
    "VIMNMX VIADDMNMX IMNMX IABS CS2R P2R R2P "
    "UIADD3 UISETP USEL UMOV ULEA ULOP3 USHF UIMAD UPRMT UPLOP3 ULDC"
)
# Results, or the reading of operands, come when they come: scoreboards keep them apart.
VARIABLE = opcodes(
    "LDS LDG LDL LDC LD LDSM S2R S2UR R2UR SHFL MUFU I2F F2I F2F POPC FLO BREV ATOMG ATOMS VOTE "
    "LDGSTS STG STS STL ST RED"
)
CONTROL = opcodes("BRA EXIT BAR DEPBAR LDGDEPBAR BSSY BSYNC NOP MEMBAR ERRBAR CCTL WARPSYNC YIELD")
STORES = opcodes("LDGSTS STG STS STL ST RED")
# The templates of what copies one general register to another.
MOVES = frozenset({" MOV R# R#", " IMAD.MOV.U32 R# RZ RZ R#"})
_MATRIX = "GMMA"  # reads and writes more registers than its text names

_WORDS = {"64": 2, "128": 4}
_LARGEST = 4  # registers of an operand of any other instruction
_REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)(\.64|\.U64)?(?:\.reuse)?")
_PREDICATE = re.compile(r"!?U?P[T\d]")
_DESCRIPTOR = re.compile(r"desc\[UR(\d+)\]")
# Both pairs of their operands may be written: the result, and what it carries out or compares to.
_PREDICATE_RESULTS = opcodes("ISETP FSETP UISETP PLOP3 UPLOP3 R2P")


@dataclass(frozen=True, slots=True)
class Operands:
    """What an instruction reads and writes, in the order of its text.

    `template` is its text with a mark for each register: two instructions of one template compute
    the same of equal registers. `predicate` is what it runs under ("P0", "UP1"), None for always.
    `named` are the general registers that the text names, `wide` those that stand for several.
    """

    template: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    predicate: str | None
    named: tuple[str, ...]
    wide: tuple[str, ...]

    @property
    def all_reads(self) -> tuple[str, ...]:
        """The registers that it reads, its predicate among them."""
        return (*self.reads, self.predicate) if self.predicate else self.reads


def never_runs(instruction: SassInstruction) -> bool:
    """Whether an instruction stands there for its time alone: `@!PT LDS RZ, [RZ]`."""
    return instruction.predicate in ("!PT", "!UPT")


def operands(instruction: SassInstruction) -> Operands:
    """Return what an instruction reads and writes.

    Of an opcode that is not known, it may read more than it does and writes nothing: enough to
    say what is live.

    Raises:
        UnsupportedError: an instruction for matrices, whose registers are not all in its text.
    """
    if instruction.opcode.endswith(_MATRIX):
        raise UnsupportedError(
            f"{instruction.mnemonic} at {instruction.address:#x} uses registers that its text "
            "does not name: only loops of FFMA are scheduled"
        )
    known = instruction.opcode in FIXED | VARIABLE | CONTROL
    results = _results(instruction) if known else 0
    reads: list[str] = []
    writes: list[str] = []
    named: list[str] = []
    wide: list[str] = []
    text = [instruction.predicate or "", instruction.mnemonic]
    for number, operand in enumerate(instruction.operands):
        found = writes if number < results else reads
        width = _width(instruction, number, results) if known else _LARGEST
        marked, registers, extra = _parsed(operand)
        for kind, first, pair in registers:
            words = 1 if kind[-1] == "P" else 2 if pair else width
            found.extend(f"{kind}{n}" for n in range(first, first + words))
            if kind == "R":
                named.append(f"R{first}")
                if words > 1:
                    wide.append(f"R{first}")
        found.extend(extra)
        text.append(marked)
    guard = (instruction.predicate or "").removeprefix("!")
    text[0] = _REGISTER.sub(r"\1#", text[0])
    return Operands(
        template=" ".join(text),
        reads=tuple(reads),
        writes=tuple(writes),
        predicate=guard if guard not in ("", "PT", "UPT") else None,
        named=tuple(named),
        wide=tuple(wide),
    )


@functools.lru_cache(maxsize=4096)
def _parsed(operand: str) -> tuple[str, tuple[tuple[str, int, bool], ...], tuple[str, ...]]:
    """Return an operand's text with marks, its registers (kind, number, pair), and those unnamed.

    A descriptor is a pair of uniform registers, of which the text names the first.
    """
    registers = tuple((k, int(n), bool(pair)) for k, n, pair in _REGISTER.findall(operand))
    extra = tuple(f"UR{int(first) + 1}" for first in _DESCRIPTOR.findall(operand))
    return _REGISTER.sub(r"\1#\3", operand), registers, extra


def _results(instruction: SassInstruction) -> int:
    """Return how many of the operands, from the first, are written."""
    found: Sequence[str] = instruction.operands
    if instruction.opcode in CONTROL | STORES or not found:
        return 0
    if instruction.opcode in _PREDICATE_RESULTS:
        return 2
    # A predicate before the destination or right after it is written: a carry, a vote's answer.
    count = 0
    while count < len(found) and _PREDICATE.fullmatch(found[count]):
        count += 1
    count += 1
    while count < len(found) and re.fullmatch(r"U?P[T\d]", found[count]):
        if count + 1 == len(found):
            break  # the last operand of SEL and its like chooses
        count += 1
    return count


def _width(instruction: SassInstruction, number: int, results: int) -> int:
    """Return the registers of one operand, unless its text says so (`.64`)."""
    modifiers, operand = instruction.modifiers, instruction.operands[number]
    if "[" in operand:
        return 1
    words = next((_WORDS[m] for m in modifiers if m in _WORDS), 1)
    if number < results:
        if instruction.opcode == "CS2R":
            return 1 if "32" in modifiers else 2
        return 2 if "WIDE" in modifiers or "F64" in modifiers else words
    if instruction.opcode in STORES or instruction.opcode.startswith("ATOM"):
        return words
    if "F64" in modifiers:
        return 2
    if "WIDE" not in modifiers:
        return 1
    # The addend of a wide product, which comes last, but for a carry.
    operands = instruction.operands
    return (
        2 if number == max(n for n, o in enumerate(operands) if not _PREDICATE.fullmatch(o)) else 1
    )
