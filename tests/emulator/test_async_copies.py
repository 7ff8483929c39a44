"""cp.async: what arrives, when it arrives at the latest, and what is refused."""

import numpy as np
import pytest
from faulting import fault

from tilewright.emulator import run
from tilewright.emulator.program import build
from tilewright.errors import OutOfBoundsError, UnsupportedError
from tilewright.launch import Argument, Launch
from tilewright.toolchain import compile_cuda

RNG = np.random.default_rng(5)
WRAPPERS = """
__device__ unsigned near(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long far(const void* p) { return __cvta_generic_to_global(p); }
__device__ void copy4(void* to, const void* from, int valid = 4) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
               :: "r"(near(to)), "l"(far(from)), "r"(valid) : "memory");
}
__device__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
               :: "r"(near(to)), "l"(far(from)) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n> __device__ void wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory");
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
"""
HEAD = WRAPPERS + 'extern "C" __global__ void k'


def launch(code: str, args: list[Argument], block: object = 32, **rest: object) -> None:
    artifact = compile_cuda(code, "k", arch="sm_90")
    run(artifact, Launch(grid=1, block=block), args, workers=1, **rest)


def gather(body: str, words: int = 32, source: np.ndarray | None = None) -> np.ndarray:
    """The words of `tile` that the threads see after `body`, which copies from `x`."""
    x = np.arange(1, 1 + 4 * words, dtype=np.int32) if source is None else source
    seen = np.zeros(words, np.int32)
    code = f"""{HEAD}(int* x, int* seen) {{
      __shared__ __align__(16) int tile[{words}];
      const int t = threadIdx.x;
      {body}
      seen[t] = tile[t];
    }}"""
    launch(code, [x, seen], block=words)
    return seen


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_copy_fills_up_with_zeros_what_its_source_does_not_give(size: int) -> None:
    x = RNG.integers(1, 100, 32 * size, dtype=np.int8)
    valid = (np.arange(32) % (size + 1)).astype(np.int32)
    y = np.full_like(x, -7)
    code = f"""{HEAD}(const char* x, const int* valid, char* y) {{
      __shared__ __align__(16) char tile[32 * {size}];
      const int t = threadIdx.x;
      asm volatile("cp.async.ca.shared.global [%0], [%1], {size}, %2;"
                   :: "r"(near(tile + t * {size})), "l"(far(x + t * {size})), "r"(valid[t]));
      wait_all();
      for (int i = 0; i < {size}; ++i) y[t * {size} + i] = tile[t * {size} + i];
    }}"""
    launch(code, [x, valid, y])
    kept = np.arange(size)[None] < valid[:, None]
    assert np.array_equal(y.reshape(32, size), np.where(kept, x.reshape(32, size), 0))


def test_a_source_that_is_ignored_may_lie_anywhere() -> None:
    seen = gather("""
      for (int c = 0; c < 2; ++c)
        asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, 16;"
                     "cp.async.ca.shared.global [%0], [%1], 4, p; }"
                     :: "r"(near(tile + t)), "l"(t < 16 ? far(x + t) : 0ull), "r"(t));
      copy4(tile + t, t < 16 ? x + t : nullptr, t < 16 ? 4 : 0);
      wait_all();""")
    assert np.array_equal(seen, np.where(np.arange(32) < 16, np.arange(32) + 1, 0))


def test_threads_that_do_not_copy_leave_their_words_alone() -> None:
    seen = gather("""
      tile[t] = -5;
      __syncthreads();
      if (t % 3 == 0) { copy4(tile + t, x + t); wait_all(); }""")
    expected = np.where(np.arange(32) % 3 == 0, np.arange(32) + 1, -5)
    assert np.array_equal(seen, expected)


def test_wide_copies_go_round_the_warps_of_a_block() -> None:
    seen = gather(
        """
      if (t < 24) copy16(tile + 4 * t, x + 4 * (23 - t));
      wait_all();
      __syncthreads();""",
        words=96,
    )
    expected = np.arange(1, 97).reshape(24, 4)[::-1].ravel()
    assert np.array_equal(seen, expected)


