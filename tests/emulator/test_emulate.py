"""`tilewright.emulate`: what it takes, what it leaves in the arrays, and what it refuses."""

import doctest
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright
import tilewright.api
from tilewright.emulator import build_for, run
from tilewright.errors import (
    CompileError,
    LaunchError,
    TilewrightError,
    UnknownNameError,
    UnsupportedError,
)
from tilewright.gpus import gpu as find_gpu
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

SCALE = """
__global__ void scale(float* x, float by, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * by + 1.0f;
}
template <int N, typename T>
__global__ void fill(T* x) { x[threadIdx.x] = N; }
"""


def scale(x: np.ndarray, **rest: object) -> tilewright.launch.Run:
    given: dict[str, object] = {"grid": 4, "block": 32} | rest
    args = given.pop("args", [x, np.float32(2), np.int32(x.size)])
    source, kernel = given.pop("source", SCALE), given.pop("kernel", "scale")
    return tilewright.emulate(source, kernel, args=args, **given)


# --- what it does -------------------------------------------------------------------------------


def test_arrays_are_written_in_place() -> None:
    x = np.arange(100, dtype=np.float32)
    found = scale(x)
    assert np.array_equal(x, 2 * np.arange(100) + 1)
    assert (found.kernel, found.backend, found.blocks) == ("scale", "emulator", 4)
    assert found.launch == Launch(grid=4, block=32)
    assert found.counters is not None
    assert found.counters.global_store_requests == 4
    assert found.seconds > 0


@pytest.mark.parametrize("gpu", ["H200", "rtx a6000", find_gpu("T4")])
def test_the_gpu_is_a_name_or_a_gpu(gpu: object) -> None:
    x = np.zeros(100, np.float32)
    scale(x, gpu=gpu)
    assert (x == 1).all()


def test_a_template_name_expression() -> None:
    x = np.zeros(32, np.int16)
    scale(x, kernel="fill<7, short>", grid=1, args=[x])
    assert (x == 7).all()


def test_sources_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "shared.cuh").write_text("#define STEP 3.0f\n")
    code = '#include "shared.cuh"\nextern "C" __global__ void k(float* x) { x[0] += STEP * TWO; }\n'
    cuda, below = tmp_path / "k.cu", tmp_path / "below"
    cuda.write_text(code)
    ptx = compile_cuda(cuda, "k", options=["-DTWO=2"]).ptx
    (tmp_path / "k.ptx").write_text(ptx)
    below.mkdir()
    x = np.zeros(1, np.float32)
    shape = {"grid": 1, "block": 1, "args": [x]}
    tilewright.emulate(cuda, "k", options=["-DTWO=2"], **shape)
    tilewright.emulate(str(cuda), "k", options=["-DTWO=2"], **shape)
    tilewright.emulate(code, "k", options=["-DTWO=2"], include_dirs=[tmp_path], **shape)
    tilewright.emulate(tmp_path / "k.ptx", "k", **shape)
    tilewright.emulate(ptx, "k", **shape)
    assert x[0] == 5 * 6


def test_a_view_keeps_its_alignment() -> None:
    code = (
        "__global__ void where(const void* p, unsigned long long* out)"
        " { *out = (unsigned long long)p; }"
    )
    whole, out = np.zeros(100, np.float32), np.zeros(1, np.uint64)
    for view, rest in ((whole, 0), (whole[1:], 4), (whole[64:], 0), (whole[3:][2:], 20)):
        tilewright.emulate(code, "where", grid=1, block=1, args=[view, out])
        assert out[0] % 256 == rest


def test_a_view_is_the_memory_of_its_owner() -> None:
    whole = np.zeros(100, np.float32)
    scale(whole[10:20])
    assert whole.tolist() == [0] * 10 + [1] * 10 + [0] * 80


