"""What a GPU is: the values. Every figure names its source. Imports only errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tilewright.errors import UnsupportedError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

ComputeCapability: TypeAlias = tuple[int, int]
Grade: TypeAlias = Literal["vendor", "reading", "reported", "derived", "recalled"]

# The oldest architecture that NVRTC 13 compiles for.
OLDEST_COMPILED: ComputeCapability = (7, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure comes from, and how far to trust it.

    `grade` is "vendor" (NVIDIA's own document or header), "reading" (read from a card, by us or in
    a named public report), "reported" (somebody else's specification page), "derived" (arithmetic
    on other figures) or "recalled" (from memory: check it before quoting it).
    """

    text: str
    grade: Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a GPU with its unit and source, for tables and JSON.

    `value` is None where the hardware has no such thing (an L2 cache in 2008).
    """

    name: str
    value: int | float | tuple[int, ...] | None
    unit: str
    source: Source

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        return {
            "value": value,
            "unit": self.unit,
            "grade": self.source.grade,
            "source": self.source.text,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one SM offers a kernel: the same for every GPU of one compute capability.

    Units: bytes for shared memory, 32-bit registers, warps of 32 threads. `fp32_lanes` are the
    float32 multiply-adds an SM finishes a clock.

    Allocation: from compute capability 2 on, registers are given out to a warp in steps of
    `register_unit`, out of the file of one of `partitions` sub-partitions; before (`registers_to`
    "block") they were given to a whole block, its warps rounded up to `warp_unit`. Shared memory
    is given out in steps of `shared_unit`, after adding `shared_bytes_reserved` that the driver
    keeps in each block. `carveouts` are the sizes that shared memory can be set to where it
    shares its storage with the L1 cache.
    """

    compute_capability: ComputeCapability
    fp32_lanes: int
    max_warps: int
    max_blocks: int
    max_threads_per_block: int
    registers: int
    max_registers_per_thread: int
    registers_to: Literal["warp", "block"]
    register_unit: int
    warp_unit: int
    partitions: int
    shared_bytes: int
    shared_bytes_static_max: int
    shared_bytes_per_block_max: int
    shared_bytes_reserved: int
    shared_unit: int
    carveouts: tuple[int, ...]
    sources: Mapping[str, Source] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        _require_sources(self, _LIMIT_UNITS)

    @property
    def max_threads(self) -> int:
        """Threads that one SM holds at a time."""
        return 32 * self.max_warps


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One product: its SMs, clock and memory, and the limits of its compute capability.

    Units: `boost_clock_hz` is the advertised boost, not what a card sustains under load;
    `dram_bytes` is the capacity as sold, in binary units (a driver reports 1 to 3 % less);
    `fp16_tensor_flops_per_s` is dense, float16 or bfloat16 in, float32 accumulated. `l2_bytes` and
    the tensor rate are None where the hardware has none. `device_names` are the names that CUDA
    reports for exactly this product.
    """

    name: str
    aliases: tuple[str, ...] = ()
    device_names: tuple[str, ...] = ()
    limits: Limits
    sm_count: int
    boost_clock_hz: float
    l2_bytes: int | None
    dram_bytes: int
    dram_bytes_per_s: float
    fp16_tensor_flops_per_s: float | None
    sources: Mapping[str, Source] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        _require_sources(self, _GPU_UNITS)

    @property
    def compute_capability(self) -> ComputeCapability:
        """(major, minor)."""
        return self.limits.compute_capability

    @property
    def arch(self) -> str:
        """The real architecture, such as "sm_86"."""
        major, minor = self.compute_capability
        return f"sm_{major}{minor}"

    @property
    def compilable(self) -> bool:
        """Whether NVRTC 13 can compile for it; if not, it can be modelled but never run."""
        return self.compute_capability >= OLDEST_COMPILED

    @property
    def fp32_flops_per_s(self) -> float:
        """Peak float32 rate at the boost clock: a multiply and an add a lane and clock."""
        return 2 * self.limits.fp32_lanes * self.sm_count * self.boost_clock_hz

    def require_arch(self) -> str:
        """Return `arch` for a compiler.

        Raises:
            UnsupportedError: no compiler that tilewright uses reaches this architecture.

        """
        if not self.compilable:
            raise UnsupportedError(
                f"{self.name} is {self.arch}: NVRTC 13 compiles for sm_75 and later, so a kernel "
                "cannot be compiled for it; occupancy and the specifications still work. "
                "Choose a GPU without a * in `tilewright gpus`"
            )
        return self.arch

    def figures(self) -> tuple[Figure, ...]:
        """Return every figure with unit and source: the product's, then its SM's."""
        product = [
            Figure(name=n, value=getattr(self, n), unit=u, source=self.sources[n])
            for n, u in _GPU_UNITS.items()
        ]
        peak = Figure(
            name="fp32_flops_per_s",
            value=self.fp32_flops_per_s,
            unit="FLOP/s",
            source=Source(text="2 · fp32_lanes · sm_count · boost_clock_hz", grade="derived"),
        )
        limits = [
            Figure(name=n, value=getattr(self.limits, n), unit=u, source=self.limits.sources[n])
            for n, u in _LIMIT_UNITS.items()
        ]
        return (*product, peak, *limits)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values: identity, then each figure with unit, grade and source."""
        return {
            "name": self.name,
            "aliases": list(self.aliases),
            "device_names": list(self.device_names),
            "compute_capability": list(self.compute_capability),
            "arch": self.arch,
            "compilable": self.compilable,
            "figures": {f.name: f.to_json() for f in self.figures()},
        }


_GPU_UNITS = {
    "sm_count": "SMs",
    "boost_clock_hz": "Hz",
    "l2_bytes": "bytes",
    "dram_bytes": "bytes",
    "dram_bytes_per_s": "bytes/s",
    "fp16_tensor_flops_per_s": "FLOP/s",
}
_LIMIT_UNITS = {
    "fp32_lanes": "FMA/clock/SM",
    "max_warps": "warps/SM",
    "max_blocks": "blocks/SM",
    "max_threads_per_block": "threads",
    "registers": "registers/SM",
    "max_registers_per_thread": "registers",
    "register_unit": "registers",
    "warp_unit": "warps",
    "partitions": "per SM",
    "shared_bytes": "bytes/SM",
    "shared_bytes_static_max": "bytes",
    "shared_bytes_per_block_max": "bytes",
    "shared_bytes_reserved": "bytes/block",
    "shared_unit": "bytes",
    "carveouts": "bytes/SM",
}


def _require_sources(record: Limits | Gpu, units: Mapping[str, str]) -> None:
    """Refuse a table row whose sources are not one for each figure."""
    odd = sorted(set(units) ^ set(record.sources))
    if odd:
        raise ValueError(f"{type(record).__name__}: one source for each figure; odd: {odd}")
