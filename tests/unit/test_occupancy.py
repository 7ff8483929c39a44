"""Occupancy against NVIDIA's own cuda_occupancy.h, and against cases derived by hand.

The header covers compute capability 7 and later. A small C++ program around it reads cases from
stdin; the fuzz compares every limit and the verdict "cannot run", which here is a LaunchError.
"""

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tilewright
from tilewright.errors import LaunchError, UnknownNameError
from tilewright.gpus import GPUS, LIMITS, Limits, Occupancy, gpu, hint, occupancy
from tilewright.gpus.occupancy import most_registers, most_shared

MODERN = [limits for cc, limits in LIMITS.items() if cc >= (7, 0)]
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
FACTORS = {"warps": 1, "registers": 2, "shared": 4, "blocks": 8}
UNLIMITED = 2**31 - 1


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


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed: NVIDIA's header cannot be compiled")
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    headers = [h for root in roots for h in root.rglob("cuda_occupancy.h")]
    if not headers:
        pytest.skip("cuda_occupancy.h is missing: install nvidia-cuda-runtime (the dev extra)")
    folder = tmp_path_factory.mktemp("occupancy")
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


def fuzz(count: int, seed: int) -> list[Case]:
    """Random cases, half of them on or one beside a limit or an allocation step."""
    rng = np.random.default_rng(seed)

    def near(edges: list[int], most: int) -> int:
        if rng.random() < 0.5:
            return int(rng.integers(0, most + 1))
        return int(np.clip(rng.choice(edges) + rng.integers(-1, 2), 0, most))

    cases = []
    for _ in range(count):
        own = MODERN[rng.integers(len(MODERN))]
        top = own.shared_bytes_per_block_max
        steps = [0, 47 * 1024, 48 * 1024, top, *own.carveouts]
        steps += [own.shared_bytes // n - own.shared_bytes_reserved for n in range(1, 33)]
        cases.append(
            Case(
                limits=own,
                threads=max(1, near([*range(32, 1025, 32)], 1056)),
                registers=max(1, near([*range(8, 256, 8)], 255)),
                static=near([0, 16384, 32768, 48 * 1024], 48 * 1024),
                dynamic=near(steps, top + 300),
                carveout=None if rng.random() < 0.5 else near([0, 50, 100], 100),
            )
        )
        if rng.random() < 0.5:
            cases[-1] = cases[-1]._replace(static=0)
    return cases


def test_nvidias_header_agrees_on_thousands_of_cases(oracle: Oracle) -> None:
    cases = fuzz(12_000, seed=20080)
    verdicts = oracle(cases)
    assert len(verdicts) == len(cases)
    refused = 0
    for case, theirs in zip(cases, verdicts, strict=True):
        assert theirs.status == 0, case
        if theirs.blocks == 0:
            refused += 1
            with pytest.raises(LaunchError):
                case.ours()
            continue
        ours = case.ours()
        assert ours.active_blocks == theirs.blocks, case
        limits = [ours.limits[r] for r in ("warps", "blocks", "registers", "shared")]
        assert [UNLIMITED if n is None else n for n in limits] == list(theirs[3:7]), case
        # 16 is the barriers': one a block, as here, never allows fewer blocks than an SM holds.
        assert sum(FACTORS[r] for r in ours.limiters) == theirs.factors & ~16, case
        assert ours.registers_per_block == theirs.registers_per_block, case
        assert ours.shared_bytes_per_block == theirs.shared_per_block, case
    assert 0.1 < refused / len(cases) < 0.9, "the fuzz must reach both verdicts"
    assert {c.limits.compute_capability for c in cases} == {m.compute_capability for m in MODERN}


@pytest.mark.parametrize("own", MODERN, ids=lambda m: f"cc{m.compute_capability}")
def test_the_header_takes_the_documented_most_shared_memory(own: Limits, oracle: Oracle) -> None:
    """At 64, 96, 99, 163 or 227 KB one block fits, one byte more and none does, in both."""
    most = own.shared_bytes_per_block_max
    fits, exceeds = (Case(own, 256, 32, 0, d, None) for d in (most, most + 1))
    assert [v.blocks for v in oracle([fits, exceeds])] == [1, 0]
    assert fits.ours().active_blocks == 1
    with pytest.raises(LaunchError, match=rf"at most {most} bytes a block.*1 bytes smaller"):
        exceeds.ours()


def test_where_the_header_is_laxer_than_the_documents(oracle: Oracle) -> None:
    """256 registers a thread, and static shared memory above 48 KB: no compiler emits either."""
    h200 = LIMITS[9, 0]
    registers, static = Case(h200, 32, 256, 0, 0, None), Case(h200, 32, 32, 49153, 0, None)
    assert all(v.blocks > 0 for v in oracle([registers, static]))
    with pytest.raises(LaunchError, match=r"registers 256: .*from 1 to 255"):
        registers.ours()
    with pytest.raises(LaunchError, match="static shared memory is at most 49152"):
        static.ours()


# What ptxas 12.9 reported for the public SGEMM ladder, threads and registers, and the occupancy
# derived by hand from the documented rules.
LADDER = [
    # 32 registers a warp round up to 1280: 65536 / 1280 is one block of 32 warps, of 48.
    ("RTX A6000", 1024, 36, 0, 1, 2 / 3),
    ("RTX A6000", 1024, 40, 0, 1, 2 / 3),
    ("RTX A6000", 1024, 37, 8192, 1, 2 / 3),
    # 47 registers: 1536 a warp, 10 warps a sub-partition, 40 an SM: two blocks of 16.
    ("RTX A6000", 512, 47, 4096, 2, 2 / 3),
    # 118 registers: 3840 a warp, 4 warps a sub-partition, 16 an SM: two blocks of 8.
    ("RTX A6000", 256, 118, 8192, 2, 1 / 3),
    ("RTX A6000", 256, 108, 8192, 2, 1 / 3),
    ("RTX A6000", 256, 128, 8192, 2, 1 / 3),
    # 218 registers: 7168 a warp, 2 warps a sub-partition, 8 an SM: two blocks of 4.
    ("RTX A6000", 128, 218, 16384, 2, 1 / 6),
    # 168 registers and 48 KB: 12 warps an SM by registers, but two blocks want 98 KB of 100.
    ("RTX A6000", 256, 168, 49152, 1, 1 / 6),
    ("H200", 1024, 32, 0, 2, 1.0),
    ("H200", 512, 39, 4096, 3, 0.75),
    ("H200", 256, 96, 8192, 2, 0.25),
    ("H200", 128, 168, 16384, 3, 3 / 16),
]


@pytest.mark.parametrize(("name", "threads", "registers", "shared", "blocks", "fraction"), LADDER)
def test_the_public_ladder_by_hand(
    name: str, threads: int, registers: int, shared: int, blocks: int, fraction: float
) -> None:
    found = occupancy(gpu=name, threads=threads, registers=registers, shared_bytes=shared)
    assert found.active_blocks == blocks
    assert found.fraction == pytest.approx(fraction)


# Compute capability 1: whole blocks take registers, in 256 (512 from 1.2 on), of 2 warps at least.
FIRST = [
    # 2 warps x 32 x 30 = 1920, rounded to 2048 of 8192: four blocks, 8 of 24 warps.
    ("8800 GTX", 64, 30, 1088, 4, 1 / 3, ("registers",)),
    # 16 warps x 32 x 15 = 7680 of 8192: one block of 512 threads.
    ("8800 GTX", 512, 15, 0, 1, 2 / 3, ("warps", "registers")),
    # One warp counts as two: 2 x 32 x 17 = 1088, rounded to 1280: six, not eight, blocks.
    ("9800 GTX", 32, 17, 0, 6, 1 / 4, ("registers",)),
    # 2048 of 16384: eight blocks, which is also the most of an SM.
    ("GTX 280", 64, 30, 1088, 8, 1 / 2, ("blocks", "registers")),
    # 2 x 32 x 33 = 2112 rounds to 2560 in steps of 512 (2304 in steps of 256): six blocks.
    ("GTX 280", 64, 33, 0, 6, 3 / 8, ("registers",)),
    # 2049 bytes take 2560 in steps of 512 (2304 in steps of 256): six blocks of 16384.
    ("GTX 280", 64, 10, 2049, 6, 3 / 8, ("shared",)),
]


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks", "fraction", "limiters"), FIRST
)
def test_2008_gpus_by_hand(
    name: str,
    threads: int,
    registers: int,
    shared: int,
    blocks: int,
    fraction: float,
    limiters: tuple[str, ...],
) -> None:
    found = occupancy(gpu=name, threads=threads, registers=registers, shared_bytes=shared)
    assert (found.active_blocks, found.limiters) == (blocks, limiters)
    assert found.fraction == pytest.approx(fraction)


