"""What a kernel takes from an SM, read from its cubin: no GPU, no driver.

Source: the cubin is an ELF file. Section types and the attributes below are those that
`nvdisasm` prints by name (`nvdisasm -hex` shows `EIATTR_REGCOUNT` as bytes 04 2f, and so on); the
values are checked in the tests against what ptxas reports of the same compile.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.elf import Section, elf_sections, symbol_names

# Attributes of `.nv.info`: one record a function, {symbol index, value}.
_FRAME_SIZE = 0x11  # the kernel's own frame and those of all that it calls
REGCOUNT = 0x2F
# Attributes of `.nv.info.<kernel>`: three words, the block size in x, y and z.
_MAX_THREADS = 0x05
_REQUIRED_THREADS = 0x10
# How an attribute holds its value: in a byte or two of the record, or in as many as these say.
SIZED = 0x04

# From sm_90 on, ptxas lays a block's shared memory out behind one KiB that the system reserves,
# marks the cubin with this section, and counts the KiB in the size of `.nv.shared.<kernel>`.
_RESERVED_SECTION = ".nv.shared.reserved.0"
_RESERVED_BYTES = 1024

# The most threads of a block on every GPU.
# Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_MAX_BLOCK_THREADS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one kernel takes.

    `registers` are 32-bit registers a thread; `shared_bytes` the static shared memory of a block,
    without what the system reserves; `local_bytes` the local memory of a thread (spilled
    registers, arrays that are indexed at run time, and the stack of called functions; of a
    recursive function, one call). `max_threads` is the largest block that the kernel was
    compiled for, from `__launch_bounds__`, or 1024: its registers may allow fewer.
    """

    registers: int
    shared_bytes: int
    local_bytes: int
    max_threads: int


def resources(artifact: Artifact) -> Resources:
    """Return what the kernel of `artifact` takes.

    Raises:
        UnsupportedError: an artifact made from PTX, which ptxas has not seen.
        ToolchainError: a cubin that is damaged or lacks the kernel.
    """
    if not artifact.cubin:
        raise UnsupportedError(
            f"{artifact.source_name} was given as PTX, so its registers are not decided yet: "
            "give the CUDA C++ source"
        )
    try:
        return _read(artifact.cubin, artifact.symbol)
    except (struct.error, LookupError, ValueError) as error:
        raise ToolchainError(f"the cubin of {artifact.name} is damaged: {error}") from error


def _read(cubin: bytes, symbol: str) -> Resources:
    sections = elf_sections(cubin)
    if f".text.{symbol}" not in sections:
        raise ValueError(f"it has no code for {symbol}")
    index = symbol_names(sections).index(symbol)
    of_all: dict[int, int] = {}
    for attribute, value in _attributes(sections[".nv.info"].data):
        if len(value) == 8 and struct.unpack_from("<I", value)[0] == index:
            of_all[attribute] = struct.unpack_from("<I", value, 4)[0]
    kernel = sections.get(f".nv.info.{symbol}")
    own = dict(_attributes(kernel.data)) if kernel is not None else {}
    return Resources(
        registers=of_all[REGCOUNT],
        shared_bytes=_shared_bytes(sections, symbol),
        local_bytes=of_all.get(_FRAME_SIZE, 0),
        max_threads=_max_threads(own),
    )


def _shared_bytes(sections: Mapping[str, Section], symbol: str) -> int:
    section = sections.get(f".nv.shared.{symbol}")
    if section is None:
        return 0
    return section.size - (_RESERVED_BYTES if _RESERVED_SECTION in sections else 0)


def _max_threads(attributes: Mapping[int, bytes]) -> int:
    for attribute in (_REQUIRED_THREADS, _MAX_THREADS):
        if attribute in attributes:
            x, y, z = struct.unpack("<3I", attributes[attribute])
            return int(x * y * z)
    return _MAX_BLOCK_THREADS


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (attribute, value) of a `.nv.info` section."""
    position = 0
    while position < len(data):
        how, attribute, size = struct.unpack_from("<BBH", data, position)
        position += 4
        if how == SIZED:
            yield attribute, data[position : position + size]
            position += size
