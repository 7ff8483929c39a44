"""The limits of one SM, by compute capability, each with its source."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.gpus.gpu import KIB, ComputeCapability, Limits, Source

_GUIDE = Source(
    text="CUDA C++ Programming Guide, Technical Specifications per Compute Capability",
    grade="vendor",
)
_RATES = Source(
    text="CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions", grade="vendor"
)
_HEADER = Source(text="cuda_occupancy.h, CUDA 13.5", grade="vendor")
_OPT_IN = Source(
    text="CUDA C++ Programming Guide, Shared Memory: static arrays are limited to 48 KB a block on "
    "every architecture, dynamic ones may opt in to more",
    grade="vendor",
)
_RESERVED = Source(
    text="NVIDIA tuning guides (Ampere, Hopper, Blackwell): CUDA reserves 1 KB of shared memory a "
    "block from compute capability 8.0 on",
    grade="vendor",
)
_CALCULATOR = Source(
    text="CUDA_Occupancy_calculator.xls of the CUDA 2 and 3 toolkits, as transcribed by "
    "github.com/xmartlabs/cuda-calculator",
    grade="reported",
)

_MODERN_SOURCES: Mapping[str, Source] = {
    "fp32_lanes": _RATES,
    "max_warps": _GUIDE,
    "max_blocks": _HEADER,
    "max_threads_per_block": _GUIDE,
    "registers": _GUIDE,
    "max_registers_per_thread": _GUIDE,
    "register_unit": _HEADER,
    "warp_unit": _HEADER,
    "partitions": _HEADER,
    "shared_bytes": _GUIDE,
    "shared_bytes_static_max": _OPT_IN,
    "shared_bytes_per_block_max": _GUIDE,
    "shared_bytes_reserved": _RESERVED,
    "shared_unit": _HEADER,
    "carveouts": _HEADER,
}
_FIRST_SOURCES: Mapping[str, Source] = dict.fromkeys(_MODERN_SOURCES, _CALCULATOR) | {
    "fp32_lanes": Source(
        text="CUDA Programming Guide 2, Hardware Implementation: eight scalar cores an SM",
        grade="recalled",
    ),
    "partitions": Source(
        text="compute capability 1 allocates registers from one file an SM", grade="recalled"
    ),
}


def _modern(
    cc: ComputeCapability,
    *,
    fp32_lanes: int,
    max_warps: int,
    max_blocks: int,
    carveouts_kib: tuple[int, ...],
) -> Limits:
    """Compute capability 7 and later: what does not change is written here once."""
    ampere = cc >= (8, 0)
    reserved = KIB if ampere else 0
    most = carveouts_kib[-1] * KIB
    return Limits(
        compute_capability=cc,
        fp32_lanes=fp32_lanes,
        max_warps=max_warps,
        max_blocks=max_blocks,
        max_threads_per_block=1024,
        registers=65536,
        max_registers_per_thread=255,
        registers_to="warp",
        register_unit=256,
        warp_unit=1,
        partitions=4,
        shared_bytes=most,
        shared_bytes_static_max=48 * KIB,
        shared_bytes_per_block_max=most - reserved,
        shared_bytes_reserved=reserved,
        shared_unit=128 if ampere else 256,
        carveouts=tuple(k * KIB for k in carveouts_kib),
        sources=_MODERN_SOURCES,
    )


def _first(cc: ComputeCapability, *, max_warps: int, registers: int, register_unit: int) -> Limits:
    """Compute capability 1: registers go to blocks, shared memory is 16 KB and fixed."""
    return Limits(
        compute_capability=cc,
        fp32_lanes=8,
        max_warps=max_warps,
        max_blocks=8,
        max_threads_per_block=512,
        registers=registers,
        max_registers_per_thread=124,
        registers_to="block",
        register_unit=register_unit,
        warp_unit=2,
        partitions=1,
        shared_bytes=16 * KIB,
        shared_bytes_static_max=16 * KIB,
        shared_bytes_per_block_max=16 * KIB,
        shared_bytes_reserved=0,
        shared_unit=512,
        carveouts=(16 * KIB,),
        sources=_FIRST_SOURCES,
    )


_UP_TO_100 = (0, 8, 16, 32, 64, 100)
_UP_TO_164 = (*_UP_TO_100, 132, 164)
_UP_TO_228 = (*_UP_TO_164, 196, 228)

LIMITS: Mapping[ComputeCapability, Limits] = {
    limits.compute_capability: limits
    for limits in (
        _first((1, 0), max_warps=24, registers=8192, register_unit=256),
        _first((1, 1), max_warps=24, registers=8192, register_unit=256),
        _first((1, 3), max_warps=32, registers=16384, register_unit=512),
        _modern(
            (7, 0), fp32_lanes=64, max_warps=64, max_blocks=32, carveouts_kib=(0, 8, 16, 32, 64, 96)
        ),
        _modern((7, 5), fp32_lanes=64, max_warps=32, max_blocks=16, carveouts_kib=(32, 64)),
        _modern((8, 0), fp32_lanes=64, max_warps=64, max_blocks=32, carveouts_kib=_UP_TO_164),
        _modern((8, 6), fp32_lanes=128, max_warps=48, max_blocks=16, carveouts_kib=_UP_TO_100),
        _modern((8, 9), fp32_lanes=128, max_warps=48, max_blocks=24, carveouts_kib=_UP_TO_100),
        _modern((9, 0), fp32_lanes=128, max_warps=64, max_blocks=32, carveouts_kib=_UP_TO_228),
        _modern((10, 0), fp32_lanes=128, max_warps=64, max_blocks=32, carveouts_kib=_UP_TO_228),
        _modern((12, 0), fp32_lanes=128, max_warps=48, max_blocks=24, carveouts_kib=_UP_TO_100),
    )
}
