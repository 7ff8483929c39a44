"""cp.async counts as a load of global and a store of shared memory; figures derived by hand."""

import numpy as np
import pytest
from counting import banks, memory

from tilewright.emulator.copy_rules import copy_sectors, copy_wavefronts, is_unread, lasting
from tilewright.emulator.rules import NOBODY
from tilewright.emulator.tracing import trace_accesses
from tilewright.launch import Launch
from tilewright.toolchain import compile_cuda

LANES = np.arange(32, dtype=np.uint64)


def source(bytes_: int, way: str, to: str, start: str, valid: str) -> str:
    return f"""extern "C" __global__ void k(const char* x) {{
      __shared__ __align__(128) char tile[8192];
      const int t = threadIdx.x;
      asm volatile("cp.async.{way}.shared.global [%0], [%1], {bytes_}, %2;"
                   :: "r"((unsigned)__cvta_generic_to_shared(tile + {to})),
                      "l"(__cvta_generic_to_global(x + {start})), "r"({valid}));
      asm volatile("cp.async.wait_all;");
    }}"""


@pytest.mark.parametrize(
    ("bytes_", "to", "start", "requests", "sectors", "passes"),
    [
        (4, "4 * t", "4 * t", 1, 4, 1),  # 128 bytes: four sectors, every bank once
        (8, "8 * t", "8 * t", 1, 8, 2),  # half a warp a pass
        (16, "16 * t", "16 * t", 1, 16, 4),  # a quarter a pass
        (4, "4 * t", "32 * t", 1, 32, 8),  # sources in banks 0, 8, 16, 24: eight lanes each
        (4, "128 * t", "4 * t", 1, 4, 32),  # all targets in bank 0
        (4, "0", "4 * t", 1, 4, 32),  # one target: lanes take turns
        (4, "4 * t", "0", 1, 1, 32),  # one source: they take turns too
        # Eight rows of A, four words along k, to the rows of its transposed tile: rows 256 bytes
        # apart meet in four banks; rows 144 bytes apart are in 32.
        (4, "4 * (t % 4 * 8 + t / 4)", "t / 4 * 256 + t % 4 * 4", 1, 8, 8),
        (4, "4 * (t % 4 * 8 + t / 4)", "t / 4 * 144 + t % 4 * 4", 1, 8, 1),
    ],
)
def test_copies_through_l1(
    bytes_: int, to: str, start: str, requests: int, sectors: int, passes: int
) -> None:
    code = source(bytes_, "ca", to, start, str(bytes_))
    x = np.zeros(8192, np.uint8)
    assert memory(code, [x]) == (requests, sectors, 0, 0)
    assert banks(code, [x]) == (0, 0, 1, passes)


@pytest.mark.parametrize(
    ("to", "start", "sectors", "passes"),
    [
        ("16 * t", "16 * t", 16, 4),
        ("16 * (t ^ 8)", "16 * (t ^ 8)", 16, 4),
        # Every lane moves by half a sector: requests of halves, four lines of the target that get
        # some from the same sector, some from the next, and one from the next line.
        ("16 * t", "16 * t + 16", 32, 12),
        ("16 * (t ^ 1)", "16 * t", 16, 4),  # halves change places
        ("16 * (t ^ 2)", "16 * t", 16, 4),  # sectors do, in pairs
        ("16 * t", "16 * (t & ~1)", 32, 8),  # each first half goes to both halves
        ("16 * t", "32 * t", 32, 32),
        ("0", "16 * t", 1, 1),  # the last lane's data alone stays
    ],
)
def test_copies_around_l1(to: str, start: str, sectors: int, passes: int) -> None:
    code = source(16, "cg", to, start, "16")
    x = np.zeros(1024, np.uint8)
    assert memory(code, [x]) == (1, sectors, 0, 0)
    assert banks(code, [x]) == (0, 0, 1, passes)


