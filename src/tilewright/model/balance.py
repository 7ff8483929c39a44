"""The flow of control through machine code as equations: what comes into a block goes out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.model.system import System, Unknown
from tilewright.model.widths import Images
from tilewright.toolchain.ptx.cfg import Cfg, Loop
from tilewright.toolchain.sass import SassInstruction
from tilewright.toolchain.sass_flow import is_conditional


class Balance:
    """The blocks of a kernel's machine code and what their executions have to do with each other.

    `rep` names a block for all that run as often; `above` is the block that each is reached
    through, `below` all that are reached through it, and `loops` the headers of its loops.

    Where lanes part at PTX lines `parted`, those that come to a BSYNC by different ways run it one
    after the other, and what is behind it together: `syncs` are the blocks that end with one, and
    `usual` a block that would run as often if lanes came together. `parting` are the blocks at
    whose end lanes may part, and `branch` the PTX branches that those ends are.
    """

    def __init__(self, images: Images, parted: frozenset[int]) -> None:
        self._decided = images.decided
        self.flow = images.flow
        self.cfg: Cfg = images.flow.cfg
        self.code = images.flow.function.instructions
        self.block_of = images.flow.block_of
        ends = {block.end: number for number, block in enumerate(self.cfg.blocks) if block.end}
        self.syncs = frozenset(
            ends[index + 1]
            for index, ins in enumerate(self.code)
            if parted and ins.opcode == "BSYNC" and index + 1 in ends
        )
        alike = images.flow.equivalent()
        first: dict[int, int] = {}
        for number, other in enumerate(alike):
            if number not in self.syncs:
                first.setdefault(other, number)
        self.rep = tuple(n if n in self.syncs else first[other] for n, other in enumerate(alike))
        self.usual = {n: first[alike[n]] for n in self.syncs if alike[n] in first}
        self.parting = frozenset(self._parting(parted))
        ending = {n: self.code[self.cfg.blocks[n].end - 1].ptx_line for n in self.parting}
        self.branch = {n: at for n, at in ending.items() if at and self._decided.get(at) == at}
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
        if len(block.successors) == 1 and not block.leaves and source not in self.syncs:
            return self.rep[source]
        if len(self.cfg.blocks[target].predecessors) == 1 and source:
            return self.rep[target]
        return source, target

    def equations(self, system: System) -> None:
        """Add that what comes into a block goes out of it, but where lanes meet.

        Where they part, as many more times as they part go out; if no PTX branch tells how often
        that is, nothing is said.
        """
        meeting = self._meeting(self.parting) - self.syncs
        meeting |= {s for number in self.syncs for s in self.cfg.blocks[number].successors}
        for source, target in self.flow.slow:
            system.know(self.edge(source, target), 0)
        for number in self.cfg.order[1:]:
            block = self.cfg.blocks[number]
            if number not in meeting and 0 not in block.predecessors:
                _balance(
                    system, [self.rep[number]], [self.edge(p, number) for p in block.predecessors]
                )
            line = self.branch.get(number)
            if len(block.successors) + block.leaves > 1 and (number not in self.parting or line):
                ways = [self.edge(number, s) for s in block.successors]
                ways += [(number, "out")] if block.leaves else []
                more = [(number, "parted")] if number in self.parting else []
                _balance(system, [self.rep[number], *more], ways)
        callers: dict[int, list[int]] = {}
        maybe = {c for index, c in self.flow.calls.items() if is_conditional(self.code[index])}
        for index, callee in self.flow.calls.items():
            callers.setdefault(callee, []).append(self.block_of[index])
        for callee, blocks in callers.items():
            if callee not in maybe:
                _balance(system, [self.rep[callee]], [self.rep[b] for b in blocks])

    def partings(self) -> Mapping[int, Mapping[Unknown, int]]:
        """Return the unknowns that count the partings of each PTX branch, in all its copies."""
        found: dict[int, dict[Unknown, int]] = {}
        for number, line in self.branch.items():
            found.setdefault(line, {})[number, "parted"] = 1
        return found

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


def _balance(system: System, before: Sequence[Unknown], after: Sequence[Unknown]) -> None:
    terms: dict[Unknown, int] = dict.fromkeys(before, -1)
    for part in after:
        terms[part] = terms.get(part, 0) + 1
    if any(terms.values()):
        system.add(terms)


def _is_uniform(ins: SassInstruction) -> bool:
    """Whether all lanes take a branch or none: its predicate is of the uniform datapath."""
    predicates = [ins.predicate or "", *ins.operands[:-1]]
    return any(p.removeprefix("!").startswith("UP") for p in predicates)
