"""Measure what the emulator costs on this machine's CPU, and record it beside the goals.

    python benchmarks/emulator_rates.py --out benchmarks/results

Four things: the wall time of `tilewright ladder` from an empty cache, at 4092³ and with every block
at 512³; each rung's rate on one core without counting, in turns with numpy's one-thread matrix
product; and the time to compile each rung for the emulator. The first run's ladder record is kept
too. Nothing else should run meanwhile: the load is in the record. It takes about two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import llvmlite
import numpy as np
import numpy.typing as npt

from tilewright.bench.environment import describe_environment
from tilewright.bench.ladder import CHAPTER_GPU, CHAPTER_SIZE
from tilewright.bench.verify import check
from tilewright.emulator import build_for, run
from tilewright.errors import TilewrightError
from tilewright.gpus import gpu
from tilewright.kernels import RUNGS
from tilewright.problem import Problem
from tilewright.records import write_json
from tilewright.toolchain import Artifact, compile_cuda

P = ParamSpec("P")
R = TypeVar("R")

SCHEMA = 1
FULL_SIZE = 512
RATE_SIZE = 1024
ROUNDS = 7
# What holds the libraries that numpy may be built on to one thread; read when they load.
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")
GPU = gpu(CHAPTER_GPU)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What ran it. `load` is the mean number of runnable processes in the minute before."""

    cpu: str
    cores: int
    numpy: str
    blas: str
    llvmlite: str
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRun:
    """One run of the command, all rungs, from an empty compile cache. `goal_s` is for 2 cores."""

    command: str
    wall_s: float
    cpu_s: float
    goal_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One rung on one core beside numpy, in 10^9 operations a second: medians of the rounds.

    A spread is the interquartile range over the median; `share` is the median of the rounds'
    ratios, `goal` the least that it should be.
    """

    rung: str
    gflops: float
    spread: float
    numpy_gflops: float
    numpy_spread: float
    share: float
    goal: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """CPU time, in a process of its own, from PTX to machine code: plain and with counting."""

    rung: str
    plain_s: float
    counting_s: float
    goal_s: float


RATE_GOALS: Mapping[str, float] = {"01_naive": 0.004, "08_warptiled": 0.05}
COMPILE_GOAL_S = 1.0


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    options = parser.parse_args()
    try:
        return measure(options.out)
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def measure(out: Path) -> int:
    """Measure everything, write it, and print it beside the goals."""
    machine, environment = describe_machine(), describe_environment()
    with tempfile.TemporaryDirectory() as cache, variables({"TILEWRIGHT_CACHE_DIR": cache}):
        kept = out / "ladder_rtx_a6000_emulated.json"
        ladders = [
            time_ladder(["--size", str(CHAPTER_SIZE)], goal_s=60, record=kept),
            time_ladder(["--size", str(FULL_SIZE), "--full"], goal_s=20),
        ]
        rates = in_fresh_process(measure_rates)
        compiles = [
            Compile(
                rung=name,
                plain_s=in_fresh_process(compile_seconds, name, counting=False),
                counting_s=in_fresh_process(compile_seconds, name, counting=True),
                goal_s=COMPILE_GOAL_S,
            )
            for name in RUNGS
        ]
    path = out / "emulator_cpu.json"
    write_json(
        path,
        {
            "schema": SCHEMA,
            "command": shlex.join(["python", *sys.argv]),
            "environment": environment.to_json(),
            "machine": asdict(machine),
            "gpu": GPU.name,
            "size": RATE_SIZE,
            "ladder": [asdict(each) for each in ladders],
            "rates": [asdict(each) for each in rates],
            "compiles": [asdict(each) for each in compiles],
        },
    )
    report(machine, ladders, rates, compiles)
    print(path)
    return 0


def describe_machine() -> Machine:
    """Return this machine."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return Machine(
        cpu=_cpu_name(),
        cores=os.cpu_count() or 1,
        numpy=np.__version__,
        blas=f"{blas['name']} {blas['version']}",
        llvmlite=llvmlite.__version__,
        load=os.getloadavg()[0],
    )


def _cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@contextlib.contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that start meanwhile."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def in_fresh_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what a function returns in a new interpreter whose numpy has one thread."""
    context = multiprocessing.get_context("spawn")
    with variables(dict.fromkeys(ONE_THREAD, "1")), ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *args, **kwargs).result()


# --- the command --------------------------------------------------------------------------------


