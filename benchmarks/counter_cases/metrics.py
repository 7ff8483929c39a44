"""Which counters are asked for, and which of them this profiler knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

SetName: TypeAlias = Literal["micro", "program", "large"]


def _words(text: str) -> list[str]:
    return text.split()


def _sums(prefix: str, names: str) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}.sum" for name in _words(names))


# Defined by addresses alone, counted by instrumented machine code.
_SASS = (
    "memory_l2_theoretical_sectors_global",
    "memory_l2_theoretical_sectors_global_ideal",
    "memory_l2_theoretical_sectors_local",
    "memory_l1_tag_requests_global",
    "memory_l1_wavefronts_shared",
    "memory_l1_wavefronts_shared_ideal",
)
_OPCODES = tuple(
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
    for op in [
        "ffma",
        "fadd",
        "fmul",
        "integer",
        "conversion",
        "memory",
        "control",
        "inter_thread_communication",
    ]
)
# Requests, sectors, wavefronts and instructions, counted by the hardware.
_ACCESSES = (
    *_sums("l1tex__t_requests_pipe_lsu_mem_", "global_op_ld global_op_st local_op_ld local_op_st"),
    *_sums("l1tex__t_requests_pipe_lsu_mem_global_op_", "atom red ldgsts"),
    *_sums("l1tex__t_sectors_pipe_lsu_mem_", "global_op_ld global_op_st local_op_ld local_op_st"),
    *_sums("l1tex__t_sectors_pipe_lsu_mem_global_op_", "atom red ldgsts"),
    *_sums("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_", "ld st atom ldgsts ldsm"),
    *_sums("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_", "ld st atom ldgsts ldsm"),
    *_sums("l1tex__data_pipe_lsu_wavefronts_mem_", "shared lg lgds lg_cmd_read lg_cmd_write"),
    *_sums("l1tex__data_pipe_lsu_wavefronts_mem_", "lgds_cmd_read lgds_cmd_write"),
    *_sums("l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_", "ld st atom red ldgsts"),
    *_sums("l1tex__t_set_conflicts_pipe_lsu_mem_global_op_", "ld st"),
    *_sums("l1tex__", "data_pipe_lsu_wavefronts data_bank_reads data_bank_writes"),
    *_sums("l1tex__", "lsu_writeback_active lsuin_requests"),
    *_sums("smsp__inst_executed_op_shared_", "ld st atom"),
    *_sums("smsp__inst_executed_op_global_", "ld st atom red"),
    *_sums("smsp__inst_executed_op_", "local_ld local_st ldsm ldgsts"),
    *_sums("smsp__", "inst_executed thread_inst_executed thread_inst_executed_pred_on inst_issued"),
)
_CACHES = (
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    *_sums("lts__t_sectors_op_", "read write"),
    *_sums("lts__t_sectors_", "srcunit_tex srcunit_tex_lookup_hit srcunit_tex_lookup_miss"),
    *_sums("dram__bytes", "_read _write"),
)
_TIME = (
    "gpu__time_duration.sum",
    "sm__cycles_elapsed.max",
    "sm__cycles_elapsed.avg.per_second",
    "sm__cycles_active.avg",
    "smsp__cycles_active.avg",
    "lts__cycles_elapsed.avg.per_second",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.sum",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__warps_active.avg.per_cycle_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
)
_LAUNCH = tuple(
    f"launch__{name}"
    for name in _words("""
        registers_per_thread occupancy_limit_blocks occupancy_limit_registers
        occupancy_limit_shared_mem occupancy_limit_warps waves_per_multiprocessor
        shared_mem_per_block_static shared_mem_per_block_dynamic
    """)
)


def _stalls(reasons: str) -> tuple[str, ...]:
    return tuple(
        f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        for reason in _words(reasons)
    )


_STALLS = _stalls("""
    long_scoreboard short_scoreboard mio_throttle lg_throttle math_pipe_throttle barrier wait
    not_selected selected no_instruction dispatch_stall drain membar branch_resolving
    imc_miss sleeping tex_throttle misc gmma warpgroup_arrive
