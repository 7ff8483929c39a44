"""What a main loop computes: products of fragments, the loads of those, and everything else.

Registers are taken apart into values: a multiply-add belongs to the chain of its accumulator, and
its factors are words that a load of this turn of the loop, or of the last one, has read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.code import Line
from tilewright.toolchain.schedule.encode import (
    NO_REGISTER,
    RESULT,
    SLOT_A,
    SLOT_B,
    SLOT_C,
    bits,
)
from tilewright.toolchain.schedule.operands import MOVES, never_runs, opcodes

QUAD = 4  # registers of a 128-bit load
_FFMA = 0x223  # with three registers
_PLAIN = re.compile(r"R\d+(?:\.reuse)?")  # neither a sign nor an absolute value
# What may stand in the loop beside multiply-adds and loads.
_OTHERS = opcodes(
    "IADD3 VIADD LEA IMAD LOP3 SHF MOV SEL ISETP PLOP3 VIMNMX VIADDMNMX IABS "
    "UIADD3 UISETP USEL UMOV ULEA ULOP3 USHF UIMAD UPLOP3 "
    "LDGSTS LDGDEPBAR DEPBAR BAR BRA"
)


class Word(NamedTuple):
    """Component `part` of what the load at `load` (an index into the loop) reads."""

    load: int
    part: int


class Product(NamedTuple):
    """One multiply-add: accumulator register, factor of the side with fewer loads, the other."""

    chain: int
    a: Word
    b: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A 128-bit load of fragments, used from `step` on, in the next turn of the loop if `carried`.

    One step uses all four words, or four steps one each, if they are `deep`: neighbours along k.
    """

    index: int
    step: int
    register: int
    carried: bool
    deep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MainLoop:
    """The loop of a kernel, taken apart. Indices count the instructions of `lines`.

    `steps` holds the products of each step of k; every accumulator has one in each. `others` are
    the indices of what is neither a product nor a load, in order, the branch back at the end;
    `moves` those of what only moves a sum to another register: sums that stay need none.
    """

    lines: tuple[Line, ...]
    steps: tuple[tuple[Product, ...], ...]
    loads: tuple[Load, ...]
    others: tuple[int, ...]
    moves: tuple[int, ...] = ()

    @property
    def chains(self) -> frozenset[int]:
        """The accumulators' registers."""
        return frozenset(product.chain for product in self.steps[0])

    def loads_of(self, step: int) -> tuple[Load, ...]:
        """Return the loads of fragments of one step alone."""
        return tuple(load for load in self.loads if load.step == step and not load.deep)

    def deep_loads_of(self, step: int) -> tuple[Load, ...]:
        """Return the loads of fragments of four steps of which this is the first."""
        return tuple(load for load in self.loads if load.step == step and load.deep)


class _Value(NamedTuple):
    """What a register holds: a value from before this turn, a chain's sum, a load's word."""

    kind: str
    where: int
    part: int = 0


def take_apart(lines: Sequence[Line]) -> MainLoop:
    """Return what the loop of these instructions computes.

    Raises:
        UnsupportedError: an instruction or a use of a register that is not understood.
    """
    values: dict[int, _Value] = {}
    chains: dict[int, list[tuple[_Value, _Value]]] = defaultdict(list)
    loads: list[int] = []
    others: list[int] = []
    moves: list[int] = []
    for index, line in enumerate(lines):
        if line.ins.opcode == "FFMA":
            chain, factors = _multiply_add(line, values)
            chains[chain].append(factors)
        elif line.ins.opcode == "LDS" and not never_runs(line.ins):
            _check_load(line)
            loads.append(index)
            for part, name in enumerate(line.ops.writes):
                values[int(name[1:])] = _Value("load", index, part)
        elif (moved := _moved_sum(line, values)) is not None:
            values[int(line.ops.writes[0][1:])] = moved
            moves.append(index)
        else:
            _check_other(line, values)
            others.append(index)
            for name in line.ops.writes:
                if name.startswith("R"):
                    values[int(name[1:])] = _Value("other", index)
    _check_chains(chains, values)
    loop = _arranged(lines, chains, values, loads, others)
    return replace(loop, moves=tuple(moves))


def _moved_sum(line: Line, values: dict[int, _Value]) -> _Value | None:
    """Return the sum that a line moves to another register; None if it does anything else."""
    if line.ops.template not in MOVES:
        return None
    held = values.get(int(line.ops.reads[0][1:]))
    return held if held is not None and held.kind == "chain" else None


def _multiply_add(line: Line, values: dict[int, _Value]) -> tuple[int, tuple[_Value, _Value]]:
    """Take in an FFMA; return its chain and its factors."""
    word = line.word
    named = [bits(word, field, 8) for field in (RESULT, SLOT_A, SLOT_B, SLOT_C)]
    if (
        bits(word, 0, 12) != _FFMA
        or line.ins.modifiers
        or line.ins.predicate
        or not all(_PLAIN.fullmatch(operand) for operand in line.ins.operands)
        or NO_REGISTER in named
        or [f"R{r}" for r in named] != [*line.ops.writes, *line.ops.reads]
    ):
        raise UnsupportedError(f"{line}: expected a plain FFMA of four registers")
    result, a, b, c = named
    before = values.get(c, _Value("before", c))
    if before.kind not in ("before", "chain"):
        raise UnsupportedError(f"{line}: it adds to what no FFMA has computed")
    factors = values.get(a, _Value("before", a)), values.get(b, _Value("before", b))
    values[result] = _Value("chain", before.where)
    return before.where, factors


