"""Time the kernels of examples/ on this machine's GPU, for comparison with the time model.

    python benchmarks/h200_examples.py --out benchmarks/results --commit "$(git rev-parse HEAD)"

Each is launched as its .toml says; the transposes also at 8192 x 8192, the README's story. Its
result is compared with the emulator's (the large ones: with numpy's), then it is timed with a cold
L2, which is filled before every launch: so the host is ahead of the GPU too, which with kernels of
a few microseconds it would not be otherwise. On an H200 it takes about half a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from tilewright.bench.environment import describe_environment
from tilewright.bench.timing import L2_MULTIPLE, Budget, time_interleaved
from tilewright.device import require_device
from tilewright.device import run as run_on_device
from tilewright.device.events import EventStopwatch
from tilewright.device.memory import Arena, place
from tilewright.device.session import open_session
from tilewright.emulator import run as emulate
from tilewright.emulator.prepare import Prepared, prepare_launch
from tilewright.errors import TilewrightError
from tilewright.launch import Argument
from tilewright.launchargs import parse_argument
from tilewright.launchfile import LaunchSpec, read_launch_file
from tilewright.records import write_json

EXAMPLES = Path(__file__).parent.parent / "examples"
LARGE = 8192
# Grids of the transposes at LARGE: the naive one has a block for 32 x 8 elements.
TRANSPOSES = {
    "transpose_naive": (256, 1024),
    "transpose_unpadded": (256, 256),
    "transpose_tiled": (256, 256),
}
BUDGET = Budget(warmup_s=0.05, measure_s=0.2)


def specs() -> Iterator[tuple[str, LaunchSpec]]:
    """Yield all launches, with a name each."""
    for path in sorted(EXAMPLES.glob("*.toml")):
        yield path.stem, read_launch_file(path)
    for name, grid in TRANSPOSES.items():
        matrix = f"f32[{LARGE},{LARGE}]"
        texts = (f"{matrix}:normal", matrix, f"i32={LARGE}", f"i32={LARGE}")
        yield (
            f"{name}_{LARGE}",
            replace(
                read_launch_file(EXAMPLES / f"{name}.toml"),
                grid=(*grid, 1),
                args=tuple(parse_argument(text) for text in texts),
            ),
        )


def is_right(name: str, ready: Prepared, args: list[Argument]) -> bool:
    """Run once on the GPU and compare."""
    given = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    run_on_device(ready.artifact, ready.launch, args)
    if name.endswith(f"_{LARGE}"):
        source, result = given[0], args[1]
        return np.array_equal(np.asarray(result), np.asarray(source).T)
    emulate(ready.artifact, ready.launch, given)
    # Approximations (rsqrt, __expf) may differ by what the ISA allows, and sums of them add up.
    return all(
        np.allclose(ours, theirs, rtol=1e-4, atol=1e-4 * float(np.abs(theirs).max()))
        for ours, theirs in zip(args, given, strict=True)
        if isinstance(ours, np.ndarray)
    )


def measure(name: str, spec: LaunchSpec) -> dict[str, object]:
    """Verify and time one launch."""
    ready = prepare_launch(spec)
    args = spec.make_arguments()
    right = is_right(name, ready, args)
    session = open_session(0)
    kernel = session.load(ready.artifact)
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    other = L2_MULTIPLE * require_device().l2_bytes
    with Arena(session) as arena:
        places, filled = place(arena, arrays), arena.allocate(other)
        values = [np.uint64(places[id(a)]) if isinstance(a, np.ndarray) else a for a in args]
        launch = kernel.bind(ready.launch, values)
        timing = time_interleaved(
            {name: lambda _: launch()},
            stopwatch=EventStopwatch(session),
            sets=1,
            budget=BUDGET,
            before=lambda: arena.fill(filled, 0, other),
        )[name]
    return {
        "name": name,
        "launch": spec.to_json() | {"source": f"examples/{Path(spec.source).name}"},
        "registers": kernel.registers,
        "right": right,
        "timing": asdict(timing),
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    found: list[dict[str, object]] = []
    try:
        device = require_device()
        environment = describe_environment(device, commit=options.commit)
        path = options.out / f"examples_{device.name.lower().replace(' ', '_')}.json"
        for name, spec in specs():
            found.append(measure(name, spec))
            median = found[-1]["timing"]["median_s"]  # type: ignore[index]
            print(f"{name:28} {1e6 * median:9.2f} us {found[-1]['right']}", flush=True)
            write_json(path, {"environment": environment.to_json(), "examples": found})
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0 if all(each["right"] for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
