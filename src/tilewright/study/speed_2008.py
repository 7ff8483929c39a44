"""How fast a kernel was on a multiprocessor of 2008, by the blocks that it holds: a small model.

A block issues its turn of the main loop, `issue` cycles of the multiprocessor's one issue port, and
waits for memory, `wait` cycles in which others issue. Warps issue in turn, so the port serves all
blocks that are not waiting at once, each at its share of the rate, and waiting takes no part of it:
of such a system only the means of both times matter, and what comes out is exact for blocks that
know nothing of one another. With one block it is issue + wait; with many the port never idles.

Source: M. Reiser, S. S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
Journal of the ACM 27 (1980), 313-322; F. Baskett et al., "Open, Closed, and Mixed Networks of
Queues with Different Classes of Customers", Journal of the ACM 22 (1975), 248-260, for processor
sharing and delays whatever their distributions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tilewright.errors import UnknownNameError
from tilewright.gpus import GPUS, Gpu, gpu
from tilewright.kernels.tiles import WARP_THREADS
from tilewright.study.loops_2008 import LoopMix

# Those of 2008, of compute capability 1: nothing compiles for them any more.
OLD_GPUS = tuple(each for each in GPUS if each.compute_capability < (2, 0))
LANES = OLD_GPUS[0].limits.fp32_lanes

# Cycles that a warp's instruction takes the issue port: its 32 threads on 8 lanes.
# Source: CUDA Programming Guide 2.0, section 5.1.1.1: 4 cycles for add, multiply, multiply-add.
ISSUE_CYCLES = WARP_THREADS // LANES
# Of a multiply-add with an operand in shared memory, which reaches 66 % of the peak.
# Source: Volkov and Demmel (SC 2008), as quoted by others: 4 / 0.66; their binaries not seen here.
SHARED_ISSUE_CYCLES = 6
# From a multiply-add to one that reads its result.
# Source: V. Volkov, "Better Performance at Lower Occupancy" (GTC 2010): 24 cycles x 8 lanes on G80
# and GT200; CUDA C Programming Guide 4.2, section 5.2.3: about 22 cycles, 6 warps.
ARITHMETIC_CYCLES = 24
# From a load to its value. Source: CUDA Programming Guide 2.0, section 5.1.1.3: 400 to 600.
MEMORY_CYCLES = 500
MEMORY_RANGE = (400, 600)
# Loads of the streamed operand that a thread has under way. An assumption, the only one, and chosen
# with the published curve in sight: of the 30 registers that the paper's kernel takes a thread 16
# are sums, and about ten addresses and counters. Where the curve ends does not depend on it.
AHEAD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OldKernel:
    """A kernel as compute capability 1.x executed it, by one turn of its main loop.

    Units: `registers` a thread; `shared_bytes` and `turn_bytes`, read from global memory in a turn,
    a block. `sums` are the outputs of a thread: its independent multiply-adds.
    """

    name: str
    threads: int
    registers: int
    shared_bytes: int
    sums: int
    turn_bytes: int
    mix: LoopMix

    @property
    def warps(self) -> int:
        """Warps a block."""
        return self.threads // WARP_THREADS

    @property
    def turn_flops(self) -> int:
        """Operations of a block's turn."""
        return 2 * WARP_THREADS * self.warps * self.mix.multiply_adds


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a block's turn of the main loop takes, in cycles.

    `issue` of the port; `wait` with nothing to issue; `least` is what its multiply-adds alone would
    take at the peak.
    """

    issue: float
    wait: float
    least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OldPoint:
    """A number of resident blocks with the share of the peak that the model gives it.

    `bound` is what more of would help: "waiting" (blocks), "issue" or "memory" (bandwidth).
    """

    blocks: int
    warps: int
    occupancy: float
    share: float
    gflops: float
    bound: str

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def old_gpu(name: str) -> Gpu:
    """Return a GPU of 2008 by its name in the table of GPUs.

    Raises:
        UnknownNameError: no such GPU, or a later one.
    """
    names = [each.name for each in OLD_GPUS]
    try:
        found = gpu(name)
    except UnknownNameError:
        raise UnknownNameError("GPU of 2008", name, names) from None
    if found not in OLD_GPUS:
        raise UnknownNameError("GPU of 2008", found.name, names)
    return found


def turn_of(kernel: OldKernel, *, memory_cycles: float = MEMORY_CYCLES, ahead: int = AHEAD) -> Turn:
    """Return what one turn takes. Its tile is waited for once, then each `ahead` streamed loads."""
    mix = kernel.mix
    slow = SHARED_ISSUE_CYCLES - ISSUE_CYCLES
    cycles = mix.instructions * ISSUE_CYCLES + mix.shared_multiply_adds * slow
    waits = (mix.staged_loads > 0) + -(-mix.streamed_loads // ahead)
    each = ISSUE_CYCLES + slow * mix.shared_multiply_adds / mix.multiply_adds
    rounds = mix.multiply_adds / kernel.sums  # in each, a thread's sums are added to once
    idle = max(0.0, ARITHMETIC_CYCLES - kernel.warps * kernel.sums * each)
    return Turn(
        issue=kernel.warps * cycles,
        wait=waits * memory_cycles + rounds * idle,
        least=kernel.warps * mix.multiply_adds * ISSUE_CYCLES,
    )


def turns_a_cycle(turn: Turn, blocks: int) -> float:
    """Return the turns a cycle that `blocks` blocks get done, by mean-value analysis."""
    rate = queued = 0.0
    for count in range(1, blocks + 1):
        stay = turn.issue * (1 + queued)
        rate = count / (stay + turn.wait)
        queued = rate * stay
    return rate


def old_point(
    kernel: OldKernel,
    card: Gpu,
    blocks: int,
    *,
    memory_cycles: float = MEMORY_CYCLES,
    ahead: int = AHEAD,
) -> OldPoint:
    """Return what `blocks` blocks a multiprocessor reach on a GPU."""
    turn = turn_of(kernel, memory_cycles=memory_cycles, ahead=ahead)
    issued = turns_a_cycle(turn, blocks) * turn.least
    moved = card.dram_bytes_per_s * kernel.turn_flops / kernel.turn_bytes / card.fp32_flops_per_s
    share = min(issued, moved)
    most = turn.least / turn.issue
    bound = "memory" if moved < issued else "issue" if issued > 0.95 * most else "waiting"
    return OldPoint(
        blocks=blocks,
        warps=blocks * kernel.warps,
        occupancy=blocks * kernel.warps / card.limits.max_warps,
        share=share,
        gflops=share * card.fp32_flops_per_s / 1e9,
        bound=bound,
    )