def test_arithmetic_before_a_wait_is_a_block_of_its_own() -> None:
    """One without effects, which `order` may put in the order of its results."""
    code = f"""{HEAD}(float* x) {{
      __shared__ float tile[32];
      copy4(tile + threadIdx.x, x + threadIdx.x);
      commit();
      float sum = x[threadIdx.x];
      sum = sum * sum + 1.0f;
      wait<0>();
      x[threadIdx.x] = sum + tile[threadIdx.x];
    }}"""
    artifact, shape = compile_cuda(code, "k", arch="sm_90"), Launch(grid=1, block=32)
    plan = build(artifact, shape, counting=False).plan
    body = plan.function.body
    waits = [pc for pc, ins in enumerate(body) if "wait_group" in ins.flags]
    assert waits
    assert {block.start for block in plan.blocks}.issuperset(waits)


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["", "commit();", "commit(); wait<1>();", "wait<0>();"])
def test_data_that_nobody_waited_for_is_not_there(wait: str) -> None:
    """Nor is what was there before: -1, or NaN as a float, whatever the words held."""
    seen = gather(f"""
      tile[t] = 7;
      __syncthreads();
      copy4(tile + t, x + t);
      {wait}
      __syncthreads();""")
    assert (seen == -1).all()


@pytest.mark.parametrize("wait", ["commit(); wait<0>();", "wait_all();", "commit(); wait_all();"])
def test_data_that_was_waited_for_is_there(wait: str) -> None:
    assert np.array_equal(gather(f"copy4(tile + t, x + t); {wait}"), np.arange(1, 33))


@pytest.mark.parametrize("left", [0, 1, 2, 3, 4])
def test_the_newest_groups_may_be_pending(left: int) -> None:
    """Thread t copies word t in group t % 4, after copies of the other words by nobody."""
    seen = gather(f"""
      for (int group = 0; group < 4; ++group) {{
        if (t % 4 == group) copy4(tile + t, x + t);
        commit();
      }}
      wait<{left}>();""")
    ready = np.arange(32) % 4 < 4 - left
    assert np.array_equal(seen, np.where(ready, np.arange(1, 33), -1))


def test_groups_are_those_of_each_thread() -> None:
    """Lanes that commit more often have their first copy in an older group."""
    seen = gather("""
      copy4(tile + t, x + t);
      for (int n = 0; n < t; ++n) commit();
      wait<5>();""")
    assert np.array_equal(seen, np.where(np.arange(32) > 5, np.arange(1, 33), -1))


def test_what_a_wait_leaves_a_later_one_takes() -> None:
    seen = gather("""
      copy4(tile + t, x + t);
      for (int n = 0; n < t; ++n) commit();
      wait<20>();
      wait_all();""")
    assert np.array_equal(seen, np.arange(1, 33))


def test_lanes_whose_copy_came_later_may_have_committed_it() -> None:
    seen = gather("""
      if (t < 16) copy4(tile + t, x + t);
      if (t >= 16) { copy4(tile + t, x + t); commit(); }
      wait<0>();""")
    assert np.array_equal(seen, np.where(np.arange(32) < 16, -1, np.arange(1, 33)))


def test_a_word_is_read_again_after_a_copy_to_it() -> None:
    seen = gather("""
      tile[t] = 1000;
      __syncthreads();
      const int before = tile[t];
      copy4(tile + t, x + t);
      wait_all();
      tile[t] += before;""")
    assert np.array_equal(seen, np.arange(1001, 1033))


def test_copies_that_a_block_leaves_pending_end_with_it() -> None:
    x, seen = np.arange(1, 33, dtype=np.int32), np.zeros((2, 32), np.int32)
    code = f"""{HEAD}(const int* x, int* seen) {{
      __shared__ int tile[32];
      const int t = threadIdx.x;
      tile[t] = 7;
      if (blockIdx.x == 0) copy4(tile + t, x + t);
      else wait_all();
      seen[blockIdx.x * 32 + t] = tile[t];
    }}"""
    artifact = compile_cuda(code, "k", arch="sm_90")
    run(artifact, Launch(grid=2, block=32), [x, seen], workers=1)
    assert (seen == [[-1], [7]]).all()


def test_one_thread_does_not_wait_for_another() -> None:
    seen = gather("copy4(tile + t, x + t); if (t < 9) wait_all(); __syncthreads();")
    assert np.array_equal(seen, np.where(np.arange(32) < 9, np.arange(1, 33), -1))


def test_the_source_is_read_when_the_copy_completes() -> None:
    seen = gather("copy4(tile + t, x + t); x[t] = 100 + t; wait_all();")
    assert np.array_equal(seen, np.arange(100, 132))


def test_a_copy_into_words_that_others_still_read_is_seen() -> None:
    """Warp 0 refills the tile before warp 1 has read it: a barrier is missing."""
    seen = gather(
        """
      copy4(tile + t, x + t); wait_all(); __syncthreads();
      if (t < 32) { copy4(tile + t + 32, x + t); commit(); }""",
        words=64,
    )
    assert np.array_equal(seen[:32], np.arange(1, 33))
    assert (seen[32:] == -1).all()


