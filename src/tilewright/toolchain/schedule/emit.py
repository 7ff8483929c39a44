"""The instructions of a scheduled turn, with all of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.errors import UnsupportedError
from tilewright.toolchain.schedule.boards import BOARDS, InFlight, counted
from tilewright.toolchain.schedule.code import Code, Line
from tilewright.toolchain.schedule.deep import deep_boards, deep_rows
from tilewright.toolchain.schedule.distances import Event, Pair, before_loop, event, settle
from tilewright.toolchain.schedule.encode import (
    NO_BOARD,
    NOP,
    RESULT,
    SLOT_A,
    SLOT_B,
    SLOT_C,
    YIELD,
    Encoded,
    bits,
    with_bits,
    with_register,
)
from tilewright.toolchain.schedule.loop import QUAD, Load, MainLoop, Product
from tilewright.toolchain.schedule.operands import Operands
from tilewright.toolchain.schedule.place import Item, ordered_loads
from tilewright.toolchain.schedule.registers import Registers, renamed
from tilewright.toolchain.schedule.style import Style


def emitted(code: Code, loop: MainLoop, registers: Registers, items: Sequence[Item],
            steps: Sequence[Sequence[Product]], style: Style,
            distances: Mapping[Pair, int]) -> list[Encoded]:  # fmt: skip
    """Return the instruction before the loop, then the turn's, as many as it had, encoded.

    Raises:
        UnsupportedError: too few scoreboards, or an instruction that needs one of its own.
    """
    lines = loop.lines
    groups = counted((line.ins.opcode, line.control) for line in lines)
    loads, copies = _boards(loop, steps, groups)
    plain = next(line for line in lines if line.ins.opcode == "FFMA")
    turn: list[tuple[Event, Encoded]] = []
    for item in items:
        if isinstance(item, Product):
            turn.append(_multiply_add(plain, item, registers))
        elif item in loads:
            turn.append(_load(lines[item], registers, item, loads[item]))
        elif item in loop.moves:
            turn.append((Event("NOP", True, None, (), ()), Encoded(word=NOP)))
        else:
            turn.append(_other(lines[item], registers, copies))
    _mark_reuse(items, turn, lines, style)
    _wait(turn, sum(1 << board for board in range(BOARDS) if board not in groups))
    entry = [(event(line), _as_it_is(line)) for line in before_loop(code)]
    settle(entry, turn, distances)
    return [entry[-1][1], *(encoded for _, encoded in turn)]


def _as_it_is(line: Line) -> Encoded:
    control = line.control
    return Encoded(
        word=line.word,
        stall=control.stall,
        wait=control.wait,
        write_board=NO_BOARD if control.write_barrier is None else control.write_barrier,
        read_board=NO_BOARD if control.read_barrier is None else control.read_barrier,
        reuse=control.reuse,
    )


def _boards(
    loop: MainLoop, steps: Sequence[Sequence[Product]], groups: frozenset[int]
) -> tuple[dict[int, int], int]:
    """Return the scoreboard of every load by its index, and that of the copies.

    A step's loads hold others than the next step's, and those that are needed first their own.
    """
    free = [board for board in range(BOARDS) if board not in groups]
    if len(free) < 3:
        raise UnsupportedError(f"{len(free)} scoreboards are free: loads and copies need three")
    *own, copies = free
    found: dict[int, int] = {}
    if rows := deep_rows(loop):
        if len(own) < 4:
            raise UnsupportedError(f"{len(free)} scoreboards are free: deep loads need two more")
        found.update(deep_boards(rows, own[2:]))
        own = own[:2]
    for step, products in enumerate(steps):
        mine = own[step % 2 :: 2]
        loads: list[Load] = ordered_loads(loop, products, step)
        for number, load in enumerate(loads):
            found[load.index] = mine[number * len(mine) // len(loads)]
    return found, copies


def _multiply_add(plain: Line, product: Product, registers: Registers) -> tuple[Event, Encoded]:
    a, b = registers.of(product.a), registers.of(product.b)
    word = plain.word
    for field, register in (
        (RESULT, product.chain),
        (SLOT_A, a),
        (SLOT_B, b),
        (SLOT_C, product.chain),
    ):
        word = with_register(word, field, register)
    chain = f"R{product.chain}"
    return (
        Event("FFMA", True, None, (f"R{a}", f"R{b}", chain), (chain,)),
        Encoded(word=with_bits(word, *YIELD, 1)),
    )


def _load(line: Line, registers: Registers, index: int, board: int) -> tuple[Event, Encoded]:
    first = registers.quads[index]
    word = with_register(line.word, RESULT, first)
    address = bits(word, SLOT_A, 8)
    word = with_register(word, SLOT_A, registers.moved.get(address, address))
    ops = replace(
        _with_moved(line.ops, registers.moved),
        writes=tuple(f"R{first + n}" for n in range(QUAD)),
    )
    return event(line, ops), Encoded(word=word, write_board=board)


def _other(line: Line, registers: Registers, copies: int) -> tuple[Event, Encoded]:
    control = line.control
    encoded = Encoded(word=renamed(line, registers.moved))
    if line.ins.opcode == "LDGSTS":
        encoded.read_board = copies
    elif line.ins.opcode == "LDGDEPBAR":
        encoded.write_board = NO_BOARD if control.write_barrier is None else control.write_barrier
    elif control.write_barrier is not None or control.read_barrier is not None:
        raise UnsupportedError(f"{line}: it holds a scoreboard, which only loads and copies may")
    if line.ins.opcode in ("BRA", "BAR", "DEPBAR"):
        encoded.stall = max(control.stall, 1)
    return event(line, _with_moved(line.ops, registers.moved)), encoded


def _with_moved(ops: Operands, moved: Mapping[int, int]) -> Operands:
    def place(name: str) -> str:
        return f"R{moved.get(int(name[1:]), int(name[1:]))}" if name[0] == "R" else name

    return replace(ops, reads=tuple(map(place, ops.reads)), writes=tuple(map(place, ops.writes)))


def _mark_reuse(
    items: Sequence[Item],
    turn: Sequence[tuple[Event, Encoded]],
    lines: Sequence[Line],
    style: Style,
) -> None:
    """Keep each factor that the next multiply-add reads in the same slot."""
    before: tuple[Event, Encoded] | None = None
    for item, (now, encoded) in zip(items, turn, strict=True):
        if isinstance(item, Product):
            if before is not None:
                for slot in (0, 1):
                    before[1].reuse |= (before[0].reads[slot] == now.reads[slot]) << slot
            before = now, encoded
        elif style.across == "none" or (
            style.across == "loads" and lines[item].ins.opcode != "LDS"
        ):
            before = None


def _wait(turn: Sequence[tuple[Event, Encoded]], everything: int) -> None:
    """Let every instruction wait for what it touches, the first and the last for all."""
    flying = InFlight()
    for number, (now, encoded) in enumerate(turn):
        if number == 0:
            encoded.wait = everything
        elif number == len(turn) - 1:
            encoded.wait = flying.held() & everything
        else:
            encoded.wait = flying.needed(now) & everything
            if now.name.startswith("BAR"):
                # The others may overwrite what loads before the barrier still read.
                encoded.wait |= flying.held() & everything
        flying.clear(encoded.wait)
        write, read = encoded.write_board, encoded.read_board
        if not everything >> write & 1:
            write = NO_BOARD
        flying.add(
            now,
            None if write == NO_BOARD else write,
            None if read == NO_BOARD else read,
        )
