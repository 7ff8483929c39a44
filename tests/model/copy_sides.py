"""Where the lanes of a case of cp.async read and write."""

from typing import NamedTuple

import numpy as np
from counter_cases.micro import Micro

from tilewright.emulator.rules import NOBODY

LANES = np.arange(32)
TARGETS = {
    "TRANSPOSED": LANES % 4 * 8 + LANES // 4,
    "REVERSED": 31 - LANES,
    "DENSE": LANES,
    "STRIDED": 2 * LANES,
}
READING = {"NONE": LANES >= 0, "ODD": LANES % 2 == 0, "ALL": LANES < 0}
READING |= {"LOW": LANES >= 16, "LAST": LANES < 31}


class Sides(NamedTuple):
    """A row of sources, from the array on, and one of targets; `size` bytes a lane."""

    sources: np.ndarray
    targets: np.ndarray
    size: int
    through_l1: bool


def sides(case: Micro) -> Sides:
    size, through_l1, *rest = case.kernel.partition("<")[2].removesuffix(">").split(",")
    width = int(size)
    placed = np.array(case.offsets())
    if case.file == "async.cu":
        to, start = (placed, LANES * width) if rest == ["true"] else (LANES * width, placed)
    else:
        start = placed
        to = placed - case.start if rest[0] == "PLACED" else TARGETS[rest[0]] * width
    active = case.mask >> LANES & 1 == 1
    reads = active & READING.get(rest[-1], True)
    row = lambda at, on: np.where(on, at.astype(np.uint64), NOBODY)[None]  # noqa: E731
    return Sides(row(start, reads), row(to, active), width, through_l1 == "true")
