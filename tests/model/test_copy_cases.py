"""The cases of cp.async: the emulator counts what their addresses say, by the rules."""

import numpy as np
import pytest
from counter_cases.copies import copy_cases
from counter_cases.micro import REPEATS, Micro, async_cases

from tilewright.emulator import run as emulate
from tilewright.emulator.rules import (
    NOBODY,
    bypassing_sectors,
    copy_wavefronts,
    sectors,
)
from tilewright.toolchain import disassemble

LANES = np.arange(32)
TARGETS = {"TRANSPOSED": LANES % 4 * 8 + LANES // 4, "REVERSED": 31 - LANES, "DENSE": LANES}


def sides(case: Micro) -> tuple[np.ndarray, np.ndarray, int, bool]:
    """Source and target of each lane, bytes a lane, and whether they go through L1."""
    size, through_l1, *rest = case.kernel.partition("<")[2].removesuffix(">").split(",")
    width = int(size)
    placed = np.array(case.offsets())
    if case.file == "async.cu":
        to, start = (placed, LANES * width) if rest == ["true"] else (LANES * width, placed)
    else:
        start = placed
        to = placed - case.start if rest[0] == "PLACED" else TARGETS[rest[0]] * width
    active = case.mask >> LANES & 1 == 1
    reads = active & {"NONE": True, "ODD": LANES % 2 == 0, "ALL": False}.get(rest[-1], True)
    row = lambda at, on: np.where(on, at.astype(np.uint64), NOBODY)[None]  # noqa: E731
    return row(start, reads), row(to, active), width, through_l1 == "true"


# Kernels take long to build, and widths differ in little: the last case of each family of two.
FEW = {
    case.name.split("/")[0]: case
    for case in (*async_cases(), *copy_cases())
    if case.kernel.startswith(("async_copy<4,true", "copy_between<4,", "copy_between<16,false"))
}


@pytest.mark.parametrize("case", FEW.values(), ids=FEW.keys())
def test_copies_are_counted_by_their_addresses(case: Micro) -> None:
    sources, targets, size, through_l1 = sides(case)
    counters = emulate(case.artifact(), case.launch(), case.arguments(), count=True).counters
    assert counters is not None
    reads = bool((sources != NOBODY).any())
    assert counters.global_load_requests == REPEATS * reads
    assert counters.shared_store_requests == REPEATS
    touched = sectors(sources, size) if through_l1 else bypassing_sectors(sources, targets)
    assert counters.global_load_sectors == REPEATS * reads * int(touched[0])
    passes = copy_wavefronts(sources, targets, size, through_l1=through_l1)
    assert counters.shared_store_wavefronts == REPEATS * int(passes[0])


def test_each_case_is_as_many_copies_in_machine_code() -> None:
    for case in FEW.values():
        artifact = case.artifact()
        code = disassemble(artifact).functions[artifact.symbol].instructions
        assert sum(ins.opcode == "LDGSTS" for ins in code) == REPEATS, case.kernel
