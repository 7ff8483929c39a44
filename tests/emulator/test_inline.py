"""Device functions: inlined wherever they are called; what cannot be is refused by name."""

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.emulator.inline import inline_calls
from tilewright.errors import OutOfBoundsError, UnsupportedError
from tilewright.launch import Launch
from tilewright.toolchain import artifact_from_ptx, compile_cuda
from tilewright.toolchain.ptx.ir import Function
from tilewright.toolchain.ptx.parser import parse

HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"


def flat(ptx: str, kernel: str = "k") -> Function:
    module = parse(HEADER + ptx)
    return inline_calls(module, module.functions[kernel])


def emulate(ptx: str, *args: object, block: int = 32) -> None:
    run(artifact_from_ptx(HEADER + ptx, "k"), Launch(grid=1, block=block), args)


def test_a_kernel_without_calls_is_left_alone() -> None:
    module = parse(HEADER + ".visible .entry k() { ret; }")
    assert inline_calls(module, module.functions["k"]) is module.functions["k"]


TWICE = """
.func (.param .b32 out) step(.param .b32 in) {
  .reg .pred %p<1>;
  .reg .b32 %r<3>;
  ld.param.b32 %r0, [in];
  setp.gt.s32 %p0, %r0, 20;
  @%p0 bra BIG;
  add.s32 %r1, %r0, 100;
  st.param.b32 [out], %r1;
  ret;
BIG:
  neg.s32 %r2, %r0;
  st.param.b32 [out], %r2;
  ret;
}
.func (.param .b32 out) steps(.param .b32 in) {
  .reg .b32 %r<2>;
  ld.param.b32 %r0, [in];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call.uni (b), step, (a);
    ld.param.b32 %r1, [b]; }
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), step, (a);
    ld.param.b32 %r1, [b]; }
  st.param.b32 [out], %r1;
  ret;
}
.visible .entry k(.param .u64 x) {
  .reg .pred %p<1>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 3;
  mov.b32 %r1, %r0;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), steps, (a);
    ld.param.b32 %r1, [b]; }
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; st.param.b32 [b], %r1;
    @%p0 call (b), step, (a);
    ld.param.b32 %r1, [b]; }
  ld.param.u64 %rd0, [x];
  mad.wide.u32 %rd1, %r0, 4, %rd0;
  st.global.b32 [%rd1], %r1;
  ret;
}"""


def step(value: int) -> int:
    return -value if value > 20 else value + 100


def test_nested_and_repeated_calls_with_early_returns_and_a_guard() -> None:
    x = np.zeros(32, np.int32)
    emulate(TWICE, x)
    after = [step(step(t)) for t in range(32)]
    assert x.tolist() == [value if t == 3 else step(value) for t, value in enumerate(after)]


def test_parameters_that_are_moved_whole_become_registers() -> None:
    function = flat(TWICE)
    assert not any(ins.opcode == "call" or ins.space == "local" for ins in function.body)
    assert not function.variables
    # Three copies of `step` with a branch and two returns, one return of `steps`, one guard.
    assert sum(ins.opcode == "bra" for ins in function.body) == 3 * 3 + 1 + 1


def test_lines_of_the_callee_are_kept() -> None:
    adds = [ins for ins in flat(TWICE).body if ins.opcode == "add"]
    line = (HEADER + TWICE).splitlines().index("  add.s32 %r1, %r0, 100;") + 1
    assert [ins.ptx_line for ins in adds] == [line] * 3


def test_a_fault_in_a_device_function_has_its_own_line() -> None:
    code = """
    __device__ __noinline__ void put(int* x, int i) {
      x[i] = 1;
    }
    extern "C" __global__ void k(int* x, int n) { put(x, threadIdx.x * n); }"""
    with pytest.raises(OutOfBoundsError) as caught:
        run(compile_cuda(code, "k"), Launch(grid=1, block=32), [np.zeros(9, "i4"), np.int32(3)])
    assert caught.value.site.source_line == 3
    assert caught.value.site.thread == (3, 0, 0)


