"""Reads of shared memory that a copy has yet to write are found, with both places."""

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.emulator.early import EarlyReads
from tilewright.errors import RaceError
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

# A row of x after the other goes through `stages` buffers; each thread copies for its neighbour.
CODE = """template <int n> __device__ void wait() {{
  asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory");
}}
__device__ void copy4(void* to, const void* from) {{
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"  // COPY
               :: "r"((unsigned)__cvta_generic_to_shared(to)),
                  "l"(__cvta_generic_to_global(from)) : "memory");
}}
__device__ void commit() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}
extern "C" __global__ void k(const int* x, int* sums, int rows) {{
  __shared__ int tile[{stages}][64];
  const int t = threadIdx.x, other = t ^ 32;
  for (int row = 0; row < {stages} - 1; ++row) {{
    copy4(&tile[row][other], x + row * 64 + other);
    commit();
  }}
  int sum = 0;
  for (int row = 0; row < rows; ++row) {{
    {wait}
    __syncthreads();
    const int next = row + {stages} - 1;
    if (next < rows) copy4(&tile[next % {stages}][other], x + next * 64 + other);
    commit();
    sum += tile[row % {stages}][t];  // READ
  }}
  sums[t] = sum;
}}"""


def pipeline(stages: int, wait: str) -> np.ndarray:
    """What the sums of a run with that wait are wrong by."""
    code = CODE.format(stages=stages, wait=wait)
    artifact, launch = compile_cuda(code, "k", arch="sm_90"), Launch(grid=2, block=64)
    x, sums = np.arange(20 * 64, dtype=np.int32), np.zeros(64, np.int32)
    run(artifact, launch, [x, sums, np.int32(20)], observers=[EarlyReads(artifact, launch)])
    return sums - x.reshape(20, 64).sum(axis=0, dtype=np.int32)


@pytest.mark.parametrize(("stages", "left"), [(2, 0), (3, 1), (4, 2), (4, 0)])
def test_a_right_pipeline_has_none(stages: int, left: int) -> None:
    assert not pipeline(stages, f"wait<{left}>();").any()


@pytest.mark.parametrize(
    ("stages", "wait"),
    [
        (2, ""),
        (3, "wait<2>();"),  # one group too few
        (4, "if (row < 5) wait<2>();"),
        (3, "if (t >= 32) wait<1>();"),  # the other warp's copies
    ],
)
def test_a_wrong_one_has(stages: int, wait: str) -> None:
    code = CODE.format(stages=stages, wait=wait)
    with pytest.raises(RaceError) as caught:
        pipeline(stages, wait)
    lines = {mark: n for n, text in enumerate(code.splitlines(), 1) for mark in _marks(text)}
    assert caught.value.site.source_line == lines["READ"]
    assert f"asynchronous copy writes it (kernel.cu:{lines['COPY']}," in str(caught.value)


def _marks(line: str) -> list[str]:
    return [line.partition("// ")[2]] if "// " in line else []


def test_the_words_of_waiting_lanes_are_there() -> None:
    code = """extern "C" __global__ void k(const int* x, int* y) {
      __shared__ int tile[32];
      const int t = threadIdx.x;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                   :: "r"((unsigned)__cvta_generic_to_shared(tile + t)),
                      "l"(__cvta_generic_to_global(x + t)) : "memory");
      if (t < 20) asm volatile("cp.async.wait_all;" ::: "memory");
      if (t < LIMIT) y[t] = tile[t];
    }"""
    launch = Launch(grid=1, block=32)
    for limit in (20, 21):
        artifact = compile_cuda(code.replace("LIMIT", str(limit)), "k", arch="sm_90")
        args = [np.arange(32, dtype=np.int32), np.zeros(32, np.int32)]
        early = EarlyReads(artifact, launch)
        if limit == 20:
            run(artifact, launch, args, observers=[early])
            continue
        with pytest.raises(RaceError, match=r"byte 80 of shared memory") as caught:
            run(artifact, launch, args, observers=[early])
        assert caught.value.site.thread == (20, 0, 0)
