"""Which machine accesses became of which PTX accesses, and how wide: ptxas joins neighbours.

A joined access carries the PTX line of one of its members; the others have no machine access of
their own. So the width of each is read off, not guessed, and the members are the neighbouring
words of the same basic block and base that are missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.accesses import Width
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.ptx.cfg import Cfg, basic_blocks
from tilewright.toolchain.ptx.instructions import defs_uses
from tilewright.toolchain.ptx.ir import Function, Imm, Instruction, Mem, Reg, Symbol
from tilewright.toolchain.ptx.parser import parse
from tilewright.toolchain.sass import SassInstruction, disassemble
from tilewright.toolchain.sass_flow import SassFlow, flow

# The machine's loads, stores and atomics, and the PTX opcodes that become them.
MACHINE = {
    "LDG": frozenset({"ld", "ldu"}),
    "LD": frozenset({"ld", "ldu"}),
    "LDS": frozenset({"ld", "ldu"}),
    "LDL": frozenset({"ld", "ldu"}),
    "STG": frozenset({"st"}),
    "ST": frozenset({"st"}),
    "STS": frozenset({"st"}),
    "STL": frozenset({"st"}),
    "ATOM": frozenset({"atom", "red"}),
    "ATOMG": frozenset({"atom", "red"}),
    "ATOMS": frozenset({"atom", "red"}),
    "RED": frozenset({"atom", "red"}),
    "REDG": frozenset({"atom", "red"}),
    "LDGSTS": frozenset({"cp"}),
}
# The state spaces whose accesses they may be, beside generic ones (None).
_SPACES = {
    "LDG": frozenset({"global"}),
    "STG": frozenset({"global"}),
    "LDS": frozenset({"shared"}),
    "STS": frozenset({"shared"}),
    "LDL": frozenset({"local", "param"}),
    "STL": frozenset({"local", "param"}),
}
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "U64": 8, "S64": 8, "F64": 8, "128": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One machine access of a PTX access.

    `index` is its place in the kernel's machine code; `line` the PTX line whose events tell its
    addresses, and `width` how it covers them; `members` are all PTX lines that it stands for.
    `gap` says what does not fit, None where all does.
    """

    index: int
    line: int
    width: Width
    members: tuple[int, ...]
    gap: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """A kernel's machine code and PTX side by side.

    `accesses` are the images of the machine's loads, stores and atomics; `ptx` the instructions by
    line, `block_of` the number of each line's basic block (unique over all functions), and
    `decided` the line of the branch at that block's end, or of the next one from there on.
    `local_bytes` is the local memory that the PTX declares: what is above it are spilled registers.
    """

    flow: SassFlow
    accesses: tuple[Image, ...]
    ptx: Mapping[int, tuple[Instruction, ...]]
    block_of: Mapping[int, int]
    decided: Mapping[int, int]
    local_bytes: int

    def widths(self) -> dict[int, tuple[Width, ...]]:
        """Return the widths that each PTX line's accesses are to be counted with."""
        found: dict[int, dict[Width, None]] = {}
        for image in self.accesses:
            found.setdefault(image.line, {})[image.width] = None
        return {line: tuple(widths) for line, widths in found.items()}


def images(artifact: Artifact) -> Images:
    """Find the PTX accesses of every machine access of a kernel.

    Raises:
        UnsupportedError: an artifact made from PTX, which has no machine code.
        ToolchainError: no disassembler.
    """
    graph = flow(disassemble(artifact).functions[artifact.symbol])
    functions = parse(artifact.ptx).functions
    lines = _Lines(functions.values())
    block_of = graph.block_of
    own: dict[int, set[int]] = {}  # the lines with an access of their own, by machine block
    sources = {index: lines.sources(ins) for index, ins in enumerate(graph.function.instructions)}
    for index, those in sources.items():
        own.setdefault(block_of[index], set()).update(each.ptx_line for each in those)
    found = [
        lines.image(index, graph.function.instructions[index], those, own[block_of[index]])
        for index, those in sources.items()
        if those
    ]
    starts = lines.starts(found)
    found = [lines.aligned(image, starts, own[block_of[image.index]]) for image in found]
    local = [v for f in functions.values() for v in f.variables if v.space == "local"]
    return Images(
        flow=graph,
        accesses=tuple(found),
        ptx=lines.at,
        block_of=lines.block_of,
        decided=lines.decided,
        local_bytes=sum(v.size_bytes for v in local),
    )


def machine_bytes(ins: SassInstruction) -> int:
    """Bytes that one lane of a machine access moves."""
    return next((_BYTES[m] for m in ins.modifiers if m in _BYTES), 4)


