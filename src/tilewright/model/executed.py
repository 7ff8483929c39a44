"""How often each basic block of the machine code ran, for every kind of warp of a PTX run.

Known are how often warps came to each PTX line. A machine instruction that has the kind of its PTX
line (a load, a fused multiply-add, a barrier) ran as often as the line, or its copies together
did; what flows into a block flows out of it; blocks that always run together ran as often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.accesses import Integers, PtxCounts
from tilewright.model.anchors import Anchors, decides
from tilewright.model.balance import Balance
from tilewright.model.profile import BlockKind, WarpKind
from tilewright.model.system import System
from tilewright.model.widths import Images
from tilewright.toolchain.sass_flow import is_conditional


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """How often blocks and edges of the machine code ran, summed over warps.

    `exact` is whether all of it follows from the run; else `gaps` say what was assumed. `kinds` are
    the same of each kind of block of the launch.
    """

    blocks: tuple[int, ...]
    edges: Mapping[tuple[int, int], int]
    exact: bool
    gaps: tuple[str, ...]
    kinds: tuple[BlockKind, ...]


def executed(images: Images, counts: PtxCounts) -> Executed:
    """Solve for the executions of every block of the machine code."""
    rows = len(counts.weights)
    blocks = np.zeros((len(images.flow.cfg.blocks), rows), np.int64)
    edges: dict[tuple[int, int], Integers] = {}
    gaps: dict[str, None] = {}
    part = counts.parted.any(axis=1)
    for chosen in (~part, part):
        if not chosen.any():
            continue
        parted = _known(counts, counts.parted[chosen])
        parted = {line: times for line, times in parted.items() if times.any()}
        kernel = _Kernel(images, frozenset(parted))
        known = _known(counts, counts.executed[chosen])
        solution = _Solution(kernel, known, parted, int(chosen.sum()))
        blocks[:, chosen] = solution.blocks()
        for edge, values in solution.edges():
            edges.setdefault(edge, np.zeros(rows, np.int64))[chosen] = values
        gaps.update(dict.fromkeys(solution.gaps()))
    return Executed(
        blocks=tuple((blocks @ counts.weights).tolist()),
        edges={edge: int(values @ counts.weights) for edge, values in edges.items()},
        exact=not gaps,
        gaps=tuple(gaps),
        kinds=tuple(_kinds(counts, blocks, edges)),
    )


def _kinds(
    counts: PtxCounts, blocks: Integers, edges: Mapping[tuple[int, int], Integers]
) -> Iterator[BlockKind]:
    """Yield the kinds of blocks, each with all its kinds of warps."""
    for kind in range(int(counts.kind.max(initial=-1)) + 1):
        rows = np.flatnonzero((counts.kind == kind) & (counts.weights > 0)).tolist()
        if rows:
            yield BlockKind(
                warps=tuple(
                    WarpKind(
                        count=(count := int(counts.weights[row])),
                        executed=tuple((blocks[:, row] * count).tolist()),
                        edges={edge: int(values[row]) * count for edge, values in edges.items()},
                    )
                    for row in rows
                )
            )


def _known(counts: PtxCounts, rows: Integers) -> dict[int, Integers]:
    """Return counts of some kinds of warps by line."""
    return dict(zip(counts.lines.tolist(), rows.T, strict=True))


class _Kernel:
    """What the machine code says of warps whose lanes part at PTX lines `parted` at most."""

    def __init__(self, images: Images, parted: frozenset[int]) -> None:
        self.images = images
        self.balance = Balance(images, parted)
        self.anchors = Anchors(images, self.balance.rep)
        self.main_line = tuple(self._main_line(n) for n in range(len(self.balance.cfg.blocks)))

    def _main_line(self, number: int) -> int | None:
        """Return the line of the branch at a block's end, or of what most of it comes from."""
        block, block_of = self.balance.cfg.blocks[number], self.images.block_of
        code = self.balance.code[block.start : block.end]
        lines = [ins.ptx_line for ins in code if ins.ptx_line in block_of]
        if not lines:
            return None
        last = self.images.ptx.get(code[-1].ptx_line or 0, ())
        if is_conditional(code[-1]) and any(decides(ins) for ins in last):
            return code[-1].ptx_line
        plain = [i.ptx_line for i in code if i.predicate is None and i.ptx_line in lines] or lines
        sources = [block_of[line] for line in plain if line is not None]
        most = max(sources, key=sources.count)
        return next(line for line in reversed(plain) if line and block_of[line] == most)


