"""Model the time of the kernels of examples/, beside what h200_examples.py measured.

    python benchmarks/model_examples.py --out benchmarks/results

No GPU is needed. It takes about a minute, for the three large transposes above all.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from h200_examples import specs

from tilewright.bench.environment import describe_environment
from tilewright.bench.explain import explain_kernel
from tilewright.emulator.prepare import prepare_launch
from tilewright.errors import TilewrightError
from tilewright.records import write_json

RESULTS = Path(__file__).parent / "results"
MEASURED = "examples_nvidia_h200.json"


def main() -> int:
    """Model every example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    options = parser.parse_args()
    measured = {
        each["name"]: each["timing"]["median_s"]
        for each in json.loads((RESULTS / MEASURED).read_text(encoding="utf-8"))["examples"]
    }
    found = []
    try:
        for name, spec in specs():
            told = explain_kernel(prepare_launch(spec), spec.make_arguments())
            if told.estimate is None:
                raise TilewrightError(f"{name} has no estimate")
            found.append(
                {
                    "name": name,
                    "modelled_s": told.estimate.seconds,
                    "measured_s": measured[name],
                    "first_stall": told.estimate.first_stall,
                }
            )
            print(
                f"{name:26} measured {1e6 * measured[name]:8.1f} us, "
                f"modelled {1e6 * told.estimate.seconds:8.1f} us",
                flush=True,
            )
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    environment = describe_environment().to_json()
    write_json(options.out / "model_examples.json", {"environment": environment, "examples": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