@pytest.mark.parametrize(
    ("valid", "requests", "sectors"),
    [("t < 16 ? 4 : 0", 1, 2), ("t < 16 ? 1 : 0", 1, 2), ("0", 0, 0)],
)
def test_zeros_are_written_and_not_read(valid: str, requests: int, sectors: int) -> None:
    code = source(4, "ca", "4 * t", "4 * t", valid)
    x = np.zeros(64, np.uint8)
    assert memory(code, [x]) == (requests, sectors, 0, 0)
    assert banks(code, [x]) == (0, 0, 1, 1)


def test_copies_of_some_lanes_in_some_warps() -> None:
    code = source(4, "ca", "4 * t", "4 * t", "4").replace(
        'asm volatile("cp.async.ca', 'if (t % 2 == 0 && t < 96) asm volatile("cp.async.ca'
    )
    x = np.zeros(512, np.uint8)
    assert memory(code, [x], block=128) == (3, 12, 0, 0)
    assert banks(code, [x], block=128) == (0, 0, 3, 3)


def test_a_loop_of_copies_among_other_accesses() -> None:
    code = """extern "C" __global__ void k(const float* x, float* y) {
      __shared__ float tile[32];
      const int t = threadIdx.x;
      float sum = 0.0f;
#pragma unroll 1
      for (int i = 0; i < 5; ++i) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                     :: "r"((unsigned)__cvta_generic_to_shared(tile + t)),
                        "l"(__cvta_generic_to_global(x + 32 * i + t)) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        sum += tile[31 - t] + x[32 * t];
      }
      y[t] = sum;
    }"""
    args = [np.zeros(1024, np.float32), np.zeros(32, np.float32)]
    assert memory(code, args) == (5 + 5, 5 * 4 + 5 * 32, 1, 4)
    assert banks(code, args) == (5, 5, 5, 5)


def test_the_cache_model_sees_the_source_alone() -> None:
    code = source(16, "cg", "16 * t", "16 * t", "16")
    launch = Launch(grid=1, block=64)
    trace = trace_accesses(compile_cuda(code, "k"), launch, [np.zeros(1024, np.uint8)], sample=[0])
    assert trace.load.tolist() == [True, True]
    assert [len(set(row.tolist()) - {-1}) for row in trace.sectors] == [16, 16]


def test_rules_of_many_rows_at_once() -> None:
    dense, same = 16 * LANES, 0 * LANES
    idle = np.where(LANES < 8, dense, NOBODY)
    zeros = np.where(LANES < 4, dense, NOBODY)
    sources, targets = np.stack([dense, same, idle, zeros]), np.stack([dense, dense, idle, idle])
    sides = sources, targets, 16
    assert copy_sectors(*sides, through_l1=False).tolist() == [16, 32, 4, 2]
    assert copy_sectors(*sides, through_l1=True).tolist() == [16, 1, 4, 2]
    assert copy_wavefronts(*sides, through_l1=False).tolist() == [4, 32, 1, 1]
    assert copy_wavefronts(*sides, through_l1=True).tolist() == [4, 32, 1, 1]
    assert not is_unread(*sides, through_l1=False).any()
    assert not is_unread(*sides, through_l1=True).any()
    nobody = np.full_like(sources, NOBODY)
    assert is_unread(nobody, targets, 16, through_l1=False).all()
    # Lanes t and t ^ 1 read one word, t and t + 16 write to one bank: 1 + 1 + 1 (read: 3).
    pairs, strided = LANES // 2 * 4, LANES * 8
    for size, passes, unsure in ((4, 3, False), (8, 6, True), (16, 12, True)):
        both = [side[None].astype(np.uint64) * np.uint64(size // 4) for side in (pairs, strided)]
        assert copy_wavefronts(*both, size, through_l1=True).tolist() == [passes]
        assert is_unread(*both, size, through_l1=True).tolist() == [unsure]


def test_of_lanes_with_one_target_the_last_stays() -> None:
    pairs = (LANES // np.uint64(2))[None]
    assert lasting(pairs).tolist() == [[t // 2 if t % 2 else int(NOBODY) for t in range(32)]]