class _Solution:
    """The executions of every block for some kinds of warps.

    `known` are the executions of the PTX lines, `parted` how often lanes part at some of them.
    """

    def __init__(
        self,
        kernel: _Kernel,
        known: Mapping[int, Integers],
        parted: Mapping[int, Integers],
        width: int,
    ) -> None:
        self.kernel, self.known = kernel, known
        self.balance, self.anchors = kernel.balance, kernel.anchors
        self.cfg, self.rep = self.balance.cfg, self.balance.rep
        self.held = self._held()
        self.likely = self.once = False
        self.system = system = System(width)
        system.know(self.rep[0], 1)
        system.know(self.rep[1], 1)
        self.balance.equations(system)
        for line, blocks in self.anchors.telling.items():
            if line in known:
                system.add(blocks, known[line], label=line)
        partings = self.balance.partings()
        for line, copies in partings.items():
            system.add(copies, parted.get(line, 0), label=line)
        # Branches that part lanes and are neither in the machine code nor predicates there: part
        # of another, perhaps.
        block_of, predicated = kernel.images.block_of, self.anchors.predicated
        hidden = {n for n in parted.keys() - partings.keys() if block_of[n] + 1 not in predicated}
        self.hidden = bool(self.balance.syncs and hidden)
        self._solve()

    def _solve(self) -> None:
        self.system.propagate()
        self._slow_calls()
        self._certain()
        self.system.choose()
        self._certain()
        while self._like_its_line(sure=False):
            self.likely = True
            self._certain()
        self.system.choose()
        while self._entered(sure=True) or self._entered(sure=False):
            pass
        self._synchronized()
        self.system.choose(everything=True)

    def _certain(self) -> None:
        """Settle all that needs no likelihood."""
        while self._bounded() or self._entered(sure=True) or self._like_its_line(sure=True):
            pass

    def _settle(self, unknown: object, value: Integers) -> None:
        self.system.know(unknown, value)
        self.system.propagate()

    def _open(self) -> Iterator[int]:
        """Yield the blocks that nothing tells yet."""
        for number in self.cfg.order[1:]:
            if self.rep[number] not in self.system.values and number not in self.anchors.inside:
                yield number

    def _bounded_ones(self) -> Iterator[int]:
        """Yield those that run no more often than what they are reached through."""
        return (number for number in self._open() if number not in self.balance.syncs)

    def _synchronized(self) -> None:
        """Let lanes come together to each BSYNC that nothing tells."""
        for number, usual in self.balance.usual.items():
            ran = self.system.values.get(usual)
            if number not in self.system.values and ran is not None:
                self.once |= bool(ran.any())
                self._settle(number, ran)

    def _slow_calls(self) -> None:
        """Take the compiler's own functions not to run: they are for rare operands."""
        for index, callee in self.balance.flow.calls.items():
            block = self.rep[self.balance.block_of[index]]
            if callee in self.anchors.inside and block not in self.system.values:
                self._settle(block, np.zeros(self.system.width, np.int64))

    def _entered(self, *, sure: bool) -> bool:
        """Enter a loop that ran each time that the block above did; return whether there was one.

        With `sure` only where that is once at most; else that is the likely number.
        """
        values = self.system.values
        for loop in self.cfg.loops:
            entries = [self.balance.edge(p, loop.header) for p in self.balance.entries(loop)]
            missing = [entry for entry in entries if entry not in values]
            ran = values.get(self.rep[loop.header])
            if len(missing) != 1 or ran is None:
                continue
            parent = self.balance.above[loop.header] or 0
            while self.rep[parent] not in values:
                parent = self.balance.above[parent] or 0
            if not parent:  # a function, which may be called often
                continue
            most = np.minimum(ran, values[self.rep[parent]])
            if sure and (most > 1).any():
                continue
            self.system.chosen |= not sure
            others = sum(values[entry] for entry in entries if entry in values)
            self._settle(missing[0], np.maximum(most - others, 0))
            return True
        return False

    def _bounded(self) -> bool:
        """Settle a block whose bounds meet; return whether there was one."""
        for number in self._bounded_ones():
            most = self._most(number)
            if most is not None and (self._least(number) >= most).all():
                self._settle(self.rep[number], most)
                return True
        return False

    def _like_its_line(self, *, sure: bool) -> bool:
        """Settle a block by its main line, within its bounds; return whether there was one.

        With `sure` only by a branch that has no copies, or where no line of the block ever ran.
        """
        for number in self._bounded_ones():
            line = self.kernel.main_line[number]
            if line is None or line not in self.known:
                continue
            last = self.balance.code[self.cfg.blocks[number].end - 1]
            alone = self.anchors.branches[line] == 1 and is_conditional(last)
            value = np.maximum(self.known[line], self._least(number))
            never = not value.any() and not self._any_line(number)
            copied = self.kernel.images.block_of[line] in self.anchors.copied
            if not alone and (copied or (sure and not never)):
                continue
            most = self._most(number)
            self._settle(self.rep[number], value if most is None else np.minimum(value, most))
            return True
        return False

    def _any_line(self, number: int) -> bool:
        """Whether warps came to any of the lines of a block."""
        block = self.cfg.blocks[number]
        lines = {ins.ptx_line for ins in self.balance.code[block.start : block.end]}
        return any(self.known[line].any() for line in self.known.keys() & lines)

    def _held(self) -> dict[int, Integers]:
        """Return for each block the executions of the lines that have one instruction, in it."""
        most: dict[int, Integers] = {}
        for line, blocks in self.anchors.held.items():
            (block, copies), *others = blocks.items()
            if line in self.known and not others and copies == 1:
                ran = self.known[line]
                most[block] = np.maximum(most.get(block, ran), ran)
        return most

    def _least(self, number: int) -> Integers:
        """Return the executions of what a block holds, and of what is reached through it."""
        least = np.zeros(self.system.width, np.int64)
        for other in self.balance.below[number]:
            if other in self.balance.syncs:
                continue
            within = self.balance.loops[other] <= self.balance.loops[number]
            for ran in (self.held.get(other), self.system.values.get(self.rep[other])):
                if ran is not None:
                    least = np.maximum(least, ran if within else np.minimum(ran, 1))
        return least

    def _most(self, number: int) -> Integers | None:
        """Return the most executions of a block, by the lines in it and what it is reached through.

        Each copy of a line ran no more often than the line.
        """
        lines = self.anchors.always.get(self.rep[number], {})
        bounds = [self.known[line] // n for line, n in lines.items() if line in self.known]
        above = self._above(number)
        bounds += [] if above is None else [above]
        return np.minimum.reduce(bounds) if bounds else None

    def _above(self, number: int) -> Integers | None:
        """Return the executions of the nearest known block that a block is reached through.

        What runs once in the kernel, and is reached through no other, is reached once; a function
        may be called often.
        """
        loops, top, parent = self.balance.loops, number, self.balance.above[number]
        while parent:
            ran = self.system.values.get(self.rep[parent])
            if ran is not None and loops[parent] >= loops[number]:
                return ran
            top, parent = parent, self.balance.above[parent]
        once = top == 1 and not loops[number]
        return np.ones(self.system.width, np.int64) if once else None

    # --- what was found ---------------------------------------------------------------------------

    def blocks(self) -> Integers:
        """Return the executions of every block, [blocks, warps]; none for what nothing tells."""
        none = np.zeros(self.system.width, np.int64)
        found = [self.system.values.get(self.rep[n], none) for n in range(len(self.cfg.blocks))]
        return np.stack([none, *found[1:]])

    def edges(self) -> Iterator[tuple[tuple[int, int], Integers]]:
        """Yield the edges between blocks whose executions are known."""
        for number, block in enumerate(self.cfg.blocks):
            for successor in block.successors:
                value = self.system.values.get(self.balance.edge(number, successor))
                if value is not None:
                    yield (number, successor), value

    def gaps(self) -> Iterator[str]:
        """Yield what was assumed, and what does not fit."""
        if self.likely:
            yield "blocks that nothing counts ran as often as the PTX beside them"
        if self.system.chosen:
            yield "unrolled loops: the widest copy of a body is taken to run as often as it can"
        if self.system.conflicts:
            places = sorted(set(self.system.conflicts))[:5]
            lines = ", ".join(str(line) if line else "(flow of control)" for line in places)
            yield f"executions of PTX lines {lines} and of the machine code do not agree"
        starts = [self.cfg.blocks[n].start for n in self._open()]
        if starts:
            at = ", ".join(f"{self.balance.code[start].address:#x}" for start in starts[:5])
            yield f"nothing tells how often the machine code at {at} ran: taken as never"
        if self.once:
            yield "lanes that come to a BSYNC by different ways are taken to run it once"
        if self.hidden:
            yield "lanes part where the machine code has no branch: each BSYNC is derived"
        if self.anchors.inside:
            yield "the slow path of a division or square root is taken not to run"
