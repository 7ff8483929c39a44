"""Which machine instructions tell how often their block ran: those that are one PTX instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tilewright.model.widths import Images
from tilewright.toolchain.ptx.ir import Instruction
from tilewright.toolchain.sass_flow import SassFlow, is_conditional

# One PTX instruction becomes one machine instruction of these kinds, in each copy of its block.
_KINDS: Mapping[tuple[str, str], frozenset[str]] = {
    ("fma", "f32"): frozenset({"FFMA", "FMUL"}),
    ("mad", "f32"): frozenset({"FFMA", "FMUL"}),
    ("mul", "f32"): frozenset({"FMUL"}),
    ("add", "f32"): frozenset({"FADD"}),
    ("sub", "f32"): frozenset({"FADD"}),
    ("fma", "f64"): frozenset({"DFMA"}),
    ("mul", "f64"): frozenset({"DMUL"}),
    ("add", "f64"): frozenset({"DADD"}),
    ("ex2", "f32"): frozenset({"MUFU"}),
    ("lg2", "f32"): frozenset({"MUFU"}),
}
_ANY_TYPE: Mapping[str, frozenset[str]] = {
    "bar": frozenset({"BAR"}),
    "barrier": frozenset({"BAR"}),
    "shfl": frozenset({"SHFL"}),
    "vote": frozenset({"VOTE"}),
    "redux": frozenset({"REDUX"}),
    "mma": frozenset({"HMMA", "IMMA", "DMMA"}),
    "ldmatrix": frozenset({"LDSM"}),
}
# Functions that the compiler brings for what has no machine instruction, such as division.
_COMPILERS_OWN = "$__internal"


def kinds_of(ins: Instruction) -> frozenset[str]:
    """Return the machine opcodes that a PTX instruction surely becomes one of; may be empty."""
    found = _ANY_TYPE.get(ins.opcode)
    if found is not None:
        return found
    return _KINDS.get((ins.opcode, ins.types[-1]) if ins.types else ("", ""), frozenset())


def decides(ins: Instruction) -> bool:
    """Whether an instruction of the PTX is a branch that is not always taken.

    A jump that is, at the end of a block that became predicates, may be conditional in the machine
    code.
    """
    return ins.opcode == "bra" and ins.guard is not None


class Anchors:
    """The lines of the PTX in the blocks of the machine code; `rep` names blocks that run alike.

    `held` maps a line to the blocks with a machine instruction of its kind, and how many each has;
    `always` maps a block to the lines of those in it that are not a branch turned into a predicate;
    `telling` are those of them whose instructions ran as often as the line, all together.
    `predicated` are PTX blocks that became predicated instructions, `copied` those that the machine
    code has several times; `branches` counts the conditional jumps of each PTX branch; `inside` are
    the blocks of the compiler's own functions.
    """

    def __init__(self, images: Images, rep: Sequence[int]) -> None:
        self._images, self._rep = images, rep
        self._code = images.flow.function.instructions
        self._block_of = images.flow.block_of
        self.inside = _inside(images.flow)
        self.held: dict[int, dict[int, int]] = {}
        self.always: dict[int, dict[int, int]] = {}
        unclear = {line for line, index in self._found() if self._hold(line, index)}
        self.telling: Mapping[int, Mapping[int, int]] = {
            line: blocks
            for line, blocks in sorted(self.held.items())
            if line not in unclear and len(images.ptx[line]) == 1
        }
        self.predicated = {images.block_of[line] for line in unclear}
        self.copied = {
            images.block_of[line] for line, at in self.telling.items() if sum(at.values()) > 1
        }
        self.branches = Counter(
            ins.ptx_line
            for ins in self._code
            if ins.opcode in ("BRA", "EXIT") and is_conditional(ins)
            if any(decides(i) for i in images.ptx.get(ins.ptx_line or 0, ()))
        )

    def _found(self) -> Iterator[tuple[int, int]]:
        """Yield the lines of machine instructions that are one PTX instruction or several."""
        for image in self._images.accesses:
            for line in image.members:
                yield line, image.index
        for index, ins in enumerate(self._code):
            lines = self._images.ptx.get(ins.ptx_line or 0, ())
            if len(lines) == 1 and ins.opcode in kinds_of(lines[0]):
                yield lines[0].ptx_line, index

    def _hold(self, line: int, index: int) -> bool:
        """Note where a line is; return whether a branch around it became predicates."""
        block = self._block_of[index]
        if block in self.inside:
            return False
        blocks = self.held.setdefault(line, {})
        blocks[self._rep[block]] = blocks.get(self._rep[block], 0) + 1
        guarded = any(i.guard is not None for i in self._images.ptx[line])
        if self._code[index].predicate not in (None, "PT") and not guarded:
            return True
        always = self.always.setdefault(self._rep[block], {})
        always[line] = always.get(line, 0) + 1
        return False


def _inside(flow: SassFlow) -> frozenset[int]:
    """Return the blocks of the compiler's own functions, whose lines mean nothing."""
    labels = flow.function.labels
    own = {address for name, address in labels.items() if _COMPILERS_OWN in name}
    code, blocks = flow.function.instructions, flow.cfg.blocks
    todo = [b for b in flow.calls.values() if code[blocks[b].start].address in own]
    seen = set(todo)
    while todo:
        onward = [s for s in blocks[todo.pop()].successors if s not in seen]
        seen.update(onward)
        todo += onward
    return frozenset(seen)
