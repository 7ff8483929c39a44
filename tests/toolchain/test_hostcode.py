"""Files written for nvcc: their host code is left out, and nothing else, nor by a line."""

from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.errors import CompileError
from tilewright.toolchain import compile_cuda
from tilewright.toolchain.hostcode import blank_host_code, find_device_macros
from tilewright.toolchain.hostheaders import host_headers, std_names
from tilewright.toolchain.toolkit import cuda_include_dirs, load_nvrtc

PROGRAM = Path(__file__).parent / "data" / "host" / "program.cu"
KERNEL = "__global__ void k(float* x) { x[0] = 1.0f; }"
ROOT = Path(__file__).parents[2]

needs_headers = pytest.mark.skipif(
    not cuda_include_dirs(load_nvrtc().version[0]), reason="CUDA's headers are not installed"
)


def is_left_out(code: str) -> bool:
    """Whether all of `code` is blanked; anything between nothing and all is an error."""
    text = f"{KERNEL}\n{code}\n{KERNEL}\n"
    half = blank_host_code(text).text
    assert [len(line) for line in half.split("\n")] == [len(line) for line in text.split("\n")]
    assert half.startswith(f"{KERNEL}\n")
    assert half.endswith(f"\n{KERNEL}\n")
    rest = half[len(KERNEL) : -len(KERNEL) - 1].strip()
    assert rest in ("", code)
    return rest == ""


@pytest.mark.parametrize(
    "code",
    [
        "int main() { k<<<1, 32>>>(nullptr); }",
        "int main(int argc, char** argv)\n{\n  char c = '}'; // }\n  /* } */ return 0;\n}",
        'static void say() { puts("}"); puts(R"x(}")x"); }',
        "template <typename T, int N = (3 > 2)> void run(std::vector<T>& v) { v[0] = N; }",
        "template void run<float>(std::vector<float>&);",
        'extern "C" void launch(float* x, int n);',
        "auto late(int a) -> int { return a; }",
        "Timer::Timer(int n) : n_(n), m_{n} { }",
        "bool operator<(const A& a, const A& b) { return true; }",
        "void f() noexcept { auto g = [&](int x) { return x; }; }",
        "dim3 grid(8, 8);",
        "const dim3 block{8};",
        "std::vector<float> values;",
        "static float* d_x = nullptr, *d_y;",
        "float table[2] = {1, 2};",
        "int count{0};",
        "auto plus = [](int a) { return a + 1; };",
        'const std::string name = "x";',
        "cudaStream_t stream;",
        "extern int verbose;",
        "using Vec = std::vector<float>;",
        "typedef std::map<int, int> Map;",
        "using std::cout;",
        "namespace chr = std::chrono;",
        "namespace th = thrust;",
        "struct Error : std::runtime_error { int code; };",
        "template <> struct std::hash<int> { };",
        'PYBIND11_MODULE(name, m) { m.def("f", &f); }',
        "torch::Tensor forward(torch::Tensor x) { return x; }",
        "__host__ int only_host() { return 1; }",
    ],
)
def test_host_code_is_left_out(code: str) -> None:
    assert is_left_out(code)


@pytest.mark.parametrize(
    "code",
    [
        "__device__ int f(int a) { return a; }",
        "__host__ __device__ inline int f(int a);",
        "template <int N> __launch_bounds__(N) __global__ void g(float* x) { x[0] = N; }",
        "template __global__ void g<32>(float*);",
        'extern "C" __global__ void c(float* x) { }',
        "#define HD __host__ \\\n  __device__\nHD int f() { return 1; }",
        "#define INNER __device__\n#define OUTER static INNER\nOUTER int f() { return 1; }",
        "__constant__ float w[4] = {1, 2, 3, 4};",
        "__device__ unsigned counter;",
        "extern __shared__ float buffer[];",
        "constexpr int N = 4;",
        "constexpr int up(int a, int b) { return (a + b - 1) / b; }",
        "const int M = 1'000 * 2;",
        "static const float scale[2] = {1.0f, 2.0f};",
        'const char* const words[] = {"{", "}"};',
        "enum class Mode : int { kAdd, kMul };",
        "typedef float real;",
        "using std::min;",
        "using cuda::std::array;",
        "using Index = std::size_t;",
        "using namespace std;",
        'static_assert(sizeof(float) == 4, "float");',
        "template <typename T> using Pointer = T*;",
        "template <typename T> concept Small = sizeof(T) < 4;",
        "struct Params { int n; float (&tile)[4]; union { int a; float b; }; };",
        "struct alignas(16) Four { float x, y, z, w; Four() = default; };",
        "class P { public: __device__ P(int a) : n(a), m{a} { } private: int n, m; };",
        "struct Size { int n; constexpr int twice() const { return 2 * n; } };",
        "namespace a::b { __device__ int f() { return 1; } }",
    ],
)
def test_what_kernels_use_stays(code: str) -> None:
    assert not is_left_out(code)


