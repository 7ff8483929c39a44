"""The 128 bits of an instruction, and how a cubin takes new ones.

Source: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018), for
the fields of control and of registers; that sm_90 has them in the same places is checked against
nvdisasm by the proof of every loop that is scheduled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.control import INSTRUCTION_BYTES
from tilewright.toolchain.elf import elf_sections, symbol_names
from tilewright.toolchain.resources import REGCOUNT, SIZED

# The first bit of each register's field: the result, then the operands a, b and c.
RESULT, SLOT_A, SLOT_B, SLOT_C = 16, 24, 32, 64
REGISTER_BITS = 8
NO_REGISTER = 255
# Bits 9 to 11 say what the operand at bit 32 is: a register in form 1 alone.
FORM, FORM_BITS, REGISTER_FORM = 9, 3, 1
# Fields of control: first bit and width.
STALL, YIELD, WRITE_BOARD, READ_BOARD, WAIT, REUSE = (
    (105, 4), (109, 1), (110, 3), (113, 3), (116, 6), (122, 4)
)  # fmt: skip
NO_BOARD = 7
NOP = 0x000FC00000000000_0000000000007918  # as ptxas pads kernels with
LONGEST_STALL = 15
_LONGEST_WITHOUT_YIELD = 11  # beyond, ptxas lets the warp yield


def bits(word: int, first: int, count: int) -> int:
    """Return a field of an instruction."""
    return word >> first & (1 << count) - 1


def with_bits(word: int, first: int, count: int, value: int) -> int:
    """Return the instruction with a field replaced."""
    return word & ~(((1 << count) - 1) << first) | value << first


def with_register(word: int, field: int, register: int) -> int:
    """Return the instruction with the register of one field replaced."""
    return with_bits(word, field, REGISTER_BITS, register)


def with_control(word: int, control: int) -> int:
    """Return the instruction with all of its control fields replaced."""
    return with_bits(word, STALL[0], REUSE[0] + REUSE[1] - STALL[0], control)


@dataclass(slots=True, kw_only=True)
class Encoded:
    """An instruction and the control fields that it will have; see `control.Control`."""

    word: int
    stall: int = 1
    wait: int = 0
    write_board: int = NO_BOARD
    read_board: int = NO_BOARD
    reuse: int = 0

    def to_bytes(self) -> bytes:
        """Return the 16 bytes of it."""
        word = with_bits(self.word, *STALL, self.stall)
        if self.stall > _LONGEST_WITHOUT_YIELD:
            word = with_bits(word, *YIELD, 0)
        word = with_bits(word, *WRITE_BOARD, self.write_board)
        word = with_bits(word, *READ_BOARD, self.read_board)
        word = with_bits(word, *WAIT, self.wait)
        return with_bits(word, *REUSE, self.reuse).to_bytes(INSTRUCTION_BYTES, "little")


def with_code(
    artifact: Artifact, address: int, code: Sequence[Encoded], registers: int
) -> Artifact:
    """Return the artifact with these instructions from `address` on, and this register count."""
    cubin = bytearray(artifact.cubin)
    at = elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].offset + address
    text = b"".join(each.to_bytes() for each in code)
    cubin[at : at + len(text)] = text
    for place in register_counts(artifact):
        struct.pack_into("<I", cubin, place, registers)
    return replace(artifact, cubin=bytes(cubin))


def register_counts(artifact: Artifact) -> Iterator[int]:
    """Yield where in the cubin the kernel's register count stands.

    Source: `nvdisasm -hex` of `.nv.info`: EIATTR_REGCOUNT, the symbol's index, the count. CUDA 13
    leaves the byte of the section header that older cubins have it in at 0.
    """
    sections = elf_sections(artifact.cubin)
    info = sections[".nv.info"]
    index = symbol_names(sections).index(artifact.symbol)
    at = 0
    while at < len(info.data):
        how, attribute, size = struct.unpack_from("<BBH", info.data, at)
        at += 4
        if how == SIZED:
            if attribute == REGCOUNT and struct.unpack_from("<I", info.data, at)[0] == index:
                yield info.offset + at + 4
            at += size
