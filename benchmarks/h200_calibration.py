"""Measure what the time model takes from hardware: latencies and rates of one SM, and the card's.

    python benchmarks/h200_calibration.py --out benchmarks/results

The probes (calibration_probes.py) are none of the kernels that the model is judged by. Each runs on
one SM (some on all) between two readings of the SM's clock, three times, with several numbers of
warps; the record keeps cycles a warp-level instruction for each. Launches of an empty kernel are
timed by events. It takes about a minute.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import numpy as np
from calibration_probes import PROBES, UNROLL, Probe

from tilewright.bench.environment import describe_environment
from tilewright.bench.timing import Budget, time_interleaved
from tilewright.device import require_device
from tilewright.device.events import EventStopwatch
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.errors import TilewrightError
from tilewright.launch import Launch
from tilewright.toolchain import Artifact, compile_cuda, disassemble
from tilewright.toolchain.elf import elf_sections

_DATA_BYTES = 1 << 30
_REPEATS = 3

# FFMAs between the clock readings. Their registers are replaced in the machine code, since no
# source decides which ones ptxas takes.
FFMA = """
extern "C" __global__ void ffma_registers(long long* clocks, char* data, int, int, int,
                                          int rounds, int zero)
{
  float x[64], a = zero + 1.f, b = zero + 2.f, more[32];
#pragma unroll
  for (int i = 0; i < 64; ++i) x[i] = threadIdx.x + i;
#pragma unroll
  for (int i = 0; i < 32; ++i) more[i] = __int_as_float(((int*)data)[i + threadIdx.x]);
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int i = 0; i < 256; ++i) x[i % 64] = fmaf(a, b, x[i % 64]);
    a += zero;
  }
  const long long end = clock64();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum += x[i];
#pragma unroll
  for (int i = 0; i < 32; ++i) sum += more[i];
  if (sum == 12345.f) clocks[0] = 0;
  clocks[2 * threadIdx.x] = begin;
  clocks[2 * threadIdx.x + 1] = end;
}
"""
# How the i-th FFMA picks its registers, by parity: (d = c, a, b) each as (parity, number), and the
# reuse flags of a (1) and b (2). Parity is the bank. Accumulators repeat after 64.
Choice = tuple[tuple[int, int], tuple[int, int], tuple[int, int], int]
REGISTERS: dict[str, Callable[[int], Choice]] = {
    "a-and-b-fixed-and-reused": lambda i: ((i % 2, i // 2), (0, 0), (1, 0), 3),
    "a-and-b-fixed": lambda i: ((i % 2, i // 2), (0, 0), (1, 0), 0),
    "a-reused-b-and-c-in-two-banks": lambda i: (
        (i % 2, i // 2), (0, 0), (1 - i % 2, i // 2 % 8), 1),
    "a-reused-b-and-c-in-one-bank": lambda i: ((i % 2, i // 2), (0, 7), (i % 2, i // 2 % 7), 1),
    "distinct-in-two-banks": lambda i: ((i % 2, i // 2), (0, i % 8), (1, i // 8 % 8), 0),
    "distinct-in-one-bank": lambda i: ((0, i), (0, i % 8), (0, (i + 3) % 8), 0),
    "distinct-a-and-b-in-one-bank": lambda i: ((1, i), (0, i % 8), (0, (i + 3) % 8), 0),
    "rows-of-8-reused-b-and-c-in-two-banks": lambda i: (
        (i % 2, i // 2), (i // 8 % 2, i // 16 % 4), (1 - i % 2, 4 + i // 2 % 4), int(i % 8 < 7)),
    "rows-of-8-reused-b-and-c-in-one-bank": lambda i: (
        (i % 2, i // 2), (i // 8 % 2, i // 16 % 4), (i % 2, 4 + i // 2 % 4), int(i % 8 < 7)),
    "rows-of-8-not-reused-b-and-c-in-two-banks": lambda i: (
        (i % 2, i // 2), (i // 8 % 2, i // 16 % 4), (1 - i % 2, 4 + i // 2 % 4), 0),
    "rows-of-8-not-reused-b-and-c-in-one-bank": lambda i: (
        (i % 2, i // 2), (i // 8 % 2, i // 16 % 4), (i % 2, 4 + i // 2 % 4), 0),
}  # fmt: skip


EMPTY = 'extern "C" __global__ void empty(int) {}'
GRIDS = (1, 132, 1056, 16384, 65536, 262144)
BLOCKS = (32, 256, 1024)


class Reading(TypedDict):
    """What a probe gave: cycles a warp-level instruction, by number of warps."""

    name: str
    opcode: str
    cycles: dict[int, float]


def main() -> int:
    """Run the calibration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    options = parser.parse_args()
    try:
        device = require_device()
        environment = describe_environment(device, commit=options.commit)
        found = [*measure_probes(device.arch), *measure_registers(device.arch)]
        path = options.out / f"calibration_{device.name.lower().replace(' ', '_')}.json"
        launches = measure_launches(device.arch)
        record = {"environment": environment.to_json(), "probes": found, "launches": launches}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for each in found:
        figures = "  ".join(f"{w}:{c:8.3f}" for w, c in each["cycles"].items())
        print(f"{each['name']:44s} {figures}")
    for name, seconds in launches.items():
        print(f"{name:44s} {1e6 * seconds:8.2f} us")
    print(path)
    return 0


