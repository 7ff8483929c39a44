"""Time every variant of some products on this machine's GPU, and record all of it.

    python benchmarks/h200_tuning.py --out benchmarks/results --seconds 540
    python benchmarks/h200_tuning.py --out /tmp --shapes 4096,4096,4096 16,4096,4096:nt

The record is tuning_<gpu>.json, or has the name given. The shapes are drawn as those of the suite
`unseen` are, with another seed, so that the model is judged by shapes that it was not fitted to;
`--suite unseen --name unseen` records those for that, and `--drawn 120 --name tuning_drawn` what
`fit_cost.py` fits to and tests replay strategies on, in about two seconds a shape. `--suite squares
complaints batched --most 30 --name searched` records what is shipped for the products that people
asked about. Kernels are compiled in as many processes as there are cores, in the order in which
they are needed; each variant is verified before it is timed. Shapes are searched until the time is
up; started again with the record in --out, it goes on where it stopped. With several GPUs each has
a process of its own, that takes its share of the shapes into a record of its own:

    CUDA_VISIBLE_DEVICES=0 python benchmarks/h200_tuning.py … --name tuning_drawn --share 1/2 &
    CUDA_VISIBLE_DEVICES=1 python benchmarks/h200_tuning.py … --name tuning_drawn --share 2/2
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tilewright.bench.environment import describe_environment
from tilewright.bench.suites import LAYOUTS, case, suite
from tilewright.device import require_device
from tilewright.device.standin import gpu_of
from tilewright.errors import CompileError, TilewrightError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.build import compile_for_gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.records import write_json
from tilewright.toolchain import resources
from tilewright.tuning.measure import OnDevice
from tilewright.tuning.replay import read_recordings, recorded
from tilewright.tuning.search import Found, Workers, search
from tilewright.tuning.space import space
from tilewright.tuning.store import Store
from tilewright.tuning.strategies import exhaustive, model

DRAWN = 24
SEED, MORE_SEED = 7, 8
# As the suite `unseen`: log-uniform sizes, and not more multiply-adds than a few milliseconds.
RANGES = ((1, 8192), (1, 8192), (1, 65536))
MOST, MOST_OF_MORE = 2**35, 2**36
# Fewer take as long as a launch does, whatever is chosen: of those the first few say enough.
LEAST_OF_MORE = 2**17
# Beside the drawn ones, kinds of product that the complaints are about.
FIXED = (
    ((1024, 1024, 1024), "nn"),
    ((2048, 2048, 2048), "nt"),
    ((4096, 4096, 4096), "nn"),
    ((3000, 3000, 3000), "tn"),
    ((500, 500, 500), "nn"),
    ((1, 8192, 4096), "nn"),
    ((4, 3072, 5000), "nt"),
    ((16, 6144, 2048), "nn"),
    ((48, 4096, 8192), "nt"),
    ((96, 96, 200000), "tn"),
    ((12, 12, 12, 4096), "nn"),
    ((200, 64, 200, 256), "nn"),
)


def main() -> int:
    """Record what the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--name", default="tuning", help="the record's name")
    parser.add_argument("--suite", nargs="+", default=[], help="suites instead of the own shapes")
    parser.add_argument(
        "--shapes", nargs="+", default=[], help="m,n,k or m,n,k,batch, and :nt, instead"
    )
    parser.add_argument(
        "--drawn", type=int, default=0, help="so many more drawn shapes, instead of the own ones"
    )
    parser.add_argument("--seed", type=int, default=MORE_SEED, help="draw others than with 8")
    parser.add_argument(
        "--share", type=share, default=(1, 1), help="1/2 or 2/2: of two processes with a GPU each"
    )
    parser.add_argument(
        "--most", type=int, help="so many variants, chosen by the strategy `model`, not all"
    )
    parser.add_argument("--layout", default="nn", help="of --shapes that name none")
    parser.add_argument("--measure-s", type=float, default=0.01, help="device time a variant")
    parser.add_argument("--seconds", type=float, default=540, help="start nothing after this long")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        return record(options)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def share(text: str) -> tuple[int, int]:
    """Return which of how many shares "2/4" names."""
    this, _, of = text.partition("/")
    if not (this.isdecimal() and of.isdecimal() and 1 <= int(this) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a share such as 1/2 or 2/2")
    return int(this), int(of)


def record(options: argparse.Namespace) -> int:
    """Search every operation, and write the record after each."""
    deadline = time.monotonic() + options.seconds
    device = require_device()
    card = gpu_of(device)
    environment = describe_environment(device, commit=options.commit).to_json()
    this, of = options.share
    name = options.name if of == 1 else f"{options.name}_{this}"
    path = options.out / f"{name}_{device.name.lower().replace(' ', '_')}.json"
    operations = wanted(options)[this - 1 :: of]
    done = read_recordings(path) if path.exists() else []
    strategy = functools.partial(exhaustive, measure_s=options.measure_s)
    if options.most:
        strategy = functools.partial(model, most=options.most)
    searches: list[Found] = []
    with Store(None) as store, Compiled(max(1, (os.cpu_count() or 1) // of)) as compiled:
        for recording in done:
            store.add(recording.trials)
        for operation in operations:
            compiled.want(operation, card)
        for operation in operations:
            found = search(
                operation,
                card,
                strategy=strategy,
                opener=OnDevice(operation=operation),
                store=store,
                workers=Workers(compiling=compiled),
                budget_s=deadline - time.monotonic(),
            )
            report(found)
            searches.append(found)
            kept = [s for s in searches if s.trials]
            content = {"environment": environment, "kernels": compiled.needs(), **recorded(kept)}
            write_json(path, content)
            if found.ended != "done":
                break
    print(f"{len(searches)} of {len(operations)} operations: {path}")
    return 130 if searches and searches[-1].ended == "interrupted" else 0


def wanted(options: argparse.Namespace) -> list[Operation]:
    """Return the operations that the options name."""
    if options.suite:
        cases = [each for name in options.suite for each in suite(name).cases]
    elif options.shapes:
        named = [shape.partition(":") for shape in options.shapes]
        cases = [
            case([int(size) for size in sizes.split(",")], layout or options.layout)
            for sizes, _, layout in named
        ]
    elif options.drawn:
        more = drawn(options.drawn, options.seed, least=LEAST_OF_MORE, most=MOST_OF_MORE)
        cases = [case(shape, layout) for shape, layout in more]
    else:
        cases = [case(shape, layout) for shape, layout in (*FIXED, *drawn(DRAWN, SEED))]
    return list(dict.fromkeys(each.operation for each in cases))


def drawn(
    count: int, seed: int, *, least: int = 1, most: int = MOST
) -> list[tuple[tuple[int, ...], str]]:
    """Return drawn shapes with their layouts; every second one of multiples of 16.

    They have at least and at most so many multiply-adds.
    """
    rng = random.Random(seed)
    found: list[tuple[tuple[int, ...], str]] = []
    while len(found) < count:
        shape = [round(math.exp(rng.uniform(math.log(a), math.log(b)))) for a, b in RANGES]
        if len(found) % 2:
            shape = [16 * math.ceil(size / 16) for size in shape]
        layout = rng.choice(LAYOUTS)
        if least <= math.prod(shape) <= most:
            found.append((tuple(shape), layout))
    return found


class Compiled(Executor):
    """Kernels compiled in some processes: `want` submits them, and a search finds them done."""

    def __init__(self, processes: int) -> None:
        # Spawned, not forked: a process that holds a CUDA context cannot be forked.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(processes, mp_context=context)
        self._jobs: dict[str, Future[tuple[str | None, int, int]]] = {}

    def want(self, operation: Operation, card: Gpu) -> None:
        """Compile every variant of an operation, those of least predicted time first."""
        for variant in space(operation, card):
            name = gemm_kernel(variant.kernel).expression(operation, variant)
            if name not in self._jobs:
                self._jobs[name] = self._pool.submit(build, operation, variant, card.arch)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401
        """Return why a variant does not compile, None if it does."""
        operation, variant, _ = args
        name = gemm_kernel(variant.kernel).expression(operation, variant)
        answer: Future[str | None] = Future()

        def tell(job: Future[tuple[str | None, int, int]]) -> None:
            if job.cancelled() or not answer.set_running_or_notify_cancel():
                return
            error = job.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(job.result()[0])

        self._jobs[name].add_done_callback(tell)
        return answer

    def needs(self) -> dict[str, dict[str, int]]:
        """Return the registers a thread and bytes spilled of what was compiled."""
        done = {name: job.result() for name, job in self._jobs.items() if job.done()}
        return {
            name: {"registers": registers, "spilled_bytes": spilled}
            for name, (refusal, registers, spilled) in done.items()
            if refusal is None
        }

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def build(operation: Operation, variant: Variant, arch: str) -> tuple[str | None, int, int]:
    """Compile into the cache, in a process of its own; return what the code needs."""
    try:
        artifact = compile_for_gpu(operation, variant, arch).artifact
    except CompileError as error:
        return str(error), 0, 0
    used = resources(artifact)
    return None, used.registers, used.local_bytes


def report(found: Found) -> None:
    """Print one line for an operation, and one for each state that is not right."""
    best = found.best
    took = (
        "none right" if best is None or best.median_s is None else f"{1e6 * best.median_s:.2f} us"
    )
    gain = ""
    if best is not None and best.median_s and found.first_s:
        gain = f", the model's choice {best.median_s / found.first_s:.1%} of it"
    print(
        f"{found.operation.key}: {took}{gain}; {found.measured} of {found.space} variants in "
        f"{found.seconds:.1f} s ({found.ended}), {found.noisy:.0%} noisy: "
        f"{best.variant if best else ''}",
        flush=True,
    )
    for line in problems(found):
        print(f"  {line}")


def problems(found: Found) -> Sequence[str]:
    """Return a line for each variant that is wrong, and for the first that failed."""
    wrong = [f"wrong: {t.variant}: {t.message}" for t in found.trials if t.state == "wrong"]
    failed = [f"failed: {t.variant}: {t.message}" for t in found.trials if t.state == "failed"]
    more = [f"{len(failed) - 1} more failed"] if len(failed) > 1 else []
    return [*wrong[:5], *failed[:1], *more]


if __name__ == "__main__":
    sys.exit(main())
