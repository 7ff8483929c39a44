"""The device executor on a real GPU: placing, passing, launching, timing, failing."""

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from tilewright.bench.cublas import cublas_baseline
from tilewright.bench.verify import check
from tilewright.device import DeviceInfo, probe, run
from tilewright.device.events import EventStopwatch
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.errors import DeviceError, LaunchError, UnsupportedError
from tilewright.gpus import by_device_name
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import Pointers
from tilewright.launch import Launch
from tilewright.problem import Problem
from tilewright.toolchain import compile_cuda, load_nvrtc, resources

pytestmark = pytest.mark.gpu

SOURCE = r"""
extern "C" __global__ void vector_add(const float* x, const float* y, float* z, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
extern "C" __global__ void addresses(const void* a, const void* b, const void* c,
                                     unsigned long long* out)
{
  out[0] = (unsigned long long)a;
  out[1] = (unsigned long long)b;
  out[2] = (unsigned long long)c;
}
extern "C" __global__ void reverse(float* x, int n)
{
  extern __shared__ float tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = tile[n - 1 - i];
}
extern "C" __global__ void scalars(signed char a, unsigned short b, int c, unsigned long long d,
                                   float e, double f, bool g, double* out)
{
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g;
}
struct Pair { int first; float second; };
extern "C" __global__ void pair(Pair p, float* out) { out[0] = p.first; out[1] = p.second; }
struct Large { float values[16]; };
extern "C" __global__ void large(Large p, float* out) { out[0] = p.values[3]; }
extern "C" __global__ void __launch_bounds__(64) narrow(float* out) { out[threadIdx.x] = 1; }
extern "C" __global__ void wait(unsigned long long nanoseconds)
{
  unsigned long long start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < nanoseconds);
}
"""


@pytest.fixture(scope="module")
def arch():
    found = probe()
    assert isinstance(found, DeviceInfo), found
    return found.arch


@pytest.fixture
def build(arch):
    return lambda name: compile_cuda(SOURCE, name, arch=arch)


def test_vector_add(build):
    n = 1000
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n), np.float32)
    z = np.full(n + 1, 7, np.float32)
    done = run(build("vector_add"), Launch(grid=4, block=256), (x, y, z, np.int32(n)))
    np.testing.assert_array_equal(z[:n], x + y)
    assert z[n] == 7
    assert (done.backend, done.blocks, done.counters) == ("device", 4, None)
    assert 0 < done.seconds < 1


def test_owners_are_aligned_and_views_keep_their_offset(build):
    owner = np.zeros(1000, np.float32)
    other = np.zeros((30, 33), np.float32)
    out = np.zeros(3, np.uint64)
    run(build("addresses"), Launch(grid=1, block=1), (owner, other[1:], owner[67:], out))
    # 33 · 4 bytes into its owner; 67 · 4 = 256 + 12.
    assert (out % 256).tolist() == [0, 132, 12]


def test_arrays_that_share_memory_share_it_on_the_gpu(build):
    owner = np.arange(12, dtype=np.float32)
    args = (owner[:4], owner[2:6], owner[4:8], np.int32(2))
    run(build("vector_add"), Launch(grid=1, block=32), args)
    assert owner.tolist() == [0, 1, 2, 3, 0 + 2, 1 + 3, 6, 7, 8, 9, 10, 11]
    out = np.zeros(3, np.uint64)
    run(build("addresses"), Launch(grid=1, block=1), (owner, owner, owner[3:], out))
    assert out[0] == out[1] == out[2] - 12


def test_empty_arrays_are_passed(build):
    none = np.zeros(0, np.float32)
    run(build("vector_add"), Launch(grid=1, block=32), (none, none, none, np.int32(0)))


@pytest.mark.parametrize("count", [12 * 1024, 12 * 1024 + 1, 24 * 1024])
def test_shared_memory_past_48_kib(build, count):
    x = np.arange(count, dtype=np.float32)
    run(build("reverse"), Launch(grid=1, block=256, shared_bytes=4 * count), (x, np.int32(count)))
    np.testing.assert_array_equal(x, np.arange(count, dtype=np.float32)[::-1])


def test_shared_memory_up_to_the_limit_and_not_past_it(build):
    most = open_session().info.shared_bytes_per_block_max
    x = np.arange(8, dtype=np.float32)
    launch = Launch(grid=1, block=32, shared_bytes=most)
    run(build("reverse"), launch, (x, np.int32(8)))
    assert x.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(LaunchError, match=r"dynamic shared memory.*smaller tile"):
        run(build("reverse"), replace(launch, shared_bytes=most + 1), (x, np.int32(8)))
    assert x.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_scalars_are_passed_by_their_dtype(build):
    out = np.zeros(7)
    args = (
        np.int8(-5),
        np.uint16(65535),
        np.int32(-(2**31)),
        np.uint64(2**53),
        np.float32(0.1),
        np.float64(0.1),
        np.bool_(True),
        out,
    )
    run(build("scalars"), Launch(grid=1, block=1), args)
    assert out.tolist() == [-5, 65535, -(2**31), 2**53, float(np.float32(0.1)), 0.1, 1]


