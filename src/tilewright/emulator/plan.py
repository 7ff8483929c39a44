"""What is decided about a kernel before code is made: blocks, divergence, shapes, liveness.

A block is *divergent* if only some lanes of a warp may run it: it lies between a branch whose
predicate differs between lanes and the point where all its paths meet again. Blocks that are not
run with every lane that has not returned, so that their registers can be written without a mask.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.emulator.lanes import (
    BITS,
    UNIFORM,
    VARYING,
    Affine,
    Known,
    Shape,
    Source,
    affine,
    extended,
    join,
    shape_of,
    single,
    widen,
)
from tilewright.emulator.ops.table import find
from tilewright.emulator.signature import signature
from tilewright.toolchain.ptx.cfg import BRANCHES, Block, Cfg, basic_blocks
from tilewright.toolchain.ptx.instructions import defs_uses
from tilewright.toolchain.ptx.ir import Function, Guard, Instruction, Mem, Operand, Vec

_WARP_SYNC = frozenset({"shfl", "vote", "match", "redux", "elect"})
_BLOCK_SYNC = frozenset({"bar", "barrier"})
_WAITS = frozenset({"wait_group", "wait_all"})


def is_block_barrier(ins: Instruction) -> bool:
    """Whether an instruction waits for, or counts at, a barrier of the block."""
    return ins.opcode in _BLOCK_SYNC and "warp" not in ins.flags


def is_sync(ins: Instruction) -> bool:
    """Whether lanes of a warp wait for each other at an instruction."""
    return ins.opcode in _BLOCK_SYNC or (ins.opcode in _WARP_SYNC and "sync" in ins.flags)


def is_wait(ins: Instruction) -> bool:
    """Whether a whole warp may wait at an instruction, or its copies are waited for."""
    return is_sync(ins) or (ins.opcode == "cp" and not _WAITS.isdisjoint(ins.flags))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions. Blocks are numbered in execution order; `body` indices are program counters.

    `shapes` says how each register is kept between blocks; `live` which registers a block's end
    must save; `reached` which blocks can run at all; `full` that no lane of any warp is missing in
    a block that is not divergent.
    """

    function: Function
    blocks: tuple[Block, ...]
    successor_numbers: Mapping[int, int]
    divergent: tuple[bool, ...]
    shapes: Mapping[str, Shape]
    live: tuple[frozenset[str], ...]
    reached: tuple[bool, ...]
    full: bool

    def number_at(self, pc: int) -> int:
        """Return the number of the block that begins at instruction `pc`."""
        return self.successor_numbers[pc]


def plan(function: Function, source: Source, threads: int) -> Plan:
    """Decide everything about `function` run with `threads` threads a block."""
    cuts = set()
    for pc, ins in enumerate(function.body):
        if is_sync(ins):
            cuts.add(pc)
            if is_block_barrier(ins):
                cuts.add(pc + 1)
        elif is_wait(ins):
            cuts.add(pc)  # `order` takes what is before it: arithmetic, where copies run ahead
    cfg = basic_blocks(function, split_at=cuts)
    analysis = _Analysis(function, cfg, source)
    analysis.run()
    order = cfg.order
    blocks = tuple(cfg.blocks[i] for i in order)
    live = _live_out(function, cfg, analysis.registers, analysis.reached)
    exits = any(analysis.leaves_apart(b) for b in analysis.reached)
    return Plan(
        function=function,
        blocks=blocks,
        successor_numbers={block.start: n for n, block in reversed(list(enumerate(blocks)))},
        divergent=tuple(i in analysis.divergent for i in order),
        shapes=analysis.shapes,
        live=tuple(live[i] for i in order),
        reached=tuple(i in analysis.reached for i in order),
        full=threads % 32 == 0 and not exits,
    )


def sources(ins: Instruction) -> tuple[Operand, ...]:
    """Return the operands whose shapes decide the shape of the results."""
    if ins.opcode in ("ld", "ldu"):
        return (ins.operands[1],)
    return ins.operands[1:]


