"""brx.idx: a branch to one of several places, by number (PTX ISA 9.7.12.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.block import ALL
from tilewright.emulator.codegen import I32, I64, Value, integers
from tilewright.emulator.lanes import WARP
from tilewright.emulator.ops.scattered import gather
from tilewright.emulator.state import Fault
from tilewright.toolchain.ptx.cfg import targets_of
from tilewright.toolchain.ptx.ir import Instruction

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator


def indexed(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit brx.idx, which ends a block. The ISA defines no index past the table: it is a fault."""
    b = code.b
    index = code.read(ins.operands[0], "u32")
    guard = code.guard(ins) if ins.guard is not None else None
    targets = [t.place_of(at) for at in targets_of(ins, t.plan.function.labels)]
    together = index.shape.uniform and not index.chunks
    if guard is not None and guard.shape.uniform and not guard.chunks:
        code.save()
        yes, no = (t.function.append_basic_block() for _ in range(2))
        b.cbranch(code.e.scalar(guard), yes, no)
        b.position_at_end(no)
        t.fall(code, pc + 1)
        b.position_at_end(yes)
        guard = None
    else:
        code.save()
    if together and guard is None:
        _switch(t, code, pc, code.e.scalar(index), targets)
    else:
        _scatter(t, code, pc, index, guard, targets)


def _switch(
    t: Translator, code: BlockCode, pc: int, index: ir.Value, targets: list[int | None]
) -> None:
    """Go to one place with all lanes."""
    b = code.b
    outside = t.function.append_basic_block()
    switch = b.switch(index, outside)
    b.position_at_end(outside)
    t.fault(Fault.BRANCH, ir.Constant(I32, pc), t.first(code.mask), b.zext(index, I64))
    for target in dict.fromkeys(targets):
        here = t.function.append_basic_block()
        for number, other in enumerate(targets):
            if other == target:
                switch.add_case(ir.Constant(I32, number), here)
        b.position_at_end(here)
        t.go(code, target)


def _scatter(
    t: Translator,
    code: BlockCode,
    pc: int,
    index: Value,
    guard: Value | None,
    targets: list[int | None],
) -> None:
    """Send each lane to its own place, those that the guard stops to the next instruction."""
    b, e = code.b, code.e
    indices = e.vector(index)
    bits = code.mask if guard is None else e.mask_bits(e.vector(guard))
    branching = bits if guard is None or code.mask is ALL else b.and_(bits, code.mask)
    past = e.map(lambda c: b.icmp_unsigned(">=", c, e.const(c, len(targets))), indices)
    bad = b.and_(e.mask_bits(past), branching)
    outside, inside = (t.function.append_basic_block() for _ in range(2))
    b.cbranch(b.icmp_unsigned("!=", bad, ir.Constant(I32, 0)), outside, inside)
    b.position_at_end(outside)
    lane = t.first(bad)
    wrong = b.zext(b.extract_element(e.joined(indices), lane), I64)
    t.fault(Fault.BRANCH, ir.Constant(I32, pc), lane, wrong)
    b.position_at_end(inside)
    places = _look_up(t, code, indices, targets, e.mask_chunks(branching))
    if guard is not None:
        behind = t.place_of(pc + 1)
        targets = [*targets, behind]
        on = integers(I32, (_number(behind),) * WARP)
        places = b.select(b.bitcast(branching, ir.VectorType(ir.IntType(1), WARP)), places, on)
    _part(t, code, places, targets)


def _number(target: int | None) -> int:
    return state.EXITED if target is None else target


def _look_up(
    t: Translator,
    code: BlockCode,
    indices: tuple[ir.Value, ...],
    targets: list[int | None],
    masks: tuple[ir.Value, ...],
) -> ir.Value:
    """Return the number of each lane's block, as one vector."""
    b, e = code.b, code.e
    kind = ir.ArrayType(I32, len(targets))
    table = ir.GlobalVariable(t.module, kind, t.module.get_unique_name("targets"))
    table.initializer = ir.Constant(kind, [_number(target) for target in targets])
    table.global_constant = True
    table.linkage = "internal"
    start = e.splat(b.ptrtoint(table, I64))

    def pointer(chunk: ir.Value) -> ir.Value:
        wide = b.zext(chunk, start.type)
        return b.add(start, b.shl(wide, e.const(wide, 2)))

    return e.joined(gather(e, I32, e.map(pointer, indices), 0, masks))


def _part(t: Translator, code: BlockCode, places: ir.Value, targets: list[int | None]) -> None:
    """Note where each lane goes on; those at a bare return have returned."""
    b = code.b
    if t.counting:
        _count_parted(t, code, places, targets)
    for target in dict.fromkeys(targets):
        if target is not None and not t.bare_exit(target):
            continue
        here = b.icmp_unsigned("==", places, integers(I32, (_number(target),) * WARP))
        lanes = b.and_(b.bitcast(here, I32), code.mask)
        some, on = (t.function.append_basic_block() for _ in range(2))
        b.cbranch(b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0)), some, on)
        b.position_at_end(some)
        t.leave_at(lanes, target)
        b.branch(on)
        b.position_at_end(on)
        places = b.select(here, integers(I32, (state.EXITED,) * WARP), places)
    running = b.bitcast(code.mask, ir.VectorType(ir.IntType(1), WARP))
    pcs = b.load(t.frame.state, typ=places.type, align=64)
    b.store(b.select(running, places, pcs), t.frame.state, align=64)
    b.branch(t.pick)


def _count_parted(
    t: Translator, code: BlockCode, places: ir.Value, targets: list[int | None]
) -> None:
    """Count the places that lanes go to, but for one of them."""
    b = code.b
    more: ir.Value = ir.Constant(I64, -1)
    for number in dict.fromkeys(map(_number, targets)):
        here = b.icmp_unsigned("==", places, integers(I32, (number,) * WARP))
        lanes = b.and_(b.bitcast(here, I32), code.mask)
        some = b.icmp_unsigned("!=", lanes, ir.Constant(I32, 0))
        more = b.add(more, b.zext(some, I64))
    t.parted(code.number, more)