def test_host_members_go_and_the_class_stays() -> None:
    code = """struct Params {
  int n;
  std::string name;
  Params(int n_) : n(n_) { std::cout << n; }
  __device__ int twice() const { return 2 * n; }
};"""
    half = blank_host_code(code)
    assert [line.strip() for line in half.text.split("\n")] == [
        "struct Params {",
        "int n;",
        "",
        "",
        "__device__ int twice() const { return 2 * n; }",
        "};",
    ]
    assert half.left_out == {"name": 3, "Params": 4}


def test_directives_stay_where_they_are() -> None:
    code = """int main() {
#ifdef DEBUG
  if (true) {
#else
  if (false) {
#endif
#pragma omp parallel
  }
#define AFTER 7
}
__global__ void k(int* x) { x[0] = AFTER; }"""
    lines = [line.strip() for line in blank_host_code(code).text.split("\n")]
    kept = ["#ifdef DEBUG", "", "#else", "", "#endif", "", "", "#define AFTER 7", ""]
    assert lines == ["", *kept, "__global__ void k(int* x) { x[0] = AFTER; }"]


def test_macros_of_other_files_mark_device_code() -> None:
    macros = find_device_macros(["#define HD __host__ __device__\n#define X 1\n#define K HD"])
    assert macros == {"HD", "K"}
    code = "K int f() { return 1; }"
    assert blank_host_code(code, device_macros=macros).text == code
    assert blank_host_code(code).text.strip() == ""


def test_sources_without_host_code_are_left_alone() -> None:
    files = [*ROOT.glob("src/tilewright/kernels/**/*.cuh"), *ROOT.glob("examples/*.cu")]
    assert len(files) > 20
    for file in files:
        text = file.read_text()
        assert (blank_host_code(text).text == text) == (file.name != "saxpy_program.cu"), file


# --- compiled and run ---------------------------------------------------------------------------


@needs_headers
def test_a_program_of_every_kind_of_host_code_runs() -> None:
    a, b = (np.random.default_rng(s).standard_normal(300).astype(np.float32) for s in (0, 1))
    out = np.zeros(300, np.float32)
    name = "ops::binary<float, ops::detail::Add<float>>"
    args = [a, b, out, np.uint64(300), np.uint8(0)]
    tilewright.emulate(PROGRAM, name, grid=3, block=128, args=args)
    weights = 0 * (a + b)  # __constant__ memory that nobody has written
    assert np.array_equal(out, weights + np.tile([1, 2, 3, 4], 75).astype(np.float32) + 3)

    x = np.arange(32, dtype=np.float32)
    params = np.array([(32, 2.0)], [("n", "i4"), ("alpha", "f4")])[0]
    tilewright.emulate(PROGRAM, "kernel_in_c", grid=1, block=32, args=[x, np.int32(32), params])
    # 2 · (2 x) + HELPER_CONST + helper(x)
    assert np.array_equal(x, np.arange(32) * 4.25 + 0.5)

    h = np.zeros(32, np.float16)
    tilewright.emulate(PROGRAM, "macro_kernel", grid=1, block=32, args=[h])
    assert (h == 1).all()


def test_lines_are_the_users() -> None:
    code = '#include <iostream>\nint main() {\n  std::cout << "}";\n}\n' + KERNEL
    artifact = compile_cuda(code, "k", cache=None)
    assert artifact.source == code
    lines = [line.split()[1:3] for line in artifact.ptx.splitlines() if "\t.loc\t" in line]
    assert {(file, line) for file, line in lines} == {("1", "5")}


def test_names_of_stand_ins_do_not_depend_on_the_folder(tmp_path: Path, monkeypatch) -> None:
    code = "#include <algorithm>\n__global__ void k(int* x) { x[0] = std::max(x[1], x[2]); }"
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "k.cu").write_text(code)
    monkeypatch.chdir(tmp_path)
    here = compile_cuda(tmp_path / "deep" / "k.cu", "k", cache=None).ptx
    assert '"algorithm"' in here
    monkeypatch.chdir("/")
    assert compile_cuda(tmp_path / "deep" / "k.cu", "k", cache=None).ptx == here