def test_arrays_may_overlap() -> None:
    code = """__global__ void both(float* a, float* b) {
      a[threadIdx.x] += 1.0f;
      __syncthreads();
      b[31 - threadIdx.x] *= 2.0f;
    }"""
    x = np.zeros(40, np.float32)
    tilewright.emulate(code, "both", grid=1, block=32, args=[x[:32], x[:32]])
    assert x.tolist() == [2] * 32 + [0] * 8
    tilewright.emulate(code, "both", grid=1, block=32, args=[x[:32], x[8:]])
    assert x.tolist() == [3] * 8 + [6] * 24 + [0] * 8


@pytest.mark.parametrize("sample", [[], [0], [3], [2, 0], (1,), range(1, 3), np.array([1, 2])])
def test_a_sample_runs_its_blocks_alone(sample: object) -> None:
    x = np.zeros(128, np.float32)
    found = scale(x, sample=sample)
    ran = np.flatnonzero(x.reshape(4, 32).all(axis=1))
    assert ran.tolist() == sorted(sample)
    assert found.blocks == len(sample)
    assert found.counters is not None
    assert found.counters.global_load_requests == len(sample)


def test_a_sample_of_a_grid_far_too_large_to_run() -> None:
    code = """__global__ void last(unsigned* out) {
      if (threadIdx.x == 0) { out[0] = blockIdx.x; out[1] = blockIdx.y; out[2] = blockIdx.z; }
    }"""
    out = np.zeros(3, np.uint32)
    grid = (2**31 - 1, 65535, 65535)
    number = (2**31 - 1) * 65535 * 3 + (2**31 - 1) * 2 + 1
    tilewright.emulate(code, "last", grid=grid, block=32, args=[out], sample=[number])
    assert out.tolist() == [1, 2, 3]


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    x = np.zeros(3200, np.float32)
    run(
        compile_cuda(SCALE, "scale"),
        Launch(grid=100, block=32),
        [x, np.float32(1), np.int32(3200)],
        progress=lambda done, of: told.append((done, of)),
        workers=2,
    )
    assert [of for _, of in told] == [100] * len(told)
    done = [n for n, _ in told]
    assert done == sorted(set(done))
    assert done[-1] == 100
    assert len(done) > 4


def test_workers_do_not_change_a_bit() -> None:
    artifact = compile_cuda(SCALE, "scale")
    start = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    results = []
    for workers in (1, 2, 5):
        x = start.copy()
        args = [x, np.float32(1.1), np.int32(5000)]
        found = run(artifact, Launch(grid=157, block=32), args, workers=workers, count=True)
        results.append((x.tobytes(), found.counters))
    assert results[0] == results[1] == results[2]


def test_a_program_that_is_there_runs_with_counts_and_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = SCALE.replace("1.0f", "3.0f")  # of this test alone
    artifact, launch = compile_cuda(source, "scale"), Launch(grid=4, block=32)
    x = np.arange(128, dtype=np.float32)
    args = [x, np.float32(2), np.int32(128)]
    program = build_for(artifact, launch, args)
    monkeypatch.setattr("tilewright.emulator.program.compile_modules", None)
    counted = run(artifact, launch, args, count=True, program=program)
    assert run(artifact, launch, args, program=program).counters is None
    again = run(artifact, launch, args, count=True, program=build_for(artifact, launch, args))
    assert again.counters == counted.counters
    assert np.array_equal(x, 8 * np.arange(128, dtype=np.float32) + 21)


# --- what it refuses, before anything is launched -----------------------------------------------

PTX = """.version 8.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 x) {{
  .reg .b64 %rd<2>;
  .shared .b8 big[{shared}];
  ld.param.u64 %rd0, [x];
  st.shared.u64 [big], %rd0;
  st.global.u64 [%rd0], 1;
  ret;
}}"""
X = np.zeros(100, np.float32)


def ptx(target: str = "sm_90", shared: int = 16, **rest: object) -> Callable[[], object]:
    text = PTX.format(target=target, shared=shared)
    return lambda: scale(X, source=text, kernel="k", args=[X], **rest)


