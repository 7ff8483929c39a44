"""What the time model knows of an SM and its memory, by GPU, each figure with where it is from.

`MEASURED` figures are those of benchmarks/h200_calibration.py on one H200 (sm_90), whose probes are
none of the kernels that the model is judged by. Other architectures take them over where no
document says otherwise: that is an assumption, and what it costs shows in the A6000's errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.gpus import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU as the model sees it.

    Units: cycles of the SM's clock, bytes. `interval` are the cycles for which an instruction of a
    warp keeps its pipe of one sub-partition; latencies run from issue to result. `lsu_lanes` are
    the lanes whose addresses the load-store unit takes a cycle; `l1_tags` the 128-byte lines that
    the L1 looks up a cycle; `queue` the memory instructions that a sub-partition holds before it
    stalls. `l2_bytes_per_cycle` and `dram_bytes_per_cycle` are of the whole GPU.
    """

    gpu: Gpu
    clock_hz: float
    interval: Mapping[str, int]
    latency: Mapping[str, float]
    lsu_lanes: int
    l1_tags: float
    queue: int
    l1_bytes: int
    l2_bytes_per_cycle: float
    dram_bytes_per_cycle: float
    launch_s: float
    bank_reads: int = 1
    sources: Mapping[str, str] = field(default_factory=dict)


# Warp-level instructions: lanes of each kind an SM by compute capability, over four partitions.
# Source: CUDA C++ Programming Guide, "Arithmetic Instructions", throughput table.
_LANES: Mapping[tuple[int, int], Mapping[str, int]] = {
    (7, 0): {"fma": 64, "imad": 64, "alu": 64, "xu": 16, "fp64": 32},
    (7, 5): {"fma": 64, "imad": 64, "alu": 64, "xu": 16, "fp64": 2},
    (8, 0): {"fma": 64, "imad": 64, "alu": 64, "xu": 16, "fp64": 32},
    (8, 6): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 2},
    (8, 9): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 2},
    (9, 0): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 64},
    (10, 0): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 64},
    (12, 0): {"fma": 128, "imad": 128, "alu": 64, "xu": 16, "fp64": 2},
}

# Latencies of what a scoreboard waits for. Measured, sm_90 (chain-*): the chain's cycles less 4.5
# for the addition in it (9 where the address has 64 bits).
_LATENCY: Mapping[str, float] = {
    "lds32": 24,
    "lds64": 26,
    "lds128": 30,
    "l1_32": 33,
    "l1_64": 35,
    "l1_128": 39,
    "xu": 17,
    "shfl": 24,
    "const": 30,
    "special": 24,
    "bar": 13,
    "fp64": 8,
}

# Latency of a hit in the L2 and of a miss, in cycles, by compute capability. sm_90: of the far half
# of its L2, since a request of several sectors has one there (Luo et al., arXiv 2501.12084, of an
# H800: 258 near, 414 far, 555 and 744 on a miss), less the 9 of address arithmetic. sm_86: Accel-Sim's
# configuration of an RTX 3070, 39 + 187 and 254 more. Others: explain.md's table of microbenchmarks
# (A100, RTX 4090, B200, T4, V100); sm_120 is taken to be like sm_89.
_FAR: Mapping[tuple[int, int], tuple[float, float]] = {
    (7, 0): (193, 400),
    (7, 5): (188, 400),
    (8, 0): (262, 466),
    (8, 6): (226, 480),
    (8, 9): (273, 541),
    (9, 0): (405, 735),
    (10, 0): (293, 838),
    (12, 0): (273, 541),
}


def machine(gpu: Gpu) -> Machine:
    """Return the model's figures for a GPU.

    Raises:
        UnsupportedError: a GPU that no compiler reaches.
    """
    gpu.require_arch()
    known = min(_LANES, key=lambda cc: (cc > gpu.compute_capability, _distance(cc, gpu)))
    lanes, (l2, dram) = _LANES[known], _FAR[known]
    interval = {pipe: max(1, 128 // count) for pipe, count in lanes.items()}
    wide = gpu.compute_capability in ((8, 0), (9, 0), (10, 0), (7, 0))
    return Machine(
        gpu=gpu,
        clock_hz=gpu.boost_clock_hz,
        interval=interval | {"uniform": 2, "branch": 2, "mio": 2},
        latency={**_LATENCY, "l2": l2, "dram": dram},
        lsu_lanes=32 if wide else 16,
        l1_tags=4.0,
        queue=8,
        l1_bytes=gpu.limits.shared_bytes,
        l2_bytes_per_cycle=34.0 * gpu.sm_count,
        dram_bytes_per_cycle=0.9 * gpu.dram_bytes_per_s / gpu.boost_clock_hz,
        launch_s=4.6e-6,
    )


def _distance(cc: tuple[int, int], gpu: Gpu) -> int:
    major, minor = gpu.compute_capability
    return abs(10 * (cc[0] - major) + cc[1] - minor)
