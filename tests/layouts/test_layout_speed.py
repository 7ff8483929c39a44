"""The processor time of one operation on layouts of real matrix products, with some slack."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable

import pytest

from tilewright.layouts import Layout, composition, logical_divide, row_major, zipped_divide

LIMIT_S = 50e-6
SLACK = 3

MATRIX = row_major(4096, 4096)
SHARED = Layout(((8, 16), (64, 1)), ((64, 512), (1, 0)))
FRAGMENT = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))


@pytest.mark.parametrize(
    "operation",
    [
        lambda: composition(row_major(16, 16), FRAGMENT),
        lambda: composition(SHARED, FRAGMENT),
        lambda: logical_divide(MATRIX, (128, 64)),
        lambda: zipped_divide(MATRIX, (128, 64)),
    ],
    ids=["composition of rows", "composition of a shared tile", "logical_divide", "zipped_divide"],
)
def test_an_operation_takes_well_under_fifty_microseconds(operation: Callable[[], Layout]) -> None:
    batches = timeit.repeat(operation, timer=time.process_time, number=200, repeat=7)
    assert min(batches) / 200 < SLACK * LIMIT_S
