"""A machine instruction as the simulated SM sees it: pipe, waits, registers and cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.model.profile import AccessCounts, Counted, Profile
from tilewright.toolchain.control import Control
from tilewright.toolchain.sass import SassInstruction

# The pipe of an opcode; what is not named here goes to the integer pipe.
_PIPES: Mapping[str, str] = {
    "fma": "FFMA FMUL FADD FFMA2 HFMA2 HMUL2 HADD2",
    "imad": "IMAD IMUL IDP",
    "xu": "MUFU F2I I2F F2F POPC FLO BREV FRND",
    "fp64": "DFMA DADD DMUL DSETP",
    "tensor": "HMMA IMMA DMMA QMMA BMMA OMMA",
    "uniform": "R2UR REDUX VOTEU CREDUX",
    "branch": "BRA BRX JMP CALL RET EXIT BSSY BSYNC BREAK WARPSYNC NOP YIELD KILL NANOSLEEP",
    "shared": "LDS STS LDSM STSM ATOMS",
    "global": "LDG STG LD ST LDL STL ATOM ATOMG RED LDGSTS",
    "shuffle": "SHFL MATCH",
    "constant": "LDC",
    "special": "S2R S2UR CS2R",
    "barrier": "BAR",
    "membar": "MEMBAR",
    "fence": "FENCE ERRBAR CCTL DEPBAR LDGDEPBAR ARRIVES",
}
_PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes.split()}
_TENSOR_MAPS = frozenset({"UTMALDG", "UTMASTG"})  # begin with U, but are not of the uniform pipe
# These have no destination register.
_STORES = frozenset({"STG", "STS", "STL", "ST", "RED", "STSM", "LDGSTS"})
_REGISTER = re.compile(r"\bR(\d+)(\.64|\.U64)?")
_PREDICATE = re.compile(r"!?U?P[T\d]")
_WORDS = {"64": 2, "128": 4}  # registers of a datum, by the modifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One instruction, ready to be issued.

    Units: `stall` cycles until the warp's next instruction; `write_barrier` and `read_barrier`
    scoreboards, -1 for none; `wait` a bit for each scoreboard; `reads` the registers that it reads
    from each of the two banks; `size` bytes a lane; `share` the part of its executions that access
    memory at all, `wavefronts` and `lines` of one access that does; `partial` the part of a store's
    sectors that it does not fill; `blocks` the part of the launch's blocks that execute it at all.
    """

    index: int
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
    partial: float = 0.0
    blocks: float = 1.0


def pipe_of(instruction: SassInstruction) -> str:
    """Return the pipe that an instruction goes to."""
    opcode = instruction.opcode
    found = _PIPE_OF.get(opcode)
    if found is not None:
        return found
    return "uniform" if opcode.startswith("U") and opcode not in _TENSOR_MAPS else "alu"


def operations(profile: Profile, control: Mapping[int, Control]) -> list[Operation]:
    """Return the operations of a profile's instructions, in their order."""
    found = []
    cache = OperandCache()
    for index, counted in enumerate(profile.counted):
        fields = control[counted.instruction.address]
        reads = cache.reads(source_registers(counted.instruction), fields.reuse)
        found.append(_operation(index, counted, fields, reads))
    return found


def _operation(index: int, counted: Counted, fields: Control, reads: tuple[int, int]) -> Operation:
    access, executed = counted.access, max(counted.executed, 1)
    requests = access.requests if access else 0
    return Operation(
        index=index,
        pipe=pipe_of(counted.instruction),
        stall=max(fields.stall, 1),
        write_barrier=-1 if fields.write_barrier is None else fields.write_barrier,
        read_barrier=-1 if fields.read_barrier is None else fields.read_barrier,
        wait=fields.wait,
        reads=reads,
        size=access.size if access else 4,
        load=counted.instruction.opcode.startswith(("LD", "ATOM")),
        share=min(requests / executed, 1.0) if access else 1.0,
        wavefronts=_passes(counted) / requests if requests else 1.0,
        lines=access.lines / requests if access and requests else 1.0,
        partial=_partial(access) if access else 0.0,
    )


def _partial(access: AccessCounts) -> float:
    """Return the part of a store's sectors that it does not fill.

    Of a run that begins amid a sector there is one more than it needs, and two are not full.
    """
    if (access.space, access.way) != ("global", "store") or not access.sectors:
        return 0.0
    return min(1.0, 2 * (access.sectors - access.ideal) / access.sectors)


def _passes(counted: Counted) -> int:
    """Return the passes of an access; of a copy, those of the side that takes longer."""
    return max((a.wavefronts for a in (counted.access, counted.beside) if a is not None), default=0)


def source_registers(instruction: SassInstruction) -> list[list[int]]:
    """Return the registers that each source operand reads, slot by slot."""
    operands = [operand for operand in instruction.operands if not _PREDICATE.fullmatch(operand)]
    store = instruction.opcode in _STORES
    if not store and not instruction.opcode.endswith("SETP"):  # which writes predicates alone
        operands = operands[1:]  # the destination
    words = next((_WORDS[m] for m in instruction.modifiers if m in _WORDS), 1)
    found = []
    for operand in operands:
        registers: list[int] = []
        datum = store and not operand.startswith(("[", "desc"))
        for match in _REGISTER.finditer(operand):
            first = int(match[1])
            registers.extend(range(first, first + (words if datum else 2 if match[2] else 1)))
        found.append(registers)
    return found


class OperandCache:
    """The registers that a warp's instructions keep for later ones: one for each slot and bank.

    Source: Huerta et al., arXiv 2503.20481, listing 4; of the two banks Jia et al., arXiv
    1804.06826. Measured, sm_90: what FFMAs take by the banks of their operands (ffma-*).
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], int] = {}

    def reads(self, sources: Sequence[Sequence[int]], reuse: int) -> tuple[int, int]:
        """Return how many registers an instruction reads from each bank, even and odd ones.

        `sources` are its registers by slot, `reuse` has a bit for each slot whose register it
        keeps. One that is kept stays until another of its bank is read in its slot.
        """
        banks = [0, 0]
        seen: set[int] = set()
        for slot, registers in enumerate(sources):
            for register in registers:
                place = slot, register % 2
                if self._kept.get(place) != register and register not in seen:
                    seen.add(register)
                    banks[register % 2] += 1
                if reuse >> slot & 1:
                    self._kept[place] = register
                else:
                    self._kept.pop(place, None)
        return banks[0], banks[1]