def time_ladder(options: Sequence[str], *, goal_s: float, record: Path | None = None) -> LadderRun:
    """Run `tilewright ladder` as a user does, and keep its record where `record` says.

    Raises:
        TilewrightError: a rung is wrong, or the command fails.
    """
    command = ["ladder", "--backend", "emulator", "--gpu", GPU.name, *options]
    keep = ["--json", str(record)] if record is not None else []
    with tempfile.TemporaryDirectory() as cache, variables({"TILEWRIGHT_CACHE_DIR": cache}):
        start, before = time.perf_counter(), _children_s()
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *command, *keep], stdout=subprocess.DEVNULL
        )
        wall_s, cpu_s = time.perf_counter() - start, _children_s() - before
    shown = shlex.join(["tilewright", *command])
    if done.returncode != 0:
        raise TilewrightError(f"{shown} failed with exit code {done.returncode}: see above")
    return LadderRun(command=shown, wall_s=wall_s, cpu_s=cpu_s, goal_s=goal_s)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- in processes of their own ------------------------------------------------------------------


def measure_rates() -> list[Rate]:
    """Time every rung on one core, each round right after numpy.

    Raises:
        TilewrightError: a rung computes something else than A · B.
    """
    if hasattr(os, "sched_setaffinity"):  # one core for both, whichever is allowed
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    size = RATE_SIZE
    problem = Problem(m=size, n=size, k=size)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    zero, product = np.zeros((2, size, size), np.float32)

    def numpy_seconds() -> float:
        start = time.perf_counter()
        np.matmul(a, b, out=product)
        return time.perf_counter() - start

    rates = []
    for name, rung in RUNGS.items():
        tile = rung.tile_for(GPU.name)
        artifact, launch = _compiled(name), rung.launch(problem, tile)
        c = zero.copy()
        args = (*rung.arguments(problem, a, b, c), *rung.workspace(problem, tile))
        run(artifact, launch, args, workers=1)
        found = check(problem, a, b, zero, c)
        if not found.ok:
            raise TilewrightError(f"{name} is {found.message((tile.bm, tile.bn))}")
        numpy_seconds()
        rounds = [
            (run(artifact, launch, args, workers=1).seconds, numpy_seconds()) for _ in range(ROUNDS)
        ]
        own, other = (problem.flops / 1e9 / np.array(times) for times in zip(*rounds, strict=True))
        rates.append(
            Rate(
                rung=name,
                gflops=float(np.median(own)),
                spread=_spread(own),
                numpy_gflops=float(np.median(other)),
                numpy_spread=_spread(other),
                share=float(np.median(own / other)),
                goal=RATE_GOALS.get(name),
            )
        )
    return rates


def _spread(values: npt.NDArray[np.float64]) -> float:
    low, median, high = np.percentile(values, (25, 50, 75))
    return float((high - low) / median)


def compile_seconds(name: str, *, counting: bool) -> float:
    """Return the CPU time from a rung's PTX, which the cache has, to its machine code.

    As the ladder does it: for its arguments, without the code that they rule out.
    """
    rung = RUNGS[name]
    artifact = _compiled(name)
    problem = Problem(m=CHAPTER_SIZE, n=CHAPTER_SIZE, k=CHAPTER_SIZE)
    tile = rung.tile_for(GPU.name)
    launch = rung.launch_of_tiles(problem, tile) if counting else rung.launch(problem, tile)
    a, b, c = np.zeros((3, problem.m, problem.n), np.float32)
    args = (*rung.arguments(problem, a, b, c), *rung.workspace(problem, tile))
    start = time.process_time()
    build_for(artifact, launch, args, counting=counting)
    return time.process_time() - start


def _compiled(name: str) -> Artifact:
    rung = RUNGS[name]
    expression = rung.expression(rung.tile_for(GPU.name))
    arch = GPU.require_arch()
    return compile_cuda(rung.source, expression, arch=arch, include_dirs=rung.include_dirs)


# --- what is printed ----------------------------------------------------------------------------


def report(
    machine: Machine,
    ladders: Sequence[LadderRun],
    rates: Sequence[Rate],
    compiles: Sequence[Compile],
) -> None:
    """Print every figure, with its goal where it has one."""
    print(f"{machine.cpu}, {machine.cores} cores, load {machine.load:.2f}")
    for each in ladders:
        figure = f"{each.wall_s:.1f} s, {each.cpu_s:.1f} s of CPU; goal {each.goal_s:g} s"
        print(f"{each.command}: {figure}")
    print(
        f"{'rung':16}{'GFLOP/s':>9}{'numpy':>9}{'share':>9}{'goal':>7}{'compile':>10}{'count':>8}"
    )
    for rate, built in zip(rates, compiles, strict=True):
        goal = f"{rate.goal:.1%}" if rate.goal is not None else "-"
        print(
            f"{rate.rung:16}{rate.gflops:9.2f}{rate.numpy_gflops:9.1f}{rate.share:9.2%}"
            f"{goal:>7}{built.plain_s:8.2f} s{built.counting_s:6.2f} s"
        )
    print(f"one core, {RATE_SIZE}³; compile and count: CPU time, goal {COMPILE_GOAL_S:g} s each")


if __name__ == "__main__":
    sys.exit(main())
