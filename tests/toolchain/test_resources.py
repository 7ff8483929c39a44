"""What a kernel takes, read from its cubin, against what ptxas reports of the same compile."""

import dataclasses
import functools
import re

import pytest

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.toolchain import artifact_from_ptx, compile_cuda, resources

SOURCE = """\
__device__ __noinline__ float pick(const float* p, int n) {
  float a[20];
  for (int i = 0; i < 20; ++i) a[i] = p[i * n];
  return a[n % 20];
}
__global__ void plain(float* p) { p[threadIdx.x] *= 2.0f; }
__global__ void __launch_bounds__(192, 2) bounded(float* p) {
  __shared__ float s[100];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[99 - threadIdx.x];
}
__global__ void dynamic(float* p) {
  extern __shared__ float d[];
  d[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = d[99 - threadIdx.x];
}
__global__ void called(float* p, int n) {
  __shared__ double s[10];
  s[threadIdx.x] = p[n];
  float a[7];
  for (int i = 0; i < 7; ++i) a[i] = p[i * n];
  __syncthreads();
  p[0] = a[n % 7] + pick(p, n) + s[9 - threadIdx.x];
}
__device__ __noinline__ float pick_twice(const float* p, int n) {
  float a[50];
  for (int i = 0; i < 50; ++i) a[i] = p[i * n];
  return a[n % 50] + (n > 3 ? pick(p, n) : 0.0f);
}
__device__ float (*const functions[])(const float*, int) = {pick, pick_twice};
__global__ void nested(float* p, int n) { p[0] = functions[n](p, n); }
__global__ void __launch_bounds__(64, 16) spilling(float* p) {
  float a[90];
#pragma unroll
  for (int i = 0; i < 90; ++i) a[i] = p[i * 64 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 90; ++i) p[i * 64 + threadIdx.x] = a[i] * a[(i * 7) % 90];
}
"""
SYMBOLS = (
    "_Z5plainPf",
    "_Z7boundedPf",
    "_Z7dynamicPf",
    "_Z6calledPfi",
    "_Z8spillingPf",
    "_Z6nestedPfi",
)


def reported(log, symbol):
    """(registers, shared bytes, stack bytes) of `symbol` in the log of ptxas."""
    block = log.split(f"Compiling entry function '{symbol}'")[1].split("Compile time")[0]
    registers = int(re.search(r"Used (\d+) registers", block)[1])
    shared = re.search(r"(\d+) bytes smem", block)
    stack = re.search(r"(\d+) bytes cumulative stack size", block)
    return registers, int(shared[1]) if shared else 0, int(stack[1]) if stack else 0


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_as_ptxas_reports(arch):
    artifact = compile_cuda(SOURCE, "plain", arch=arch, options=["--ptxas-options=-v"], cache=None)
    for symbol in SYMBOLS:  # one compile gives the code of them all
        found = resources(dataclasses.replace(artifact, symbol=symbol))
        assert (found.registers, found.shared_bytes, found.local_bytes) == reported(
            artifact.log, symbol
        ), symbol


@functools.cache
def of(kernel, source=SOURCE, options=()):
    return resources(compile_cuda(source, kernel, options=options, cache=None))


def test_by_hand():
    assert of("bounded").shared_bytes == 400
    assert of("called").shared_bytes == 80
    assert of("dynamic").shared_bytes == 0
    # 7 floats of its own and 20 of the callee are indexed at run time: 28 + 80 bytes at least.
    assert of("called").local_bytes >= 108
    assert of("plain").local_bytes == 0
    # No frame of its own: what it calls through a pointer, and what that calls, count.
    assert of("nested").local_bytes >= 200 + 80
    # 64 threads x 16 blocks share 65536 registers: 64 a thread.
    assert of("spilling").registers <= 64
    assert of("spilling").local_bytes > 0


@pytest.mark.parametrize("kernel", ["only", "also"])
def test_one_kernel_alone_with_and_without_shared_memory(kernel):
    source = (
        "__global__ void only(int* p) { p[0] = 1; }"
        if kernel == "only"
        else "__global__ void also(int* p) { __shared__ int s[8]; s[threadIdx.x] = p[0];"
        " __syncthreads(); p[1] = s[7 - threadIdx.x]; }"
    )
    assert of(kernel, source).shared_bytes == {"only": 0, "also": 32}[kernel]


def test_largest_block():
    assert of("bounded").max_threads == 192
    assert of("plain").max_threads == 1024
    source = "__global__ void __block_size__((64, 2, 1)) k(int* p) { p[0] = 1; }"
    assert of("k", source).max_threads == 128


def test_register_limit():
    free = SOURCE.replace("__launch_bounds__(64, 16)", "")
    assert of("spilling", free).registers > 40
    assert of("spilling", free, ("--maxrregcount=40",)).registers <= 40


def test_recursion_does_not_count_its_depth():
    source = """
    __device__ __noinline__ int down(int* p, int n) {
      return n < 2 ? p[0] : p[n] * down(p, n - p[1]);
    }
    __global__ void k(int* p) { p[0] = down(p, p[1]); }
    """
    assert of("k", source).local_bytes < 1024


def test_ptx_is_not_compiled_yet():
    artifact = compile_cuda(SOURCE, "plain", cache=None)
    with pytest.raises(UnsupportedError, match="given as PTX"):
        resources(artifact_from_ptx(artifact.ptx, "plain"))


@pytest.mark.parametrize(
    "damage", [lambda c: c[:100], lambda c: b"x" + c, lambda c: c[:64] + b"\xff" * (len(c) - 64)]
)
def test_damaged_cubin(damage):
    artifact = compile_cuda(SOURCE, "plain", cache=None)
    broken = dataclasses.replace(artifact, cubin=damage(artifact.cubin))
    with pytest.raises(ToolchainError, match="cubin of plain is damaged"):
        resources(broken)


def test_kernel_of_another_cubin():
    artifact = compile_cuda(SOURCE, "plain", cache=None)
    other = compile_cuda("__global__ void k(int* p) { p[0] = 1; }", "k", cache=None)
    with pytest.raises(ToolchainError, match=f"no code for {artifact.symbol}"):
        resources(dataclasses.replace(artifact, cubin=other.cubin))
