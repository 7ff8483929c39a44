"""Occupancy against cases derived by hand from the documented rules, and what is refused."""

import json

import pytest

import tilewright
from tilewright.errors import LaunchError, UnknownNameError
from tilewright.gpus import GPUS, LIMITS, Limits, gpu, hint, occupancy
from tilewright.gpus.occupancy import most_registers, most_shared

BY_CC = {g.compute_capability: g for g in GPUS}

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