def ptx_bytes(ins: Instruction) -> int:
    """Bytes that one lane of a PTX access moves."""
    if ins.opcode == "cp":
        size = ins.operands[2] if len(ins.operands) > 2 else None
        return size.value if isinstance(size, Imm) else 0
    digits = "".join(c for c in ins.types[-1] if c.isdigit()) if ins.types else ""
    halves = 2 if ins.types and ins.types[-1].endswith("x2") else 1
    bits = int(digits.removesuffix("2")) * 2 if halves == 2 else int(digits or 32)
    return bits // 8 * ins.vector


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an access lies: accesses with the same `base` differ by their offsets."""

    base: tuple[object, ...]
    offset: int


class _Lines:
    """The instructions of a PTX module by line, and where their accesses lie."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self.at: dict[int, tuple[Instruction, ...]] = {}
        self.block_of: dict[int, int] = {}
        self.decided: dict[int, int] = {}
        self._places: dict[int, _Place] = {}
        self._near: dict[tuple[object, ...], dict[int, list[int]]] = {}  # lines by offset
        self._steps: dict[tuple[object, ...], int] = {}  # that a base moves in one turn of a loop
        blocks = 0
        for function in functions:
            cfg = basic_blocks(function)
            for number, block in enumerate(cfg.blocks):
                body = function.body[block.start : block.end]
                self._block(body, blocks, loops=number in block.successors)
                branch = _next_branch(function, cfg, number)
                if branch is not None:
                    self.decided.update((ins.ptx_line, branch) for ins in body)
                blocks += 1

    def _block(self, body: Sequence[Instruction], number: int, *, loops: bool) -> None:
        values = _Values()
        for ins in body:
            self.at[ins.ptx_line] = (*self.at.get(ins.ptx_line, ()), ins)
            self.block_of[ins.ptx_line] = number
            memory = [o for o in ins.operands if isinstance(o, Mem)]
            if len(memory) == 1 and ins.opcode in ("ld", "ldu", "st"):
                root, offset = values.place(memory[0])
                where: tuple[object, ...] = (number, ins.opcode, ins.space, ptx_bytes(ins), root)
                self._places[ins.ptx_line] = _Place(where, offset)
                self._near.setdefault(where, {}).setdefault(offset, []).append(ins.ptx_line)
            values.after(ins)
        for access in [a for a in self._near if a[0] == number] if loops else ():
            base, moved = values.at_end(access[-1])
            if base == access[-1]:
                self._steps[access] = moved

    def sources(self, machine: SassInstruction) -> list[Instruction]:
        """Return the PTX accesses that a machine instruction may come from; none for most.

        What ptxas adds to save registers has the line of whatever stands beside it.
        """
        opcodes = MACHINE.get(machine.opcode)
        if opcodes is None or machine.spill:
            return []
        spaces = _SPACES.get(machine.opcode)
        return [
            ins
            for ins in self.at.get(machine.ptx_line or 0, ())
            if ins.opcode in opcodes
            and (spaces is None or ins.space is None or ins.space in spaces)
        ]

    def image(
        self, index: int, machine: SassInstruction, sources: Sequence[Instruction], own: set[int]
    ) -> Image:
        """Return the image of one machine access, of its PTX accesses."""
        line, have, size = sources[0].ptx_line, ptx_bytes(sources[0]), machine_bytes(machine)
        if have == size or sources[0].opcode in ("atom", "red"):
            width = Width(size, counting="POPC" in machine.modifiers)
            return Image(index=index, line=line, width=width, members=(line,))
        if len(sources) > 1 or have > size:
            gap = f"PTX line {line}: {have} bytes a lane became {machine.mnemonic}"
            return Image(index=index, line=line, width=Width(size), members=(line,), gap=gap)
        return self._joined(index, machine, line, own)

    def starts(self, images: Iterable[Image]) -> dict[tuple[object, ...], int]:
        """Return where the joined accesses of a base and size begin, modulo that size.

        All are aligned to it. Where some were joined otherwise here, the most of them tell.
        """
        found: dict[tuple[object, ...], Counter[int]] = {}
        for image in images:
            place, size = self._places.get(image.line), image.width.size
            if place is not None and len(image.members) > 1:
                start = (place.offset + image.width.shift) % size
                found.setdefault((*place.base, size), Counter())[start] += 1
        return {key: counts.most_common(1)[0][0] for key, counts in found.items()}

    def aligned(
        self, image: Image, starts: Mapping[tuple[object, ...], int], own: set[int]
    ) -> Image:
        """Return the image of a joined access where its alignment puts it.

        Then it may have words that no PTX access reads: ptxas joins what lies around a padding.
        """
        place, size = self._places.get(image.line), image.width.size
        if place is None or (start := starts.get((*place.base, size))) is None:
            return image
        before = (place.offset - start) % size
        if image.width.counting or (image.gap is None and image.width.shift == -before):
            return image
        near, have = self._near[place.base], ptx_bytes(self.at[image.line][0])
        words = range(place.offset - before, place.offset - before + size, have)
        free = (
            [m for m in near.get(word, ()) if m == image.line or m not in own] for word in words
        )
        members = tuple(min(m, key=lambda m: abs(m - image.line)) for m in free if m)
        if have == size or len(members) < 2:
            return image
        return replace(image, width=Width(size, -before), members=members, gap=None)

    def _joined(self, index: int, machine: SassInstruction, line: int, own: set[int]) -> Image:
        """Find the members of an access that is wider than its PTX line."""
        have, size = ptx_bytes(self.at[line][0]), machine_bytes(machine)
        turns = 1 if line not in self._places else size // have
        for most, befores in ((1, range(0, size, have)), (turns, range(1))):
            for before in befores:
                members = self._members(line, before, size, own, most)
                if members is not None:
                    width = Width(size, -before)
                    return Image(index=index, line=line, width=width, members=members)
        gap = (
            f"PTX line {line}: {have} bytes a lane became {machine.mnemonic}, and the neighbours "
            "that it was joined with are not in the same PTX block"
        )
        return Image(index=index, line=line, width=Width(size), members=(line,), gap=gap)

    def _members(
        self, line: int, before: int, size: int, own: set[int], turns: int
    ) -> tuple[int, ...] | None:
        """Return the lines of the words from `before` bytes before an access on, if all are there.

        A word may be that of one of the next `turns` - 1 turns of a loop which is one block.
        """
        place = self._places.get(line)
        if place is None:
            return None
        near, step = self._near[place.base], self._steps.get(place.base, 0)
        have = ptx_bytes(self.at[line][0])
        found = []
        for word in range(place.offset - before, place.offset - before + size, have):
            places = (near.get(word - turn * step, []) for turn in range(turns if step else 1))
            free = ([m for m in lines if m == line or m not in own] for lines in places)
            fits = next((min(lines, key=lambda m: abs(m - line)) for lines in free if lines), None)
            if fits is None:
                return None
            found.append(fits)
        return tuple(found)


