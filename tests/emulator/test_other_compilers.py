"""PTX that Numba and Triton wrote (tests/toolchain/data/compilers says how): right when run."""

import math
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.errors import LaunchError, UnsupportedError
from tilewright.launch import Argument, Run

DATA = Path(__file__).parents[1] / "toolchain" / "data" / "compilers"
RNG = np.random.default_rng(11)
EPS = 2.0**-24


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def numba_array(a: np.ndarray) -> list[Argument]:
    """Numba passes an array as: memory info, parent, items, item size, data, shape, strides."""
    sizes = [a.size, a.itemsize]
    return [
        *(np.uint64(0), np.uint64(0)),
        *map(np.int64, sizes),
        a,
        *map(np.int64, a.shape),
        *map(np.int64, a.strides),
    ]


def numba(name: str, grid: object, block: object, args: list[Argument]) -> Run:
    return tilewright.emulate(DATA / f"numba_{name}.ptx", name, grid=grid, block=block, args=args)


def triton(name: str, grid: object, args: list[Argument], shared_bytes: int, **rest: object) -> Run:
    scratch = [np.zeros(1, np.uint8), np.zeros(1, np.uint8)]  # for global scratch and profiling
    kernel = f"{name.split('_')[0]}_kernel"
    return tilewright.emulate(
        DATA / f"triton_{name}.ptx",
        kernel,
        grid=grid,
        block=128,
        args=[*args, *scratch],
        shared_bytes=shared_bytes,
        **rest,
    )


def test_numba_saxpy_by_its_mangled_name() -> None:
    x, y = normal(300), normal(300)
    exact = 2.5 * x.astype(np.float64) + y
    run = numba("saxpy", 3, 128, [np.float32(2.5), *numba_array(x), *numba_array(y)])
    assert np.all(np.abs(y - exact) <= 2 * EPS * (np.abs(exact) + np.abs(2.5 * x)))
    assert run.counters is not None
    assert run.counters.global_load_requests == 2 * 10  # 300 threads: nine warps and one of 12


def test_numba_block_sum_in_shared_memory_with_an_atomic() -> None:
    x, out = normal(1000), np.zeros(1, np.float32)
    numba("block_sum", 8, 128, [*numba_array(x), *numba_array(out)])
    assert abs(out[0] - x.astype(np.float64).sum()) <= np.abs(x).sum() * 15 * EPS


def test_numba_matmul() -> None:
    a, b, c = normal(20, 33), normal(33, 18), np.full((20, 18), np.nan, np.float32)
    args = [arg for array in (a, b, c) for arg in numba_array(array)]
    numba("matmul", (3, 3), (8, 8), args)
    bound = np.abs(a).astype(np.float64) @ np.abs(b) * 34 * EPS
    assert np.all(np.abs(c - a.astype(np.float64) @ b) <= bound)


def test_numba_erf_and_shuffles() -> None:
    x, y = normal(64), np.zeros(64, np.float32)
    numba("gelu", 1, 64, [*numba_array(x), *numba_array(y)])
    exact = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.astype(np.float64)]
    neighbour = (np.arange(64) ^ 1) % 2
    # The result is rounded to float32 once, from at most 5.
    assert np.abs(y - (exact + neighbour)).max() <= 5 * 4 * EPS


@pytest.mark.parametrize("n", [1, 512, 1000])
def test_triton_add_with_its_mask(n: int) -> None:
    x, y, out = normal(1024), normal(1024), np.full(1024, np.nan, np.float32)
    triton("add", 2, [x, y, out, np.int32(n)], 0)
    assert np.array_equal(out[:n], x[:n] + y[:n])
    assert np.isnan(out[n:]).all()


def test_triton_softmax() -> None:
    x, out = normal(5, 200), np.full((5, 200), np.nan, np.float32)
    triton("softmax", 5, [x, out, np.int32(200), np.int32(200)], 16)
    power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact = power / power.sum(axis=1, keepdims=True)
    assert np.all(np.abs(out - exact) <= exact * 60 * EPS)


@pytest.mark.parametrize(("name", "shared_bytes"), [("matmul", 4096), ("matmul_async", 16384)])
def test_triton_matmul(name: str, shared_bytes: int) -> None:
    a, b, c = normal(50, 40), normal(40, 45), np.full((50, 45), np.nan, np.float32)
    sizes = [np.int32(50), np.int32(45), np.int32(40)]
    triton(name, (2, 2), [a, b, c, *sizes], shared_bytes, gpu="RTX A6000")
    bound = np.abs(a).astype(np.float64) @ np.abs(b) * 41 * EPS
    assert np.all(np.abs(c - a.astype(np.float64) @ b) <= bound)


def test_what_is_not_executed_yet_is_named() -> None:
    a = np.zeros(1024, np.float32)
    sizes = [np.int32(32), np.int32(32), np.int32(32)]
    instruction = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
    says = rf"does not execute {instruction}: PTX line \d+: ldmatrix"
    with pytest.raises(UnsupportedError, match=says):
        triton("matmul_fp16", 1, [a, a, a, *sizes], 4096, gpu="RTX A6000")


def test_triton_blocks_have_one_size() -> None:
    path, args = DATA / "triton_add.ptx", [normal(8)] * 3 + [np.int32(8)] + [normal(1)] * 2
    with pytest.raises(LaunchError, match=r"compiled for blocks of \(128,\), got \(64, 1, 1\)"):
        tilewright.emulate(path, "add_kernel", grid=1, block=64, args=args)