@pytest.mark.parametrize(
    ("include", "expression", "value"),
    [
        ("<cstdint>", "sizeof(uint64_t) + sizeof(std::int8_t) + UINT16_MAX", 65544),
        ("<climits>", "INT_MAX", 2**31 - 1),
        ("<cfloat>", "FLT_MAX > 3.4e38f && FLT_EPSILON == 0x1p-23f && DBL_EPSILON == 0x1p-52", 1),
        ("<cmath>", "INFINITY > FLT_MAX && std::sqrt(4.0f) == 2 && NAN != NAN", 1),
        ("<math.h>", "M_PI * 100", 314),
        ("<algorithm>", "std::min(x[0], 3) + std::max(4, 5) + std::clamp(9, 0, 7)", 12),
        ("<limits>", "std::numeric_limits<int>::max()", 2**31 - 1),
        ("<limits>", "std::numeric_limits<float>::lowest() == -FLT_MAX", 1),
        ("<limits>", "std::numeric_limits<double>::infinity() > DBL_MAX", 1),
        ("<type_traits>", "std::bool_constant<true>::value", 1),
        ("<type_traits>", "std::is_same_v<std::decay_t<const int&>, int>", 1),
        ("<type_traits>", "std::is_integral_v<long> + 2 * std::is_floating_point_v<float>", 3),
        ("<utility>", "std::move(x[0]) + std::forward<int>(x[0])", 0),
        ("<vector>", "sizeof(std::size_t)", 8),
        ("<cuda_runtime.h>", "sizeof(cudaStream_t) + (cudaSuccess == 0)", 9),
        ("<cuda.h>", "sizeof(CUtensorMap)", 128),
        ("<thrust/remove.h>", "sizeof(uint) + sizeof(ushort)", 6),
        pytest.param("<torch/extension.h>", "sizeof(half)", 2, marks=needs_headers),
        ("<nccl.h>", "sizeof(ncclUniqueId)", 128),
        ("<tuple>", "FLT_MAX < INFINITY", 1),
    ],
)
def test_stand_ins_of_the_hosts_headers(include: str, expression: str, value: int) -> None:
    code = f"#include {include}\nint host() {{ return 0; }}\n"
    code += f"__global__ void k(int* x) {{ x[0] = {expression}; }}"
    x = np.zeros(1, np.int32)
    tilewright.emulate(code, "k", grid=1, block=1, args=[x])
    assert x[0] == value


def test_every_stand_in_compiles_beside_all_others() -> None:
    cub = ("cub/cub.cuh",)  # needs CUDA's own C++ library
    code = "".join(f"#include <{name}>\n" for name in host_headers() if name not in cub)
    compile_cuda(code + "using namespace std;\n" + KERNEL, "k", cache=None)
    assert {"min", "size_t", "numeric_limits", "is_same_v", "sqrt"} <= std_names()
    assert not {"vector", "string", "cout"} & std_names()


def test_a_header_of_the_project_is_read_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "util.h").write_text(
        "#include <vector>\n#define DEV __device__\nstd::vector<int> all;\n"
        "DEV int seven() { return 7; }\nvoid host() { all.clear(); }\n"
    )
    (tmp_path / "k.cu").write_text(
        '#include "util.h"\nDEV int f() { return seven(); }\n'
        "__global__ void k(int* x) { x[0] = f() + oops; }"
    )
    with pytest.raises(CompileError, match=r'k.cu:3: identifier "oops" is undefined'):
        compile_cuda(tmp_path / "k.cu", "k", cache=None)
    (tmp_path / "k.cu").write_text((tmp_path / "k.cu").read_text().replace(" + oops", ""))
    x = np.zeros(1, np.int32)
    tilewright.emulate(tmp_path / "k.cu", "k", grid=1, block=1, args=[x])
    assert x[0] == 7
    (tmp_path / "util.h").write_text((tmp_path / "util.h").read_text().replace("7;", "7 + no;"))
    with pytest.raises(
        CompileError, match=r"util.h:4: identifier \"no\" is undefined\n(.|\n)*> 4 "
    ):
        compile_cuda(tmp_path / "k.cu", "k", cache=None)


@pytest.mark.skipif(
    load_nvrtc().version < (13, 5), reason="to NVRTC 13.0 what no word marks is for the device"
)
def test_a_kernel_that_uses_host_code_is_told() -> None:
    code = "int half(int a) { return a / 2; }\n__global__ void k(int* x) { x[0] = half(3); }"
    with pytest.raises(CompileError) as raised:
        compile_cuda(code, "k", cache=None)
    assert "half (kernel.cu:1) is host code, which is left out" in str(raised.value)
    assert "mark it __device__" in str(raised.value)


def test_printf_in_a_kernel_is_refused_by_name() -> None:
    code = '#include <cstdio>\n__global__ void k() { printf("%d", 1); }\nint main() {}'
    compile_cuda(code, "k", cache=None)
    with pytest.raises(tilewright.errors.UnsupportedError, match="does not execute printf"):
        tilewright.emulate(code, "k", grid=1, block=1, args=[])
