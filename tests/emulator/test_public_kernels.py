"""Kernels as people write them, through `tilewright.emulate`: right on every architecture's PTX.

sm_75 and sm_90 come from one compiler back end, sm_100 from a newer one that spells types apart.
"""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.launch import Argument, Run
from tilewright.toolchain.toolkit import cuda_include_dirs, load_nvrtc

KERNELS = Path(__file__).parent / "kernels"
GPUS = ("T4", "H200", "B200")
RNG = np.random.default_rng(7)

each_gpu = pytest.mark.parametrize("gpu", GPUS)
old_and_new = pytest.mark.parametrize("gpu", GPUS[1:])


def emulate(
    file: str, kernel: str, grid: object, block: object, args: list[Argument], **rest: object
) -> Run:
    return tilewright.emulate(KERNELS / file, kernel, grid=grid, block=block, args=args, **rest)


@each_gpu
def test_block_reduction_with_shuffles(gpu: str) -> None:
    x = RNG.standard_normal(5000).astype(np.float32)
    sums = np.full(3, np.nan, np.float32)
    emulate("reduce.cu", "block_sum", 3, 256, [x, sums, np.int32(5000)], gpu=gpu)
    blocks = np.arange(5000) // 256 % 3
    exact = [x[blocks == b].astype(np.float64).sum() for b in range(3)]
    bound = [np.abs(x[blocks == b]).sum() * 20 * 2**-24 for b in range(3)]
    assert np.all(np.abs(sums - exact) <= bound)


@each_gpu
def test_histogram_with_matched_lanes_and_atomics(gpu: str) -> None:
    values = (RNG.standard_normal(10_001) * 20).astype(np.uint8)
    bins = np.full(64, 5, np.uint32)
    emulate("histogram.cu", "histogram", 4, 96, [values, bins, np.int32(values.size)], gpu=gpu)
    assert np.array_equal(bins, 5 + np.bincount(values % 64, minlength=64))


@old_and_new
def test_padded_transpose(gpu: str) -> None:
    a = RNG.random((70, 45), np.float32)
    b = np.zeros((45, 70), np.float32)
    run = emulate(
        "transpose.cu", "transpose", (2, 3), (32, 8), [a, b, np.int32(70), np.int32(45)], gpu=gpu
    )
    assert np.array_equal(a.T, b)
    assert run.counters is not None
    assert run.counters.shared_load_wavefronts == run.counters.shared_load_requests


@each_gpu
@pytest.mark.parametrize("columns", [1, 31, 1000])
def test_online_softmax(gpu: str, columns: int) -> None:
    x = (RNG.standard_normal((5, columns)) * 10).astype(np.float32)
    y = np.zeros_like(x)
    emulate("softmax.cu", "softmax", 5, 128, [x, y, np.int32(columns)], gpu=gpu)
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact = power / power.sum(axis=1, keepdims=True)
    # expf is within 2 ulp, of an argument that itself is rounded: up to |x| / 2 ulp more.
    assert np.all(np.abs(y - exact) <= exact * 80 * 2**-23 + 2**-126)


@old_and_new
def test_inclusive_scan_by_shuffles(gpu: str) -> None:
    x = RNG.integers(-1000, 1000, 224).astype(np.int32)
    y = np.zeros_like(x)
    emulate("scan.cu", "scan_shuffles", 1, 224, [x, y], gpu=gpu)
    assert np.array_equal(y, np.cumsum(x))


@old_and_new
def test_inclusive_scan_by_sweeps_in_dynamic_shared_memory(gpu: str) -> None:
    x = RNG.integers(-1000, 1000, 512).astype(np.int32)
    y = np.zeros_like(x)
    emulate("scan.cu", "scan_blelloch", 1, 256, [x, y], gpu=gpu, shared_bytes=2048)
    assert np.array_equal(y, np.cumsum(x))


