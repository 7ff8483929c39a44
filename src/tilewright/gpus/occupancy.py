"""How many blocks of a kernel fit on an SM at a time, by the documented allocation rules.

From compute capability 2 on, a warp takes its registers, rounded up to a unit, out of the file of
one of the SM's four sub-partitions; before, a block took registers as a whole. A block takes
shared memory, its own plus what the driver reserves, rounded up to a unit. Whatever fits least
often limits the SM.

Source: cuda_occupancy.h of CUDA 13 (compute capability 7 and later), which the tests compile and
compare with; CUDA_Occupancy_calculator.xls (compute capability 1). Where the header and the
documents differ, the documents hold here:

- the header takes 256 registers a thread, the ISA ends at 255;
- the header takes static shared memory above 48 KB once a kernel has opted in to more, but no
  compiler emits it: above 48 KB shared memory is dynamic.

At the documented most, 99 KB or 227 KB a block, the headers of CUDA 12.9 to 13.5 agree: they add
the reserved kilobyte to the block and to its limit alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from tilewright.errors import LaunchError
from tilewright.gpus.gpu import Gpu, Limits
from tilewright.gpus.table import gpu as find_gpu

Resource: TypeAlias = Literal["warps", "blocks", "registers", "shared"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """The blocks of one kernel that an SM holds at a time, and why not more.

    `limits` is, for each resource, the blocks it alone would allow, None where the kernel does not
    use it; `limiters` are those that allow no more than `active_blocks`. `registers_per_block` and
    `shared_bytes_per_block` are what a block really takes, after rounding and, for shared memory,
    with the driver's share; `carveout_bytes` is the SM's shared memory as configured.
    """

    gpu: str
    threads: int
    registers: int
    shared_bytes: int
    dynamic_shared_bytes: int
    warps_per_block: int
    registers_per_block: int
    shared_bytes_per_block: int
    carveout_bytes: int
    limits: Mapping[Resource, int | None]
    limiters: tuple[Resource, ...]
    active_blocks: int
    max_warps: int

    @property
    def active_warps(self) -> int:
        """Warps that are resident on an SM at a time."""
        return self.active_blocks * self.warps_per_block

    @property
    def fraction(self) -> float:
        """Resident warps over the most that an SM holds: what profilers call occupancy."""
        return self.active_warps / self.max_warps

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name, with `active_warps` and `fraction`."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "limits": dict(self.limits),
            "limiters": list(self.limiters),
            "active_warps": self.active_warps,
            "fraction": self.fraction,
        }


def occupancy(
    *,
    gpu: str | Gpu,
    threads: int,
    registers: int,
    shared_bytes: int = 0,
    dynamic_shared_bytes: int = 0,
    carveout: int | None = None,
) -> Occupancy:
    """Return how many blocks of a kernel fit on one SM of `gpu` at a time.

    `threads` and `shared_bytes` (static) are a block's, `registers` a thread's, as the compiler
    reports them; `dynamic_shared_bytes` is what the launch asks for. `carveout` is the share of
    the SM's storage preferred for shared memory, in percent of the most (0 to 100); the next size
    that the hardware has is taken, or a larger one if a block needs it. None prefers the most.

    Raises:
        UnknownNameError: no such GPU.
        LaunchError: a block that the GPU would refuse, with the limit and the most that fits.

    """
    chosen = gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    own = chosen.limits
    _check(chosen, threads, registers, shared_bytes, dynamic_shared_bytes, carveout)

    warps = _ceil_div(threads, 32)
    shared = _round_up(
        shared_bytes + dynamic_shared_bytes + own.shared_bytes_reserved, own.shared_unit
    )
    configured = _configured_shared(own, shared, carveout)
    limits: dict[Resource, int | None] = {
        "warps": own.max_warps // warps,
        "blocks": own.max_blocks,
        "registers": _blocks_by_registers(own, warps, registers),
        "shared": configured // shared if shared else None,
    }
    active = min(n for n in limits.values() if n is not None)
    return Occupancy(
        gpu=chosen.name,
        threads=threads,
        registers=registers,
        shared_bytes=shared_bytes,
        dynamic_shared_bytes=dynamic_shared_bytes,
        warps_per_block=warps,
        registers_per_block=_registers_taken(own, warps, registers),
        shared_bytes_per_block=shared,
        carveout_bytes=configured,
        limits=limits,
        limiters=tuple(r for r, n in limits.items() if n == active),
        active_blocks=active,
        max_warps=own.max_warps,
    )


def most_registers(limits: Limits, threads: int, blocks: int) -> int:
    """Return the most registers a thread with which `blocks` blocks fit; 0 when none is enough."""
    warps = _ceil_div(threads, 32)
    if limits.registers_to == "block":
        budget = limits.registers // blocks // limits.register_unit * limits.register_unit
        each = budget // (32 * _round_up(warps, limits.warp_unit))
    else:
        file = limits.registers // limits.partitions
        warp_budget = file // _ceil_div(blocks * warps, limits.partitions)
        each = warp_budget // limits.register_unit * limits.register_unit // 32
    return min(each, limits.max_registers_per_thread)


def most_shared(limits: Limits, blocks: int) -> int:
    """Return the most shared bytes a block with which `blocks` blocks fit; below 0 when none is."""
    budget = limits.shared_bytes // blocks // limits.shared_unit * limits.shared_unit
    return min(budget - limits.shared_bytes_reserved, limits.shared_bytes_per_block_max)


def _check(
    gpu: Gpu, threads: int, registers: int, static: int, dynamic: int, carveout: int | None
) -> None:
    """Refuse what no launch on `gpu` could have."""
    own = gpu.limits
    _whole("threads", threads, 1, own.max_threads_per_block, f"a block on {gpu.name}")
    _whole("registers", registers, 1, own.max_registers_per_thread, f"a thread on {gpu.name}")
    _whole("shared_bytes", static, 0, None, "static, a block")
    _whole("dynamic_shared_bytes", dynamic, 0, None, "a block")
    if carveout is not None:
        _whole("carveout", carveout, 0, 100, "percent")
        if len(own.carveouts) == 1:
            raise LaunchError(
                f"carveout {carveout}: shared memory of {gpu.name} is fixed; leave the carveout out"
            )
    if static > own.shared_bytes_static_max:
        raise LaunchError(
            f"shared_bytes {static}: static shared memory is at most "
            f"{own.shared_bytes_static_max} bytes a block; declare it `extern __shared__` "
            f"and pass it as dynamic_shared_bytes: {gpu.name} takes "
            f"{own.shared_bytes_per_block_max} bytes in all"
        )
    total, most = static + dynamic, own.shared_bytes_per_block_max
    if total > most:
        raise LaunchError(
            f"shared_bytes {static} + dynamic_shared_bytes {dynamic} = {total}: {gpu.name} has at "
            f"most {most} bytes a block; make the tile {total - most} bytes smaller"
        )
    fits = most_registers(own, threads, 1)
    if registers > fits:
        sizes = range(32, own.max_threads_per_block + 1, 32)
        fewer = max(t for t in sizes if most_registers(own, t, 1) >= registers)
        raise LaunchError(
            f"registers {registers} x threads {threads}: {gpu.name} has {own.registers} registers "
            f"for a block; at most {fits} a thread fit with these threads, or at most {fewer} "
            "threads with these registers"
        )


def _whole(name: str, value: int, least: int, most: int | None, per: str) -> None:
    """Refuse what is not a whole number from `least` to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        span = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise LaunchError(f"{name} {value!r}: expected a whole number {span} ({per})")


def _registers_taken(limits: Limits, warps: int, registers: int) -> int:
    """Return the registers that one block takes."""
    if limits.registers_to == "block":
        return _round_up(_round_up(warps, limits.warp_unit) * 32 * registers, limits.register_unit)
    return warps * _round_up(32 * registers, limits.register_unit)


def _blocks_by_registers(limits: Limits, warps: int, registers: int) -> int:
    """Return the blocks that the registers of an SM allow."""
    if limits.registers_to == "block":
        return limits.registers // _registers_taken(limits, warps, registers)
    of_warp = _round_up(32 * registers, limits.register_unit)
    resident = limits.registers // limits.partitions // of_warp * limits.partitions
    return resident // warps


def _configured_shared(limits: Limits, block: int, carveout: int | None) -> int:
    """Return the SM's shared memory: what the carveout asks for, or the least with a block."""
    wanted = limits.shared_bytes * (100 if carveout is None else carveout) // 100
    return next(size for size in limits.carveouts if size >= max(wanted, block))


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def _round_up(a: int, unit: int) -> int:
    return _ceil_div(a, unit) * unit
