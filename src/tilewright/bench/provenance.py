"""Where a record's figures come from: which counts are the profiler's, which follow from the PTX.

The emulator counts the accesses that the PTX makes. ptxas may join neighbouring scalar accesses
into a wide one, and then the hardware makes fewer requests. Where the widths that occur in the
machine code are those of the PTX, nothing was joined and the counts are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.counters import Provenance
from tilewright.emulator.ops.accesses import access_bytes, is_copy
from tilewright.toolchain import Artifact, disassemble
from tilewright.toolchain.ptx.ir import Instruction
from tilewright.toolchain.ptx.parser import parse

_SASS = {
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "LDS": ("shared", "load"),
    "STS": ("shared", "store"),
}
_PTX = {"ld": "load", "st": "store"}
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}

# Of the figures that both kinds of ladder give.
CHECKED_PROVENANCE: Mapping[str, Provenance] = {
    "max_error": "measured",
    "error_bound": "derived",
    "registers": "exact",
    "shared_bytes": "exact",
    "occupancy": "derived",
}

Widths = Mapping[tuple[str, str], frozenset[int]]


def ptx_widths(artifact: Artifact) -> Widths:
    """Bytes a lane of the kernel's accesses in PTX, by (space, load or store)."""
    found: dict[tuple[str, str], set[int]] = {}
    for ins in _body(artifact):
        if ins.opcode in _PTX and ins.space in ("global", "shared"):
            found.setdefault((ins.space, _PTX[ins.opcode]), set()).add(access_bytes(ins))
    return {key: frozenset(sizes) for key, sizes in found.items()}


def _body(artifact: Artifact) -> Sequence[Instruction]:
    return parse(artifact.ptx).functions[artifact.symbol].body


def sass_widths(artifact: Artifact) -> Widths:
    """Bytes a lane of the kernel's accesses in machine code, by (space, load or store)."""
    found: dict[tuple[str, str], set[int]] = {}
    for ins in disassemble(artifact).functions[artifact.symbol].instructions:
        if ins.opcode in _SASS and ins.predicate != "!PT":  # those fill slots, and never run
            size = next((_BYTES[m] for m in ins.modifiers if m in _BYTES), 4)
            found.setdefault(_SASS[ins.opcode], set()).add(size)
    return {key: frozenset(sizes) for key, sizes in found.items()}


def counter_provenance(artifact: Artifact) -> dict[str, Provenance]:
    """Return the provenance of each of `Counters`' figures, as `counters.<name>`.

    Multiply-adds are the same in PTX and machine code. Memory counts are exact where the widths
    agree. Instructions of PTX are not those of the machine. Not all of what cp.async costs is
    known (docs/counting.md): both of its sides are derived.

    Raises:
        UnsupportedError: an artifact made from PTX, which has no machine code.
        ToolchainError: no disassembler.
    """
    copies = any(map(is_copy, _body(artifact)))
    before, after = ptx_widths(artifact), sass_widths(artifact)
    result: dict[str, Provenance] = {
        "counters.ffma_thread_instructions": "exact",
        "counters.warp_instructions": "derived",
        "counters.thread_instructions": "derived",
    }
    for space, unit in (("global", "sectors"), ("shared", "wavefronts")):
        for way in ("load", "store"):
            key = (space, way)
            same = before.get(key, frozenset()) == after.get(key, frozenset())
            same = same and not (copies and key in (("global", "load"), ("shared", "store")))
            for what in ("requests", unit):
                result[f"counters.{space}_{way}_{what}"] = "exact" if same else "derived"
    return result
