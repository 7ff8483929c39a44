"""Loads, stores and atomics.

Every access is checked before it is made. What is known of the address decides how:

* s + offsets (an Affine base): one scalar check of the range that all lanes touch; loads become
  plain vector loads and constant shuffles, shared by the loads of a block that have a base in
  common (a `Group`).
* anything else: a check of all lanes' addresses at once, then a gather or scatter.

Where a check fails, the runtime goes lane by lane: it finds the fault, or that the offending lane
was not active, or that the lanes address several arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import state
from tilewright.emulator.block import ALL
from tilewright.emulator.codegen import I1, I8, I32, I64, PTR, Value, bits_of
from tilewright.emulator.frame import masked_store
from tilewright.emulator.lanes import BITS, UNIFORM, WARP, Affine, Known, affine
from tilewright.emulator.ops import permute, scattered
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.runtime import SPACES
from tilewright.emulator.signature import lane_type
from tilewright.toolchain.ptx.cfg import Block
from tilewright.toolchain.ptx.instructions import defs_uses
from tilewright.toolchain.ptx.ir import Instruction, Mem, Operand, Reg, Vec

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

_SPAN_LIMIT = 1 << 16  # bytes that the loads of a group may lie apart
_SCRATCH = 1 << 18


@dataclass(slots=True)
class Group:
    """Loads of one block with the same base register, with no store in between.

    `members` are (pc, offset, bytes); `pieces` caches what has been loaded for them.
    """

    members: list[tuple[int, int, int]] = field(default_factory=list)
    pointer: ir.Value | None = None
    lowest: int = 0
    span: int = 0
    pieces: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)


def space_of(ins: Instruction) -> str:
    """Return the state space of an access, `generic` where it names none."""
    space = ins.space or "generic"
    if space not in SPACES:
        raise unsupported(ins, f"the state space .{space}")
    return space


def address_of(ins: Instruction) -> Mem:
    """Return the memory operand."""
    at = ins.operands[0 if ins.opcode in ("st", "red") else 1]
    if not isinstance(at, Mem):
        raise unsupported(ins, "this form of memory operand")
    return at


def access_bytes(ins: Instruction) -> int:
    """Bytes that one lane moves."""
    return BITS[ins.types[-1]] // 8 * ins.vector


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
            key = (space, base, version, epochs[space], pc if ins.guard else None)
            group = open_groups.setdefault(key, Group())
            offsets = [m[1] for m in group.members]
            if offsets and max(*offsets, at.offset) - min(*offsets, at.offset) > _SPAN_LIMIT // 2:
                group = open_groups[key] = Group()
            group.members.append((pc, at.offset, access_bytes(ins)))
            groups[pc] = group
        elif ins.opcode in ("st", "atom", "red"):
            for space in _may_write(ins):
                epochs[space] = epochs.get(space, 0) + 1
        for name in defs_uses(ins)[0]:
            versions[name] = versions.get(name, 0) + 1
    return groups


def _may_write(ins: Instruction) -> tuple[str, ...]:
    space = ins.space or "generic"
    return tuple(SPACES) if space == "generic" else (space, "generic")


# --- checked pointers -----------------------------------------------------------------------------


def base_value(code: BlockCode, at: Mem) -> Value:
    """Return the base address as a register holds it: 32 or 64 bits."""
    if isinstance(at.base, Reg):
        value = code.register(at.base.name)
        bits = bits_of(value.type)
        return code.read(at.base, f"u{bits}")
    return code.read(at.base, "u64")


def _start(code: BlockCode, base: Value, lowest: int) -> ir.Value:
    scalar = code.e.scalar(base)
    if bits_of(base.type) < 64:
        scalar = code.b.zext(scalar, I64)
    return code.b.add(scalar, ir.Constant(I64, lowest)) if lowest else scalar


def _span_check(
    t: Translator, code: BlockCode, space: str, start: ir.Value, span: int
) -> tuple[ir.Value, ir.Value]:
    """Whether [start, start + span) lies in one array, and the host pointer to start (as i64)."""
    b = code.b
    if space == "shared":
        size = t.frame.layout.shared_bytes
        pointer = b.add(code.context("shared", I64), start)
        if span > size:
            return ir.Constant(I1, 0), pointer
        return b.icmp_unsigned("<=", start, ir.Constant(I64, size - span)), pointer
    host, first, size, low = scattered.segment_of(b, code.context, start)
    room = b.sub(size, ir.Constant(I64, span))
    fits = b.icmp_unsigned(">=", size, ir.Constant(I64, span))
    inside = b.icmp_unsigned("<=", b.sub(low, first), room)
    return b.and_(fits, inside), b.add(host, low)


def _alignment(
    code: BlockCode, start: ir.Value, shape: Affine, places: list[tuple[int, int]]
) -> ir.Value | None:
    """Whether start + place is a multiple of its width, for all (place, width). None: surely."""
    checks: dict[tuple[int, int], None] = {}
    for place, width in places:
        if width > 1:
            checks[place % width, width] = None
    result: ir.Value | None = None
    for rest, width in checks:
        moved = code.b.add(start, ir.Constant(I64, rest))
        low = code.b.and_(moved, ir.Constant(I64, width - 1))
        one = code.b.icmp_unsigned("==", low, ir.Constant(I64, 0))
        result = one if result is None else code.b.and_(result, one)
    return result


def _group_pointer(t: Translator, code: BlockCode, group: Group, base: Value, space: str) -> None:
    """Check a group once and set its pointer, to the lowest byte that any lane may read."""
    shape = affine(base.shape)
    if shape is None:
        raise AssertionError("a group has an affine base")
    b = code.b
    low, high = min(shape.offsets), max(shape.offsets)
    group.lowest = low + min(offset for _, offset, _ in group.members)
    span = high + max(offset + size for _, offset, size in group.members) - group.lowest
    group.span = span
    start = _start(code, base, group.lowest)
    ok, pointer = _span_check(t, code, space, start, span)
    steps = sorted(set(shape.offsets))
    places = [(s + o - group.lowest, w) for _, o, w in group.members for s in steps]
    aligned = _alignment(code, start, shape, places)
    if aligned is not None:
        ok = b.and_(ok, aligned)
    fast = b.inttoptr(pointer, PTR)
    before = b.block
    slow, after = (t.function.append_basic_block() for _ in range(2))
    b.cbranch(ok, after, slow)
    b.position_at_end(slow)
    checked = _slow_group(t, code, group, (start, span), shape.offsets, space)
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
    mask = code.group_mask
    return code.b.call(
        function, [t.frame.context, number, start, scratch, table, mask, t.e.warp_index]
    )


# --- loads ----------------------------------------------------------------------------------------


def load(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """ld, in every state space."""
    at = address_of(ins)
    base = base_value(code, at)
    if ins.space == "param":
        if isinstance(base.shape, Known) and base.shape.uniform:
            _load_param(t, code, ins, base, at.offset)
            return
        # An indexed parameter is checked as any memory is, by its generic address.
        at = Mem(at.base, at.offset + (state.PARAM_SEGMENT << state.SEGMENT_SHIFT))
    active = code.active(ins)
    if t.counting and ins.space != "param":
        _record(t, code, pc, base, at.offset, active)
    space = "generic" if ins.space == "param" else space_of(ins)
    shape = affine(base.shape)
    if shape is not None and pc in code.groups and _span(shape) <= _SPAN_LIMIT:
        values = _load_affine(t, code, pc, ins, base, active)
    else:
        lane = lane_type(ins.types[-1])
        access = scattered.Access(space, lane, ins.vector)
        loaded = scattered.load(t, access, _wide(code, base, at.offset), active, pc)
        values = [code.e.varying(lane, chunks) for chunks in loaded]
    kind = ins.types[-1]
    for operand, value in zip(results_of(ins.operands[0]), values, strict=True):
        code.write(operand, value, ins, kind)


def _span(shape: Affine) -> int:
    return max(shape.offsets) - min(shape.offsets)


def results_of(operand: Operand) -> tuple[Operand, ...]:
    """Return the registers of a load or store, one a vector element."""
    return operand.items if isinstance(operand, Vec) else (operand,)


def _load_param(t: Translator, code: BlockCode, ins: Instruction, base: Value, offset: int) -> None:
    """Load a parameter from a place that is known."""
    lane = lane_type(ins.types[-1])
    size = bits_of(lane) // 8
    start = int(code.e.scalar(base).constant) + offset
    if not 0 <= start <= t.frame.layout.param_bytes - size * ins.vector:
        raise unsupported(ins, "an access outside the kernel's parameters")
    address = code.b.add(code.context("params", I64), ir.Constant(I64, start))
    for number, operand in enumerate(results_of(ins.operands[0])):
        place = code.b.add(address, ir.Constant(I64, number * size))
        scalar = code.b.load(code.b.inttoptr(place, PTR), typ=lane, align=size)
        code.write(operand, Value(lane, UNIFORM, scalar), ins, ins.types[-1])


def _load_affine(
    t: Translator, code: BlockCode, pc: int, ins: Instruction, base: Value, active: ir.Value
) -> list[Value]:
    group = code.groups[pc]
    code.group_mask = active
    if group.pointer is None:
        _group_pointer(t, code, group, base, space_of(ins))
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


def _wide(code: BlockCode, base: Value, offset: int) -> tuple[ir.Value, ...]:
    """Every lane's address as i64 chunks."""
    kind = ir.VectorType(I64, code.e.width)

    def one(chunk: ir.Value) -> ir.Value:
        bits = chunk.type.element.width
        wide = chunk if bits == 64 else code.b.zext(chunk, kind)
        return code.b.add(wide, code.e.const(wide, offset)) if offset else wide

    return code.e.map(one, code.e.vector(base))


