"""Make the shipped choices from recorded searches: the fastest variant of each operation.

    python benchmarks/ship_choices.py benchmarks/results/tuning_drawn_nvidia_h200.json.gz …

Writes src/tilewright/tuning/shipped.json. Only what beats the cost model's choice by more than the
noise of both is shipped: for the rest the model needs no help. Run it after `fit_cost.py --write`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu, gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.records import write_json
from tilewright.tuning.choice import SHIPPED, modelled
from tilewright.tuning.replay import Recording, read_recordings
from tilewright.tuning.store import SCHEMA, fastest
from tilewright.tuning.trial import Trial

# A gain below it is no gain: clocks move as much from one run to the next.
LEAST_GAIN = 0.02


def main() -> int:
    """Write the choices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("records", type=Path, nargs="+", help="files of benchmarks/h200_tuning.py")
    options = parser.parse_args()
    try:
        recordings = [each for path in options.records for each in read_recordings(path)]
        trials = [trial for each in recordings if (trial := worth_shipping(each)) is not None]
        names = [f"benchmarks/results/{path.name}" for path in options.records]
        write_json(SHIPPED, content(trials, names))
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{len(trials)} of {len(recordings)} operations: {SHIPPED.name}")
    return 0


def accurate(operation: Operation, variant: Variant, card: Gpu) -> bool:
    """Return whether the kernel still takes the variant for accurate: records are older."""
    return gemm_kernel(variant.kernel).accurate(operation, variant, card)


def content(trials: Sequence[Trial], names: Sequence[str]) -> dict[str, object]:
    """Return what the file holds: `Store`'s export, and which records it is from."""
    return {"schema": SCHEMA, "records": list(names), "trials": [t.to_json() for t in trials]}


def worth_shipping(recording: Recording) -> Trial | None:
    """Return the fastest trial, None where the model's choice was measured and is as fast."""
    operation = recording.operation
    right = [t for t in recording.trials if accurate(operation, t.variant, gpu(t.machine.gpu))]
    best = fastest(right).get(operation.key)
    if best is None or best.median_s is None:
        return None
    times = {t.variant: t.median_s for t in right if t.median_s is not None}
    # Not every search measured what the model chooses now.
    chosen = modelled(operation, gpu(best.machine.gpu)).variant
    gain = times.get(chosen, math.inf) / best.median_s - 1
    return replace(best, message="") if gain > max(LEAST_GAIN, best.spread or 0.0) else None


if __name__ == "__main__":
    sys.exit(main())
