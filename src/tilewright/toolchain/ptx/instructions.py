"""What each PTX instruction may carry, and which operands it writes, by the table in `isa`.

`decode` splits a spelled opcode; `defs_uses` names the registers an instruction writes and reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tilewright.errors import PtxError
from tilewright.toolchain.ptx.ir import Instruction, Mem, Not, Operand, Pair, Reg, Vec
from tilewright.toolchain.ptx.isa import MACROS, TABLE

# Every type suffix, those of the tensor formats too.
_TYPE = re.compile(
    r"pred|[busf](?:1|2|4|8|16|32|64|128)(?:x\d+)?(?:_p\d+)?|b6x16_p32"
    r"|bf16(?:x2)?|tf32(?:x2)?|u?e\dm\d(?:x\d)?|s2f6x2"
)
# The sub-qualifiers that name the default space again: ld.shared::cta is ld.shared.
_SPACES: Mapping[str, str] = {
    **{name: name for name in ("global", "shared", "const", "local", "param", "shared::cluster")},
    **{"shared::cta": "shared", "param::entry": "param", "param::func": "param"},
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


class Spelled(NamedTuple):
    """An opcode split into its suffixes. `info` is its row, None where the table has none."""

    opcode: str
    types: tuple[str, ...]
    space: str | None
    vector: int
    flags: tuple[str, ...]
    info: InstructionInfo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionInfo:
    """One row: an opcode as one section of the ISA describes it.

    `operands` is the least and the most it takes, and `results` the indices of those it writes.
    `types` are the choices for each of its type suffixes; of `needs` it carries at least one, and
    it may carry `flags`. `vector` is the most elements it moves. An `open` row takes any suffix
    and operand: the static tools read such an instruction, the emulator does not execute it.
    """

    name: str
    section: str
    category: str
    operands: tuple[int, int]
    results: tuple[int, ...]
    types: tuple[frozenset[str], ...]
    needs: frozenset[str]
    flags: frozenset[str]
    spaces: frozenset[str]
    vector: int
    open: bool

    def takes_types(self, types: tuple[str, ...]) -> bool:
        """Say whether the type suffixes are as many and as this row has them."""
        return len(types) == len(self.types) and all(
            kind in choices for kind, choices in zip(types, self.types, strict=True)
        )

    def lacks_need(self, spelled: Spelled) -> bool:
        """Say whether a suffix that must be there is not."""
        return bool(self.needs) and self.needs.isdisjoint(spelled.flags)

    def objection(self, spelled: Spelled) -> str:
        """Say why this row does not describe `spelled`; an empty string where it does."""
        if self.lacks_need(spelled):
            return f"needs one of {_names(self.needs)}"
        if self.open:
            return ""
        if len(spelled.types) != len(self.types):
            return f"has {len(self.types)} type suffixes, not {len(spelled.types)}"
        for kind, allowed in zip(spelled.types, self.types, strict=True):
            if kind not in allowed:
                return f"does not take the type .{kind}; it takes {_names(allowed)}"
        for flag in spelled.flags:
            # Cache hints (L1::evict_first, L2::128B) go with any memory instruction.
            if flag not in self.flags and not (self.spaces and "::" in flag):
                return f"does not take .{flag}; it takes {_names(self.flags)}"
        if spelled.space is not None and spelled.space not in self.spaces:
            return f"does not take the space .{spelled.space}; it takes {_names(self.spaces)}"
        if spelled.vector > self.vector:
            return f"does not take .v{spelled.vector}"
        return ""


@lru_cache(maxsize=4096)
def decode(text: str) -> Spelled:
    """Split an opcode as it is spelled, such as `ld.global.v4.f32`, and find its row.

    Raises: PtxError where the table has the opcode and no row of it takes these suffixes.
    """
    spelled = _split(text)
    row = _find(spelled)
    if row is None and spelled.opcode in INSTRUCTIONS:
        raise PtxError(f"{spelled.opcode} {_objection(spelled)}")
    return spelled._replace(info=row)


def check_operands(spelled: Spelled, operands: tuple[Operand, ...]) -> None:
    """Refuse a wrong number of operands.

    Raises: PtxError.
    """
    info = spelled.info
    if info is None or info.open:
        return
    least, most = info.operands
    if not least <= len(operands) <= most:
        wanted = least if least == most else f"{least} to {most}"
        raise PtxError(f"{info.name} takes {wanted} operands, and here are {len(operands)}")


def row_of(instruction: Instruction) -> InstructionInfo | None:
    """Find the row of an instruction; None for an opcode that the table lacks."""
    return _find(
        Spelled(
            instruction.opcode,
            instruction.types,
            instruction.space,
            instruction.vector,
            instruction.flags,
        )
    )


def defs_uses(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the registers that an instruction writes, and those that it reads, in operand order.

    A guard and the base of an address are read; `_` is neither. An instruction outside the table
    writes its first operand, unless that is an address. The carry flag of `add.cc` and its kin is
    no register. No name appears twice in a list.
    """
    info = row_of(instruction)
    results = (0,) if info is None else info.results
    defs: dict[str, None] = {}
    uses: dict[str, None] = {}
    for index, operand in enumerate(instruction.operands):
        # mbarrier.arrive may write a result before its address, mbarrier.init never does.
        into = defs if index in results and not isinstance(operand, Mem) else uses
        into.update(dict.fromkeys(_registers(operand)))
    if instruction.opcode == "wgmma":
        uses.update(defs)  # It accumulates in place.
    if instruction.guard is not None:
        uses[instruction.guard.reg.name] = None
    return tuple(defs), tuple(uses)


