"""The control fields of machine instructions: what ptxas tells the scheduler of each.

nvdisasm prints the reuse flags alone; the rest is read from the 128 bits of an instruction.

Source: Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018), for
the fields; their places were checked against nvdisasm's `.reuse` on sm_75 to sm_120.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.elf import elf_sections

INSTRUCTION_BYTES = 16
_NO_BARRIER = 7


@dataclass(frozen=True, slots=True)
class Control:
    """How one instruction is scheduled.

    Units: `stall` cycles until the warp's next instruction may issue. `write_barrier` and
    `read_barrier` are the scoreboards (0 to 5) that it holds until its result is written or its
    operands are read, None for none; `wait` has a bit for each scoreboard that it waits for;
    `reuse` has a bit for each source operand that is kept for the next instruction.
    """

    stall: int
    write_barrier: int | None
    read_barrier: int | None
    wait: int
    reuse: int


def control_codes(artifact: Artifact) -> dict[int, Control]:
    """Return the control fields of a kernel's instructions by their address.

    Raises:
        UnsupportedError: an artifact made from PTX, which has no machine code.
        ToolchainError: a cubin that is damaged or lacks the kernel.
    """
    if not artifact.cubin:
        raise UnsupportedError(
            f"{artifact.source_name} was given as PTX, so there is no machine code of it: give the "
            "CUDA C++ source"
        )
    try:
        code = elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].data
    except (struct.error, LookupError, ValueError) as error:
        raise ToolchainError(f"the cubin of {artifact.name} is damaged: {error}") from error
    return {
        address: _decode(int.from_bytes(code[address + 8 : address + 16], "little"))
        for address in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES)
    }


def _decode(high: int) -> Control:
    """Decode the upper 64 of an instruction's 128 bits; the fields are bits 105 to 125 of all."""
    return Control(
        stall=high >> 41 & 15,
        write_barrier=_barrier(high >> 46 & 7),
        read_barrier=_barrier(high >> 49 & 7),
        wait=high >> 52 & 63,
        reuse=high >> 58 & 15,
    )


def _barrier(field: int) -> int | None:
    return None if field == _NO_BARRIER else field
