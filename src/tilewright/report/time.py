"""The time model's answer, laid out: a sentence, what warps wait for, what the units do."""

from __future__ import annotations

from tilewright.model.estimate import Estimate
from tilewright.report.ladder import Justify, Table

_MOST = 5
# Of the longest wait: what waits as long may be the profiler's first, which the model cannot tell.
_NEARLY = 0.8
# Reasons that are no wait: the warp was ready, or issued.
NO_WAIT = frozenset({"selected", "not_selected"})
# Source: Nsight Compute, Kernel Profiling Guide, "Warp Stall Reasons".
MEANING = {
    "barrier": "the other warps of the block at __syncthreads()",
    "branch_resolving": "a branch target",
    "dispatch_stall": "the dispatcher",
    "drain": "its last stores",
    "imc_miss": "a constant that is not in the cache",
    "lg_throttle": "room in the queue of global memory instructions",
    "long_scoreboard": "data from global memory",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "membar": "a memory fence",
    "mio_throttle": "room in the queue of shared memory instructions",
    "no_instruction": "its next instructions",
    "short_scoreboard": "data from shared memory or a special function",
    "sleeping": "its own sleep",
    "wait": "the fixed latency of its last instruction",
}


def time_sentence(estimate: Estimate, ffma: int) -> str:
    """Return how long and why, in a sentence without its subject.

    `ffma` are the fused multiply-adds of the launch, 0 where its rate says nothing.
    """
    gflops = 2 * ffma / estimate.seconds / 1e9
    rate = f", {gflops:{',.0f' if gflops >= 1e4 else '.4g'}} GFLOP/s" if ffma else ""
    waits = {reason: n for reason, n in estimate.stalls.items() if reason not in NO_WAIT}
    why = ""
    if estimate.is_starting:
        why = "; its blocks start no faster"
    elif waits:
        first, *others = sorted(waits, key=lambda reason: -waits[reason])
        share = waits[first] / sum(estimate.stalls.values())
        meaning = f", {MEANING[first]}" if first in MEANING else ""
        why = f"; warps wait most for {first} ({share:.0%} of their time{meaning})"
        near = [reason for reason in others if waits[reason] > _NEARLY * waits[first]]
        if near:
            why += f", nearly as long for {' and '.join(near)}"
    return f"about {_duration(estimate.seconds)}{rate}{why}"


def time_table(estimate: Estimate) -> Table:
    """Lay out the busiest units and the longest waits, side by side."""
    units = sorted(estimate.demand.items(), key=lambda item: -item[1])[:_MOST]
    waits = sorted(estimate.stalls.items(), key=lambda item: -item[1])[:_MOST]
    rows = []
    for place in range(max(len(units), len(waits))):
        unit, busy = units[place] if place < len(units) else ("", None)
        reason, warps = waits[place] if place < len(waits) else ("", None)
        rows.append(
            (
                unit,
                "" if busy is None else f"{busy:.0%}",
                reason,
                "" if warps is None else f"{warps:.2f}",
            )
        )
    columns: dict[str, Justify] = {
        "unit": "left",
        "busy": "right",
        "stall": "left",
        "warps an issue": "right",
    }
    notes = (
        f"Modelled: {estimate.cycles:,.0f} cycles at {estimate.clock_hz / 1e6:.0f} MHz, "
        f"{_counted(estimate.waves, 'round')} of {_counted(estimate.resident_blocks, 'block')} an "
        f"SM; a partition "
        f"issues in {estimate.issue_active:.0%} of its cycles.",
    )
    return Table("Time", columns, tuple(rows), notes)


def _counted(number: float, noun: str) -> str:
    return f"{number:.3g} {noun}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"
