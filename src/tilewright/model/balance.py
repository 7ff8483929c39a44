"""The flow of control through machine code as equations: what comes into a block goes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.model.system import System, Unknown
from tilewright.model.widths import Images
from tilewright.toolchain.ptx.cfg import Cfg, Loop
from tilewright.toolchain.sass import SassInstruction
from tilewright.toolchain.sass_flow import is_conditional


class Balance:
    """The blocks of a kernel's machine code and what their executions have to do with each other.

    `rep` names a block for all that run as often; `above` is the block that each is reached
    through, `below` all that are reached through it, and `loops` the headers of its loops.
    """

    def __init__(self, images: Images) -> None:
        self._decided = images.decided
        self.flow = images.flow
        self.cfg: Cfg = images.flow.cfg
        self.code = images.flow.function.instructions
        self.block_of = images.flow.block_of
        self.rep = images.flow.equivalent()
        self.above = self.cfg.dominators()
        self.loops = tuple(
            frozenset(loop.header for loop in self.cfg.loops if n in loop.blocks)
            for n in range(len(self.cfg.blocks))
        )
        self.below: tuple[list[int], ...] = tuple([] for _ in self.cfg.blocks)
        for number in self.cfg.order[1:]:
            parent: int | None = number
            while parent:
                self.below[parent].append(number)
                parent = self.above[parent]

    def edge(self, source: int, target: int) -> Unknown:
        """Return the unknown that counts an edge: a block's where the edge is all of it."""
        block = self.cfg.blocks[source]
        if len(block.successors) == 1 and not block.leaves:
            return self.rep[source]
        if len(self.cfg.blocks[target].predecessors) == 1 and source:
            return self.rep[target]
        return source, target

    def equations(self, system: System, lines: frozenset[int]) -> None:
        """Add that what comes into a block goes out of it, but where lanes part or meet.

        Lanes of a warp part at no PTX branches but those at `lines`.
        """
        parting = frozenset(self._parting(lines))
        meeting = self._meeting(parting)
        for source, target in self.flow.slow:
            system.know(self.edge(source, target), 0)
        for number in self.cfg.order[1:]:
            block = self.cfg.blocks[number]
            if number not in meeting and 0 not in block.predecessors:
                _balance(
                    system, self.rep[number], [self.edge(p, number) for p in block.predecessors]
                )
            if number not in parting and len(block.successors) + block.leaves > 1:
                ways = [self.edge(number, s) for s in block.successors]
                _balance(
                    system, self.rep[number], [*ways, (number, "out")] if block.leaves else ways
                )
        callers: dict[int, list[int]] = {}
        maybe = {c for index, c in self.flow.calls.items() if is_conditional(self.code[index])}
        for index, callee in self.flow.calls.items():
            callers.setdefault(callee, []).append(self.block_of[index])
        for callee, blocks in callers.items():
            if callee not in maybe:
                _balance(system, self.rep[callee], [self.rep[b] for b in blocks])

    def _parting(self, lines: frozenset[int]) -> Iterator[int]:
        """Blocks at whose end the lanes of a warp may go different ways.

        A branch that the compiler made has the line of something near: the loop's own branch, or
        the next one from there on, decides it.
        """
        for number, block in enumerate(self.cfg.blocks):
            if block.end > block.start and len(block.successors) + block.leaves > 1:
                last = self.code[block.end - 1]
                decided = self._decided.get(last.ptx_line or 0)
                if not _is_uniform(last) and (decided is None or decided in lines):
                    yield number

    def _meeting(self, parting: frozenset[int]) -> frozenset[int]:
        """Blocks that lanes may come to by different ways at once."""
        after = self.cfg.postdominators(ignore_leaving=True)
        found: set[int] = set()
        for number in parting:
            stop = after[number]
            todo = list(self.cfg.blocks[number].successors)
            if len(todo) < 2:
                continue  # some lanes leave, and come back nowhere
            seen = set(todo)
            while todo:
                block = todo.pop()
                if len(self._forward(block)) > 1:
                    found.add(block)
                if block != stop:
                    onward = [s for s in self.cfg.blocks[block].successors if s not in seen]
                    seen.update(onward)
                    todo += onward
        return frozenset(found)

    def entries(self, loop: Loop) -> list[int]:
        """Return the blocks that a loop is entered from."""
        return [p for p in self.cfg.blocks[loop.header].predecessors if p not in loop.blocks]

    def _forward(self, number: int) -> list[int]:
        """Return the ways into a block that are not jumps back to it."""
        loop = next((loop for loop in self.cfg.loops if loop.header == number), None)
        return self.entries(loop) if loop else list(self.cfg.blocks[number].predecessors)


def _balance(system: System, total: Unknown, parts: Sequence[Unknown]) -> None:
    terms: dict[Unknown, int] = {total: -1}
    for part in parts:
        terms[part] = terms.get(part, 0) + 1
    if any(terms.values()):
        system.add(terms)


def _is_uniform(ins: SassInstruction) -> bool:
    """Whether all lanes take a branch or none: its predicate is of the uniform datapath."""
    predicates = [ins.predicate or "", *ins.operands[:-1]]
    return any(p.removeprefix("!").startswith("UP") for p in predicates)