def _registers(operand: Operand) -> Iterator[str]:
    match operand:
        case Reg(name) if name != "_":
            yield name
        case Mem(inner) | Not(inner):
            yield from _registers(inner)
        case Vec(items):
            for item in items:
                yield from _registers(item)
        case Pair(first, second):
            yield from _registers(first)
            yield from _registers(second)


def _split(text: str) -> Spelled:
    opcode, *suffixes = "".join(text.split()).split(".")
    types: list[str] = []
    flags: list[str] = []
    space, vector = None, 1
    for suffix in suffixes:
        if suffix in _VECTORS:
            vector = _VECTORS[suffix]
        elif suffix in _SPACES and space is None:
            space = _SPACES[suffix]
        elif _TYPE.fullmatch(suffix):
            types.append(suffix)
        else:
            flags.append(suffix)
    return Spelled(opcode, tuple(types), space, vector, tuple(flags))


@lru_cache(maxsize=4096)
def _find(spelled: Spelled) -> InstructionInfo | None:
    rows = INSTRUCTIONS.get(spelled.opcode, ())
    return next((row for row in rows if not row.objection(spelled)), None)


def _objection(spelled: Spelled) -> str:
    """Say what is wrong by the rows that take the types, the first row failing those."""
    rows = INSTRUCTIONS[spelled.opcode]
    near = [row for row in rows if row.takes_types(spelled.types)] or list(rows[:1])
    for row in near:
        if not row.lacks_need(spelled):
            return row.objection(spelled)
    return f"needs one of {_names(frozenset().union(*(row.needs for row in near)))}"


def _names(names: frozenset[str]) -> str:
    return ", ".join(f".{name}" for name in sorted(names)) or "none"


def _expand(text: str) -> list[str]:
    words = []
    for word in text.split():
        words += _expand(MACROS[word]) if word in MACROS else [word]
    return words


def _read_row(line: str) -> Iterator[InstructionInfo]:
    cells = [cell.strip() for cell in line.split("|")]
    names, section, category, operands, types, needs, may, spaces = cells + [""] * (8 - len(cells))
    slots = operands.split()
    *where, widest = [*_expand(spaces), "v1"] if not re.search(r"v\d$", spaces) else _expand(spaces)
    base, _, number = section.removesuffix("+").rpartition(".")
    for index, name in enumerate(names.split()):
        yield InstructionInfo(
            name=name,
            section=f"{base}.{int(number) + index * section.endswith('+')}",
            category=category,
            operands=(sum("?" not in slot for slot in slots), len(slots)),
            results=tuple(index for index, slot in enumerate(slots) if slot == "d"),
            types=tuple(
                frozenset(_expand(choice)) for choice in types.split("/") if choice not in ("", "*")
            ),
            needs=frozenset(_expand(needs)),
            flags=frozenset(_expand(f"{needs} {may}")),
            spaces=frozenset(where),
            vector=int(widest[1:]),
            open=types == "*",
        )


def _read_table() -> Mapping[str, tuple[InstructionInfo, ...]]:
    table: dict[str, tuple[InstructionInfo, ...]] = {}
    for line in TABLE.strip().splitlines()[1:]:
        if not line.startswith("#"):
            for row in _read_row(line):
                table[row.name] = (*table.get(row.name, ()), row)
    return table


INSTRUCTIONS = _read_table()
