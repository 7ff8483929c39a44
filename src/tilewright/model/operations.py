"""A machine instruction as the simulated SM sees it: its pipe, its waits, its registers, its cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.model.profile import Counted, Profile
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass import SassInstruction

# The pipe of an opcode; what is not named here goes to the integer pipe.
_PIPES: Mapping[str, frozenset[str]] = {
    "fma": frozenset(["FFMA", "FMUL", "FADD", "FFMA2", "HFMA2", "HMUL2", "HADD2", "HFMA2.MMA"]),
    "imad": frozenset(["IMAD", "IMUL", "IDP"]),
    "xu": frozenset(["MUFU", "F2I", "I2F", "F2F", "POPC", "FLO", "BREV", "FRND"]),
    "fp64": frozenset(["DFMA", "DADD", "DMUL", "DSETP"]),
    "tensor": frozenset(["HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "OMMA"]),
    "uniform": frozenset(["R2UR", "REDUX", "VOTEU", "CREDUX"]),
    "branch": frozenset(
        [
            "BRA",
            "BRX",
            "JMP",
            "CALL",
            "RET",
            "EXIT",
            "BSSY",
            "BSYNC",
            "BREAK",
            "WARPSYNC",
            "NOP",
            "YIELD",
            "KILL",
            "NANOSLEEP",
        ]
    ),
    "shared": frozenset(["LDS", "STS", "LDSM", "STSM", "ATOMS"]),
    "global": frozenset(["LDG", "STG", "LD", "ST", "LDL", "STL", "ATOM", "ATOMG", "RED", "LDGSTS"]),
    "shuffle": frozenset(["SHFL", "MATCH"]),
    "constant": frozenset(["LDC"]),
    "special": frozenset(["S2R", "S2UR", "CS2R"]),
    "barrier": frozenset(["BAR"]),
    "fence": frozenset(["MEMBAR", "FENCE", "ERRBAR", "CCTL", "DEPBAR", "LDGDEPBAR", "ARRIVES"]),
}
_PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes}
_REGISTER = re.compile(r"\bR(\d+)(\.64|\.U64|\.reuse)?")
_WIDTH = {"64": 2, "128": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One instruction, ready to be issued.

    `stall`, `write_barrier`, `read_barrier` and `wait` are its control fields; `reads` the
    registers that it reads from each of the two banks; `share` the part of its executions that
    access memory at all.
    """

    index: int
    opcode: str
    pipe: str
    stall: int
    write_barrier: int
    read_barrier: int
    wait: int
    reads: tuple[int, int]
    size: int
    load: bool
    share: float
    wavefronts: float
    lines: float
    sectors: float


def pipe_of(instruction: SassInstruction) -> str:
    """Return the pipe that an instruction goes to."""
    opcode = instruction.opcode
    found = _PIPE_OF.get(opcode)
    if found is not None:
        return found
    if opcode.startswith("U") and opcode not in ("UTMALDG", "UTMASTG"):
        return "uniform"
    return "alu"


def operations(profile: Profile, control: Mapping[int, Control]) -> list[Operation]:
    """Return the operations of a profile's instructions, in their order."""
    found = []
    before: tuple[int, list[list[int]]] = (0, [])
    for index, counted in enumerate(profile.counted):
        fields = control[counted.instruction.address]
        sources = source_registers(counted.instruction)
        kept = before[1] if before[0] else []
        reads = _reads(sources, kept, before[0])
        before = (fields.reuse, sources)
        found.append(_operation(index, counted, fields, reads))
    return found


def _operation(index: int, counted: Counted, fields: Control, reads: tuple[int, int]) -> Operation:
    access, executed = counted.access, max(counted.executed, 1)
    requests = access.requests if access else 0
    opcode = counted.instruction.opcode
    return Operation(
        index=index,
        opcode=opcode,
        pipe=pipe_of(counted.instruction),
        stall=max(fields.stall, 1),
        write_barrier=-1 if fields.write_barrier is None else fields.write_barrier,
        read_barrier=-1 if fields.read_barrier is None else fields.read_barrier,
        wait=fields.wait,
        reads=reads,
        size=access.size if access else 4,
        load=opcode.startswith(("LD", "ATOM")),
        share=min(requests / executed, 1.0) if access else 1.0,
        wavefronts=access.wavefronts / requests if access and requests else 1.0,
        lines=access.lines / requests if access and requests else 1.0,
        sectors=access.sectors / requests if access and requests else 0.0,
    )


def source_registers(instruction: SassInstruction) -> list[list[int]]:
    """Return the registers that each source operand reads, slot by slot."""
    operands = list(instruction.operands)
    store = instruction.opcode in ("STG", "STS", "STL", "ST", "RED", "STSM")
    if not store:
        while operands and re.fullmatch(r"!?U?P\d|!?U?PT", operands[0]):
            operands = operands[1:]
        operands = operands[1:]  # the destination
    words = next((_WIDTH[m] for m in instruction.modifiers if m in _WIDTH), 1)
    found = []
    for operand in operands:
        registers = []
        for match in _REGISTER.finditer(operand):
            first = int(match[1])
            wide = 2 if match[2] in (".64", ".U64") else 1
            if store and not operand.startswith(("[", "desc")):
                wide = words
            registers.extend(range(first, first + wide))
        found.append(registers)
    return found


def _reads(
    sources: Sequence[Sequence[int]], kept: Sequence[Sequence[int]], flags: int
) -> tuple[int, int]:
    """Registers to read from each bank: those that the instruction before did not keep."""
    banks = [0, 0]
    seen: set[int] = set()
    for slot, registers in enumerate(sources):
        if flags >> slot & 1 and slot < len(kept) and list(kept[slot]) == list(registers):
            continue
        for register in registers:
            if register not in seen:
                seen.add(register)
                banks[register % 2] += 1
    return banks[0], banks[1]
