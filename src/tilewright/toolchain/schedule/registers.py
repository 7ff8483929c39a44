"""Which register holds what: two sets of fragments in fixed quads, the rest out of their way.

Accumulators stay where ptxas put them, and so do the first step's fragments, which code before the
loop has loaded. The second set takes four registers in a row each, and what other instructions
use for a while within a turn moves to any that are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.code import Code, Line
from tilewright.toolchain.schedule.deep import deep_quads, deep_rows, most_ahead
from tilewright.toolchain.schedule.encode import (
    FORM,
    FORM_BITS,
    REGISTER_BITS,
    REGISTER_FORM,
    RESULT,
    SLOT_A,
    SLOT_B,
    SLOT_C,
    bits,
    with_bits,
)
from tilewright.toolchain.schedule.liveness import live_around
from tilewright.toolchain.schedule.loop import QUAD, MainLoop, Word

# Of the registers that a kernel declares, the last are not its own: ptxas names none of them on
# sm_90, and a kernel that did stopped on an H200 with an illegal instruction.
RESERVED = 2
_STACK = 1  # R1 is the stack pointer, used or not
_PREDICATE_RESULT = ("SETP", "PLOP3")  # the field of the result holds no register of theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Registers:
    """Where things go.

    `quads` has the first register of each load's four by the load's index; `moved` the new place
    of those registers of other instructions that have one. Of deep loads, `ahead` rows have second
    quads (`deep.py`).
    """

    quads: Mapping[int, int]
    moved: Mapping[int, int]
    ahead: int = 0

    @property
    def highest(self) -> int:
        """The highest register that it gives away."""
        return max(*(q + QUAD - 1 for q in self.quads.values()), *self.moved.values(), 0)

    def of(self, word: Word) -> int:
        """Return the register of a word of a fragment."""
        return self.quads[word.load] + word.part


def assign(code: Code, loop: MainLoop, limit: int) -> Registers:
    """Return where everything goes, with registers below `limit` alone.

    Raises:
        UnsupportedError: too few registers, or a use of one that is not understood.
    """
    at_start, behind = (_numbers(names) for names in live_around(code))
    others = [loop.lines[index] for index in loop.others]
    first = {load.index: load.register for load in loop.loads if load.carried}
    fragments = _registers_of(first.values())
    written = _numbers(name for line in loop.lines for name in line.ops.writes)
    # Live all through the turn: what comes in, and what goes out behind the loop.
    kept = (at_start | behind) - (fragments | loop.chains)
    if clash := sorted(loop.chains & fragments):
        raise UnsupportedError(f"R{clash[0]} is an accumulator and a fragment of the first step")
    address = _numbers(name for load in loop.loads for name in loop.lines[load.index].ops.reads)
    named = _numbers(name for line in others for name in (*line.ops.reads, *line.ops.writes))
    # A temporary that is half of a pair stays with a half that stays.
    wide = _numbers(name for line in others for name in line.ops.wide)
    halves = {(r, r + 1) for r in wide} | {(r + 1, r) for r in wide}
    kept |= {r for r, other in halves if other in kept} - fragments - loop.chains
    temporary = (named | address) - kept
    free = set(range(limit)) - {_STACK} - kept - loop.chains - fragments
    quads = dict(first)
    wanted = max(len(loop.loads_of(step)) for step in range(1, len(loop.steps), 2))
    spare = _spare_quads(free, written | named)
    pools = {0: [load.register for load in loop.loads_of(0)], 1: spare[:wanted]}
    for step in range(1, len(loop.steps)):
        loads = loop.loads_of(step)
        pool = pools[step % 2]
        if len(loads) > len(pool):
            raise UnsupportedError(
                f"{len(loads)} quads of registers are required for a second set of fragments, "
                f"{len(pool)} are free below R{limit}: a smaller thread tile needs fewer"
            )
        quads.update(zip((load.index for load in loads), pool, strict=False))
    free -= _registers_of(quads.values())
    rows = deep_rows(loop)
    second = spare[wanted : wanted + most_ahead(rows)]
    while True:  # with as many second quads for deep loads as the other instructions leave
        try:
            moved = _moved(others, temporary, address, free - _registers_of(second))
        except UnsupportedError:
            if not second:
                raise
            second.pop()
        else:
            quads |= deep_quads(rows, second)
            return Registers(quads=quads, moved=moved, ahead=len(second))


def _registers_of(quads: Iterable[int]) -> set[int]:
    return {quad + n for quad in quads for n in range(QUAD)}


def _numbers(names: Iterable[str]) -> frozenset[int]:
    return frozenset(int(name[1:]) for name in names if name[0] == "R")


def _spare_quads(free: set[int], used: frozenset[int]) -> list[int]:
    """Return quads that are free; those first that cost no register more than before."""
    quads = [q for q in range(0, max(free, default=0) + 1, QUAD) if {*range(q, q + QUAD)} <= free]
    return sorted(quads, key=lambda q: (q + QUAD - 1 > max(used), q))


def _moved(
    others: list[Line], temporary: frozenset[int], address: frozenset[int], free: set[int]
) -> dict[int, int]:
    """Give every temporary register of the other instructions a free one, pairs together.

    Two have the same if the first is done with before the second is written: their instructions
    stay in order. What loads read is in use all the time.
    """
    wide = _numbers(name for line in others for name in line.ops.wide)
    spans: dict[int, tuple[int, int]] = {}
    for number, line in enumerate(others):
        for register in _numbers((*line.ops.reads, *line.ops.writes)) & temporary:
            spans[register] = spans.get(register, (number, number))[0], number
    for register in temporary & address:
        spans[register] = 0, len(others)
    busy_until = dict.fromkeys(free, -1)
    moved: dict[int, int] = {}
    for register in sorted(spans, key=lambda each: (spans[each][0], each)):
        if register in moved:
            continue
        pair = [r for r in wide if r in (register - 1, register)]
        own = (pair[0], pair[0] + 1) if pair else (register,)
        start = min(spans.get(r, spans[register])[0] for r in own)
        fits = [r for r in busy_until if _fits(r, len(own), busy_until, start)]
        if not fits or not temporary.issuperset(own):
            raise UnsupportedError(
                f"no register is free for R{register} of the loop's other instructions: a smaller "
                "thread tile, or a launch bound that leaves more, is required"
            )
        place = min(fits, key=lambda r: (busy_until[r], r))
        for n, each in enumerate(own):
            moved[each] = place + n
            busy_until[place + n] = spans.get(each, spans[register])[1]
    return moved


def _fits(register: int, count: int, busy_until: Mapping[int, int], start: int) -> bool:
    """Whether so many registers from this one on are free when something starts."""
    return register % count == 0 and all(
        busy_until.get(register + n, start) < start for n in range(count)
    )


def renamed(line: Line, moved: Mapping[int, int]) -> int:
    """Return an instruction's word with its registers in their new places.

    Raises:
        UnsupportedError: the fields of its registers are not found.
    """
    named = sorted(int(name[1:]) for name in line.ops.named)
    if not any(register in moved for register in named):
        return line.word
    fields = [SLOT_A, SLOT_C]
    if not line.ins.opcode.endswith(_PREDICATE_RESULT):
        fields.insert(0, RESULT)
    if bits(line.word, FORM, FORM_BITS) == REGISTER_FORM:
        fields.append(SLOT_B)
    # Fields that an instruction does not use come last in this order, so the first match is it.
    for count in range(len(fields) + 1):
        for chosen in combinations(sorted(fields), count):
            if sorted(bits(line.word, field, REGISTER_BITS) for field in chosen) == named:
                return _replaced(line.word, chosen, moved)
    raise UnsupportedError(f"{line}: its registers {named} are not in the fields known")


def _replaced(word: int, fields: Iterable[int], moved: Mapping[int, int]) -> int:
    for field in fields:
        register = bits(word, field, REGISTER_BITS)
        word = with_bits(word, field, REGISTER_BITS, moved.get(register, register))
    return word
