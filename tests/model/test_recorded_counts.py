"""Whole kernels, instruction by instruction, against what Nsight Compute read on an H200.

The record holds the machine code that was counted, so that any compiler will do here.
"""

from functools import cache, reduce
from pathlib import Path

import pytest
from counter_cases.programs import RungCase
from counter_cases.record import NAME, Record, Recorded

from tilewright.accesses import PtxCounts
from tilewright.bench.classes import block_classes
from tilewright.bench.profiling import profile_kernel
from tilewright.emulator.counting import count_lines
from tilewright.model.binding import bind
from tilewright.model.profile import Profile
from tilewright.model.widths import images

RECORD = Path(__file__).parents[2] / "benchmarks" / "results" / NAME
EXECUTED = "smsp__inst_executed.sum"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
TRAFFIC = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"


@cache
def recorded() -> dict[str, Recorded]:
    return {r.name: r for r in Record.read(RECORD).recorded() if r.kind != "micro"}


@cache
def profile(name: str) -> Profile:
    each = recorded()[name]
    case = each.case
    if not isinstance(case, RungCase):
        return profile_kernel(each.artifact, each.launch, case.arguments())
    found, args = images(each.artifact), case.arguments()
    if case.tile.workers:
        return profile_kernel(each.artifact, each.launch, args, workers=1)
    parts = [
        count_lines(
            each.artifact, each.launch, args, widths=found.widths(), sample=[kind.first]
        ).times(kind.count)
        for kind in block_classes(case.rung, case.problem, case.tile)
    ]
    whole = reduce(PtxCounts.joined, parts)
    return bind(each.artifact, found, whole, each.launch, blocks_run=len(parts))


def names() -> list[str]:
    """The examples, the rungs where their tiles have ragged edges, and all sizes of 10_persistent.

    Of those every block is run: they differ.
    """
    return [
        name
        for name in recorded()
        if name.endswith("/1000") or "example" in name or name.startswith("10_persistent")
    ]


each_kernel = pytest.mark.parametrize("name", names())


@each_kernel
def test_every_instruction_is_executed_as_often(name: str) -> None:
    found, read = profile(name), recorded()[name]
    different = [
        (hex(ours.instruction.address), ours.instruction.opcode, ours.executed, theirs[1])
        for ours, theirs in zip(found.counted, read.sass, strict=False)
        if ours.executed != theirs[1]
    ]
    total = sum(each.executed for each in found.counted)
    if name.startswith("10_persistent"):
        # Lane 0 comes later than the others to the WARPSYNC behind its branch: it is counted twice.
        ((_, opcode, ours, theirs),) = different
        assert (opcode, (theirs - ours) * found.launch.threads // 32) == ("WARPSYNC", ours)
        assert total == pytest.approx(read.metrics[EXECUTED], rel=2e-4)
    else:
        assert not different
        assert total == read.metrics[EXECUTED]


@each_kernel
def test_requests_and_sectors_of_global_memory_are_equal(name: str) -> None:
    found, read = profile(name), recorded()[name]
    for way, op in (("load", "ld"), ("store", "st")):
        accesses = [
            each.access
            for each in found.counted
            if each.access is not None and (each.access.space, each.access.way) == ("global", way)
        ]
        assert sum(a.requests for a in accesses) == read.metrics[TRAFFIC.format("requests", op)]
        assert sum(a.sectors for a in accesses) == read.metrics[TRAFFIC.format("sectors", op)]


@each_kernel
def test_wavefronts_of_shared_memory_are_equal_access_by_access(name: str) -> None:
    found, read = profile(name), recorded()[name]
    different = [
        (hex(ours.instruction.address), access.wavefronts, access.ideal, theirs[-2:])
        for ours, theirs in zip(found.counted, read.sass, strict=False)
        if (access := ours.access) is not None and access.space == "shared"
        if (access.wavefronts, access.ideal) != theirs[-2:]
    ]
    assert not different


@each_kernel
def test_multiply_adds_are_equal(name: str) -> None:
    found, read = profile(name), recorded()[name]
    threads = sum(each.threads for each in found.counted if each.instruction.opcode == "FFMA")
    assert read.metrics.get(FFMA, threads) == threads
