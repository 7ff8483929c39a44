"""From an artifact to one with a scheduled main loop, proved to compute the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.gpus import gpu
from tilewright.gpus.occupancy import most_registers
from tilewright.toolchain.artifact import Artifact
from tilewright.toolchain.resources import Resources, resources
from tilewright.toolchain.schedule.banks import Reads, cycles, reads_of
from tilewright.toolchain.schedule.code import Line, read_code, with_loop_of
from tilewright.toolchain.schedule.distances import required
from tilewright.toolchain.schedule.emit import emitted
from tilewright.toolchain.schedule.encode import with_code
from tilewright.toolchain.schedule.loop import MainLoop, Product, take_apart
from tilewright.toolchain.schedule.order import orders
from tilewright.toolchain.schedule.place import Item, placed
from tilewright.toolchain.schedule.proof import check_change, check_code
from tilewright.toolchain.schedule.registers import RESERVED, Registers, assign
from tilewright.toolchain.schedule.style import BEST, Style

# Where the encoding, the latencies and the rules of scoreboards were compared with what ptxas
# emits, and scheduled kernels gave the bits of plain ones: on an H200.
ARCHS = frozenset({"sm_90"})
_GPU_OF = {"sm_90": "H200"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What scheduling a loop has changed. Units: instructions, cycles and registers of a thread.

    Cycles are those of a turn by its stall counts and the static model of the register banks
    (`banks.py`): one warp alone that never waits for memory.
    """

    ffmas: int
    instructions: int
    cycles_before: int
    cycles_after: int
    registers_before: int
    registers_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A kernel with its main loop in a new order, and how that differs."""

    artifact: Artifact
    report: Report


def schedule_main_loop(artifact: Artifact, style: Style = BEST) -> Scheduled:
    """Return the kernel with its main loop's FFMAs, loads and the rest in an order of our own.

    The loop must be one basic block of FFMAs whose factors LDS.128 loads, double-buffered, as
    `tiled.cuh` has it. The result is proved to compute the same (`proof.prove`).

    Raises:
        UnsupportedError: another architecture, or a loop that is not understood.
        ToolchainError: nvdisasm is missing, or the cubin is damaged.
    """
    if artifact.arch not in ARCHS:
        raise UnsupportedError(
            f"{artifact.name} is compiled for {artifact.arch}: the scheduler knows the machine "
            f"code of {', '.join(sorted(ARCHS))} alone"
        )
    code = read_code(artifact)
    loop = take_apart(code.loop)
    taken = resources(artifact)
    registers = assign(code, loop, _limit(artifact.arch, taken))
    tried = [
        (steps, placed(loop, steps, style, registers.ahead))
        for steps in orders(loop, registers, style)
    ]
    steps, items = min(tried, key=lambda each: _time(loop, registers, each[1]))
    distances = required(code)
    encoded = emitted(code, loop, registers, items, steps, style, distances)
    count = max(taken.registers, registers.highest + 1 + RESERVED)
    result = with_code(artifact, code.lines[code.start - 1].ins.address, encoded, count)
    after = with_loop_of(code, result)
    check_change(artifact, result, code, after)
    check_code(code, after, count, distances)
    return Scheduled(
        artifact=result,
        report=Report(
            ffmas=sum(len(step) for step in steps),
            instructions=len(code.loop),
            cycles_before=turn_cycles(code.loop),
            cycles_after=turn_cycles(after.loop),
            registers_before=taken.registers,
            registers_after=count,
        ),
    )


def _limit(arch: str, taken: Resources) -> int:
    """Return the registers a thread with which as many of the kernel's blocks fit on an SM."""
    limits = gpu(_GPU_OF[arch]).limits
    blocks = 1
    while most_registers(limits, taken.max_threads, blocks + 1) >= taken.registers:
        blocks += 1
    return most_registers(limits, taken.max_threads, blocks) - RESERVED


def _time(loop: MainLoop, registers: Registers, items: Sequence[Item]) -> int:
    """Return the cycles of a turn before its stall counts are known, operands kept throughout."""
    reads = []
    kept: tuple[int, ...] = ()
    for item in items:
        if isinstance(item, Product):
            factors = registers.of(item.a), registers.of(item.b)
            new = [r for r in factors if r not in kept]
            kept = factors
            reads.append(reads_of([item.chain, *new]))
        else:
            names = loop.lines[item].ops.reads
            reads.append(reads_of(int(name[1:]) for name in names if name[0] == "R"))
    return cycles((each, 1) for each in reads)


def turn_cycles(loop: Sequence[Line]) -> int:
    """Return the cycles of a turn of a loop by the static model of the register banks."""
    return cycles(_reads(loop))


def _reads(loop: Sequence[Line]) -> Iterator[tuple[Reads, int]]:
    kept: dict[int, str] = {}
    for line in loop:
        if line.ins.opcode == "FFMA":
            slots = line.ops.reads
            new = [r for slot, r in enumerate(slots) if kept.get(slot) != r]
            kept = {n: r for n, r in enumerate(slots) if line.control.reuse >> n & 1}
        else:
            new = [r for r in line.ops.reads if r[0] == "R"]
        yield reads_of(int(register[1:]) for register in new), line.control.stall