def measure_probes(arch: str) -> Iterator[Reading]:
    """Cycles a warp-level instruction and SM, by number of warps."""
    for probe in PROBES:
        artifact = compile_cuda(probe.source(), probe.kernel, arch=arch)
        steps = probe.rounds * UNROLL
        check(probe, artifact)
        yield _measured(probe, artifact, steps)


def check(probe: Probe, artifact: Artifact) -> None:
    """Refuse a probe whose loop does not hold its instruction as often as it should."""
    code = disassemble(artifact).functions[artifact.symbol].instructions
    clock = [n for n, i in enumerate(code) if "SR_CLOCKLO" in i.operands]
    timed = code[clock[0] : clock[1]]
    jumps = [i for i in timed if i.opcode == "BRA" and (i.target or i.address) < i.address]
    inside = [i for i in timed if any((j.target or 0) <= i.address <= j.address for j in jumps)]
    found = sum(i.opcode == probe.opcode for i in inside)
    if len(jumps) != 1 or found != UNROLL:
        raise TilewrightError(
            f"{probe.name}: {found} {probe.opcode} in {len(jumps)} loops, not {UNROLL} in one"
        )


def measure_registers(arch: str) -> Iterator[Reading]:
    """Cycles an FFMA by the registers that it reads."""
    artifact = compile_cuda(FFMA, "ffma_registers", arch=arch)
    for name, choose in REGISTERS.items():
        probe = Probe(name=f"ffma-{name}", opcode="FFMA", step="", warps=(4, 8, 16), rounds=64)
        patched = replace(artifact, cubin=with_registers(artifact, choose))
        yield _measured(probe, patched, 64 * 256)


