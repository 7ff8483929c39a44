"""A dense `switch`, which NVRTC makes a branch table when asked to, and an index past a table."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.errors import TrapError
from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx, compile_cuda
from tilewright.toolchain.artifact import Artifact

SOURCE = (Path(__file__).parent / "kernels" / "interpreter.cu").read_text()
ARCHES = ("sm_75", "sm_90", "sm_100")
PROGRAMS = (
    (0,),
    (1, 5, 3, 0),
    (4, 3, 9, 5, 7, 0),
    (6, 8, 10, 2, 0),
    (5, 11, 1, 1, 3, 4, 1, 0),
    (9, 200),
    (5, 4, 6, 8, 10, 11, 2, 3, 12),
)


def compiled(kernel: str, arch: str) -> Artifact:
    """Compile with branch tables for switches that use a tenth of their range or more."""
    artifact = compile_cuda(SOURCE, kernel, arch=arch, options=("--jump-table-density=10",))
    assert "brx.idx" in artifact.ptx
    return artifact


def interpret(program: tuple[int, ...], a: np.float32) -> np.float32:
    """The kernel's loop for one thread, in float32."""
    b, at = np.float32(1), 0
    while True:
        op, at = program[at], at + 1
        match op:
            case 0:
                return a
            case 1:
                a = a + b
            case 2:
                a = a - b
            case 3:
                a = a * b
            case 4:
                b = a
            case 5:
                b = np.float32(2)
            case 6:
                b = -b
            case 7:
                a = min(a, b)
            case 8:
                a = max(a, b)
            case 9:
                a = abs(a)
            case 10:
                a, b = b, a
            case 11:
                at += 2 if a < b else 0
            case _:
                return np.float32(-1)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("spread", [1, 3, 64])
def test_an_interpreter(arch: str, spread: int) -> None:
    """`spread` neighbours run the same program: all lanes apart, some together, all together."""
    n = 300
    rng = np.random.default_rng(5)
    code = np.array([op for program in PROGRAMS for op in program], np.uint8)
    starts = np.cumsum([0, *map(len, PROGRAMS[:-1])])
    chosen = np.arange(n) // spread % len(PROGRAMS)
    x = rng.uniform(-4, 4, n).astype(np.float32)
    y = np.full(n, np.nan, np.float32)
    shape = Launch(grid=5, block=64)
    args = [code, starts[chosen].astype(np.int32), x, y, np.int32(n)]
    ran = run(compiled("interpret", arch), shape, args, count=True)
    assert np.array_equal(y, [interpret(PROGRAMS[c], a) for c, a in zip(chosen, x, strict=True)])
    assert ran.counters is not None


# NVRTC checks the range before it branches. This kernel does not: 3 and more are past its table.
UNCHECKED = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 ops, .param .u32 same)
{ .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
  ld.param.u64 %d0, [ops]; mov.u32 %r0, %tid.x; mad.wide.u32 %d1, %r0, 4, %d0;
  ld.global.u32 %r1, [%d1]; ld.param.u32 %r2, [same]; setp.ne.u32 %p1, %r2, 0;
PLACES: .branchtargets A, B, A;
  @%p1 brx.idx %r2, PLACES;
  brx.idx %r1, PLACES;
A: mov.u32 %r3, 1; st.global.u32 [%d1], %r3; ret;
B: mov.u32 %r3, 2; st.global.u32 [%d1], %r3; ret; }"""


@pytest.mark.parametrize(
    ("ops", "same", "thread", "index", "branch"),
    [
        ([2] * 40 + [3] + [20] * 23, 0, 40, 3, "brx.idx %r1"),
        ([1] * 63 + [-1], 0, 63, 2**32 - 1, "brx.idx %r1"),
        ([0] * 64, 3, 0, 3, "@%p1 brx.idx %r2"),
    ],
)
def test_a_place_that_the_table_lacks(
    ops: list[int], same: int, thread: int, index: int, branch: str
) -> None:
    artifact = artifact_from_ptx(UNCHECKED, "k")
    with pytest.raises(TrapError) as caught:
        run(
            artifact,
            Launch(grid=1, block=64),
            [np.array(ops, np.int32), np.uint32(same)],
            workers=1,
        )
    site = caught.value.site
    assert site.thread == (thread, 0, 0)
    assert site.instruction.startswith(branch)
    assert f"is {index}, and the table has the targets 0 to 2" in str(caught.value)


def test_places_that_the_table_has() -> None:
    ops = np.arange(64, dtype=np.int32) % 3
    run(
        artifact_from_ptx(UNCHECKED, "k"),
        Launch(grid=1, block=64),
        [(written := ops.copy()), np.uint32(0)],
    )
    assert np.array_equal(written, np.where(ops == 1, 2, 1))


# Odd threads skip the table. Of the others those from 16 on return behind the branch, some of the
# rest by the table.
RETURNS = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 ops)
{ .reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<4>;
  ld.param.u64 %d0, [ops]; mov.u32 %r0, %tid.x; mad.wide.u32 %d1, %r0, 4, %d0;
  ld.global.u32 %r1, [%d1]; and.b32 %r2, %r0, 1; setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, 5;
  @%p1 bra JOIN;
  setp.lt.u32 %p2, %r0, 16;
PLACES: .branchtargets A, OUT, A;
  @%p2 brx.idx %r1, PLACES;
  ret;
A: mov.u32 %r3, 7;
JOIN: st.global.u32 [%d1], %r3;
  ret;
OUT: ret; }"""


def test_returns_behind_the_branch_and_by_the_table() -> None:
    ops = np.arange(32, dtype=np.int32) // 2 % 3
    written = ops.copy()
    launch = Launch(grid=1, block=32)
    ran = run(artifact_from_ptx(RETURNS, "k"), launch, [written], count=True)
    thread = np.arange(32)
    want = np.where(thread % 2, 5, np.where((thread < 16) & (ops != 1), 7, ops))
    assert np.array_equal(written, want)
    assert ran.counters is not None
    # 8 to the first branch, 2 to the table, a return behind it, one by it, A, and 2 from JOIN on.
    assert ran.counters.warp_instructions == 8 + 2 + 1 + 1 + 1 + 2
