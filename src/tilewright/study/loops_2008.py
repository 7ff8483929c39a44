"""What the main loop of a kernel is made of: in its machine code now, and as it was in 2008.

Compute capability 1.x has no load in front of a multiply-add whose operand is in shared memory: one
operand of an instruction may lie there. Two may not, so of two the one is moved to a register
first. What is left of today's PTX when its shared loads are folded in that way is the loop of then.

Source: V. Volkov, J. W. Demmel, "Benchmarking GPUs to Tune Dense Linear Algebra", SC 2008: an extra
move for every two multiply-adds, in the design with both operands in shared memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from tilewright.errors import UnsupportedError
from tilewright.model.static import machine_code
from tilewright.toolchain import Artifact
from tilewright.toolchain.ptx.cfg import basic_blocks
from tilewright.toolchain.ptx.ir import Instruction, Mem, Operand, Pair, Reg, Vec
from tilewright.toolchain.ptx.parser import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMix:
    """The instructions of one turn of a main loop, those of a warp.

    `shared_multiply_adds` are those of `multiply_adds` with an operand in shared memory.
    `shared_reads` bring values from there to registers; `staged_loads` bring them from global
    memory to be stored in shared, `streamed_loads` to be multiplied where they arrive.
    """

    multiply_adds: int
    shared_multiply_adds: int
    shared_reads: int
    staged_loads: int
    streamed_loads: int
    shared_stores: int
    barriers: int
    others: int

    @property
    def instructions(self) -> int:
        """All of them."""
        loads = self.staged_loads + self.streamed_loads
        accesses = self.shared_reads + loads + self.shared_stores
        return self.multiply_adds + accesses + self.barriers + self.others

    @property
    def multiply_add_share(self) -> float:
        """Multiply-adds an instruction."""
        return self.multiply_adds / self.instructions

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self) | {
            "instructions": self.instructions,
            "multiply_add_share": self.multiply_add_share,
        }


def loop_now(artifact: Artifact) -> LoopMix:
    """Return the main loop of a kernel's machine code: the inner one with most multiply-adds.

    Raises:
        ToolchainError: no disassembler.
    """
    loops = machine_code(artifact).loops
    counted = [
        Counter({name: round(share * each.instructions) for name, share in each.mix.items()})
        for each in loops
        if each.inner
    ]
    counts = max(counted, key=lambda each: each["FFMA"])
    known = {name: counts[name] for name in ("FFMA", "LDS", "LDG", "STS", "BAR")}
    streamed = max(known["LDG"] - known["STS"], 0)
    return LoopMix(
        multiply_adds=known["FFMA"],
        shared_multiply_adds=0,
        shared_reads=known["LDS"],
        staged_loads=known["LDG"] - streamed,
        streamed_loads=streamed,
        shared_stores=known["STS"],
        barriers=known["BAR"],
        others=counts.total() - sum(known.values()),
    )


def loop_then(artifact: Artifact) -> LoopMix:
    """Return the main loop of a kernel as compute capability 1.x would have executed it.

    Raises:
        UnsupportedError: a kernel without a loop that multiplies and adds.
    """
    return folded(_main_loop(artifact))


def _main_loop(artifact: Artifact) -> list[Instruction]:
    function = parse(artifact.ptx).functions[artifact.symbol]
    graph = basic_blocks(function)
    loops = [
        [
            ins
            for index in sorted(loop.blocks)
            for ins in function.body[graph.blocks[index].start : graph.blocks[index].end]
        ]
        for loop in graph.loops
        if not any(other.blocks < loop.blocks for other in graph.loops)
    ]
    longest = max(loops, key=_multiply_adds, default=[])
    if not _multiply_adds(longest):
        raise UnsupportedError(f"{artifact.name} has no loop that multiplies and adds")
    return longest


def _multiply_adds(body: Sequence[Instruction]) -> int:
    return sum(map(_is_multiply_add, body))


def folded(body: Sequence[Instruction]) -> LoopMix:
    """Return a loop of PTX with its shared loads folded into multiply-adds where they can be.

    A multiply-add of two values from shared memory keeps the load of one: of the one that most
    such multiply-adds share.
    """
    shared = {name for ins in body if _loads(ins, "shared") for name in _results(ins)}
    fused = [ins for ins in body if _is_multiply_add(ins)]
    factors = [[name for name in _names(ins.operands[1:3]) if name in shared] for ins in fused]
    moved = _used_otherwise(body, shared) | _moved(factors)
    folded_into = sum(any(name not in moved for name in pair) for pair in factors)
    stored = {
        name
        for ins in body
        if ins.opcode == "st" and ins.space == "shared"
        for name in _values(ins)
    }
    loads = [ins for ins in body if _loads(ins, "global")]
    staged = sum(1 for ins in loads if stored & set(_results(ins)))
    stores = sum(ins.opcode == "st" and ins.space == "shared" for ins in body)
    barriers = sum(ins.opcode in ("bar", "barrier") for ins in body)
    shared_loads = sum(_loads(ins, "shared") for ins in body)
    return LoopMix(
        multiply_adds=len(fused),
        shared_multiply_adds=folded_into,
        shared_reads=len(moved),
        staged_loads=staged,
        streamed_loads=len(loads) - staged,
        shared_stores=stores,
        barriers=barriers,
        others=len(body) - len(fused) - len(loads) - stores - barriers - shared_loads,
    )


def _moved(factors: Iterable[Sequence[str]]) -> set[str]:
    """Return values to move to registers so that no multiply-add has two in shared memory."""
    moved: set[str] = set()
    both = [tuple(pair) for pair in factors if len(pair) == 2]
    while both:
        uses = Counter(name for pair in both for name in pair)
        name, _ = uses.most_common(1)[0]
        moved.add(name)
        both = [pair for pair in both if name not in pair]
    return moved


def _used_otherwise(body: Sequence[Instruction], shared: set[str]) -> set[str]:
    """Return values from shared memory that something else than a product reads."""
    found: set[str] = set()
    for ins in body:
        read = ins.operands[3:] if _is_multiply_add(ins) else ins.operands[1:]
        if ins.opcode == "st":
            read = ins.operands
        found |= shared & set(_names(read))
    return found


def _is_multiply_add(ins: Instruction) -> bool:
    return ins.opcode in ("fma", "mad") and ins.types[-1:] == ("f32",)


def _loads(ins: Instruction, space: str) -> bool:
    return ins.opcode == "ld" and ins.space == space


def _results(ins: Instruction) -> list[str]:
    return _names(ins.operands[:1])


def _values(ins: Instruction) -> list[str]:
    return _names(ins.operands[1:])


def _names(operands: Iterable[Operand]) -> list[str]:
    found: list[str] = []
    for operand in operands:
        match operand:
            case Reg():
                found.append(operand.name)
            case Vec():
                found += _names(operand.items)
            case Pair():
                found += _names((operand.first, operand.second))
            case Mem(base=Reg() as base):
                found.append(base.name)
    return found


def shares(mix: LoopMix) -> Mapping[str, float]:
    """Return what a turn is made of in the terms of a table, as shares of its instructions."""
    counts = {
        "multiply-adds": mix.multiply_adds,
        "reads of shared memory": mix.shared_reads,
        "loads from global memory": mix.staged_loads + mix.streamed_loads,
        "stores to shared memory": mix.shared_stores,
        "barriers": mix.barriers,
        "addresses, counters, jumps": mix.others,
    }
    return {name: count / mix.instructions for name, count in counts.items()}