@old_and_new
def test_stencil_with_a_halo(gpu: str) -> None:
    image = RNG.random((37, 50), np.float32)
    out = np.full_like(image, np.nan)
    emulate(
        "stencil.cu", "stencil", (4, 3), (16, 16), [image, out, np.int32(50), np.int32(37)], gpu=gpu
    )
    p = np.pad(image, 1).astype(np.float64)
    exact = 0.5 * p[1:-1, 1:-1] + 0.125 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:])
    assert np.abs(out - exact).max() <= 4 * 2**-24


@old_and_new
def test_matvec_with_vector_loads(gpu: str) -> None:
    a = RNG.standard_normal((19, 300)).astype(np.float32)
    x = RNG.standard_normal(300).astype(np.float32)
    y = np.zeros(19, np.float32)
    run = emulate(
        "matvec.cu", "matvec", 5, (32, 4), [a, x, y, np.int32(19), np.int32(300)], gpu=gpu
    )
    bound = (np.abs(a).astype(np.float64) @ np.abs(x)) * 20 * 2**-24
    assert np.all(np.abs(y - a.astype(np.float64) @ x) <= bound)
    # 19 rows x 75 loads of 16 bytes: 2 whole warps and one of 11 lanes, from A and from x.
    assert run.counters is not None
    assert run.counters.global_load_requests == 19 * 3 * 2


@old_and_new
def test_bitonic_sort(gpu: str) -> None:
    keys = RNG.integers(0, 2**32, 256, dtype=np.uint32)
    exact = np.sort(keys)
    emulate("bitonic.cu", "bitonic_sort", 1, 256, [keys], gpu=gpu, shared_bytes=1024)
    assert np.array_equal(keys, exact)


