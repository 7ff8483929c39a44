"""The cases of cp.async: the emulator counts what their addresses say, by the rules."""

import pytest
from copy_sides import sides
from counter_cases.copies import copy_cases, further_cases
from counter_cases.micro import REPEATS, Micro, async_cases

from tilewright.emulator import run as emulate
from tilewright.emulator.copy_rules import copy_sectors, copy_wavefronts
from tilewright.emulator.rules import NOBODY
from tilewright.toolchain import disassemble

# Kernels take long to build, and widths differ in little: the last case of each family of two.
FEW = {
    case.name.split("/")[0]: case
    for case in (*async_cases(), *copy_cases(), *further_cases())
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
    touched = copy_sectors(sources, targets, size, through_l1=through_l1)
    assert counters.global_load_sectors == REPEATS * int(touched[0])
    passes = copy_wavefronts(sources, targets, size, through_l1=through_l1)
    assert counters.shared_store_wavefronts == REPEATS * int(passes[0])


def test_each_case_is_as_many_copies_in_machine_code() -> None:
    for case in FEW.values():
        artifact = case.artifact()
        code = disassemble(artifact).functions[artifact.symbol].instructions
        assert sum(ins.opcode == "LDGSTS" for ins in code) == REPEATS, case.kernel
