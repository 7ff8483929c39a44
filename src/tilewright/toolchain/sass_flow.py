"""The control flow of machine code: basic blocks, what calls what, loops, control equivalence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.toolchain.ptx.cfg import Block, Cfg, arrange
from tilewright.toolchain.sass import SassFunction, SassInstruction

_LEAVES = frozenset({"EXIT", "RET", "KILL"})
_JUMPS = frozenset({"BRA", "JMP", "BRX", "JMX"})
_ALWAYS = frozenset({"PT", "UPT"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SassFlow:
    """A kernel's machine code as a graph.

    Block 0 of `cfg` stands for the outside: it is empty, and its successors are the kernel's first
    block and those of the functions that the kernel calls. Blocks index into
    `function.instructions`. `calls` has the index of every call and the block that it calls.
    `whole` says that the target of every jump is known. `slow` are the edges that a warp takes
    only when its lanes are not together where they should be (BRA.DIV).
    """

    function: SassFunction
    cfg: Cfg
    calls: Mapping[int, int]
    whole: bool
    slow: frozenset[tuple[int, int]]

    @property
    def block_of(self) -> tuple[int, ...]:
        """The block of every instruction."""
        found = [0] * len(self.function.instructions)
        for number, block in enumerate(self.cfg.blocks):
            found[block.start : block.end] = [number] * (block.end - block.start)
        return tuple(found)

    def equivalent(self) -> tuple[int, ...]:
        """For every block, the first block that every warp runs as often; itself if none other.

        Two blocks are control-equivalent if one dominates the other, which postdominates it, they
        are in the same loops, and no turn of those comes to the first without the second.
        """
        dominators, after = self.cfg.dominators(), self.cfg.postdominators()
        loops = [
            frozenset(n for n, loop in enumerate(self.cfg.loops) if index in loop.blocks)
            for index in range(len(self.cfg.blocks))
        ]
        result = list(range(len(self.cfg.blocks)))
        for index in self.cfg.order:
            above = dominators[index]
            while above is not None and index:
                alike = loops[above] == loops[index] and _reaches(after, above, index)
                if alike and not (loops[index] and self._returns(above, index)):
                    result[index] = result[above]
                    break
                above = dominators[above] if above else None
        return tuple(result)

    def _returns(self, number: int, without: int) -> bool:
        """Whether a way leads from a block back to it that does not pass another."""
        todo, seen = list(self.cfg.blocks[number].successors), {without}
        while todo:
            block = todo.pop()
            if block == number:
                return True
            if block not in seen:
                seen.add(block)
                todo += self.cfg.blocks[block].successors
        return False


def is_conditional(instruction: SassInstruction) -> bool:
    """Whether a warp may go on past a jump or exit."""
    predicates = [instruction.predicate, *instruction.operands[:-1]]
    return any(_is_predicate(p) for p in predicates) or "DIV" in instruction.modifiers


def _is_predicate(text: str | None) -> bool:
    name = (text or "").removeprefix("!")
    return name not in _ALWAYS and name.removeprefix("U")[:1] == "P"


def flow(function: SassFunction) -> SassFlow:
    """Return the graph of a kernel with the functions that it calls."""
    code = function.instructions
    index_at = {ins.address: index for index, ins in enumerate(code)}
    functions = {at for name, at in function.labels.items() if not name.startswith(".L")}
    targets = {i.target for i in code if i.opcode == "CALL" and i.target is not None}
    called = targets & functions & index_at.keys()
    starts = _leaders(code, index_at)
    block_at = {start: number for number, start in enumerate(starts, 1)}
    ends = [*starts[1:], len(code)] if code else []
    roots = [1, *sorted({block_at[index_at[t]] for t in called})]
    successors: list[tuple[int, ...]] = [tuple(dict.fromkeys(roots)) if code else ()]
    leaves, slow, whole = [False], set(), True
    meets = _meeting_points(code)
    for number, end in enumerate(ends, 1):
        last = code[end - 1]
        onward: list[int] = []
        jumps = _jumps(last, called)
        if jumps:
            known = last.target in index_at
            whole &= known
            if last.target is not None and known:
                onward.append(block_at[index_at[last.target]])
        elif (meeting := meets.get(end - 1)) is not None and meeting in index_at:
            onward.append(block_at[index_at[meeting]])
        stops = (jumps or last.opcode in _LEAVES) and not is_conditional(last)
        if not stops and end < len(code) and not (onward and last.opcode == "BSYNC"):
            onward.append(number + 1)
        if "DIV" in last.modifiers and last.opcode == "BRA" and onward:
            slow.add((number, onward[0]))
        successors.append(tuple(dict.fromkeys(onward)))
        leaves.append(last.opcode in _LEAVES or not onward)
    return SassFlow(
        function=function,
        cfg=_graph(starts, ends, successors, leaves),
        calls={
            index: block_at[index_at[ins.target]]
            for index, ins in enumerate(code)
            if ins.opcode == "CALL" and ins.target in called and ins.target is not None
        },
        whole=whole,
        slow=frozenset(slow),
    )


def _jumps(ins: SassInstruction, called: set[int]) -> bool:
    """Whether an instruction is a jump: a call of a label inside a function never comes back."""
    within = ins.target is not None and ins.target not in called
    return ins.opcode in _JUMPS or (ins.opcode == "CALL" and within)


def _leaders(code: Sequence[SassInstruction], index_at: Mapping[int, int]) -> list[int]:
    leaders = {0} if code else set()
    for index, ins in enumerate(code):
        if ins.target in index_at and ins.target is not None:
            leaders.add(index_at[ins.target])
        if ins.opcode in _JUMPS | _LEAVES | {"BSYNC", "CALL"}:
            leaders.add(index + 1)
    return sorted(leader for leader in leaders if leader < len(code))


def _meeting_points(code: Sequence[SassInstruction]) -> dict[int, int]:
    """For every BSYNC, the address that the BSSY of its barrier register names."""
    named: dict[str, int] = {}
    found: dict[int, int] = {}
    for index, ins in enumerate(code):
        if ins.opcode == "BSSY" and ins.target is not None:
            named[ins.operands[0]] = ins.target
        elif ins.opcode == "BSYNC" and ins.operands and ins.operands[-1] in named:
            found[index] = named[ins.operands[-1]]
    return found


def _graph(
    starts: Sequence[int],
    ends: Sequence[int],
    successors: Sequence[tuple[int, ...]],
    leaves: Sequence[bool],
) -> Cfg:
    predecessors: list[list[int]] = [[] for _ in successors]
    for number, onward in enumerate(successors):
        for successor in onward:
            predecessors[successor].append(number)
    order, loops, reducible = arrange(successors)
    spans = [(0, 0), *zip(starts, ends, strict=True)]
    return Cfg(
        blocks=tuple(
            Block(
                start=span[0],
                end=span[1],
                successors=successors[number],
                predecessors=tuple(predecessors[number]),
                leaves=leaves[number],
            )
            for number, span in enumerate(spans)
        ),
        order=order,
        loops=loops,
        reducible=reducible,
    )


def _reaches(above: Sequence[int | None], node: int, wanted: int) -> bool:
    """Whether `wanted` is on the way from `node` up a tree of parents."""
    parent = above[node]
    while parent is not None and parent != wanted:
        node, parent = parent, above[parent]
    return parent is not None
