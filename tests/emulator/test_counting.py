"""A run by line of the PTX: what each kind of warp executed, and accesses at given widths."""

import numpy as np
import pytest

from tilewright.accesses import AccessSums, PtxCounts, Width
from tilewright.emulator.counting import count_lines
from tilewright.launch import Launch
from tilewright.toolchain import Artifact, artifact_from_ptx, compile_cuda
from tilewright.toolchain.ptx.parser import parse

LADDER = """extern "C" __global__ void k(volatile float* x, int n) {
  const int i = threadIdx.x;
  if (i >= 40) return;
#pragma unroll 1
  for (int j = 0; j < n; ++j) x[i] = x[i] * 0.5f;
}"""

WORDS = """extern "C" __global__ void k(float* y) {
  __shared__ __align__(16) float a[128];
#pragma unroll
  for (int j = 0; j < 128; j += 32) a[threadIdx.x + j] = 1.0f;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 1
  for (int j = 0; j < 4; ++j) sum += a[4 * threadIdx.x + j];
  y[threadIdx.x] = sum;
}"""


def compiled(code: str) -> Artifact:
    return compile_cuda(code, "k")


def line_of(artifact: Artifact, opcode: str, space: str | None = None) -> int:
    """The line of the only instruction of an opcode."""
    body = parse(artifact.ptx).functions["k"].body
    (line,) = (i.ptx_line for i in body if i.opcode == opcode and i.space == space)
    return line


def count(artifact: Artifact, args: list, **rest: object) -> PtxCounts:
    launch = Launch(grid=rest.pop("grid", 1), block=rest.pop("block", 32))
    return count_lines(artifact, launch, args, widths=rest.pop("widths", {}), **rest)


def test_warps_that_executed_the_same_are_one_row() -> None:
    artifact = compiled(LADDER)
    x = np.ones(64, np.float32)
    counts = count(artifact, [x, np.int32(3)], grid=2, block=80)
    # Three warps a block: a whole one, one with 8 of 32 lanes left, one of 16 lanes that return.
    line = counts.lines.tolist().index(line_of(artifact, "st", "global"))
    rows = sorted(
        zip(
            counts.lanes.tolist(),
            counts.weights.tolist(),
            counts.executed[:, line].tolist(),
            counts.threads[:, line].tolist(),
            strict=True,
        )
    )
    assert rows == [(16, 2, 0, 0), (32, 2, 3, 24), (32, 2, 3, 96)]
    assert counts.blocks == 2
    # The early return parts the lanes of one warp of each block; no other branch does.
    body = parse(artifact.ptx).functions["k"].body
    guards = [i.ptx_line for i in body if i.opcode == "bra" and i.guard is not None]
    place = counts.lines.tolist().index(guards[0])
    assert (counts.weights @ counts.parted).tolist() == [
        2 * (n == place) for n in range(len(counts.lines))
    ]


def test_accesses_are_counted_with_the_widths_given() -> None:
    artifact = compiled(WORDS)
    line = line_of(artifact, "ld", "shared")
    # Word by word the lanes lie four banks apart: 4 passes each. Four words at once, at the turns
    # whose addresses are multiples of 16, take as many as 512 bytes must.
    widths = {line: (Width(4), Width(16))}
    found = count(artifact, [np.zeros(32, np.float32)], widths=widths).accesses
    assert found[line, "shared", Width(4)] == AccessSums(requests=4, wavefronts=16, ideal=4)
    assert found[line, "shared", Width(16)] == AccessSums(requests=1, wavefronts=4, ideal=4)


def test_a_shift_moves_the_access_before_its_line() -> None:
    artifact = compiled("""extern "C" __global__ void k(const float* x, float* y) {
      y[threadIdx.x] = x[2 * threadIdx.x + 1];
    }""")
    line = line_of(artifact, "ld", "global")
    pair, alone = Width(8, shift=-4), Width(8)
    arrays = [np.zeros(64, np.float32), np.zeros(32, np.float32)]
    found = count(artifact, arrays, widths={line: (pair, alone)}).accesses
    # Pairs that end with the odd word are 8 aligned bytes; pairs that begin with it are not.
    assert found[line, "global", pair] == AccessSums(
        requests=1, sectors=8, lines=2, wavefronts=2, ideal=8
    )
    assert found[line, "global", alone] == AccessSums()


def test_global_accesses_have_sectors_and_lines() -> None:
    artifact = compiled(LADDER)
    counts = count(artifact, [np.zeros(64, np.float32), np.int32(2)], block=64)
    load = counts.accesses[line_of(artifact, "ld", "global"), "global", Width(4)]
    # A whole warp reads 4 sectors of a line, the other's 8 lanes one sector; twice.
    assert (load.requests, load.sectors, load.lines, load.ideal) == (4, 10, 4, 10)


def test_local_memory_lies_word_by_word_beside_the_other_lanes() -> None:
    artifact = compiled("""extern "C" __global__ void k(int* x, int n) {
      int a[64];
#pragma unroll 1
      for (int i = 0; i < 64; ++i) a[(i * n) & 63] = i;
      x[threadIdx.x] = a[x[threadIdx.x] & 63];
    }""")
    counts = count(artifact, [np.arange(32, dtype=np.int32), np.int32(3)])
    store = counts.accesses[line_of(artifact, "st", "local"), "local", Width(4)]
    assert (store.requests, store.sectors, store.lines) == (64, 256, 64)
    load = counts.accesses[line_of(artifact, "ld", "local"), "local", Width(4)]
    assert (load.requests, load.sectors, load.lines) == (1, 32, 32)  # each lane its own word


