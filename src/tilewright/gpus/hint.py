"""The one change that would put more warps of a kernel on an SM, in words."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import LaunchError
from tilewright.gpus.gpu import Gpu
from tilewright.gpus.occupancy import Occupancy, most_registers, most_shared, occupancy

# Fewer registers than this hold no useful kernel: addresses and a loop alone take as many.
_FEWEST_REGISTERS = 16


def hint(gpu: Gpu, found: Occupancy) -> str:
    """Return the smallest change that raises `found.fraction`, with what it would give.

    `gpu` is the one that `found` was computed for.
    """
    if found.active_warps == found.max_warps:
        return "every warp slot of the SM is taken: nothing can raise occupancy further"
    if "shared" in found.limiters and found.carveout_bytes < gpu.limits.shared_bytes:
        return (
            f"the carveout leaves shared memory {found.carveout_bytes} of "
            f"{gpu.limits.shared_bytes} bytes: a larger one would fit more blocks"
        )
    return _leaner(gpu, found) or _other_block(gpu, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaner:
    """What a kernel may take at most for one block more on an SM, and the occupancy then.

    Units: `registers` a thread; `shared_bytes` a block, static and dynamic together.
    """

    registers: int
    shared_bytes: int
    then: Occupancy


def leaner(gpu: Gpu, found: Occupancy) -> Leaner | None:
    """Return with how many registers or shared bytes one more block fits; None if with none.

    None too where the SM holds no more warps or blocks.
    """
    if not {"warps", "blocks"}.isdisjoint(found.limiters):
        return None
    want = found.active_blocks + 1
    registers, static, dynamic = found.registers, found.shared_bytes, found.dynamic_shared_bytes
    if "registers" in found.limiters:
        registers = most_registers(gpu.limits, found.threads, want)
    if "shared" in found.limiters:
        total = most_shared(gpu.limits, want)
        static = min(static, total)
        dynamic = total - static
    if registers < _FEWEST_REGISTERS or dynamic < 0 or static < 0:
        return None
    then = occupancy(
        gpu=gpu,
        threads=found.threads,
        registers=registers,
        shared_bytes=static,
        dynamic_shared_bytes=dynamic,
    )
    return Leaner(registers=registers, shared_bytes=static + dynamic, then=then)


def _leaner(gpu: Gpu, found: Occupancy) -> str | None:
    """Say with how many registers or shared bytes another block fits; None if with none."""
    needed = leaner(gpu, found)
    if needed is None:
        return None
    needs = []
    if "registers" in found.limiters:
        fewer = found.registers - needed.registers
        needs.append(f"{needed.registers} registers a thread ({fewer} fewer)")
    if "shared" in found.limiters:
        total = needed.shared_bytes
        fewer = found.shared_bytes + found.dynamic_shared_bytes - total
        needs.append(f"{total} bytes of shared memory a block ({fewer} fewer)")
    return f"another block fits at {' and '.join(needs)}: {_outcome(needed.then)}"


def _other_block(gpu: Gpu, found: Occupancy) -> str:
    """Say which number of threads a block fills the SM best, all else equal."""
    best = found
    for threads in range(32, gpu.limits.max_threads_per_block + 1, 32):
        try:
            then = occupancy(
                gpu=gpu,
                threads=threads,
                registers=found.registers,
                shared_bytes=found.shared_bytes,
                dynamic_shared_bytes=found.dynamic_shared_bytes,
            )
        except LaunchError:
            break
        nearer = abs(threads - found.threads) < abs(best.threads - found.threads)
        if (then.active_warps, nearer) > (best.active_warps, False):
            best = then
    if best.active_warps == found.active_warps:
        return "no other block size does better with these registers and this shared memory"
    left = found.max_warps - found.active_warps
    return (
        f"{left} of {found.max_warps} warp slots stay empty with blocks of {found.threads} "
        f"threads: blocks of {best.threads} give {_outcome(best)}"
    )


def _outcome(then: Occupancy) -> str:
    return f"{then.active_blocks} blocks, {then.active_warps} warps, {then.fraction:.1%}"
