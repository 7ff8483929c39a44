"""What a call of `matmul` and `gemm` costs the host, beside torch's, on this machine's GPU.

    python benchmarks/h200_calls.py --out benchmarks/results

The products are too small for the GPU to be what a program waits for: a call that has returned has
queued its kernel. Rounds of calls of both are timed by turns, the GPU idle before each; the lower
quartile of the rounds counts, since others were disturbed. It takes some seconds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilewright import gemm, matmul
from tilewright.bench.environment import describe_environment
from tilewright.device import require_device
from tilewright.errors import TilewrightError
from tilewright.records import write_json

ROUNDS, CALLS = 200, 50
Call = Callable[[], object]


def main() -> int:
    """Measure and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        device = require_device()
        environment = describe_environment(device, commit=options.commit).to_json()
        rows = list(measure())
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    path = options.out / f"calls_{device.name.lower().replace(' ', '_')}.json"
    write_json(path, {"environment": environment, "rounds": ROUNDS, "calls": CALLS, "rows": rows})
    print(f"{'us a call':28} {'tilewright':>10} {'torch':>8}")
    for row in rows:
        print(f"{row['case']:28} {row['tilewright_us']:10.2f} {row['torch_us']:8.2f}")
    print(path)
    return 0


def measure() -> Iterator[dict[str, Any]]:
    """Yield a row for each case, microseconds a call."""
    import torch

    with torch.no_grad():
        for name, ours, theirs in cases(torch):
            rounds: dict[str, list[float]] = {"tilewright_us": [], "torch_us": []}
            for _ in range(1 + ROUNDS):
                for who, call in (("tilewright_us", ours), ("torch_us", theirs)):
                    torch.cuda.synchronize()
                    rounds[who].append(microseconds(call))
            # The first round compiles and loads.
            yield {"case": name, **{who: sorted(r[1:])[ROUNDS // 4] for who, r in rounds.items()}}


def cases(torch: Any) -> Iterator[tuple[str, Call, Call]]:  # noqa: ANN401 - a module
    """Yield the name of a case, our call and torch's."""

    def normal(*shape: int) -> Any:  # noqa: ANN401 - a tensor
        return torch.randn(*shape, device="cuda")

    a, b, c, out = (normal(64, 64) for _ in range(4))
    batch, weight = normal(8, 16, 64), normal(64, 64)
    wide, tall = normal(16, 20000), normal(20000, 16)
    yield "64x64x64", lambda: matmul(a, b), lambda: torch.matmul(a, b)
    yield (
        "64x64x64, out given",
        lambda: matmul(a, b, out=out),
        lambda: torch.matmul(a, b, out=out),
    )
    yield (
        "64x64x64, gemm with c",
        lambda: gemm(a, b, c, alpha=0.5, beta=2.0),
        lambda: torch.addmm(c, a, b, alpha=0.5, beta=2.0),
    )
    yield (
        "8 of 16x64x64, one B",
        lambda: matmul(batch, weight),
        lambda: torch.matmul(batch, weight),
    )
    yield "16x16x20000, k cut", lambda: matmul(wide, tall), lambda: torch.matmul(wide, tall)


def microseconds(call: Call) -> float:
    """Return the host's time of one of many calls."""
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - began) / CALLS


if __name__ == "__main__":
    sys.exit(main())