def test_structs_pass_by_value_as_far_as_they_fit(build):
    dtype = np.dtype([("first", np.int32), ("second", np.float32)])
    out = np.zeros(2, np.float32)
    run(build("pair"), Launch(grid=1, block=1), (np.array((3, 0.5), dtype)[()], out))
    assert out.tolist() == [3, 0.5]
    with pytest.raises(UnsupportedError, match="argument 0: a value of 64 bytes"):
        run(build("large"), Launch(grid=1, block=1), (np.zeros((), "V64")[()], out))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((1, 2), "takes 4 arguments, got 2"),
        ((np.zeros(4, np.float32),) * 3 + (4,), "argument 3: 4 has no fixed width"),
        ((np.zeros(4, np.float32),) * 3 + (np.int64(4),), "argument 3: .*takes 4 bytes"),
        ((np.zeros((4, 4), np.float32).T,) * 3 + (np.int32(4),), "argument 0: .*not contiguous"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(build, args, says):
    with pytest.raises(LaunchError, match=says):
        run(build("vector_add"), Launch(grid=1, block=32), args)


def test_limits_are_refused_before_the_launch(build):
    out = np.zeros(1024, np.float32)
    with pytest.raises(LaunchError, match="at most 64"):
        run(build("narrow"), Launch(grid=1, block=65), (out,))
    with pytest.raises(LaunchError, match=r"grid \(1, 65536, 1\) is past the limit"):
        run(build("narrow"), Launch(grid=(1, 65536), block=64), (out,))
    assert not out.any()


def test_code_for_another_gpu_is_refused():
    artifact = compile_cuda(SOURCE, "narrow", arch="sm_75")
    with pytest.raises(DeviceError, match=r"compiled for sm_75.*compile it with arch="):
        run(artifact, Launch(grid=1, block=32), (np.zeros(32, np.float32),))


def test_ptx_loads_where_the_driver_is_as_new_as_the_compiler(build):
    artifact = replace(build("narrow"), cubin=b"")
    out = np.zeros(32, np.float32)
    driver = tuple(int(part) for part in open_session().info.cuda.split("."))
    if load_nvrtc().version <= driver:
        run(artifact, Launch(grid=1, block=32), (out,))
        assert out.all()
    else:
        with pytest.raises(DeviceError, match="cannot load kernel narrow"):
            run(artifact, Launch(grid=1, block=32), (out,))


def test_no_such_gpu_is_one_clear_error(build):
    with pytest.raises(DeviceError, match="no GPU of that number"):
        run(build("narrow"), Launch(grid=1, block=32), (np.zeros(32, np.float32),), ordinal=99)


def test_a_fault_says_what_it_means_and_leaves_the_arrays(arch):
    # In a process of its own: a fault costs the process its CUDA context.
    program = f"""
        import numpy as np
        from tilewright.device import run
        from tilewright.errors import DeviceError
        from tilewright.launch import Launch
        from tilewright.toolchain import compile_cuda
        source = 'extern "C" __global__ void stray(float* out) {{ out[1ll << 40] = out[0]; }}'
        out = np.full(4, 7, np.float32)
        try:
            run(compile_cuda(source, "stray", arch="{arch}"), Launch(grid=1, block=1), (out,))
        except DeviceError as error:
            print(error)
        print(out.tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "kernel stray" in done.stdout
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "the emulator runs the same kernel" in done.stdout
    assert "[7.0, 7.0, 7.0, 7.0]" in done.stdout


def test_the_driver_and_the_cubin_agree_on_registers(build):
    for name in ("vector_add", "reverse", "scalars"):
        kernel = open_session().load(build(name))
        found = resources(build(name))
        assert (kernel.registers, kernel.local_bytes) == (found.registers, found.local_bytes)


def test_the_table_agrees_with_the_card():
    info = open_session().info
    known = by_device_name(info.name)
    if known is None:
        pytest.skip(f"{info.name} is not in the table")
    assert info.compute_capability == known.compute_capability
    assert info.sm_count == known.sm_count
    assert info.shared_bytes_per_block_max == known.limits.shared_bytes_per_block_max
    assert info.max_threads_per_sm == known.limits.max_threads


def test_events_time_a_kernel(build):
    session = open_session()
    session.enter()
    queue = session.load(build("wait")).bind(Launch(grid=1, block=1), (np.uint64(2_000_000),))
    stopwatch = EventStopwatch(session)
    queue()
    start = stopwatch.mark()
    queue()
    # The kernel waits for 2 ms by the GPU's own clock, which ticks about once a microsecond.
    assert 1.95e-3 < stopwatch.seconds(start, stopwatch.mark()) < 3e-3


@pytest.mark.parametrize(
    "problem",
    [
        Problem(m=129, n=65, k=37),
        Problem(m=100, n=90, k=70, alpha=0.5, beta=-2.0, lda=75, ldb=96, ldc=97),
        Problem(m=512, n=512, k=512, alpha=-1.25, beta=0.5),
        Problem(m=3, n=5, k=1, beta=1.0),
    ],
)
def test_cublas_is_float32_and_row_major(problem):
    session = open_session()
    session.enter()
    rng = np.random.default_rng(1)
    a = rng.standard_normal((problem.m, problem.lda), np.float32)
    b = rng.standard_normal((problem.k, problem.ldb), np.float32)
    c0 = rng.standard_normal((problem.m, problem.ldc), np.float32)
    c = np.empty_like(c0)
    with Arena(session) as arena, cublas_baseline(int(session.stream_handle)) as cublas:
        a_there, b_there, c_there = (arena.upload(array) for array in (a, b, c0))
        pointers = Pointers(a=a_there, b=b_there, d=c_there)
        operation = Operation.of(problem)
        cublas.bind(operation, pointers, alpha=problem.alpha, beta=problem.beta)()
        arena.read(c, c_there)
    n, k = problem.n, problem.k
    found = check(problem, a[:, :k], b[:, :n], c0[:, :n], c[:, :n])
    assert found.ok, found.message()
    np.testing.assert_array_equal(c[:, n:], c0[:, n:])