STRUCT = """
.func (.param .align 8 .b8 out[16]) swap(.param .align 8 .b8 in[16]) {
  .local .align 8 .b8 frame[16];
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  mov.b64 %rd0, in;
  ld.param.b64 %rd1, [%rd0+8];
  ld.param.v2.b32 {%r0, %r1}, [in];
  mov.b64 %rd2, frame;
  st.local.v2.b32 [%rd2], {%r1, %r0};
  ld.local.b64 %rd3, [frame];
  st.param.b64 [out+8], %rd3;
  st.param.b64 [out], %rd1;
  ret;
}
.visible .entry k(.param .u64 x) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<6>;
  mov.u32 %r0, %tid.x;
  ld.param.u64 %rd0, [x];
  mad.wide.u32 %rd1, %r0, 16, %rd0;
  ld.global.v2.b64 {%rd2, %rd3}, [%rd1];
  { .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16];
    st.param.b64 [a], %rd2; st.param.b64 [a+8], %rd3;
    call.uni (b), swap, (a);
    ld.param.v2.b64 {%rd4, %rd5}, [b]; }
  st.global.v2.b64 [%rd1], {%rd4, %rd5};
  ret;
}"""


def test_structs_pass_through_local_memory() -> None:
    x = np.arange(64, dtype=np.uint64).reshape(32, 2) + (np.uint64(7) << np.uint64(32))
    low, high = x[:, 0].copy(), x[:, 1].copy()
    emulate(STRUCT, x)
    assert np.array_equal(x[:, 0], high)
    assert np.array_equal(x[:, 1], (low << np.uint64(32)) | (low >> np.uint64(32)))


def test_variables_of_a_function_exist_once() -> None:
    code = """
    __device__ __noinline__ int twice(int v) {
      __shared__ int box[32];
      box[threadIdx.x] += v;
      return box[threadIdx.x];
    }
    extern "C" __global__ void k(int* x) {
      const int start = twice(0);
      x[threadIdx.x] = twice(5) - start + twice(7) - start;
    }"""
    x = np.zeros(32, np.int32)
    run(compile_cuda(code, "k"), Launch(grid=1, block=32), [x])
    assert (x == 5 + 12).all()  # one box: the second call sees what the first left


REFUSED = """
__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1) + n; }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1) * n; }
extern "C" __global__ void recursion(int* x) { x[0] = even(x[0]); }

__device__ int one(int v) { return v + 1; }
__device__ int two(int v) { return v * 2; }
__device__ int (*table[2])(int) = {one, two};
extern "C" __global__ void pointer(int* x, int n) { x[0] = table[n](x[0]); }

extern "C" __device__ int vprintf(const char*, void*);
extern "C" __global__ void print(int* x) { vprintf("hello", nullptr); }

extern "C" __device__ void* malloc(size_t);
extern "C" __global__ void allocate(int* x) { x[0] = *(int*)malloc(4); }

extern "C" __device__ int elsewhere(int);
extern "C" __global__ void linked(int* x) { x[0] = elsewhere(1); }

extern "C" __global__ void fine(int* x) { x[0] = 5; }
"""


@pytest.mark.parametrize(
    ("kernel", "says", "line"),
    [
        ("recursion", r"recursion \((even -> odd -> even|odd -> odd|even -> even)\)", r"[34]"),
        ("pointer", "a call through a function pointer", "10"),
        ("print", "printf, which writes to the host: remove it", "13"),
        ("allocate", "malloc in device code: pass the memory as an argument", "16"),
        ("linked", "elsewhere, a function without a body", "19"),
    ],
)
def test_calls_that_cannot_be_inlined(kernel: str, says: str, line: str) -> None:
    artifact = compile_cuda(REFUSED, kernel, options=["--relocatable-device-code=true"])
    args = [np.zeros(4, np.int32), *([np.int32(0)] if kernel == "pointer" else [])]
    with pytest.raises(UnsupportedError, match=rf"{says}.*kernel\.cu:{line}, PTX line"):
        run(artifact, Launch(grid=1, block=1), args)


def test_what_a_kernel_does_not_call_does_not_matter() -> None:
    x = np.zeros(4, np.int32)
    artifact = compile_cuda(REFUSED, "fine", options=["--relocatable-device-code=true"])
    run(artifact, Launch(grid=1, block=1), [x])
    assert x[0] == 5