def bad(**rest: object) -> Callable[[], object]:
    return lambda: scale(X, **rest)


def args(*given: object) -> Callable[[], object]:
    return bad(args=list(given))


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        # the launch
        (bad(gpu="H20O"), UnknownNameError, "did you mean 'H200'"),
        (bad(gpu=90), UnknownNameError, "unknown GPU '90'"),
        (bad(gpu="V100"), UnsupportedError, "V100 is sm_70: NVRTC 13 compiles for sm_75 and later"),
        (
            bad(block=1025),
            LaunchError,
            r"block \(1025, 1, 1\): a block is at most \(1024, 1024, 64",
        ),
        (bad(block=(1, 1, 65)), LaunchError, r"at most \(1024, 1024, 64\) in x, y, z"),
        (bad(block=(32, 33)), LaunchError, "1056 threads: H200 takes at most 1024 threads a block"),
        (bad(grid=(1, 65536)), LaunchError, r"a grid is at most \(2147483647, 65535, 65535\)"),
        (bad(grid=0), LaunchError, "grid 0: expected 1 to 3 integers, each at least 1"),
        (bad(grid=(1, 2, 3, 4)), LaunchError, "expected 1 to 3 integers"),
        (bad(grid=True), LaunchError, "grid True: expected 1 to 3 integers"),
        (bad(grid=2.5), LaunchError, "grid 2.5: expected 1 to 3 integers"),
        (bad(block="32"), LaunchError, "block '32': expected 1 to 3 integers"),
        (bad(shared_bytes=-1), LaunchError, "shared_bytes -1: expected an integer, at least 0"),
        (bad(shared_bytes=232449), LaunchError, "H200 has 232448 bytes of shared memory a block"),
        (bad(shared_bytes=65537, gpu="T4"), LaunchError, "T4 has 65536 bytes"),
        (
            bad(sample=[4]),
            LaunchError,
            r"sample \[4\]: expected different block numbers from 0 to 3",
        ),
        (bad(sample=[-1]), LaunchError, "from 0 to 3"),
        (bad(sample=[1, 1]), LaunchError, "expected different block numbers"),
        (bad(sample=[0.5]), LaunchError, "expected different block numbers"),
        # the arguments
        (bad(args=X), LaunchError, "args: expected a list with one numpy array or scalar"),
        (args(X, np.float32(2)), LaunchError, "takes 3 arguments, got 2"),
        (args(X, np.float32(2), np.int32(1), X), LaunchError, "takes 3 arguments, got 4"),
        (args(X, 2.0, np.int32(1)), LaunchError, r"argument 1: 2.0 .*write np.float32 or"),
        (args(X, np.float64(2), np.int32(1)), LaunchError, "argument 1: .*takes 4 bytes here"),
        (args(X, np.int32(2), np.int32(1)), LaunchError, "argument 1: .*takes a float here"),
        (args(X, np.float32(2), np.float32(1)), LaunchError, "argument 2: .*a whole number here"),
        (args(X, X, np.int32(1)), LaunchError, "argument 1: an array.*not a pointer"),
        (args(np.float32(0), np.float32(2), np.int32(1)), LaunchError, "argument 0: .*8 bytes"),
        (args(X[::2], np.float32(2), np.int32(1)), LaunchError, "argument 0: .*not contiguous"),
        (args(X.astype(object), np.float32(2), np.int32(1)), LaunchError, "Python objects"),
        (args(X.astype(">f4"), np.float32(2), np.int32(1)), LaunchError, "the other order"),
        (args([1.0], np.float32(2), np.int32(1)), LaunchError, "neither a numpy array"),
        # the source
        (bad(source="missing.cu"), CompileError, r"no such source file: missing\.cu"),
        (bad(source="kernel.cubin"), CompileError, r"expected a path to a .cu, .cuh or .ptx file"),
        (bad(source=7), CompileError, "source: expected CUDA C.. or PTX, .*got int"),
        (bad(source=SCALE.replace("by", "buy", 1)), CompileError, r'kernel.cu:5: identifier "by"'),
        (bad(kernel="scael"), UnknownNameError, "did you mean 'scale'"),
        (bad(kernel="fill"), CompileError, "a template needs its arguments"),
        (bad(options=["--no-such-option"]), CompileError, "no-such-option"),
        (bad(include_dirs=["/no/such/folder"]), CompileError, "no such folder /no/such/folder"),
        # PTX
        (ptx("sm_100"), LaunchError, r"is for sm_100, and H200 is sm_90: choose a GPU"),
        (ptx("sm_90a", gpu="B200"), LaunchError, "is for sm_90a, and B200 is sm_100"),
        (ptx("sm_103f", gpu="B200"), LaunchError, "is for sm_103f"),
        (ptx(options=["-DX"]), CompileError, "options and include_dirs are for CUDA C"),
        (ptx(shared=49153), LaunchError, "declares 49153 bytes.*at most 49152 bytes a block"),
        (
            ptx(shared=4096, shared_bytes=230000),
            LaunchError,
            "at most 228352 can be dynamic beside",
        ),
    ],
)
def test_bad_input_is_refused_in_a_clear_line(
    call: Callable[[], object], kind: type[Exception], says: str
) -> None:
    X[:] = 3
    with pytest.raises(kind, match=says):
        call()
    assert (X == 3).all()


