"""What the time model knows of an SM and its memory, by GPU, each figure with where it is from.

"Measured" figures are those of benchmarks/h200_calibration.py on one H200 (sm_90), whose probes are
none of the kernels that the model is judged by; their names are in brackets. Other architectures
take them over where no document says otherwise: that is an assumption, and what it costs shows in
the A6000's errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.gpus import ComputeCapability, Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One GPU as the model sees it.

    Units: cycles of the SM's clock, bytes. `interval` are the cycles for which an instruction of a
    warp keeps its pipe of one sub-partition; latencies run from issue to result. `lsu_lanes` are
    the lanes whose addresses the load-store unit takes a cycle; `l1_tags` the 128-byte lines that
    the L1 looks up a cycle; `queue` the memory instructions that a sub-partition holds before it
    stalls. `l2_bytes_per_cycle` and `dram_bytes_per_cycle` are of the whole GPU. Lines are up to
    half of `l2_spread` nearer or farther than the L2's latency says, and those that the other half
    of the L2 keeps are farther by `l2_far`. A sector that a store fills in part costs the L2 as
    much as `partial_sector` whole ones, and a line of such as `partial_line` more; the SM sends for
    each such line as much as another sector. A launch takes `launch_s` with next to nothing to do,
    and starts no more than `blocks_per_s`.
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
    l2_stores_per_cycle: float
    sm_stores_per_cycle: float
    partial_sector: float
    partial_line: float
    dram_bytes_per_cycle: float
    l2_spread: float
    l2_far: float
    launch_s: float
    blocks_per_s: float


# Lanes of each kind in an SM, by compute capability, over its four partitions.
# Source: CUDA C++ Programming Guide, "Arithmetic Instructions", throughput table.
_LANES: Mapping[ComputeCapability, Mapping[str, int]] = {
    (7, 5): {"fma": 64, "imad": 64, "alu": 64, "xu": 16, "fp64": 2},
    (8, 0): {"fma": 64, "imad": 64, "alu": 64, "xu": 16, "fp64": 32},
    (8, 6): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 2},
    (8, 9): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 2},
    (9, 0): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 64},
    (10, 0): {"fma": 128, "imad": 64, "alu": 64, "xu": 16, "fp64": 64},
    (12, 0): {"fma": 128, "imad": 128, "alu": 64, "xu": 16, "fp64": 2},
}

# Cycles for which other pipes are taken by an instruction. Assumed.
_INTERVAL: Mapping[str, int] = {"uniform": 2, "branch": 2}

# Latencies of what a scoreboard waits for. Measured, sm_90 (chain-*): the chain's cycles less 4.5
# for the addition in it (9 where the address has 64 bits); of wider loads by the passes that they
# take more (units.py: 26 and 30 of LDS.64 and LDS.128). Constants, special registers: assumed.
_LATENCY: Mapping[str, float] = {
    "lds": 24,
    "l1": 33,
    "xu": 17,
    "shfl": 24,
    "const": 30,
    "special": 24,
    "bar": 13,
    "fp64": 8,
    "membar": 493,
}

# Latency of a hit in the L2 and of a miss, in cycles, by compute capability. sm_90: measured, 400
# lines by each of 132 SMs, in an SM's own half of the L2, and of misses of both (docs/model.md). Of
# a miss chain-dram has 687; Luo et al., arXiv 2501.12084, have 258 near and 414 far, 555 and 744 on
# a miss, of an H800. sm_86: the configuration of an RTX 3070 in Accel-Sim, 39 + 187 and 254 more.
# sm_75: Jia et al., arXiv 1903.07486, of a T4; its miss is assumed. sm_80, sm_89: arXiv 2402.13499,
# of an A100 and an RTX 4090. sm_100: reported of a B200, 293 and 838. sm_120 is taken to be like
# sm_89.
_L2: Mapping[ComputeCapability, tuple[float, float]] = {
    (7, 5): (188, 400),
    (8, 0): (262, 466),
    (8, 6): (226, 480),
    (8, 9): (273, 541),
    (9, 0): (292, 699),
    (10, 0): (293, 838),
    (12, 0): (273, 541),
}

# How far apart the nearest and the farthest line of a half of the L2 are, and how much farther
# those of the other half, in cycles: measured with the above, sm_90. Others: not known.
_SPREAD: Mapping[ComputeCapability, tuple[float, float]] = {(9, 0): (64, 178)}

# GPUs that take the addresses of 32 lanes a cycle; others take 16.
# Source: NVIDIA's whitepapers, load/store units of an SM: A100 and H100 32, GA102 and AD102 16; for
# sm_90 also measured (stream-lds32-unit). sm_100 is taken to be like sm_90.
_WIDE_LSU = frozenset({(8, 0), (9, 0), (10, 0)})

# Of a launch on an H200, by events around it while the host is ahead: measured (launch-*).
_LAUNCH_S, _BLOCKS_PER_S = 3.4e-6, 1.66e9
# Lines of the L1 that are looked up a cycle, memory instructions in a partition's queue, and the
# share of the DRAM's datasheet bandwidth that a launch gets. Assumed; docs/model.md says what else
# was tried.
_L1_TAGS = 4.0
_QUEUE = 8
_DRAM_SHARE = 0.9
# Bytes a cycle that the L2 gives each SM where all read the same lines. Measured, sm_90, with 32
# warps of LDG.128; where each reads its own 30 to 36 by width (stream-ldg*-l2).
_L2_BYTES_PER_CYCLE = 85.0
# What the L2 takes of the stores of each SM, if all store, and if one does. Measured, sm_90: notes
# in docs/model.md.
_L2_STORES, _STORES_ALONE = 25.6, 33.4
# What stores of part of a sector cost it, in whole sectors, and each line of such beside. Measured,
# sm_90: 4, 2 and 1 sectors a line (stream-stg32-apart*, and notes in docs/model.md).
_PARTIAL_SECTOR, _PARTIAL_LINE = 1.67, 1.2


def machine(gpu: Gpu) -> Machine:
    """Return the model's figures for a GPU.

    Raises:
        UnsupportedError: a GPU that no compiler reaches.
    """
    gpu.require_arch()
    known = min(_LANES, key=lambda cc: (cc > gpu.compute_capability, _distance(cc, gpu)))
    lanes, (l2, dram) = _LANES[known], _L2[known]
    spread, far = _SPREAD.get(known, (0, 0))
    interval = {pipe: max(1, 128 // count) for pipe, count in lanes.items()}
    return Machine(
        gpu=gpu,
        clock_hz=gpu.boost_clock_hz,
        interval={**interval, **_INTERVAL},
        latency={**_LATENCY, "l2": l2, "dram": dram},
        lsu_lanes=32 if gpu.compute_capability in _WIDE_LSU else 16,
        l1_tags=_L1_TAGS,
        queue=_QUEUE,
        l1_bytes=gpu.limits.shared_bytes,
        l2_bytes_per_cycle=_L2_BYTES_PER_CYCLE * gpu.sm_count,
        l2_stores_per_cycle=_L2_STORES * gpu.sm_count,
        sm_stores_per_cycle=_STORES_ALONE,
        partial_sector=_PARTIAL_SECTOR,
        partial_line=_PARTIAL_LINE,
        dram_bytes_per_cycle=_DRAM_SHARE * gpu.dram_bytes_per_s / gpu.boost_clock_hz,
        l2_spread=spread,
        l2_far=far,
        launch_s=_LAUNCH_S,
        blocks_per_s=_BLOCKS_PER_S,
    )


def _distance(cc: ComputeCapability, gpu: Gpu) -> int:
    major, minor = gpu.compute_capability
    return abs(10 * (cc[0] - major) + cc[1] - minor)