@pytest.mark.parametrize(("blocks", "weight"), [(2, 1), (6, 3), (5, 2)])
def test_counts_grow_with_the_blocks_that_they_stand_for(blocks: int, weight: int) -> None:
    artifact = compiled(LADDER)
    counts = count(artifact, [np.zeros(64, np.float32), np.int32(1)], grid=2, block=32)
    grown = counts.scaled(blocks)
    key = (line_of(artifact, "ld", "global"), "global", Width(4))
    assert counts.weights.tolist() == [2]
    assert grown.blocks == blocks
    assert grown.weights.tolist() == [blocks]
    assert grown.accesses[key].sectors == 4 * blocks
    assert weight == blocks // 2


def test_runs_of_one_kernel_are_joined() -> None:
    artifact = compiled(LADDER)
    parts = [
        count(artifact, [np.zeros(64, np.float32), np.int32(1)], grid=2, sample=[b]) for b in (0, 1)
    ]
    whole = parts[0].joined(parts[1].times(3))
    key = (line_of(artifact, "st", "global"), "global", Width(4))
    assert (whole.blocks, int(whole.weights.sum())) == (4, 4)
    assert whole.accesses[key].requests == 4


SWITCH = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
.reg .b32 %r<3>;
mov.u32 %r1, %tid.x;
and.b32 %r2, %r1, 3;
TABLE: .branchtargets A, B, C, D;
brx.idx %r2, TABLE;
A:
mov.u32 %r1, 1;
B:
mov.u32 %r1, 2;
C:
mov.u32 %r1, 3;
D:
ret;
}
"""


@pytest.mark.parametrize(("lanes", "more"), [(1, 0), (2, 1), (32, 3)])
def test_a_switch_parts_lanes_once_less_than_it_has_places(lanes: int, more: int) -> None:
    counts = count(artifact_from_ptx(SWITCH, "k"), [], block=lanes)
    place = counts.lines.tolist().index(SWITCH.splitlines().index("brx.idx %r2, TABLE;") + 1)
    assert counts.parted[:, place].tolist() == [more]
    assert counts.parted.sum() == more


def test_a_loop_parts_lanes_at_each_turn_that_some_leave() -> None:
    artifact = compiled("""extern "C" __global__ void k(int* x) {
#pragma unroll 1
      for (int i = x[threadIdx.x]; i > 0; --i) x[threadIdx.x + 32] += i;
    }""")
    # Lanes leave after 0, 1, 2 and 3 turns: three times some of them go on.
    parted = count(artifact, [np.repeat(np.arange(8), 8).astype(np.int32)]).parted
    assert parted.sum() == 3
    assert count(artifact, [np.full(64, 5, np.int32)]).parted.sum() == 0


LOOP = """extern "C" __global__ void k(float* x, int n) {
  float sum = 0.0f;
#pragma unroll 1
  for (int j = 0; j < n; ++j) sum = sum * 0.5f + 1.0f;
  x[blockIdx.x * 32 + threadIdx.x] = sum;
}"""


@pytest.mark.parametrize(("sample", "parts"), [(256, [33, 65, 129, 256]), (9, [2, 3, 5, 9])])
def test_a_sample_ends_early_once_it_has_executed_enough(sample: int, parts: list[int]) -> None:
    """In parts of an eighth, an eighth, a quarter and a half; always with the last block."""
    artifact = compiled(LOOP)
    blocks = [2 * n for n in range(sample)]

    def counted(enough: int | None) -> tuple[PtxCounts, list[int]]:
        x = np.zeros(2 * sample * 32, np.float32)
        launch = Launch(grid=2 * sample, block=32)
        args = [x, np.int32(100)]
        found = count_lines(artifact, launch, args, widths={}, sample=blocks, enough=enough)
        return found, np.flatnonzero(x[::32]).tolist()

    whole, ran = counted(None)
    assert ran == blocks
    each = int(whole.executed.sum(axis=1) @ whole.weights) // sample
    for place, expected in enumerate(parts):
        found, ran = counted(each * (parts[place - 1] + 1) if place else 1)
        assert found.blocks == len(ran) == expected
        assert {ran[0], ran[-1]} == {0, blocks[-1]}
        assert max(np.diff(ran)) <= 2 * sample // (expected - 1) + 2
        assert int(found.executed.sum(axis=1) @ found.weights) == each * expected
        assert {k: s.requests for k, s in found.accesses.items()} == {
            k: s.requests * expected // sample for k, s in whole.accesses.items()
        }
    everything, _ = counted(each * sample * 2)
    assert everything.accesses == whole.accesses
    assert np.array_equal(everything.weights, whole.weights)
    assert np.array_equal(everything.executed, whole.executed)


def test_one_worker_runs_blocks_in_their_order() -> None:
    """Each block notes when it came; blocks that execute the same are of one kind."""
    artifact = compiled(
        """extern "C" __global__ void k(unsigned* came, unsigned* count) {
          if (threadIdx.x == 0) came[blockIdx.x] = atomicAdd(count, 1u);
          if (blockIdx.x % 3 == 0) __syncthreads();
        }"""
    )
    came = np.zeros(300, np.uint32)
    counts = count(artifact, [came, np.zeros(1, np.uint32)], grid=300, block=64, workers=1)
    assert came.tolist() == list(range(300))
    # Two kinds of blocks, in each a warp with lane 0 of the block and one without.
    assert sorted(zip(counts.kind.tolist(), counts.weights.tolist(), strict=True)) == [
        (0, 100), (0, 100), (1, 200), (1, 200),
    ]  # fmt: skip
    twice = counts.joined(counts)
    assert sorted(set(twice.kind.tolist())) == [0, 1, 2, 3]
