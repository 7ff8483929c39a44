"""The order of instructions inside a straight stretch of code: value by value, not step by step.

An unrolled main loop updates every accumulator once a step along k. In that order each update
loads an accumulator and stores it again, since 64 warp-wide accumulators exceed the host's
registers many times over. Here the stretch is put into the order of its results: all steps of one
accumulator, then all of the next, so that each stays in a register from its first step to its last.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

_FEW = 32  # saves: so many accumulators fit in registers, and fare better side by side
_PURE_CALLS = ("llvm.fma.", "llvm.fabs.", "llvm.copysign.")
_LOAD = ir.instructions.LoadInstr
_PURE = (
    ir.instructions.CastInstr,
    ir.instructions.ShuffleVector,
    ir.instructions.InsertElement,
    ir.instructions.ExtractElement,
    ir.instructions.SelectInstr,
    ir.instructions.GEPInstr,
    ir.instructions.CompareInstr,
)


def by_result(block: ir.Block, saves: Sequence[ir.Instruction]) -> None:
    """Reorder `block`, which has no end yet and no stores but `saves`, each to a place of its own.

    A load of the place that a save writes stays before it: it has the old value. They name it by
    the same pointer, for a block has one a slot. Blocks with any other effect are left alone.
    """
    instructions = block.instructions
    if len(saves) <= _FEW:
        return
    stores = {id(s) for s in saves}
    head = [i for i in instructions if isinstance(i, ir.instructions.PhiInstr)]
    body = instructions[len(head) :]
    loads = [i for i in body if isinstance(i, _LOAD)]
    if not all(id(i) in stores or isinstance(i, _LOAD) or _is_pure(i) for i in body):
        return
    ready = {id(i) for i in head}
    inside = {id(i) for i in body}
    ordered: list[ir.Instruction] = []

    def emit(root: ir.Instruction) -> None:
        stack = [(root, iter(root.operands))]
        while stack:
            node, operands = stack[-1]
            for operand in operands:
                if id(operand) in inside and id(operand) not in ready:
                    stack.append((operand, iter(operand.operands)))
                    break
            else:
                stack.pop()
                if id(node) not in ready:
                    ready.add(id(node))
                    ordered.append(node)

    old: dict[int, list[ir.Instruction]] = {id(_place(save)): [] for save in saves}
    used = {id(o) for i in body for o in i.operands}
    for load in loads:
        if id(_place(load)) in old:
            old[id(_place(load))].append(load)
            if id(load) not in used:
                emit(load)
    for save in saves:
        for load in old[id(_place(save))]:
            emit(load)
        emit(save)
    for instruction in body:
        emit(instruction)
    if len(ordered) == len(body):
        block.instructions[:] = [*head, *ordered]


def _is_pure(instruction: ir.Instruction) -> bool:
    if isinstance(instruction, ir.instructions.CallInstr):
        return str(instruction.callee.name).startswith(_PURE_CALLS)
    return isinstance(instruction, _PURE) or type(instruction) is ir.Instruction


def _place(access: ir.Instruction) -> ir.Value:
    """Return the pointer that a load, a store or a masked store goes by."""
    if isinstance(access, ir.instructions.CallInstr):
        return access.args[1]
    return access.operands[-1]