def test_read_only_arrays_are_refused() -> None:
    x = np.zeros(32, np.float32)
    x.flags.writeable = False
    with pytest.raises(LaunchError, match=r"argument 0: .*read-only.*pass a copy"):
        scale(x)


@pytest.mark.parametrize("gpu", ["8800 GTX", "GTX 280"])
def test_gpus_of_2008_have_no_compiler(gpu: str) -> None:
    with pytest.raises(UnsupportedError, match="NVRTC 13 compiles for sm_75 and later"):
        scale(X, gpu=gpu)


def test_ptx_runs_on_its_target_and_newer_gpus() -> None:
    x = np.zeros(4, np.uint64)
    for target, gpu in (
        ("sm_70", "V100"),
        ("sm_75", "H200"),
        ("sm_90a", "H200"),
        ("sm_100f", "B200"),
    ):
        x[0] = 0
        text = PTX.format(target=target, shared=16)
        tilewright.emulate(text, "k", grid=1, block=1, args=[x], gpu=gpu)
        assert x[0] == 1


def test_registers_must_fit() -> None:
    code = """__global__ void wide(volatile float* x) {
      float v[100];
#pragma unroll
      for (int i = 0; i < 100; ++i) v[i] = x[i];
#pragma unroll
      for (int i = 0; i < 100; ++i) x[i] = v[99 - i];
    }"""
    x = np.zeros(1024, np.float32)
    tilewright.emulate(code, "wide", grid=1, block=256, args=[x])
    with pytest.raises(LaunchError, match=r"registers a thread: blocks of 1024 threads leave 64"):
        tilewright.emulate(code, "wide", grid=1, block=1024, args=[x])


def test_launch_bounds_are_kept() -> None:
    code = "__global__ void __launch_bounds__(64) few(float* x) { x[threadIdx.x] = 1.0f; }"
    with pytest.raises(LaunchError, match="compiled for at most 64 threads a block"):
        tilewright.emulate(code, "few", grid=1, block=65, args=[np.zeros(100, np.float32)])


def test_the_example_of_the_docstring() -> None:
    found = doctest.testmod(tilewright.api)
    assert found.attempted > 4
    assert found.failed == 0


def test_every_refusal_is_one_class() -> None:
    assert issubclass(LaunchError, TilewrightError)
    assert issubclass(CompileError, TilewrightError)
