"""Lanes that read known places of one stretch of memory: vector loads and constant shuffles.

The stretch is cut into pieces of one native vector. A chunk of lanes that needs one piece is a
shuffle of it, two pieces a two-source shuffle, more a tree of those with blends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tilewright.emulator.codegen import I8, I32, I64, Emitter, bits_of, integers, nothing

if TYPE_CHECKING:
    from tilewright.emulator.ops.groups import Group

_MOST_PIECES = 8


def load(e: Emitter, group: Group, lane: ir.Type, places: Sequence[int]) -> tuple[ir.Value, ...]:
    """Return what each lane reads at `places` (bytes from the group's pointer), as chunks."""
    return tuple(_chunk(e, group, lane, tuple(part)) for part in e.parts(places))


def _chunk(e: Emitter, group: Group, lane: ir.Type, places: tuple[int, ...]) -> ir.Value:
    key = ("chunk", str(lane), places)
    if key not in group.pieces:
        group.pieces[key] = _assemble(e, group, lane, places)
    return group.pieces[key]


def _assemble(e: Emitter, group: Group, lane: ir.Type, places: tuple[int, ...]) -> ir.Value:
    size = bits_of(lane) // 8
    origin = min(places) % size
    if any((p - origin) % size for p in places):
        return _gathered(e, group, lane, places)
    numbers = [(p - origin) // size for p in places]
    if len(set(numbers)) == 1:
        return e.splat(_element(e, group, lane, places[0]))
    if numbers == list(range(numbers[0], numbers[0] + e.width)):
        return _piece(e, group, lane, places[0], e.width)
    wanted = sorted({n // e.width for n in numbers})
    if len(wanted) > _MOST_PIECES:
        return _gathered(e, group, lane, places)
    last = _last(group, size, origin)
    parts = []
    for number in wanted:
        inside = [n for n in numbers if n // e.width == number]
        first = min(number * e.width, max(last - e.width + 1, min(inside)))
        count = min(e.width, last - first + 1)
        piece = _piece(e, group, lane, first * size + origin, count)
        lanes = [n - first if n // e.width == number else None for n in numbers]
        parts.append((piece, lanes))
    return _combine(e, parts)


def _last(group: Group, size: int, origin: int) -> int:
    """Return the last whole element inside the checked range."""
    return (group.span - origin) // size - 1


def _pointer(e: Emitter, group: Group, place: int) -> ir.Value:
    return e.b.gep(group.pointer, [ir.Constant(I64, place)], source_etype=I8)


def _element(e: Emitter, group: Group, lane: ir.Type, place: int) -> ir.Value:
    key = ("element", str(lane), place)
    if key not in group.pieces:
        size = bits_of(lane) // 8
        group.pieces[key] = e.b.load(_pointer(e, group, place), typ=lane, align=size)
    return group.pieces[key]


def _piece(e: Emitter, group: Group, lane: ir.Type, place: int, count: int) -> ir.Value:
    key = ("piece", str(lane), place, count)
    if key not in group.pieces:
        size = bits_of(lane) // 8
        kind = ir.VectorType(lane, count)
        group.pieces[key] = e.b.load(_pointer(e, group, place), typ=kind, align=size)
    return group.pieces[key]


def _combine(e: Emitter, parts: list[tuple[ir.Value, list[int | None]]]) -> ir.Value:
    """Pick each lane from the part that has it."""
    merged = []
    for first, second in zip(parts[::2], parts[1::2], strict=False):
        merged.append(_shuffle(e, first, second))
    if len(parts) % 2:
        merged.append(_shuffle(e, parts[-1], None))
    if len(merged) == 1:
        return merged[0][0]
    return _combine(e, merged)


def _shuffle(
    e: Emitter,
    first: tuple[ir.Value, list[int | None]],
    second: tuple[ir.Value, list[int | None]] | None,
) -> tuple[ir.Value, list[int | None]]:
    vector, lanes = first
    other = nothing(vector.type)
    indices = list(lanes)
    if second is not None:
        other, more = second
        if other.type != vector.type:
            vector, other = _grown(e, vector), _grown(e, other)
        count = vector.type.count
        indices = [
            n if n is not None else (None if m is None else m + count)
            for n, m in zip(lanes, more, strict=True)
        ]
    # Nobody wants the other lanes: taken from their own place, the shuffle may be a blend.
    filled = [n if n is not None else lane % vector.type.count for lane, n in enumerate(indices)]
    result = e.b.shuffle_vector(vector, other, integers(I32, tuple(filled)))
    return result, [lane if i is not None else None for lane, i in enumerate(indices)]


def _grown(e: Emitter, vector: ir.Value) -> ir.Value:
    """Return a short piece padded to a whole native vector."""
    count = vector.type.count
    if count == e.width:
        return vector
    mask = integers(I32, tuple(min(i, count - 1) for i in range(e.width)))
    return e.b.shuffle_vector(vector, nothing(vector.type), mask)


def _gathered(e: Emitter, group: Group, lane: ir.Type, places: tuple[int, ...]) -> ir.Value:
    """Element by element, where the places are too far apart for shuffles."""
    kind = ir.VectorType(lane, e.width)
    vector: ir.Value = nothing(kind)
    for number, place in enumerate(places):
        element = _element(e, group, lane, place)
        vector = e.b.insert_element(vector, element, ir.Constant(I32, number))
    return vector
