"""Multiply-adds that go before the barrier which they stand behind, and those that must not."""

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.emulator.ahead import arithmetic_ahead
from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx
from tilewright.toolchain.ptx.parser import parse

HEAD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{
	.reg .pred %p<3>;
	.reg .f32 %f<9>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	.shared .align 4 .b8 tile[128];
	ld.param.u64 %rd1, [k_param_0];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd3, %rd1, %rd2;
	mov.u64 %rd1, tile;
	add.s64 %rd2, %rd1, %rd2;
	ld.global.f32 %f1, [%rd3];
	mov.f32 %f2, 0f40000000;
	mov.f32 %f3, 0f3F800000;
	setp.gt.u32 %p1, %r1, 7;
	st.shared.f32 [%rd2], %f1;
	bar.sync 0;
"""
TAIL = """
	st.global.f32 [%rd3], %f3;
	ret;
}
"""
FMA = "fma.rn.f32 %f3, %f1, %f2, %f3;"


def before_and_behind(code: str) -> tuple[int, int]:
    """Return how many multiply-adds stand before the barrier, and how many behind it."""
    function = parse(HEAD + code + TAIL).functions["k"]
    body = arithmetic_ahead(function).body
    assert sorted(ins.text for ins in body) == sorted(ins.text for ins in function.body)
    opcodes = [ins.opcode for ins in body]
    place = opcodes.index("bar")
    return opcodes[:place].count("fma"), opcodes[place:].count("fma")


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        (FMA, 1, 0),
        # In their order: each takes the sum of the one before.
        (f"{FMA} {FMA}", 2, 0),
        # A factor comes from behind the barrier.
        (f"ld.shared.f32 %f2, [tile]; {FMA}", 0, 1),
        # The old sum is read behind it first.
        (f"add.f32 %f4, %f3, %f1; {FMA}", 0, 1),
        # What it adds to is made there.
        (f"add.f32 %f3, %f3, %f1; {FMA}", 0, 1),
        # Only some lanes do it.
        (f"@%p1 {FMA}", 0, 1),
        # It is behind a branch.
        (f"@%p1 bra done; {FMA} done:", 0, 1),
    ],
)
def test_what_needs_nothing_from_behind_a_barrier_goes_before_it(
    code: str, before: int, after: int
) -> None:
    assert before_and_behind(code) == (before, after)


@pytest.mark.parametrize("code", [FMA, f"add.f32 %f4, %f3, %f1; {FMA} add.f32 %f3, %f3, %f4;"])
def test_sums_stay_what_they_were(code: str) -> None:
    x = np.arange(32, dtype=np.float32)
    text = HEAD + code + TAIL
    artifact = artifact_from_ptx(text, "k")
    run(artifact, Launch(grid=1, block=32), [x])
    first = 2 * np.arange(32, dtype=np.float32) + 1
    assert np.array_equal(x, first if code == FMA else first + 1 + np.arange(32))
