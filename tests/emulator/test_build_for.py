"""Programs for given arguments: what those rule out is left out, and nothing else changes."""

import pickle

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.emulator import build_for, run
from tilewright.errors import OutOfBoundsError, Site, TilewrightError, UnknownNameError
from tilewright.launch import Argument, Launch
from tilewright.toolchain import artifact_from_ptx, compile_cuda

LAUNCH = Launch(grid=2, block=32)
# The first way is for rows of whole vectors at aligned addresses.
TWO_WAYS = """
__global__ void two_ways(float* x, int n, int wide)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if ((reinterpret_cast<unsigned long long>(x) & 15) == 0 && (n % 4 == 0 || wide > gridDim.x)) {
    if (i < n) x[i] += 1.0f;
  } else {
    if (i < n) x[i] += 1.0f;
    for (int k = 0; k < n; ++k) x[i] = k == 0 ? x[i] : x[i] * x[0] - x[0];
  }
}
"""


def reached(n: int, start: int = 0) -> tuple[int, npt.NDArray[np.float32]]:
    artifact = compile_cuda(TWO_WAYS, "two_ways")
    x = np.zeros(80, np.float32)
    args = [x[start : start + 72], np.int32(n), np.int32(0)]
    program = build_for(artifact, LAUNCH, args, counting=False)
    plain, known = x.copy(), x
    run(artifact, LAUNCH, [plain[start : start + 72], *args[1:]])
    run(artifact, LAUNCH, args, program=program)
    assert np.array_equal(plain, known)
    return sum(program.plan.reached), known


def test_a_way_that_the_arguments_rule_out_is_not_compiled() -> None:
    aligned, x = reached(64)
    assert x[:64].tolist() == [1.0] * 64
    assert x[64:].tolist() == [0.0] * 16
    odd, _ = reached(63)
    shifted, _ = reached(64, start=1)
    # Of n the grid is no part: whether `wide` is greater is not known when it is compiled.
    whole = len(build_for(compile_cuda(TWO_WAYS, "two_ways"), LAUNCH, arguments(63)).plan.reached)
    assert aligned < whole
    assert shifted < whole
    assert odd <= whole


def arguments(n: int) -> list[Argument]:
    return [np.zeros(72, np.float32), np.int32(n), np.int32(0)]


def test_counts_are_those_of_the_program_for_any_arguments() -> None:
    artifact = compile_cuda(TWO_WAYS, "two_ways")
    for n in (5, 62, 64):
        args = arguments(n)
        program = build_for(artifact, LAUNCH, args)
        known = run(artifact, LAUNCH, args, count=True, program=program)
        assert known.counters == run(artifact, LAUNCH, arguments(n), count=True).counters


def test_a_signed_parameter_keeps_its_sign() -> None:
    source = """
__global__ void signs(long long* out, int a, unsigned b, long long c)
{
  out[0] = a; out[1] = b; out[2] = c / 3; out[3] = a < 0 ? 10 : 20; out[4] = b > 7u ? 30 : 40;
}
"""
    artifact, launch = compile_cuda(source, "signs"), Launch(grid=1, block=32)
    out = np.zeros(5, np.int64)
    args = [out, np.int32(-5), np.uint32(2**32 - 1), np.int64(-(2**40))]
    run(artifact, launch, args, program=build_for(artifact, launch, args))
    assert out.tolist() == [-5, 2**32 - 1, -(2**40 // 3), 10, 30]


@pytest.mark.parametrize("guard", ["@%p1", "@!%p1"])
@pytest.mark.parametrize("n", [3, 9])
def test_a_branch_goes_its_way_whatever_the_sense_of_its_guard(guard: str, n: int) -> None:
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
{{
	.reg .pred %p<2>;
	.reg .b32 %r<3>;
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [k_param_0];
	ld.param.u32 %r1, [k_param_1];
	setp.gt.u32 %p1, %r1, 5;
	{guard} bra other;
	mov.u32 %r2, 1;
	bra done;
other:
	mov.u32 %r2, 2;
done:
	st.global.u32 [%rd1], %r2;
	ret;
}}
"""
    artifact = artifact_from_ptx(text, "k")
    args = [np.zeros(1, np.uint32), np.uint32(n)]
    launch = Launch(grid=1, block=32)
    program = build_for(artifact, launch, args)
    run(artifact, launch, args, program=program)
    assert args[0].tolist() == [2 if (n > 5) == (guard == "@%p1") else 1]
    assert sum(program.plan.reached) == len(program.plan.reached) - 1


@pytest.mark.parametrize(
    "error",
    [
        UnknownNameError("rung", "11", ["01", "10"]),
        OutOfBoundsError("too far", Site(kernel="k", instruction="ld", ptx_line=3), 4096),
    ],
)
def test_errors_come_whole_out_of_another_process(error: TilewrightError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)
