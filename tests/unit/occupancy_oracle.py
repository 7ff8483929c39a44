"""NVIDIA's own answer about occupancy: cuda_occupancy.h, compiled with g++ and asked by stdin.

The header covers compute capability 7 and later.
"""

import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tilewright.gpus import GPUS, Limits, Occupancy, occupancy

BY_CC = {g.compute_capability: g for g in GPUS}

HARNESS = r"""
#include <climits>
#include <cstdio>
#include <cuda_occupancy.h>

int main() {
  int major, minor, block, sm, registers, file;
  unsigned long long per_block, per_sm, opt_in, reserved, fixed, dynamic;
  int threads, used, carveout;
  while (std::scanf("%d %d %d %d %d %llu %llu %llu %llu %d %d %llu %llu %d", &major, &minor, &block,
                    &sm, &file, &per_block, &per_sm, &opt_in, &reserved, &threads, &used, &fixed,
                    &dynamic, &carveout) == 14) {
    cudaOccDeviceProp gpu;
    gpu.computeMajor = major;
    gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = block;
    gpu.maxThreadsPerMultiprocessor = sm;
    gpu.regsPerBlock = gpu.regsPerMultiprocessor = file;
    gpu.warpSize = 32;
    gpu.sharedMemPerBlock = per_block;
    gpu.sharedMemPerMultiprocessor = per_sm;
    gpu.numSms = 1;
    gpu.sharedMemPerBlockOptin = opt_in;
    gpu.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = used;
    kernel.sharedSizeBytes = fixed;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = dynamic;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = carveout;
    cudaOccResult r;
    int status =
        cudaOccMaxActiveBlocksPerMultiprocessor(&r, &gpu, &kernel, &state, threads, dynamic);
    std::printf("%d %d %u %d %d %d %d %d %zu\n", status, r.activeBlocksPerMultiprocessor,
                r.limitingFactors, r.blockLimitWarps, r.blockLimitBlocks, r.blockLimitRegs,
                r.blockLimitSharedMem, r.allocatedRegistersPerBlock, r.allocatedSharedMemPerBlock);
  }
}
"""


class Case(NamedTuple):
    """One question to both."""

    limits: Limits
    threads: int
    registers: int
    static: int
    dynamic: int
    carveout: int | None

    def line(self) -> str:
        """Return the question as the harness reads it."""
        own = self.limits
        numbers = (
            *own.compute_capability,
            own.max_threads_per_block,
            own.max_threads,
            own.registers,
            own.shared_bytes_static_max,
            own.shared_bytes,
            own.shared_bytes_per_block_max,
            own.shared_bytes_reserved,
            self.threads,
            self.registers,
            self.static,
            self.dynamic,
            -1 if self.carveout is None else self.carveout,
        )
        return " ".join(map(str, numbers))

    def ours(self) -> Occupancy:
        """Ask the module under test."""
        return occupancy(
            gpu=BY_CC[self.limits.compute_capability],
            threads=self.threads,
            registers=self.registers,
            shared_bytes=self.static,
            dynamic_shared_bytes=self.dynamic,
            carveout=self.carveout,
        )


class Verdict(NamedTuple):
    """The header's answer."""

    status: int
    blocks: int
    factors: int
    by_warps: int
    by_blocks: int
    by_registers: int
    by_shared: int
    registers_per_block: int
    shared_per_block: int


Oracle = Callable[[Iterable[Case]], list[Verdict]]


def build_oracle(folder: Path) -> Oracle:
    """Compile the harness in `folder`; skip the test where compiler or header is missing."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed: NVIDIA's header cannot be compiled")
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    headers = [h for root in roots for h in root.rglob("cuda_occupancy.h")]
    if not headers:
        pytest.skip("cuda_occupancy.h is missing: install nvidia-cuda-runtime (the dev extra)")
    (folder / "harness.cpp").write_text(HARNESS)
    subprocess.run(
        [compiler, "-O1", "-w", f"-I{headers[0].parent}", "-o", "harness", "harness.cpp"],
        cwd=folder,
        check=True,
    )

    def ask(cases: Iterable[Case]) -> list[Verdict]:
        text = "\n".join(c.line() for c in cases)
        run = subprocess.run(
            [folder / "harness"], input=text, capture_output=True, text=True, check=True
        )
        return [Verdict(*map(int, line.split())) for line in run.stdout.splitlines()]

    return ask
