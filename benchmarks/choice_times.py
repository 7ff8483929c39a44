"""What a choice costs where nothing was measured, on this machine; needs no GPU.

    python benchmarks/choice_times.py

Products of one kind, one after another, and those of the suite `unseen`, of which hardly two in a
row are of a kind; of both the median, without the tables that a kind's first choice makes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from tilewright.bench.suites import suite
from tilewright.gpus import gpu
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.choice import choose, forget

COUNT, ROUNDS = 200, 10


def main() -> None:
    """Print both medians."""
    sizes = 4 * np.random.default_rng(0).integers(513, 2000, (COUNT, 3))
    alike = [Operation.plain(*map(int, each)) for each in sizes]
    print(f"products of one kind:        {1e6 * median_s(alike):.1f} us a choice")
    different = [case.operation for case in suite("unseen").cases]
    print(f"of one kind after another:   {1e6 * median_s(different):.1f} us a choice")


def median_s(operations: Sequence[Operation]) -> float:
    """Return the seconds of a choice for one of these products, each time as if it were new."""
    card = gpu("H200")
    times = []
    for number in range(1 + ROUNDS):
        forget()
        choose(Operation.plain(1, 1, 1), card)  # reads what is shipped
        for operation in operations:
            began = time.perf_counter()
            choose(operation, card)
            if number:
                times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    main()