def test_the_carveout_limits_shared_memory_but_never_a_block() -> None:
    def blocks(percent: int | None, dynamic: int) -> int:
        return occupancy(
            gpu="H200", threads=128, registers=32, dynamic_shared_bytes=dynamic, carveout=percent
        ).active_blocks

    assert blocks(None, 15 * 1024) == 228 // 16  # 14, also by default the most
    assert blocks(50, 15 * 1024) == 132 // 16  # 114 KB is no size: 132 is the next
    assert blocks(0, 15 * 1024) == 1  # grows to 16 KB, which one block needs
    assert blocks(0, 200 * 1024) == 1  # grows to 228 KB


def test_tilewright_occupancy_is_this_function() -> None:
    assert tilewright.occupancy is occupancy


REFUSED = [
    ({"threads": 0}, r"threads 0: .*from 1 to 1024"),
    ({"threads": 1025}, r"threads 1025: .*from 1 to 1024 \(a block on H200\)"),
    ({"threads": 2.5}, r"threads 2.5: expected a whole number"),
    ({"threads": True}, r"threads True: expected a whole number"),
    ({"registers": 0}, r"registers 0: .*from 1 to 255"),
    ({"shared_bytes": -1}, r"shared_bytes -1: .*at least 0"),
    ({"dynamic_shared_bytes": -4}, r"dynamic_shared_bytes -4: .*at least 0"),
    ({"shared_bytes": 50000}, r"`extern __shared__`.*232448 bytes in all"),
    ({"shared_bytes": 48 * 1024, "dynamic_shared_bytes": 179 * 1024 + 8}, r"8 bytes smaller"),
    ({"carveout": 101}, r"carveout 101: .*from 0 to 100"),
    # 65 registers take 2304 a warp: 7 warps a sub-partition, 28 an SM, 896 threads.
    ({"threads": 1024, "registers": 65}, r"at most 64 a thread .* at most 896 threads"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_what_no_gpu_would_launch_is_refused(wrong: dict[str, int], message: str) -> None:
    launch = {"threads": 256, "registers": 32} | wrong
    with pytest.raises(LaunchError, match=message):
        occupancy(gpu="H200", **launch)


def test_2008_limits_are_their_own() -> None:
    with pytest.raises(LaunchError, match=r"threads 513: .*from 1 to 512"):
        occupancy(gpu="8800 GTX", threads=513, registers=10)
    with pytest.raises(LaunchError, match=r"registers 125: .*from 1 to 124"):
        occupancy(gpu="8800 GTX", threads=64, registers=125)
    # 8192 / (16 x 32) is 16 registers a thread; 17 x 32 x 14 = 7616 fits with 14 warps.
    with pytest.raises(LaunchError, match=r"at most 16 a thread .* at most 448 threads"):
        occupancy(gpu="8800 GTX", threads=512, registers=17)
    with pytest.raises(LaunchError, match="static shared memory is at most 16384"):
        occupancy(gpu="8800 GTX", threads=64, registers=10, shared_bytes=16385)
    with pytest.raises(LaunchError, match="shared memory of 8800 GTX is fixed"):
        occupancy(gpu="8800 GTX", threads=64, registers=10, carveout=50)
    with pytest.raises(UnknownNameError, match="H200"):
        occupancy(gpu="h20", threads=64, registers=10)


@pytest.mark.parametrize("own", LIMITS.values(), ids=lambda m: f"cc{m.compute_capability}")
def test_most_registers_and_most_shared_are_the_very_last_that_fit(own: Limits) -> None:
    g = BY_CC[own.compute_capability]

    def blocks(threads: int, registers: int, shared: int) -> int:
        static = min(shared, own.shared_bytes_static_max)
        try:
            return occupancy(
                gpu=g,
                threads=threads,
                registers=registers,
                shared_bytes=static,
                dynamic_shared_bytes=shared - static,
            ).active_blocks
        except LaunchError:
            return 0

    for threads in (32, 96, 128, 256, own.max_threads_per_block):
        for want in range(1, min(own.max_blocks, own.max_threads // threads) + 1):
            registers = most_registers(own, threads, want)
            assert blocks(threads, registers, 0) >= want
            if registers < own.max_registers_per_thread:
                assert blocks(threads, registers + 1, 0) < want
            shared = most_shared(own, want)
            assert blocks(32, 8, shared) >= want
            assert blocks(32, 8, shared + 1) < want


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        # 16384 / ceil(24 warps / 4) is 2730, 2560 in steps of 256: 80 registers a thread.
        (
            {"threads": 256, "registers": 128, "shared_bytes": 16384},
            "80 registers a thread (48 fewer): 3 blocks, 24 warps, 50.0%",
        ),
        # 102400 / 3 is 34133, 34048 in steps of 128, less 1024.
        (
            {"threads": 256, "registers": 32, "shared_bytes": 40000},
            "33024 bytes of shared memory a block (6976 fewer): 3 blocks",
        ),
        ({"threads": 32, "registers": 20}, "blocks of 96 give 16 blocks, 48 warps, 100.0%"),
        ({"threads": 1024, "registers": 36}, "blocks of 768 give 2 blocks, 48 warps, 100.0%"),
        ({"threads": 256, "registers": 40}, "every warp slot of the SM is taken"),
        (
            {"threads": 128, "registers": 32, "shared_bytes": 8192, "carveout": 10},
            "the carveout leaves shared memory 16384 of 102400 bytes",
        ),
        (
            {"threads": 1024, "registers": 64, "dynamic_shared_bytes": 99 * 1024},
            "no other block size does better",
        ),
    ],
)
def test_the_hint_is_true(launch: dict[str, int], said: str) -> None:
    a6000 = gpu("RTX A6000")
    assert said in hint(a6000, occupancy(gpu=a6000, **launch))


def test_json_is_plain_and_complete() -> None:
    found = occupancy(gpu="T4", threads=256, registers=64)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["limits"] == {"warps": 4, "blocks": 16, "registers": 4, "shared": None}
    assert data["limiters"] == ["warps", "registers"]
    assert (data["active_blocks"], data["active_warps"], data["fraction"]) == (4, 32, 1.0)
