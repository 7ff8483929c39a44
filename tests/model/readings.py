"""What Nsight Compute read on an H200, one warp at a time, and what rules are compared with it."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from counter_cases.micro import REPEATS, Micro
from counter_cases.record import NAME, Record, Recorded

from tilewright.emulator.rules import NOBODY

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RECORD = RESULTS / NAME
READ = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
# Allocations begin at multiples of 512 bytes, small ones side by side from a multiple of 2 MiB on,
# and those with lower addresses on the host come first (device/memory.py): here the sink's, then
# the data's. It is the one base that explains how many tags of a set each case met.
BASE = np.uint64((1 << 32) + 512)


@cache
def recorded() -> list[Recorded]:
    if not RECORD.is_file():
        pytest.skip(f"no readings yet: benchmarks/h200_counters.py writes {RECORD.name} on an H200")
    return Record.read(RECORD).recorded()


def micro(family: str) -> list[tuple[Recorded, Micro]]:
    found = [
        (each, each.case)
        for each in recorded()
        if isinstance(each.case, Micro) and each.name.split("/")[0] == family
    ]
    assert found, f"the record has no case of {family}"
    return found


def row(case: Micro) -> np.ndarray:
    """The addresses of one access."""
    active = np.array([case.mask >> t & 1 for t in range(32)], bool)
    addresses = np.array(case.offsets(), np.uint64) + BASE
    return np.where(active, addresses, NOBODY)[None]


def compare(family: str, expected: Callable[[Micro], Mapping[str, int]]) -> None:
    """Check every reading of a family; all that differ are told, with their addresses."""
    wrong, read = [], 0
    for each, case in micro(family):
        for metric, count in expected(case).items():
            if metric not in each.metrics:
                continue
            read += 1
            if each.metrics[metric] != REPEATS * count:
                got = each.metrics[metric] / REPEATS
                wrong.append(f"{each.name}: {metric} {got:g} an access, the rule says {count}")
    assert read, f"none of the metrics of {family} were read"
    assert not wrong, "\n" + "\n".join(wrong)
