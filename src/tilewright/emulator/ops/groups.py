"""Loads that have a base register in common: checked once, read by vector loads and shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator.codegen import I8, I32, I64, PTR, Value, bits_of
from tilewright.emulator.lanes import UNIFORM, affine
from tilewright.emulator.ops import permute
from tilewright.emulator.ops.accesses import (
    SPAN_LIMIT,
    access_bytes,
    address_of,
    alignment,
    space_of,
    span_check,
    start_of,
)
from tilewright.emulator.runtime import SPACES
from tilewright.emulator.signature import lane_type
from tilewright.toolchain.ptx.cfg import Block
from tilewright.toolchain.ptx.instructions import defs_uses
from tilewright.toolchain.ptx.ir import Instruction, Reg

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator


_ORDERED = frozenset({"volatile", "relaxed", "acquire", "mmio"})


@dataclass(slots=True)
class Group:
    """Loads of one block with the same base register, with no store and no fence in between.

    `members` are (pc, offset, bytes); `pieces` caches what has been loaded for them.
    """

    members: list[tuple[int, int, int]] = field(default_factory=list)
    pointer: ir.Value | None = None
    lowest: int = 0
    span: int = 0
    pieces: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)


def group_loads(body: Sequence[Instruction], block: Block) -> dict[int, Group]:
    """Return the groups of a block, by the pc of each member."""
    groups: dict[int, Group] = {}
    open_groups: dict[tuple[object, ...], Group] = {}
    versions: dict[str, int] = {}
    epochs = dict.fromkeys(SPACES, 0)
    for pc in range(block.start, block.end):
        ins = body[pc]
        if ins.opcode in ("ld", "ldu") and ins.space not in ("param", "local"):
            at = address_of(ins)
            base = at.base
            version = versions.get(base.name, 0) if isinstance(base, Reg) else 0
            space = space_of(ins)
            alone = ins.guard is not None or is_ordered(ins)
            key = (space, base, version, epochs[space], pc if alone else None)
            group = open_groups.setdefault(key, Group())
            offsets = [m[1] for m in group.members]
            if offsets and max(*offsets, at.offset) - min(*offsets, at.offset) > SPAN_LIMIT // 2:
                group = open_groups[key] = Group()
            group.members.append((pc, at.offset, access_bytes(ins)))
            groups[pc] = group
        if is_ordered(ins) or ins.opcode in ("membar", "fence"):
            epochs = {space: epoch + 1 for space, epoch in epochs.items()}
        elif ins.opcode in ("st", "atom", "red", "cp"):
            for space in _may_write(ins):
                epochs[space] = epochs.get(space, 0) + 1
        for name in defs_uses(ins)[0]:
            versions[name] = versions.get(name, 0) + 1
    return groups


def is_ordered(ins: Instruction) -> bool:
    """Whether a load sees what other threads have written since the one before."""
    return not _ORDERED.isdisjoint(ins.flags) and ins.opcode in ("ld", "ldu")


def _may_write(ins: Instruction) -> tuple[str, ...]:
    space = "shared" if ins.opcode == "cp" else ins.space or "generic"
    return tuple(SPACES) if space == "generic" else (space, "generic")


def _group_pointer(
    t: Translator, code: BlockCode, group: Group, base: Value, space: str, active: ir.Value
) -> None:
    """Check a group once and set its pointer, to the lowest byte that any lane may read."""
    shape = affine(base.shape)
    if shape is None:
        raise AssertionError("a group has an affine base")
    b = code.b
    low, high = min(shape.offsets), max(shape.offsets)
    group.lowest = low + min(offset for _, offset, _ in group.members)
    span = high + max(offset + size for _, offset, size in group.members) - group.lowest
    group.span = span
    start = start_of(code, base, group.lowest)
    ok, pointer = span_check(t, code, space, start, span)
    steps = sorted(set(shape.offsets))
    places = [(s + o - group.lowest, w) for _, o, w in group.members for s in steps]
    aligned = alignment(code, start, shape, places)
    if aligned is not None:
        ok = b.and_(ok, aligned)
    fast = b.inttoptr(pointer, PTR)
    before = b.block
    slow, after = (t.function.append_basic_block() for _ in range(2))
    b.cbranch(ok, after, slow)
    b.position_at_end(slow)
    checked = _slow_group(t, code, group, (start, span), shape.offsets, space, active)
    good = t.function.append_basic_block()
    b.cbranch(b.icmp_unsigned("==", b.ptrtoint(checked, I64), ir.Constant(I64, 0)), t.faulted, good)
    b.position_at_end(good)
    b.branch(after)
    b.position_at_end(after)
    phi = b.phi(PTR)
    phi.add_incoming(fast, before)
    phi.add_incoming(checked, good)
    group.pointer = phi


def _slow_group(
    t: Translator,
    code: BlockCode,
    group: Group,
    where: tuple[ir.Value, int],
    offsets: tuple[int, ...],
    space: str,
    active: ir.Value,
) -> ir.Value:
    start, span = where
    words = [len(group.members), span]
    for pc, offset, size in group.members:
        words += [offset - group.lowest, size, pc]
    words += offsets
    kind = ir.ArrayType(I64, len(words))
    table = ir.GlobalVariable(t.module, kind, t.module.get_unique_name("group"))
    table.initializer = ir.Constant(kind, words)
    table.global_constant = True
    table.linkage = "internal"
    function = t.external("tw_group", PTR, [PTR, I32, I64, PTR, PTR, I32, I32])
    room = -(-span // 64) * 64
    at = ir.Constant(I64, code.scratch_used)
    code.scratch_used += room
    t.scratch_bytes = max(t.scratch_bytes, code.scratch_used)
    scratch = code.b.gep(code.context("scratch", PTR), [at], source_etype=I8)
    number = ir.Constant(I32, SPACES[space])
    return code.b.call(
        function, [t.frame.context, number, start, scratch, table, active, t.e.warp_index]
    )


def load_affine(
    t: Translator, code: BlockCode, pc: int, ins: Instruction, base: Value, active: ir.Value
) -> list[Value]:
    """Emit a load whose base is s + offsets; returns the value of each vector element."""
    group = code.groups[pc]
    if group.pointer is None:
        _group_pointer(t, code, group, base, space_of(ins), active)
    shape = affine(base.shape)
    if shape is None or group.pointer is None:
        raise AssertionError("no pointer for an affine load")
    lane = lane_type(ins.types[-1])
    size = bits_of(lane) // 8
    values = []
    for number in range(ins.vector):
        place = address_of(ins).offset + number * size - group.lowest
        if shape.uniform:
            pointer = code.b.gep(
                group.pointer, [ir.Constant(I64, place + shape.offsets[0])], source_etype=I8
            )
            values.append(Value(lane, UNIFORM, code.b.load(pointer, typ=lane, align=size)))
        else:
            places = [o + place for o in shape.offsets]
            values.append(code.e.varying(lane, permute.load(code.e, group, lane, places)))
    return values