""")
# Wildcards over what the profiler itself lists: counters whose names differ between versions.
_MICRO_PATTERNS = (
    r"l1tex__data_pipe_lsu_wavefronts(_mem_(shared|lg|lgds)(_(op|cmd)_\w+)?)?",
    r"l1tex__data_bank_(reads|writes|conflicts_pipe_lsu(_mem_(shared|global|lg)(_op_\w+)?)?)",
    r"l1tex__t_(set_accesses|set_conflicts|output_wavefronts)_pipe_lsu_mem_(global|local)_op_\w+",
    r"smsp__inst_executed_op_(shared|global|local|ldsm|ldgsts|generic)\w*",
)
_PIPE_PATTERNS = (r"smsp__inst_executed_pipe_(?!\w*pred_on)\w+",)

WANTED: dict[SetName, tuple[str, ...]] = {
    "micro": (*_SASS, *_ACCESSES, "gpu__time_duration.sum", "launch__registers_per_thread"),
    "program": (*_SASS, *_OPCODES, *_ACCESSES, *_CACHES, *_TIME, *_LAUNCH, *_STALLS),
    "large": (*_ACCESSES, *_CACHES, *_TIME, *_LAUNCH, *_STALLS),
}
_EXTRA: dict[SetName, tuple[str, ...]] = {
    "micro": _MICRO_PATTERNS,
    "program": _PIPE_PATTERNS,
    "large": _PIPE_PATTERNS,
}
# Read on an H200 with ncu 2025.3.1 before: what is asked for where a longer list is refused.
SAFE = (
    *_sums("l1tex__t_requests_pipe_lsu_mem_global_op_", "ld"),
    *_sums("l1tex__t_sectors_pipe_lsu_mem_global_op_", "ld st"),
    *_sums("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_", "ld st"),
    *_sums("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_", "ld st"),
    *_sums("smsp__", "inst_executed inst_executed_op_global_ld inst_executed_op_shared_ld"),
    *_sums("smsp__", "inst_executed_op_shared_st sass_thread_inst_executed_op_ffma_pred_on"),
    "gpu__time_duration.sum",
    "launch__registers_per_thread",
    *_stalls("barrier lg_throttle long_scoreboard mio_throttle short_scoreboard"),
)
# Families that `--query-metrics` may leave out although they can be collected.
_UNLISTED = ("memory_", "launch__", "smsp__sass_", "sass__")

_LISTED = re.compile(r"^\s*([a-z]\w*__\w+)\s+(\w+)?")
_REFUSED = re.compile(r"[Ff]ailed to find metric\s+(?:regex:\^?)?([\w.]+)")


def listed(query: str) -> dict[str, str]:
    """Return the metrics of `ncu --query-metrics` by type, such as Counter or Ratio."""
    found = {}
    for line in query.splitlines():
        if match := _LISTED.match(line):
            found[match[1]] = match[2] or ""
    return found


def choose(wanted: SetName, known: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the metrics to ask for, and those that are left out because they are not listed.

    With nothing listed (the query failed) all are asked for.
    """
    names = list(WANTED[wanted])
    typed = "Counter" in known.values()
    for pattern in _EXTRA[wanted]:
        whole = re.compile(pattern)
        counters = (n for n, kind in known.items() if kind == "Counter" or not typed)
        names += [f"{n}.sum" for n in counters if whole.fullmatch(n)]
    names = list(dict.fromkeys(names))
    left_out = [n for n in names if known and not _listed(n, known) and n not in SAFE]
    return [n for n in names if n not in left_out], left_out


def _listed(name: str, known: Iterable[str]) -> bool:
    return name.partition(".")[0] in known or name.startswith(_UNLISTED)


def refused(log: str, names: Sequence[str]) -> list[str]:
    """Return those of `names` that the profiler's own messages say it does not have."""
    bases = {match[1].replace("\\", "").partition(".")[0] for match in _REFUSED.finditer(log)}
    return [name for name in names if name.partition(".")[0] in bases]