# --- stores ---------------------------------------------------------------------------------------


def store(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """st, in every state space."""
    at = address_of(ins)
    base = base_value(code, at)
    active = code.active(ins)
    if t.counting:
        _record(t, code, pc, base, at.offset, active)
    values = [code.read(o, ins.types[-1]) for o in results_of(ins.operands[1])]
    chunks = [code.e.vector(v) for v in values]
    if _plain(code, ins, base):
        _store_affine(t, code, pc, ins, base, active, chunks)
    else:
        kind = scattered.Access(space_of(ins), lane_type(ins.types[-1]), ins.vector)
        scattered.store(t, kind, _wide(code, base, at.offset), chunks, active, pc)


def _plain(code: BlockCode, ins: Instruction, base: Value) -> bool:
    """Whether a store is worth code of its own: known offsets, and not on a path for edges."""
    shape = affine(base.shape)
    return (
        shape is not None
        and ins.space != "local"
        and not code.divergent
        and _span(shape) <= _SPAN_LIMIT
    )


def _store_affine(
    t: Translator,
    code: BlockCode,
    pc: int,
    ins: Instruction,
    base: Value,
    active: ir.Value,
    chunks: list[tuple[ir.Value, ...]],
) -> None:
    b, e, offset = code.b, code.e, address_of(ins).offset
    space, shape = space_of(ins), affine(base.shape)
    if shape is None:
        raise AssertionError("not affine")
    lane = lane_type(ins.types[-1])
    size = bits_of(lane) // 8
    low = min(shape.offsets) + offset
    start = _start(code, base, low)
    ok, first = _span_check(t, code, space, start, _span(shape) + size * ins.vector)
    places = [(o + offset - low, size * ins.vector) for o in set(shape.offsets)]
    aligned = _alignment(code, start, shape, places)
    ok = b.and_(ok, aligned) if aligned is not None else ok
    fast, slow, after = (t.function.append_basic_block() for _ in range(3))
    b.cbranch(ok, fast, slow)
    b.position_at_end(fast)
    if _is_contiguous(shape, size) and ins.vector == 1:
        _store_contiguous(code, first, chunks[0], active)
    else:
        kind = ir.VectorType(I64, e.width)
        steps = e.parts([o + offset - low for o in shape.offsets])
        pointers = tuple(b.add(e.splat(first), ir.Constant(kind, part)) for part in steps)
        bits = e.const_of(ir.VectorType(I1, e.width), 1)
        masks = [bits] * e.chunks if active is ALL else e.mask_chunks(active)
        for number, part in enumerate(chunks):
            scattered.scatter(e, part, pointers, number * size, masks)
    b.branch(after)
    b.position_at_end(slow)
    scattered.store(
        t, scattered.Access(space, lane, ins.vector), _wide(code, base, offset), chunks, active, pc
    )
    b.branch(after)
    b.position_at_end(after)


def _is_contiguous(shape: Affine, size: int) -> bool:
    return shape.offsets == tuple(shape.offsets[0] + size * lane for lane in range(WARP))


def _store_contiguous(
    code: BlockCode, first: ir.Value, chunks: Sequence[ir.Value], active: ir.Value
) -> None:
    b, e = code.b, code.e
    kind = chunks[0].type
    size = bits_of(kind.element) // 8
    masks = None if active is ALL else e.mask_chunks(active)
    for number, chunk in enumerate(chunks):
        at = b.inttoptr(b.add(first, ir.Constant(I64, number * e.width * size)), PTR)
        if masks is None:
            b.store(chunk, at, align=size)
            continue
        masked_store(e, chunk, at, size, masks[number])


def _buffer(t: Translator, code: BlockCode, chunks: Sequence[ir.Value]) -> ir.Value:
    """Store 32 lanes to stack memory, for the runtime to read."""
    buffer = t.stack(chunks[0].type.element)
    for number, chunk in enumerate(chunks):
        at = code.b.gep(buffer, [ir.Constant(I64, number)], source_etype=chunk.type)
        code.b.store(chunk, at, align=8)
    return buffer


# --- atomics --------------------------------------------------------------------------------------


def atomic(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit atom and red: lane by lane, each a host atomic, so that all workers agree."""
    from tilewright.emulator.ops.atomics import atomic_function

    if ins.vector > 1:
        raise unsupported(ins, "a vector atomic")
    at = address_of(ins)
    base = base_value(code, at)
    active = code.active(ins)
    if t.counting:
        _record(t, code, pc, base, at.offset, active)
    first = 1 if ins.opcode == "red" else 2
    kind = ins.types[-1]
    lane = lane_type(kind)
    data = [_buffer(t, code, code.e.vector(code.read(o, kind))) for o in ins.operands[first:]]
    if len(data) == 1:
        data.append(data[0])
    addresses = _buffer(t, code, _wide(code, base, at.offset))
    old = t.stack(lane)
    args = [
        t.frame.context,
        ir.Constant(I32, SPACES[space_of(ins)]),
        addresses,
        *data,
        old,
        active,
        t.e.warp_index,
        ir.Constant(I32, pc),
    ]
    good = t.function.append_basic_block()
    code.b.cbranch(code.b.call(atomic_function(t, ins), args), good, t.faulted)
    code.b.position_at_end(good)
    if ins.opcode == "red":
        return
    vector = ir.VectorType(lane, code.e.width)
    chunks = [
        code.b.load(
            code.b.gep(old, [ir.Constant(I64, c)], source_etype=vector), typ=vector, align=8
        )
        for c in range(code.e.chunks)
    ]
    code.write(ins.operands[0], code.e.varying(lane, chunks), ins, kind)


# --- events ---------------------------------------------------------------------------------------


def _record(
    t: Translator, code: BlockCode, pc: int, base: Value, offset: int, active: ir.Value
) -> None:
    """Append an event to the worker's buffer; addresses that are anything go to a row of theirs."""
    b = code.b
    count = code.context("event_count", I64)
    at = b.mul(count, ir.Constant(I64, state.EVENT_BYTES))
    event = b.gep(code.context("events", PTR), [at], source_etype=I8)

    def put(name: str, value: ir.Value) -> None:
        place = ir.Constant(I64, state.event_offset(name))
        b.store(value, b.gep(event, [place], source_etype=I8))

    def advance(name: str, value: ir.Value) -> None:
        place = ir.Constant(I64, state.offset(name))
        b.store(b.add(value, ir.Constant(I64, 1)), b.gep(t.frame.context, [place], source_etype=I8))

    put("block", code.context("block", I64))
    put("pc", ir.Constant(I32, pc))
    put("warp", t.e.warp_index)
    put("mask", active)
    shape = affine(base.shape)
    if shape is not None and space_of(t.plan.function.body[pc]) != "local":
        t.offsets[pc] = shape.offsets
        put("row", ir.Constant(I32, -1))
        put("base", _start(code, base, offset))
    else:
        number = code.context("row_count", I64)
        put("row", b.trunc(number, I32))
        rows = b.gep(
            code.context("event_rows", PTR), [number], source_etype=ir.ArrayType(I64, WARP)
        )
        for chunk_number, chunk in enumerate(_wide(code, base, offset)):
            place = b.gep(rows, [ir.Constant(I64, chunk_number)], source_etype=chunk.type)
            b.store(chunk, place, align=8)
        advance("row_count", number)
    advance("event_count", count)