def _next_branch(function: Function, cfg: Cfg, number: int) -> int | None:
    """Return the line of the first conditional branch from a block on; None where it has a way out.

    Where several blocks follow, a branch has been found.
    """
    seen: set[int] = set()
    while number not in seen:
        seen.add(number)
        block = cfg.blocks[number]
        last = function.body[block.end - 1] if block.end > block.start else None
        if last is not None and last.opcode == "bra" and last.guard is not None:
            return last.ptx_line
        if len(block.successors) != 1:
            return None
        number = block.successors[0]
    return None


class _Values:
    """Registers of one basic block as a value plus a constant, so that addresses compare."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[object, ...], int]] = {}
        self._version: dict[str, int] = {}

    def of(self, name: str) -> tuple[tuple[object, ...], int]:
        """Return what a register holds: a value and a constant to add."""
        return self._known.get(name, ((name, self._version.get(name, 0)), 0))

    def at_end(self, base: object) -> tuple[object, int]:
        """Return what the register that had the value `base` at the start holds now."""
        match base:
            case (str(name), 0):
                return self.of(name)
        return None, 0

    def place(self, memory: Mem) -> tuple[tuple[object, ...], int]:
        """Return the base and offset of a memory operand."""
        match memory.base:
            case Reg(name):
                base, offset = self.of(name)
                return base, offset + memory.offset
            case Symbol(name, offset):
                return (name,), offset + memory.offset
            case Imm(value, _):
                return (), value + memory.offset

    def after(self, ins: Instruction) -> None:
        """Note what an instruction does to its results."""
        moved = self._moved(ins)
        defined, _ = defs_uses(ins)
        for name in defined:
            self._version[name] = self._version.get(name, 0) + 1
            self._known.pop(name, None)
        if moved is not None and len(defined) == 1:
            self._known[defined[0]] = moved

    def _moved(self, ins: Instruction) -> tuple[tuple[object, ...], int] | None:
        if ins.guard is not None or ins.opcode not in ("add", "mov", "cvta"):
            return None
        source = ins.operands[1] if len(ins.operands) > 1 else None
        if not isinstance(source, Reg):
            return None
        base, offset = self.of(source.name)
        if ins.opcode == "mov" or (ins.opcode == "cvta" and ins.space == "global"):
            return base, offset
        step = ins.operands[2] if len(ins.operands) > 2 else None
        if ins.opcode == "add" and isinstance(step, Imm) and step.kind == "int":
            bits = 1 << 64 if ins.types and ins.types[-1].endswith("64") else 1 << 32
            number = step.value % bits
            return base, offset + (number - bits if number >= bits // 2 else number)
        return None
