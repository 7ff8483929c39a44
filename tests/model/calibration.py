"""What the probes of benchmarks/h200_calibration.py took on an H200."""

import json
from functools import cache
from pathlib import Path

RECORD = Path(__file__).parents[2] / "benchmarks/results/calibration_nvidia_h200.json"


@cache
def measured() -> dict[str, dict[str, float]]:
    """Return cycles a warp-level instruction by the probe's name and its number of warps."""
    probes = json.loads(RECORD.read_text(encoding="utf-8"))["probes"]
    return {probe["name"]: probe["cycles"] for probe in probes}


@cache
def launches() -> dict[str, float]:
    """Return the seconds of launches that do nothing, by blocks and threads."""
    return json.loads(RECORD.read_text(encoding="utf-8"))["launches"]
