"""Machine code (SASS) as typed values, read by NVIDIA's own disassembler.

Each instruction carries the CUDA line and the PTX line that it comes from: ptxas writes both
tables when a kernel is compiled with line information.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.lineinfo import file_table
from tilewright.toolchain.ptx.ir import Location
from tilewright.toolchain.toolkit import find_nvdisasm

# The file name that nvdisasm gives the PTX that ptxas read; a linked cubin adds a number.
_PTX_FILE = re.compile(r"\.nv_debug_ptx_txt(?:\.\d+)?")

_TARGET = re.compile(r"\s*\.target\s+(sm_\w+)")
_SECTION = re.compile(r'\s*\.section\s+\.text\.([^,]+),"ax')
_OTHER_SECTION = re.compile(r"\s*\.section\s|//-{5,}")
_LABEL = re.compile(r"([.$\w]+):$")
_FILE_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(
    r"\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<predicate>!?U?P\w+)\s+)?"
    r"(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>[^;]*?)\s*;"
)
_REFERENCE = re.compile(r"`\(([.$\w]+)\)")
_SPILL = '(*"SpillRefill"*)'  # how nvdisasm marks what ptxas added to save registers


@dataclass(frozen=True, slots=True, kw_only=True)
class SassInstruction:
    """One machine instruction.

    `address` is its offset in bytes from the start of the function; `predicate` the one it runs
    under (`P0`, `!P0`, `!UP1`), None for always; `opcode` the part before the first dot and
    `modifiers` the others (`LDG.E.128`: `LDG`, ("E", "128")); `operands` their text; `target` the
    address that a branch, call or convergence barrier names. `location` is the line of CUDA
    source, `inlined_at` the calls that it was inlined through, innermost first, and `ptx_line`
    the line in the artifact's PTX; None where the cubin has no line information. `spill` marks the
    loads and stores that ptxas added because registers were short.
    """

    address: int
    predicate: str | None
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    target: int | None
    location: Location | None
    inlined_at: tuple[Location, ...]
    ptx_line: int | None
    spill: bool = False

    @property
    def mnemonic(self) -> str:
        """The opcode with its modifiers, such as `LDG.E.128`."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True, kw_only=True)
class SassFunction:
    """A kernel with the device functions that it calls, in the order of their addresses.

    `labels` maps a name to the address that it stands before. The padding that ptxas appends (a
    branch to itself, then NOPs up to the alignment) never runs and is left out.
    """

    name: str
    instructions: tuple[SassInstruction, ...]
    labels: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sass:
    """The machine code of a cubin: its architecture, and its functions by symbol."""

    arch: str
    functions: Mapping[str, SassFunction]


def disassemble(code: Artifact | bytes) -> Sass:
    """Return the machine code of an artifact or of a cubin.

    The source files of an artifact are named as in its PTX; those of a bare cubin by the paths
    that the cubin has.

    Raises:
        UnsupportedError: an artifact made from PTX, which has no machine code.
        ToolchainError: nvdisasm is missing, or cannot read the cubin.
    """
    if isinstance(code, bytes):
        return parse_sass(_nvdisasm(code))
    if not code.cubin:
        raise UnsupportedError(
            f"{code.source_name} was given as PTX, so there is no machine code of it: give the "
            "CUDA C++ source"
        )
    sass = parse_sass(_nvdisasm(code.cubin), tuple(file_table(code.ptx).values()))
    return sass if code.source else _with_ptx_lines(sass, code.source_name)


def disassemble_part(code: bytes, arch: str) -> tuple[SassInstruction, ...]:
    """Return the instructions in some bytes of machine code; addresses start at 0.

    Raises:
        ToolchainError: nvdisasm is missing, or cannot read the code.
    """
    reader = _FunctionReader(name="", source_files=())
    for line in _run_nvdisasm(code, "--binary", arch.replace("sm_", "SM")).splitlines():
        reader.read(line)
    return tuple(reader.found)


def _with_ptx_lines(sass: Sass, name: str) -> Sass:
    """Let the PTX, a file of this name, be the source of what no other line is known of."""

    def located(ins: SassInstruction) -> SassInstruction:
        if ins.location is not None or ins.ptx_line is None:
            return ins
        return replace(ins, location=Location(name, ins.ptx_line))

    functions = {
        symbol: replace(function, instructions=tuple(map(located, function.instructions)))
        for symbol, function in sass.functions.items()
    }
    return replace(sass, functions=functions)


def opcode_histogram(
    instructions: Iterable[SassInstruction], *, modifiers: bool = False
) -> dict[str, int]:
    """Return how often each opcode occurs (with its modifiers if asked), most frequent first."""
    names = (i.mnemonic if modifiers else i.opcode for i in instructions)
    return dict(Counter(names).most_common())