def _check_load(line: Line) -> None:
    if "128" not in line.ins.modifiers or line.ins.predicate is not None:
        raise UnsupportedError(
            f"{line}: every load of fragments must be an LDS.128 that always runs"
        )


def _check_other(line: Line, values: dict[int, _Value]) -> None:
    if line.ins.opcode not in _OTHERS and not never_runs(line.ins):
        raise UnsupportedError(f"{line}: this instruction in a main loop is not understood")
    for name in line.ops.reads:
        held = values.get(int(name[1:])) if name.startswith("R") else None
        if held is not None and held.kind in ("chain", "load"):
            raise UnsupportedError(f"{line}: it reads {name}, which holds a {held.kind}'s result")


def _check_chains(
    chains: dict[int, list[tuple[_Value, _Value]]], values: dict[int, _Value]
) -> None:
    lengths = sorted({len(chain) for chain in chains.values()})
    if len(lengths) != 1:
        raise UnsupportedError(
            f"accumulators have {lengths} FFMAs in a turn: expected as many each"
        )
    if lengths[0] % 2:
        raise UnsupportedError(
            f"{lengths[0]} steps of k in a turn: two sets of fragments need an even number"
        )
    for chain in chains:
        if values[chain] != _Value("chain", chain):
            raise UnsupportedError(f"R{chain} holds another sum after the turn than before it")


def _arranged(
    lines: Sequence[Line],
    chains: dict[int, list[tuple[_Value, _Value]]],
    values: dict[int, _Value],
    loads: list[int],
    others: list[int],
) -> MainLoop:
    """Put the products into steps and find each load's step and side."""
    count = len(next(iter(chains.values())))
    steps: list[list[tuple[int, Word, Word]]] = [[] for _ in range(count)]
    use: dict[int, dict[tuple[int, bool], set[int]]] = defaultdict(lambda: defaultdict(set))
    for chain, products in chains.items():
        for step, factors in enumerate(products):
            words = []
            for value in factors:
                word, carried = _word(value, values)
                use[word.load][step, carried].add(word.part)
                words.append(word)
            steps[step].append((chain, words[0], words[1]))
    found = tuple(_used(lines[index], index, use.get(index, {})) for index in loads)
    deep = frozenset(load.index for load in found if load.deep)
    return MainLoop(
        lines=tuple(lines),
        steps=tuple(_sided(step, deep) for step in steps),
        loads=found,
        others=tuple(others),
    )


def _used(line: Line, index: int, use: Mapping[tuple[int, bool], set[int]]) -> Load:
    """Return a load by its use: the parts that each step uses, and whether of the last turn's."""
    if not use:
        raise UnsupportedError(f"{line}: nothing uses what it loads")
    steps = sorted(step for step, _ in use)
    first, deep = steps[0], len(steps) > 1
    if deep and (
        first % QUAD
        or steps != list(range(first, first + QUAD))
        or any(len(parts) != 1 for parts in use.values())
    ):
        raise UnsupportedError(
            f"{line}: its words are used in steps {steps} of k: expected all in one, or one in "
            "each of four"
        )
    if {carried for _, carried in use} != {first == 0}:
        raise UnsupportedError(
            f"{line}: expected the fragments of the first step, and of no other, from the turn "
            "before"
        )
    if {part for parts in use.values() for part in parts} != set(range(QUAD)):
        raise UnsupportedError(f"{line}: expected each word of it to be used")
    register = int(line.ops.writes[0][1:])
    return Load(index=index, step=first, register=register, carried=first == 0, deep=deep)


def _word(value: _Value, values: dict[int, _Value]) -> tuple[Word, bool]:
    """Return the word that a factor is, and whether the turn before has loaded it."""
    carried = value.kind == "before"
    held = values.get(value.where) if carried else value
    if held is None or held.kind != "load":
        raise UnsupportedError(
            f"an FFMA multiplies R{value.where}, which no LDS.128 of the loop has loaded"
        )
    return Word(held.where, held.part), carried


def _sided(step: list[tuple[int, Word, Word]], deep: frozenset[int]) -> tuple[Product, ...]:
    """Return the products, every pair of words: the factor of deep loads, or of fewer, first."""
    side: dict[int, int] = {}
    near: dict[int, set[int]] = defaultdict(set)
    for _, x, y in step:
        near[x.load].add(y.load)
        near[y.load].add(x.load)
    first = min(near)
    side[first], todo = 0, [first]
    while todo:
        load = todo.pop()
        for other in near[load]:
            if other not in side:
                side[other] = 1 - side[load]
                todo.append(other)
    if deep & side.keys():
        turned = any(side[load] for load in deep & side.keys())
    else:
        turned = 2 * sum(side.values()) < len(side)
    if turned:
        side = {load: 1 - own for load, own in side.items()}
    products = tuple(
        Product(chain, x, y) if side.get(x.load) == 0 else Product(chain, y, x)
        for chain, x, y in step
    )
    rows = {product.a for product in products}
    columns = {product.b for product in products}
    pairs = {(product.a, product.b) for product in products}
    if (
        len(side) != len(near)
        or any(side[p.a.load] or not side[p.b.load] for p in products)
        or len(pairs) != len(products)
        or len(rows) * len(columns) != len(products)
        or any((load in deep) == own for load, own in side.items() if deep & side.keys())
    ):
        raise UnsupportedError(
            f"a step of {len(products)} FFMAs on {len(near)} loads: expected each word of some "
            "loads times each word of the others, once"
        )
    return products
