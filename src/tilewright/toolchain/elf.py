"""The sections of a cubin, which is a 64-bit little-endian ELF file.

Source: System V ABI, "Object Files": header, section header table, string tables, symbols.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

_NO_BITS = 8  # a section, such as shared memory, that has a size but nothing in the file


@dataclass(frozen=True, slots=True)
class Section:
    """One section: its size and where it starts in the file, in bytes, and what is there."""

    size: int
    offset: int
    data: bytes


def elf_sections(cubin: bytes) -> dict[str, Section]:
    """Return the sections by name.

    Raises:
        ValueError, struct.error, LookupError: a damaged file.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is no 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = struct.unpack_from("<3H", cubin, 0x3A)
    headers = []
    for i in range(count):
        # name, type, flags, address, offset, size
        name, kind, _, _, offset, size = struct.unpack_from(
            "<IIQQQQ", cubin, table + i * entry_size
        )
        data = b"" if kind == _NO_BITS else cubin[offset : offset + size]
        headers.append((name, Section(size, offset, data)))
    names = headers[names_index][1].data
    return {_string(names, name): section for name, section in headers}


def symbol_names(sections: Mapping[str, Section]) -> list[str]:
    """Return the names of the symbol table's entries, in order."""
    names = sections[".strtab"].data
    return [
        _string(names, entry[0]) for entry in struct.iter_unpack("<I20x", sections[".symtab"].data)
    ]


def _string(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()