def measure_launches(arch: str) -> dict[str, float]:
    """Seconds of a launch of so many blocks that do nothing, by `launch-<blocks>x<threads>`.

    Memory is filled before each, so that the host is ahead of the GPU.
    """
    session = open_session(0)
    session.enter()
    kernel = session.load(compile_cuda(EMPTY, "empty", arch=arch))
    found = {}
    with Arena(session) as arena:
        data = arena.allocate(_DATA_BYTES)
        for blocks, threads in itertools.product(GRIDS, BLOCKS):
            name = f"launch-{blocks}x{threads}"
            run = kernel.bind(Launch(grid=(blocks, 1, 1), block=(threads, 1, 1)), [np.int32(0)])
            found[name] = time_interleaved(
                {name: lambda _, run=run: run()},
                stopwatch=EventStopwatch(session),
                sets=1,
                budget=Budget(warmup_s=0.01, measure_s=0.05, max_rounds=40),
                before=lambda: arena.fill(data, 0, _DATA_BYTES // 4),
            )[name].median_s
    return found


def _measured(probe: Probe, artifact: Artifact, steps: int) -> Reading:
    cycles = {warps: run(probe, artifact, warps) / (steps * warps) for warps in probe.warps}
    return {"name": probe.name, "opcode": probe.opcode, "cycles": cycles}


def run(probe: Probe, artifact: Artifact, warps: int) -> float:
    """Cycles from the first warp's start to the last warp's end, the median over SMs and runs."""
    session = open_session(0)
    session.enter()
    blocks = probe.blocks or require_device().sm_count
    kernel = session.load(artifact)
    clocks = np.zeros((blocks, 32 * warps, 2), np.int64)
    with Arena(session) as arena:
        data = arena.allocate(_DATA_BYTES)
        where = arena.allocate(clocks.nbytes)
        arena.fill(data, 0, _DATA_BYTES)
        numbers = (probe.lane_step, probe.warp_step, probe.block_step, probe.rounds, 0)
        values: list[np.generic] = [np.uint64(where), np.uint64(data), *map(np.int32, numbers)]
        spans = []
        for repeat in range(_REPEATS):
            values[1] = np.uint64(data + repeat * probe.fresh)
            kernel.bind(Launch(grid=(blocks, 1, 1), block=(32 * warps, 1, 1)), values)()
            session.synchronize()
            arena.read(clocks, where)
            spans.append(clocks[:, :, 1].max(axis=1) - clocks[:, :, 0].min(axis=1))
    return float(np.median(spans[1:]))


def with_registers(artifact: Artifact, choose: Callable[[int], Choice]) -> bytes:
    """Return the cubin with the operands of its loop's 256 FFMAs replaced.

    Accumulators are the registers that those FFMAs write, a and b such as hold loaded words. An
    FFMA's 128 bits have d in 16-23, a in 24-31, b in 32-39, c in 64-71 and the reuse flags of a, b
    and c in 122-124.
    """
    function = disassemble(artifact).functions[artifact.symbol]
    clock = [n for n, i in enumerate(function.instructions) if "SR_CLOCKLO" in i.operands]
    loop = [i for i in function.instructions[clock[0] : clock[1]] if i.mnemonic == "FFMA"]
    if len(loop) != 256:
        raise TilewrightError(f"expected 256 FFMAs between the clock readings, found {len(loop)}")
    sums = sorted({int(i.operands[0][1:]) for i in loop})
    loads = [i for i in function.instructions[: clock[0]] if i.opcode == "LDG"]
    words = [int(i.operands[0][1:]) for i in loads if int(i.operands[0][1:]) not in sums]
    sums_by_bank = [[r for r in sums if r % 2 == bank] for bank in (0, 1)]
    words_by_bank = [[r for r in sorted(words) if r % 2 == bank] for bank in (0, 1)]
    if min(map(len, words_by_bank)) < 8 or min(map(len, sums_by_bank)) < 16:
        raise TilewrightError(f"too few registers of one bank: {sums_by_bank}, {words_by_bank}")
    code = bytearray(artifact.cubin)
    start = elf_sections(artifact.cubin)[f".text.{artifact.symbol}"].offset
    for i, instruction in enumerate(loop):
        at = start + instruction.address
        low = int.from_bytes(code[at : at + 8], "little")
        high = int.from_bytes(code[at + 8 : at + 16], "little")
        (bank, number), a, b, reuse = choose(i)
        d = sums_by_bank[bank][number % len(sums_by_bank[bank])]
        low &= ~(0xFFFFFF << 16) & ~(0xFF << 32)
        low |= d << 16 | words_by_bank[a[0]][a[1]] << 24 | words_by_bank[b[0]][b[1]] << 32
        high = (high & ~0xFF & ~(7 << 58)) | d | reuse << 58
        code[at : at + 16] = low.to_bytes(8, "little") + high.to_bytes(8, "little")
    return bytes(code)


if __name__ == "__main__":
    sys.exit(main())