def result_shape(ins: Instruction, source: Source, env: Mapping[str, Shape]) -> Shape:
    """Return the shape of an instruction's results under `env`."""
    operands = sources(ins)
    if ins.opcode == "cvta" and ins.space in ("shared", "local", "param"):
        return _other_space(ins, source, source.shape(ins.operands[1], 64, env))
    if ins.opcode == "mov" and any(isinstance(o, Vec) for o in ins.operands):
        items = [i for o in ins.operands[1:] for i in (o.items if isinstance(o, Vec) else (o,))]
        uniform = all(source.shape(i, 64, env).uniform for i in items)
        return UNIFORM if uniform else VARYING
    if find(ins) is not None and ins.types:
        _, kinds = signature(ins)
        widths = [BITS[k] for k in kinds]
        shapes = [source.shape(o, w, env) for o, w in zip(operands, widths, strict=True)]
    else:
        shapes = [source.shape(o, 64, env) for o in operands]
        if ins.opcode in ("ld", "ldu") and isinstance(ins.operands[1], Mem):
            shape = shapes[0]
            if ins.space == "local":  # the same address is another place in every thread
                return VARYING
            if ins.space == "param" and not isinstance(shape, Known):  # checked when it runs
                return VARYING
            if ins.space == "param" and ins.vector == 1 and (number := single(shape)) is not None:
                return source.param(number + ins.operands[1].offset, ins.types[-1]) or UNIFORM
            return UNIFORM if shape.uniform and not isinstance(shape, type(VARYING)) else VARYING
    return shape_of(ins, shapes)


def _other_space(ins: Instruction, source: Source, shape: Shape) -> Shape:
    """Return what cvta gives: plus a constant, for local memory another in each thread."""
    have = affine(shape)
    if have is None:
        return VARYING
    step = affine(source.local_window)
    if ins.space != "local" or step is None:
        return Affine(have.offsets)
    sign = -1 if "to" in ins.flags else 1
    return Affine(tuple(a + sign * b for a, b in zip(have.offsets, step.offsets, strict=True)))


def decided(guard: Guard, shape: Shape | None) -> bool | None:
    """Return whether a guard is true in every lane of every warp, or false; None where neither."""
    number = None if shape is None else single(shape)
    return None if number is None else bool(number) != guard.negated


