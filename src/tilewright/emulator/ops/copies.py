"""cp.async: copies from global to shared memory that a thread waits for later.

    tw_copy<size>(context, state, targets, sources, sizes, mask, warp, pc) -> ok

checks all lanes' addresses at once, as `scattered` does, and notes the copy in the warp's queue
(`emulator.copies` says what is pending, and until when). Both addresses are generic ones here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator import copies, state
from tilewright.emulator.codegen import I1, I8, I32, I64, PTR, Emitter, Value, integers
from tilewright.emulator.lanes import UNIFORM, WARP, constant
from tilewright.emulator.ops import scattered
from tilewright.emulator.ops.accesses import base_value, copied_bytes, lane_addresses
from tilewright.emulator.ops.events import record_row, record_wait
from tilewright.emulator.ops.table import unsupported
from tilewright.emulator.state import Fault
from tilewright.toolchain.ptx.ir import Instruction, Mem, Operand, Reg

if TYPE_CHECKING:
    from tilewright.emulator.block import BlockCode
    from tilewright.emulator.translate import Translator

_ADDRESSES = ir.VectorType(I64, WARP)
_NUMBERS = ir.VectorType(I32, WARP)
_WAYS = frozenset({"async", "ca", "cg", "global"})
_SHARED = state.SHARED_SEGMENT << state.SEGMENT_SHIFT


def copy(t: Translator, code: BlockCode, pc: int, ins: Instruction) -> None:
    """Emit cp.async in its forms: a copy, the end of a group, a wait."""
    active = code.active(ins)
    if "bulk" in ins.flags:
        raise unsupported(ins)
    if "commit_group" in ins.flags:
        commit = t.external("tw_commit", ir.VoidType(), [PTR, I32])
        code.b.call(commit, [t.frame.state, active])
        if t.counting:
            record_wait(t, code, pc, ir.Constant(I32, 0), active)
    elif "wait_group" in ins.flags:
        _wait(t, code, pc, active, code.e.scalar(code.read(ins.operands[0], "u32")))
    elif "wait_all" in ins.flags:
        _wait(t, code, pc, active, ir.Constant(I32, -1))
    elif _is_plain(ins):
        _issue(t, code, pc, ins, active)
    else:
        raise unsupported(ins)


def _is_plain(ins: Instruction) -> bool:
    """Whether the copy is one of few bytes a thread, which the thread itself waits for."""
    hints = {flag for flag in ins.flags if flag.startswith("L2::")}
    return ins.space == "shared" and {*ins.flags} - hints <= _WAYS and "async" in ins.flags


def _wait(t: Translator, code: BlockCode, pc: int, active: ir.Value, keep: ir.Value) -> None:
    if t.counting:
        record_wait(t, code, pc, keep, active)
    function = t.external("tw_complete", ir.VoidType(), [PTR, PTR, I32, I32, I32])
    code.b.call(function, [t.frame.context, t.frame.state, t.e.warp_index, active, keep])


def _issue(t: Translator, code: BlockCode, pc: int, ins: Instruction, active: ir.Value) -> None:
    b, e = code.b, code.e
    target, source = ins.operands[:2]
    size = copied_bytes(ins)
    if size not in (4, 8, 16) or not isinstance(target, Mem) or not isinstance(source, Mem):
        raise unsupported(ins)
    places = [
        b.or_(b.and_(chunk, e.const(chunk, 0xFFFFFFFF)), e.const(chunk, _SHARED))
        for chunk in lane_addresses(code, base_value(code, target), target.offset)
    ]
    targets = e.joined(places)
    sources = e.joined(lane_addresses(code, base_value(code, source), source.offset))
    sizes = e.joined(e.vector(_sizes(code, ins, size)))
    if t.counting:
        empty = b.icmp_unsigned("==", sizes, integers(I32, (0,) * WARP))
        reads = b.and_(active, b.not_(b.bitcast(empty, I32)))
        record_row(t, code, pc, sources, reads)
        record_row(t, code, pc, targets, active)
    function = _function(t, size)
    number = ir.Constant(I32, pc)
    args = [t.frame.context, t.frame.state, targets, sources, sizes, active, t.e.warp_index, number]
    good = t.function.append_basic_block()
    b.cbranch(b.call(function, args), good, t.faulted)
    b.position_at_end(good)


def _sizes(code: BlockCode, ins: Instruction, size: int) -> Value:
    """Return the bytes that each lane reads: all, src-size, or none where ignore-src is true."""
    rest: list[Operand] = list(ins.operands[3:])
    if "L2::cache_hint" in ins.flags:
        rest.pop()
    whole = Value(I32, constant(size, 32, code.e.warps))
    if not rest:
        return whole
    (given,) = rest
    if not (isinstance(given, Reg) and code.frame.types[given.name] == I1):
        return code.read(given, "u32")
    ignore = code.read(given, "pred")
    e = code.e
    if ignore.shape.uniform and not ignore.chunks:
        zero, all_ = ir.Constant(I32, 0), ir.Constant(I32, size)
        return Value(I32, UNIFORM, code.b.select(e.scalar(ignore), zero, all_))
    chunks = e.map(lambda m, c: e.select(m, e.const(c, 0), c), e.vector(ignore), e.vector(whole))
    return e.varying(I32, chunks)


def _function(t: Translator, size: int) -> ir.Function:
    """Return the function that issues a copy of `size` bytes a lane."""
    known = t.module.globals.get(f"tw_copy{size}")
    if known is not None:
        return known
    types = [PTR, PTR, _ADDRESSES, _ADDRESSES, _NUMBERS, I32, I32, I32]
    function = ir.Function(t.module, ir.FunctionType(I1, types), f"tw_copy{size}")
    function.linkage = "internal"
    function.attributes.add("noinline")
    _Body(t, function, size).build()
    return function


class _Body:
    """The inside of that function."""

    def __init__(self, t: Translator, function: ir.Function, size: int) -> None:
        self.t, self.function, self.size = t, function, size
        self.b = ir.IRBuilder(function.append_basic_block("entry"))
        self.e = Emitter(t.module, self.b, t.e.warps, WARP)
        self.context, self.state, self.targets, self.sources, self.sizes, *rest = function.args
        self.mask, self.warp, self.pc = rest

    def build(self) -> None:
        """Emit it."""
        b = self.b
        self._check_sizes()
        empty = b.icmp_unsigned("==", self.sizes, integers(I32, (0,) * WARP))
        reads = b.and_(self.mask, b.not_(b.bitcast(empty, I32)))
        idle = b.icmp_unsigned("==", reads, ir.Constant(I32, 0))
        sources, readable = self._together(self.sources, reads)
        targets, writable = self._together(self.targets, self.mask)
        quick = b.block
        slow, note = (self.function.append_basic_block(name) for name in ("slow", "note"))
        b.cbranch(b.and_(b.or_(readable, idle), writable), note, slow)
        b.position_at_end(slow)
        found = self._one_by_one(self.sources, self.sizes, reads)
        reached = self._one_by_one(self.targets, integers(I32, (self.size,) * WARP), self.mask)
        careful = b.block
        b.branch(note)
        b.position_at_end(note)
        places = []
        for pair in ((targets, reached), (sources, found)):
            phi = b.phi(_ADDRESSES)
            for value, block in zip(pair, (quick, careful), strict=True):
                phi.add_incoming(value, block)
            places.append(phi)
        self._note(*places)
        b.ret(ir.Constant(I1, 1))

    def _fail_unless(self, ok: ir.Value) -> None:
        good, bad = (self.function.append_basic_block() for _ in range(2))
        self.b.cbranch(ok, good, bad)
        self.b.position_at_end(bad)
        self.b.ret(ir.Constant(I1, 0))
        self.b.position_at_end(good)

    def _check_sizes(self) -> None:
        """Fault where a lane would read more than it writes, which the ISA leaves undefined."""
        b, e = self.b, self.e
        wide = b.icmp_unsigned(">", self.sizes, integers(I32, (self.size,) * WARP))
        over = b.and_(self.mask, b.bitcast(wide, I32))
        bad, good = (self.function.append_basic_block() for _ in range(2))
        b.cbranch(b.icmp_unsigned("!=", over, ir.Constant(I32, 0)), bad, good)
        b.position_at_end(bad)
        lane = e.intrinsic("llvm.cttz", [over, ir.Constant(I1, 0)])
        size = b.zext(b.extract_element(self.sizes, lane), I64)
        fault = self.t.external("tw_fault", ir.VoidType(), [PTR, I32, I32, I32, I32, I64])
        kind = ir.Constant(I32, int(Fault.COPY_SIZE))
        b.call(fault, [self.context, kind, self.pc, self.warp, lane, size])
        b.ret(ir.Constant(I1, 0))
        b.position_at_end(good)

    def _field(self, name: str, kind: ir.Type) -> ir.Value:
        at = ir.Constant(I64, state.offset(name))
        return self.b.load(self.b.gep(self.context, [at], source_etype=I8), typ=kind)

    def _together(self, addresses: ir.Value, mask: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Host pointers, and whether all lanes' bytes are surely there."""
        masks = self.e.mask_chunks(mask)
        (pointers,), ok = scattered.in_one_segment(
            self.b, self.e, self._field, (addresses,), masks, self.size
        )
        return pointers, ok

    def _one_by_one(self, addresses: ir.Value, sizes: ir.Value, mask: ir.Value) -> ir.Value:
        """Host pointers, found lane by lane; returns from the function where one fails."""
        b = self.b
        place, widths = b.alloca(_ADDRESSES), b.alloca(_NUMBERS)
        b.store(addresses, place)
        b.store(sizes, widths)
        pointers = [b.inttoptr(b.ptrtoint(p, I64), PTR) for p in (place, widths)]
        function = self.t.external("tw_reach", I1, [PTR, PTR, PTR, I64, I32, I32, I32])
        width = ir.Constant(I64, self.size)
        args = [self.context, *pointers, width, mask, self.warp, self.pc]
        self._fail_unless(b.call(function, args))
        return b.load(place)

    def _note(self, targets: ir.Value, sources: ir.Value) -> None:
        """Put the copy into the queue; until it is done the targets hold ones."""
        b, e = self.b, self.e
        kind, words = (I32, 1) if self.size == 4 else (I64, self.size // 8)
        ones = e.const_of(ir.VectorType(kind, WARP), -1)
        for word in range(words):
            scattered.scatter(e, (ones,), (targets,), 8 * word, e.mask_chunks(self.mask))
        slot = b.call(
            self.t.external("tw_copy_slot", PTR, [PTR, PTR, I32]),
            [self.context, self.state, self.warp],
        )
        at = ir.Constant(I64, state.WARP_GROUPS)
        groups = b.load(b.gep(self.state, [at], source_etype=I8), typ=_NUMBERS, align=64)
        for place, value in (
            (copies.SOURCES, sources),
            (copies.TARGETS, targets),
            (copies.GROUPS, groups),
            (copies.SIZES, self.sizes),
            (copies.MASK, self.mask),
            (copies.SIZE, ir.Constant(I32, self.size)),
        ):
            align = 64 if isinstance(value.type, ir.VectorType) else 4
            into = b.gep(slot, [ir.Constant(I64, place)], source_etype=I8)
            b.store(value, into, align=align)