def test_more_copies_than_a_block_has_memory_for() -> None:
    """3000 copies to the same words: the last one counts, though the queue ends before."""
    seen = gather("""
      for (int n = 0; n < 3000; ++n) { copy4(tile + t, x + (t + n) % 128); commit(); }
      wait<0>();""")
    assert np.array_equal(seen, (np.arange(32) + 2999) % 128 + 1)


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("forgotten", [False, True])
def test_a_pipeline_sums_columns(stages: int, forgotten: bool) -> None:
    x = RNG.integers(-1000, 1000, (100, 64), dtype=np.int32)
    sums = np.zeros(64, np.int32)
    wait = "" if forgotten else f"wait<{stages - 2}>();"
    code = f"""{HEAD}(const int* x, int* sums) {{
      __shared__ int tile[{stages}][64];
      const int t = threadIdx.x;
      for (int row = 0; row < {stages - 1}; ++row) {{
        copy4(&tile[row][t ^ 1], x + row * 64 + (t ^ 1));
        commit();
      }}
      int sum = 0;
      for (int row = 0; row < 100; ++row) {{
        {wait}
        __syncthreads();
        const int next = row + {stages - 1};
        if (next < 100) copy4(&tile[next % {stages}][t ^ 1], x + next * 64 + (t ^ 1));
        commit();
        sum += tile[row % {stages}][t];
      }}
      sums[t] = sum;
    }}"""
    launch(code, [x, sums], block=64)
    assert np.array_equal(sums, x.sum(axis=0)) == (not forgotten)


# --- what is refused ----------------------------------------------------------------------------


def test_a_source_out_of_bounds() -> None:
    code = f"""{HEAD}(const int* x) {{
      __shared__ int tile[32];
      copy4(tile + threadIdx.x, x + threadIdx.x); wait_all();
    }}"""
    code = _marked(code, '[%1], 4, %2;"')
    error = fault(OutOfBoundsError, code, [np.zeros(20, np.int32)])
    assert error.site.thread == (20, 0, 0)
    assert "asynchronous copy of 4 bytes" in str(error)
    assert "0 bytes past the end of argument 0 (int32 array of shape (20,))" in str(error)


def test_a_target_out_of_bounds() -> None:
    code = f"""{HEAD}(const int* x) {{
      __shared__ int tile[32];
      copy4(tile + 3 * threadIdx.x, x + threadIdx.x); wait_all();
    }}"""
    code = _marked(code, '[%1], 4, %2;"')
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.int32)])
    assert error.site.thread == (11, 0, 0)
    assert "byte 132 of shared memory, of which the block has 128 bytes (tile 0" in str(error)


@pytest.mark.parametrize(("to", "start"), [(1, 0), (0, 1)])
def test_a_side_that_is_not_aligned(to: int, start: int) -> None:
    code = f"""{HEAD}(const int* x) {{
      __shared__ __align__(16) int tile[64];
      copy16(tile + {to}, x + {start}); wait_all();
    }}"""
    code = _marked(code, '[%1], 16;"')
    error = fault(OutOfBoundsError, code, [np.zeros(64, np.int32)], block=1)
    assert "misaligned asynchronous copy" in str(error)
    assert "multiple of 16" in str(error)


@pytest.mark.parametrize("valid", [5, -4])
def test_a_source_size_above_the_copy(valid: int) -> None:
    code = f"""{HEAD}(const int* x) {{
      __shared__ int tile[32];
      copy4(tile, x, threadIdx.x == 3 ? {valid} : 4); wait_all();
    }}"""
    code = _marked(code, '[%1], 4, %2;"')
    error = fault(OutOfBoundsError, code, [np.zeros(32, np.int32)])
    assert error.site.thread == (3, 0, 0)
    assert f"source size of this asynchronous copy is {valid % 2**32}, and it writes 4" in str(
        error
    )


def test_copies_that_arrive_at_an_mbarrier_are_not_emulated() -> None:
    code = f"""{HEAD}() {{
      __shared__ unsigned long long barrier;
      asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(near(&barrier)));
    }}"""
    with pytest.raises(UnsupportedError, match=r"does not execute cp\.async\.mbarrier\.arrive"):
        launch(code, [])


def _marked(code: str, end: str) -> str:
    """Mark the line where the copy is written, which is where a fault must be."""
    return code.replace(end, f"{end}  // HERE", 1)