class _Analysis:
    """The fixed point of shapes and divergence, which feed each other."""

    def __init__(self, function: Function, cfg: Cfg, source: Source) -> None:
        self.function, self.cfg, self.source = function, cfg, source
        self.shapes: dict[str, Shape] = {}
        self.divergent: set[int] = set()
        self.reached = {cfg.order[0]}
        self.meets = cfg.postdominators(ignore_leaving=True)
        self.registers = [defs_uses(ins) for ins in function.body]
        self._definitions: dict[str, int] = {}
        self._clock = itertools.count(1)
        self._visited: dict[int, int] = {}  # when, by instruction
        self._changed: dict[str, int] = {}  # when, by register
        self._local = self._block_local()

    def _block_local(self) -> set[str]:
        """Return registers defined before use inside one block and used nowhere else."""
        where: dict[str, set[int]] = {}
        exposed: set[str] = set()
        for b, block in enumerate(self.cfg.blocks):
            defined: set[str] = set()
            for pc in range(block.start, block.end):
                ins = self.function.body[pc]
                defs, uses = self.registers[pc]
                for name in uses:
                    where.setdefault(name, set()).add(b)
                    if name not in defined:
                        exposed.add(name)
                for name in defs:
                    where.setdefault(name, set()).add(b)
                    self._definitions[name] = self._definitions.get(name, 0) + 1
                    if ins.guard is not None and name not in defined:
                        exposed.add(name)
                defined.update(defs)
        return {name for name, blocks in where.items() if len(blocks) == 1} - exposed

    def run(self) -> None:
        """Iterate until nothing changes."""
        changed = True
        while changed:
            changed = False
            for b in self.cfg.order:
                if b not in self.reached:
                    continue
                block = self.cfg.blocks[b]
                for pc in range(block.start, block.end):
                    changed |= self._visit(pc, b)
                onward = self._onward(block)
                changed |= not self.reached.issuperset(onward)
                self.reached.update(onward)
            if self._diverge():
                changed = True
                self._visited.clear()

    def _onward(self, block: Block) -> Sequence[int]:
        """Return the blocks that may come next, as far as is known of the predicate."""
        last = self.function.body[block.end - 1] if block.end > block.start else None
        if last is None or last.opcode != "bra" or last.guard is None or len(block.successors) < 2:
            return block.successors
        way = decided(last.guard, self.shapes.get(last.guard.reg.name))
        return (
            block.successors
            if way is None
            else block.successors[:1]
            if way
            else block.successors[1:]
        )

    def _visit(self, pc: int, block: int) -> bool:
        ins = self.function.body[pc]
        defs, uses = self.registers[pc]
        before = self._visited.get(pc)
        if not defs or (before and all(self._changed.get(u, 0) < before for u in uses)):
            return False
        if any(u in self._definitions and u not in self.shapes for u in uses):
            return False
        now = self._visited[pc] = next(self._clock)
        shape = result_shape(ins, self.source, self.shapes)
        if ins.opcode == "cvt" or (ins.opcode == "ld" and isinstance(shape, Known)):
            shape = extended(shape, ins.types[0], BITS[self.function.registers[defs[0]]])
        if ins.guard is not None and not self.shapes.get(ins.guard.reg.name, UNIFORM).uniform:
            shape = VARYING
        changed = False
        for name in defs:
            new = shape
            old = self.shapes.get(name)
            if block in self.divergent and name not in self._local:
                once = self._definitions[name] == 1 and isinstance(shape, Known)
                new = shape if once and ins.guard is None else VARYING
            new = widen(old, join(old, new))
            if old is None or not old.same(new):
                self.shapes[name] = new
                self._changed[name] = now
                changed = True
        return changed

    def leaves_apart(self, block: int) -> bool:
        """Whether some lanes of a warp return at the end of a block, or jump to a bare return."""
        b = self.cfg.blocks[block]
        last = self.function.body[b.end - 1] if b.end > b.start else None
        if last is None or self._uniform(last):
            return b.leaves and block in self.divergent
        return b.leaves or any(
            self.cfg.blocks[s].leaves and not self.cfg.blocks[s].successors for s in b.successors
        )

    def _uniform(self, ins: Instruction) -> bool:
        """Whether the lanes of a warp that run `ins` go on together."""
        guard = ins.guard
        if ins.opcode == "brx" and not self.source.shape(ins.operands[0], 32, self.shapes).uniform:
            return False
        return guard is None or self.shapes.get(guard.reg.name, UNIFORM).uniform

    def _diverge(self) -> bool:
        """Mark what lies under the branches that are now known to diverge."""
        before = len(self.divergent)
        for b, block in enumerate(self.cfg.blocks):
            if block.end == block.start:
                continue
            last = self.function.body[block.end - 1]
            if last.opcode not in BRANCHES or self._uniform(last):
                continue
            staying = [s for s in block.successors if not self._bare_exit(s)]
            if len(staying) > 1:
                self._mark(staying, self.meets[b])
            elif staying and not self.cfg.reducible:
                self.divergent.update(range(len(self.cfg.blocks)))
        if self.divergent and not self.cfg.reducible:
            self.divergent.update(range(len(self.cfg.blocks)))
        return len(self.divergent) != before

    def _bare_exit(self, block: int) -> bool:
        b = self.cfg.blocks[block]
        return b.leaves and not b.successors and b.end - b.start <= 1

    def _mark(self, starts: Sequence[int], stop: int | None) -> None:
        todo = [s for s in starts if s != stop]
        seen = set(todo)
        while todo:
            block = todo.pop()
            self.divergent.add(block)
            for s in self.cfg.blocks[block].successors:
                if s != stop and s not in seen:
                    seen.add(s)
                    todo.append(s)


def _live_out(
    function: Function,
    cfg: Cfg,
    registers: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    reached: Collection[int],
) -> list[frozenset[str]]:
    """Return registers that are read after each block before they are written."""
    use: list[set[str]] = []
    define: list[set[str]] = []
    for block in cfg.blocks:
        read: set[str] = set()
        written: set[str] = set()
        for pc in range(block.start, block.end):
            defs, uses = registers[pc]
            read.update(u for u in uses if u not in written)
            if function.body[pc].guard is None:
                written.update(defs)
            else:
                read.update(d for d in defs if d not in written)
        use.append(read)
        define.append(written)
    out: list[set[str]] = [set() for _ in cfg.blocks]
    into: list[set[str]] = [set() for _ in cfg.blocks]
    changed = True
    while changed:
        changed = False
        for b in filter(reached.__contains__, reversed(cfg.order)):
            out[b] = set().union(*(into[s] for s in cfg.blocks[b].successors))
            new = use[b] | (out[b] - define[b])
            if new != into[b]:
                into[b], changed = new, True
    return [frozenset(o) for o in out]
