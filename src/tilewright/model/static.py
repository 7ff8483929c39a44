"""What machine code says of a kernel that did not run: its loops, their opcodes, their pace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from tilewright.model.widths import MACHINE, machine_bytes
from tilewright.toolchain import Artifact, Resources, disassemble, resources
from tilewright.toolchain.control import Control, control_codes
from tilewright.toolchain.sass import SassInstruction
from tilewright.toolchain.sass_flow import flow


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticLoop:
    """A loop of the machine code, the loops inside it included.

    `depth` is 1 for an outermost loop; `inner` says that it has none inside. `mix` are the shares
    of opcodes among its `instructions`; `widths` how many accesses of each opcode move so many
    bytes a lane. `cycles_per_instruction` is the sum of the stall counts over the instructions: how
    far apart one warp alone issues them at best. `lines` are the first and last of `file`.
    """

    depth: int
    inner: bool
    instructions: int
    mix: Mapping[str, float]
    widths: Mapping[tuple[str, int], int]
    cycles_per_instruction: float
    file: str | None
    lines: tuple[int, int] | None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        widths = [
            {"opcode": opcode, "bytes": size, "instructions": count}
            for (opcode, size), count in self.widths.items()
        ]
        return asdict(self) | {"widths": widths}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """A kernel's machine code, read without running it. All of it is counted once, not executed."""

    kernel: str
    arch: str
    needs: Resources
    instructions: int
    mix: Mapping[str, float]
    loops: tuple[StaticLoop, ...]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "instructions": self.instructions,
            "mix": dict(self.mix),
            "local_bytes": self.needs.local_bytes,
            "loops": [loop.to_json() for loop in self.loops],
        }


def machine_code(artifact: Artifact) -> MachineCode:
    """Read the machine code of a kernel, its innermost loops first, the longest of them ahead.

    Raises:
        UnsupportedError: an artifact made from PTX, which has no machine code.
        ToolchainError: no disassembler, or a damaged cubin.
    """
    graph = flow(disassemble(artifact).functions[artifact.symbol])
    control = control_codes(artifact)
    code = graph.function.instructions
    found = []
    for loop in graph.cfg.loops:
        blocks = [graph.cfg.blocks[n] for n in sorted(loop.blocks)]
        body = [code[i] for block in blocks for i in range(block.start, block.end)]
        inner = not any(other.blocks < loop.blocks for other in graph.cfg.loops)
        found.append(_loop(body, control, loop.depth, inner=inner))
    return MachineCode(
        kernel=artifact.name,
        arch=artifact.arch,
        needs=resources(artifact),
        instructions=len(code),
        mix=_mix(code),
        loops=tuple(sorted(found, key=lambda each: (not each.inner, -each.instructions))),
    )


def _loop(
    body: Sequence[SassInstruction], control: Mapping[int, Control], depth: int, *, inner: bool
) -> StaticLoop:
    file, lines = extent(body)
    accesses = Counter((i.opcode, machine_bytes(i)) for i in body if i.opcode in MACHINE)
    return StaticLoop(
        depth=depth,
        inner=inner,
        instructions=len(body),
        mix=_mix(body),
        widths=dict(accesses.most_common()),
        cycles_per_instruction=sum(max(control[i.address].stall, 1) for i in body) / len(body),
        file=file,
        lines=lines,
    )


def extent(code: Iterable[SassInstruction]) -> tuple[str | None, tuple[int, int] | None]:
    """Return the file that most instructions come from, and their first and last line there."""
    places = [ins.location for ins in code if ins.location is not None]
    if not places:
        return None, None
    file = Counter(place.file for place in places).most_common(1)[0][0]
    numbers = [place.line for place in places if place.file == file]
    return file, (min(numbers), max(numbers))


def _mix(code: Sequence[SassInstruction]) -> dict[str, float]:
    counts = Counter(ins.opcode for ins in code)
    return {opcode: n / len(code) for opcode, n in counts.most_common()}