def parse_sass(text: str, source_files: Sequence[str] = ()) -> Sass:
    """Return the values in a listing by `nvdisasm -c -gi -gp`.

    A path of the listing that ends with one of `source_files` is given that name.

    Raises:
        ToolchainError: a line of code that does not parse.
    """
    arch = ""
    readers: list[_FunctionReader] = []
    reader: _FunctionReader | None = None
    for line in text.splitlines():
        if (section := _SECTION.match(line)) is not None:
            reader = _FunctionReader(name=section.group(1), source_files=source_files)
            readers.append(reader)
        elif _OTHER_SECTION.match(line):
            reader = None
        elif reader is not None:
            reader.read(line)
        elif (target := _TARGET.match(line)) is not None:
            arch = target.group(1)
    return Sass(arch=arch, functions={r.name: r.function() for r in readers})


@dataclass(slots=True, kw_only=True)
class _FunctionReader:
    """Reads one code section, line by line; the line information holds until the next."""

    name: str
    source_files: Sequence[str]
    found: list[SassInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    location: Location | None = None
    inlined_at: tuple[Location, ...] = ()
    ptx_line: int | None = None
    in_inlining: bool = False

    def read(self, line: str) -> None:
        """Take in one line of the listing."""
        if (match := _FILE_LINE.match(line)) is not None:
            self._read_location(match)
        elif (match := _LABEL.match(line)) is not None:
            self.waiting.append(match.group(1))
        elif (match := _INSTRUCTION.match(line)) is not None:
            self._read_instruction(match)
        elif re.match(r"\s*/\*[0-9a-f]{4,}\*/", line):
            raise ToolchainError(f"nvdisasm printed a line that is not understood: {line.strip()}")

    def _read_location(self, match: re.Match[str]) -> None:
        path, line, outer_path, outer_line = match.groups()
        if _PTX_FILE.fullmatch(path):
            self.ptx_line = int(line)
            self.in_inlining = False
            return
        # A group of lines: the place itself, then each function that it was inlined into.
        if not self.in_inlining:
            self.location, self.inlined_at = self._place(path, line), ()
        if outer_path is not None:
            self.inlined_at = (*self.inlined_at, self._place(outer_path, outer_line))
        self.in_inlining = outer_path is not None

    def _read_instruction(self, match: re.Match[str]) -> None:
        address = int(match["address"], 16)
        self.labels.update(dict.fromkeys(self.waiting, address))
        self.waiting.clear()
        self.in_inlining = False
        opcode, *modifiers = match["opcode"].split(".")
        self.found.append(
            SassInstruction(
                address=address,
                predicate=match["predicate"],
                opcode=opcode,
                modifiers=tuple(modifiers),
                operands=_split_operands(match["operands"].replace(_SPILL, "")),
                target=None,
                location=self.location,
                inlined_at=self.inlined_at,
                ptx_line=self.ptx_line,
                spill=_SPILL in match["operands"],
            )
        )

    def _place(self, path: str, line: str) -> Location:
        return Location(_known_name(path, self.source_files), int(line))

    def function(self) -> SassFunction:
        """Return what was read, its targets resolved."""
        instructions = tuple(_with_target(i, self.labels) for i in self.found)
        return SassFunction(
            name=self.name, instructions=_without_padding(instructions), labels=self.labels
        )


def _with_target(instruction: SassInstruction, labels: Mapping[str, int]) -> SassInstruction:
    for operand in instruction.operands:
        reference = _REFERENCE.search(operand)
        if reference is not None and instruction.opcode != "RET":
            target = labels.get(reference.group(1))
            fields = {name: getattr(instruction, name) for name in instruction.__slots__}
            return SassInstruction(**(fields | {"target": target}))
    return instruction


def _without_padding(instructions: tuple[SassInstruction, ...]) -> tuple[SassInstruction, ...]:
    end = len(instructions)
    while end and instructions[end - 1].opcode == "NOP":
        end -= 1
    if end and instructions[end - 1].target == instructions[end - 1].address:
        return instructions[: end - 1]
    return instructions


def _split_operands(text: str) -> tuple[str, ...]:
    """Split at the commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char in "[({") - (char in "])}")
        if char == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return (*parts, last) if last else tuple(parts)


def _known_name(path: str, names: Sequence[str]) -> str:
    """Return the longest of `names` that `path` ends with, or `path`."""
    full = os.path.normpath(path)
    fits = [name for name in names if full.endswith("/" + re.sub(r"^(?:\.\./)+", "", name))]
    return max(fits, key=len, default=path)


@functools.lru_cache(maxsize=32)
def _nvdisasm(cubin: bytes) -> str:
    """Return nvdisasm's listing of the code, with CUDA lines, inlining and PTX lines."""
    options = ("--print-code", "--print-line-info-inline", "--print-line-info-ptx")
    return _run_nvdisasm(cubin, *options)


def _run_nvdisasm(code: bytes, *options: str) -> str:
    program = find_nvdisasm()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(code)
        done = subprocess.run(
            [program, *options, path], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        message = (done.stderr or done.stdout).strip().replace(str(path), "the cubin")
        raise ToolchainError(f"nvdisasm failed: {message}")
    return done.stdout
