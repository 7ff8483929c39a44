"""Time the layout algebra's operations on the layouts of a matrix product, and record them.

    python benchmarks/layouts.py --out benchmarks/results

Compositions and divides have a goal of 50 µs. Each operation runs in batches; the record holds the
median and the quickest batch, in processor time a call. It takes a few seconds on one core.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright.bench.environment import describe_environment
from tilewright.errors import TilewrightError
from tilewright.layouts import (
    Layout,
    Swizzle,
    blocked_product,
    coalesce,
    complement,
    composition,
    left_inverse,
    logical_divide,
    parse,
    row_major,
    tile_to_shape,
    zipped_divide,
)
from tilewright.records import write_json

SCHEMA = 1
GOAL_S = 50e-6
BATCH, BATCHES = 500, 21

MATRIX = row_major(4096, 4096)
TILE = row_major(128, 64)
THREADS_VALUES = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
ACCUMULATORS = Layout(((4, 8, 4), (2, 2, 16)), ((128, 1, 16), (64, 8, 512)))
ATOM = composition(Swizzle(3, 3, 3), row_major(8, 64))
SHARED = tile_to_shape(ATOM, (128, 64))


OPERATIONS: Mapping[str, Callable[[], object]] = {
    "composition: a warp's fragment of a 16x16 tile": lambda: composition(
        row_major(16, 16), THREADS_VALUES
    ),
    "composition: a warpgroup's accumulators in 64x128": lambda: composition(
        row_major(64, 128), ACCUMULATORS
    ),
    "composition: a fragment of a swizzled shared tile": lambda: composition(
        SHARED, THREADS_VALUES
    ),
    "composition by mode: a 16x16 corner of a tile": lambda: composition(TILE, (16, 16)),
    "logical_divide: a matrix by 128x64": lambda: logical_divide(MATRIX, (128, 64)),
    "zipped_divide: a matrix by 128x64": lambda: zipped_divide(MATRIX, (128, 64)),
    "zipped_divide: a tile by a warp's 16x8": lambda: zipped_divide(TILE, (16, 8)),
    "coalesce": lambda: coalesce(ACCUMULATORS),
    "complement": lambda: complement(ACCUMULATORS, 16384),
    "left_inverse": lambda: left_inverse(ACCUMULATORS),
    "blocked_product: 16x1 atoms of 8x64": lambda: blocked_product(ATOM, Layout((16, 1))),
    "one index of a swizzled tile": lambda: SHARED(77, 42),
    "all 8192 indices of a tile": TILE.indices,
    "parse": lambda: parse("Sw<3,3,3> o 0 o ((8,16),64):((64,512),1)"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The processor time of one call, over batches of calls."""

    operation: str
    median_s: float
    best_s: float
    goal_s: float | None


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    options = parser.parse_args()
    try:
        return measure(options.out)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def measure(out: Path) -> int:
    """Time every operation, write the record, and print it beside the goals."""
    timed = [time_operation(name, run) for name, run in OPERATIONS.items()]
    path = out / "layouts_cpu.json"
    write_json(
        path,
        {
            "schema": SCHEMA,
            "command": shlex.join(["python", *sys.argv]),
            "environment": describe_environment().to_json(),
            "machine": {
                "cpu": cpu_name(),
                "cores": os.cpu_count() or 1,
                "load": os.getloadavg()[0],
            },
            "operations": [asdict(each) for each in timed],
        },
    )
    for each in timed:
        goal = f"  goal {each.goal_s * 1e6:.0f}" if each.goal_s else ""
        print(f"{each.median_s * 1e6:8.1f} µs  {each.operation}{goal}")
    print(path)
    return 0


def time_operation(name: str, run: Callable[[], object]) -> Timed:
    """Time one operation."""
    clock = time.process_time  # a busy machine's other processes do not count
    totals = timeit.repeat(run, timer=clock, number=BATCH, repeat=BATCHES)
    batches = [seconds / BATCH for seconds in totals]
    has_goal = name.startswith(("composition", "logical_divide", "zipped_divide"))
    return Timed(
        operation=name,
        median_s=statistics.median(batches),
        best_s=min(batches),
        goal_s=GOAL_S if has_goal else None,
    )


def cpu_name() -> str:
    """Return the processor's name, as the kernel gives it where it does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