def _fma_half(a: np.float16, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One rounding: a product of float16 numbers is exact in float64, and so is this sum of two."""
    return (np.float64(a) * x.astype(np.float64) + y.astype(np.float64)).astype(np.float16)


@pytest.mark.parametrize("file", ["half_axpy.cu", "half_header.cu"])
@old_and_new
def test_axpy_on_pairs_of_halves(gpu: str, file: str) -> None:
    folders = cuda_include_dirs(load_nvrtc().version[0])
    if file == "half_header.cu" and not any((f / "cuda_fp16.h").exists() for f in folders):
        pytest.skip("cuda_fp16.h is not installed (wheel nvidia-cuda-runtime)")
    x, y = (RNG.standard_normal(200).astype(np.float16) for _ in range(2))
    exact = _fma_half(np.float16(1.7), x, y)
    emulate(file, "half_axpy", 1, 128, [np.float32(1.7), x, y, np.int32(100)], gpu=gpu)
    assert np.array_equal(y, exact)


@old_and_new
def test_constant_and_global_variables(gpu: str) -> None:
    out, last = np.zeros(40, np.float32), np.zeros(1, np.uint32)
    for _ in range(2):  # variables start anew in every run
        last[0] = 0
        emulate("globals.cu", "use_globals", 3, 40, [out, last], gpu=gpu)
        i = np.arange(40)
        exact = np.array([1, -2, 0.5, 4])[i % 4] * np.array([20, 30])[i % 2]
        assert np.array_equal(out, exact)
        assert last[0] == 3


POINT = np.dtype(
    {
        "names": ["tag", "x", "y"],
        "formats": ["i1", "f8", ("i2", 4)],
        "offsets": [0, 8, 16],
        "itemsize": 24,
    }
)
BOX = np.dtype(
    {
        "names": ["low", "high", "closed"],
        "formats": [POINT, POINT, "?"],
        "offsets": [0, 24, 48],
        "itemsize": 56,
    }
)


@old_and_new
def test_structs_by_value(gpu: str) -> None:
    box = np.zeros((), BOX)
    box["low"] = (3, 0.25, [10, 20, 30, 40])
    box["high"] = (-5, 1.5, [-1, -2, -3, -4])
    box["closed"] = True
    out = np.zeros(8)
    emulate("structs.cu", "use_structs", 1, 8, [box[()], out], gpu=gpu)
    i = np.arange(8) % 4
    exact = (0.25 + np.array([10, 20, 30, 40])[i] + 3) + 100
    exact -= 1.5 + np.array([-1, -2, -3, -4])[3 - i] - 5
    assert np.array_equal(out, exact)


@pytest.mark.parametrize("block", [(10, 10, 1), (7, 3, 5), (1, 1, 64), (33, 1, 1), (1024, 1, 1)])
@pytest.mark.parametrize("gpu", ["H200"])
def test_blocks_of_any_shape(gpu: str, block: tuple[int, int, int]) -> None:
    threads = math.prod(block)
    grid = (2, 1, 2)
    out = np.zeros((4, threads, 4), np.int32)
    counts = np.zeros((4, 3), np.int32)
    emulate("shapes.cu", "who", grid, block, [out, counts], gpu=gpu)
    x, y, z = block
    where = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
    lanes = [min(32, threads - t // 32 * 32) for t in range(threads)]
    assert np.array_equal(out, np.broadcast_to(np.c_[where, lanes], out.shape))
    assert np.array_equal(counts, np.broadcast_to([threads, min(x, 2) * y * z, 3], (4, 3)))


@old_and_new
def test_doubles(gpu: str) -> None:
    x = RNG.standard_normal(50)
    y = np.zeros(50)
    emulate("numbers.cu", "doubles", 2, 32, [x, y, np.int32(50)], gpu=gpu)
    total = sum(x.astype(np.longdouble) ** k / (k + 1) for k in range(11))
    exact = np.sqrt(np.abs(total)) / (1 + x.astype(np.longdouble) ** 2)
    scale = np.sqrt(sum(np.abs(x) ** k / (k + 1) for k in range(11)))
    assert np.all(np.abs(y - exact) <= 1e-14 * scale)


@old_and_new
def test_division_of_64_bits(gpu: str) -> None:
    a = RNG.integers(-(2**62), 2**62, 64) >> RNG.integers(0, 60, 64)
    b = RNG.integers(1, 2**40, 64) * RNG.choice([-1, 1], 64)
    a[:3], b[:3] = [2**63 - 1, -(2**63), -(2**63)], [-1, 3, 1]
    quotient, rest = np.zeros_like(a), np.zeros_like(a)
    high = np.zeros(64, np.uint64)
    emulate("numbers.cu", "divide", 1, 64, [a, b, quotient, rest, high], gpu=gpu)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    exact = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in pairs]
    assert quotient.tolist() == exact
    assert rest.tolist() == [p - q * e for (p, q), e in zip(pairs, exact, strict=True)]
    word = 2**64
    expected = [((p % word) * (q % word) // word + p % word // 10) % word for p, q in pairs]
    assert high.tolist() == expected


@old_and_new
def test_bits_and_votes(gpu: str) -> None:
    x = RNG.integers(0, 2**32, 32, dtype=np.uint32)
    x[:2] = 0, 0x80000000
    out = np.zeros((32, 8), np.int32)
    emulate("numbers.cu", "bits", 1, 32, [x, out], gpu=gpu)
    values = x.tolist()
    odd = sum((v & 1) << lane for lane, v in enumerate(values))
    got = (out.astype(np.int64) % 2**32).tolist()
    for lane, v in enumerate(values):
        same = sum(1 << other for other, w in enumerate(values) if w % 8 == v % 8)
        assert got[lane] == [
            v.bit_count(),
            32 - v.bit_length(),
            (v & -v).bit_length(),
            int(f"{v:032b}"[::-1], 2),
            odd,
            same,
            1,
            values[lane // 8 * 8 + (lane + 3) % 8],
        ]


@old_and_new
def test_called_device_functions(gpu: str) -> None:
    over, under, following = (np.zeros(64, np.int32) for _ in range(3))
    emulate("calls.cu", "harmonic", 1, 64, [over, under, following], gpu=gpu)
    assert np.allclose(over / under, [sum(1 / k for k in range(1, 2 + t % 10)) for t in range(64)])
    assert (over[9], under[9]) == (7381, 2520)  # 1 + 1/2 + … + 1/10
    assert np.array_equal(following, (np.arange(64) + 2) % 64)
