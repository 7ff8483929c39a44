"""Compiling CUDA C++ and taking PTX: names, line information, and every way to be refused."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tilewright.errors import CompileError, ToolchainError, UnknownNameError, UnsupportedError
from tilewright.toolchain import artifact_from_ptx, compile_cuda, supported_archs, toolkit
from tilewright.toolchain.lineinfo import locate
from tilewright.toolchain.names import base_name, kernels_in_cuda
from tilewright.toolchain.ptx.ir import Location
from tilewright.toolchain.source import file_name

TEMPLATE = """\
struct Tile { int bm, bn; };
template <Tile T>
__global__ void gemm(float* p, int n) {
  static_assert(T.bm % 32 == 0, "bm must be a multiple of 32");
  p[n] = T.bm;
}
extern "C" __global__ void plain(float* p) {
  p[threadIdx.x] *= 2.0f;
}
namespace deep { __global__ void inner(float* p) { p[0] = 1.0f; } }
"""


def compiled(source, kernel, **options):
    return compile_cuda(source, kernel, cache=None, **options)


def refusal(source, kernel="k", error=CompileError, **options):
    with pytest.raises(error) as raised:
        compiled(source, kernel, **options)
    return str(raised.value)


def test_an_empty_log_leaves_pythons_own_bytes_alone():
    compiled(TEMPLATE, "plain")  # NVRTC writes the end of a log of nothing: one byte
    assert list(" ".encode("latin-1")) == [32]


class TestNames:
    # The symbols are mangled by hand, by the rules of the Itanium C++ ABI.
    @pytest.mark.parametrize(
        ("kernel", "symbol"),
        [
            ("gemm<Tile{.bm=128}>", "_Z4gemmIXtl4TileLi128ELi0EEEEvPfi"),
            (" gemm<Tile{64, 32}> ", "_Z4gemmIXtl4TileLi64ELi32EEEEvPfi"),
            ("plain", "plain"),
            ("deep::inner", "_ZN4deep5innerEPf"),
        ],
    )
    def test_symbol(self, kernel, symbol):
        artifact = compiled(TEMPLATE, kernel)
        assert artifact.symbol == symbol
        assert artifact.name == kernel.strip()
        assert f".entry {symbol}(" in artifact.ptx
        assert symbol.encode() in artifact.cubin

    def test_unknown_kernel_lists_those_there_are(self):
        text = refusal(TEMPLATE, "plane", UnknownNameError)
        assert text == (
            "unknown kernel of kernel.cu 'plane': did you mean 'plain'? known: gemm, inner, plain"
        )

    def test_kernels_of_included_files_are_listed(self, tmp_path):
        (tmp_path / "inner.cuh").write_text("__global__ void helper() {}\n")
        main = tmp_path / "main.cu"
        main.write_text('#include "inner.cuh"\n')
        assert "known: helper" in refusal(main, "nothing", UnknownNameError)

    @pytest.mark.parametrize("source", ["__device__ int x;", "", "\n"])
    def test_source_without_kernels(self, source):
        assert refusal(source) == ("kernel.cu has no __global__ function, so no kernel 'k'")

    def test_wrong_template_argument_is_pointed_at(self):
        lines = refusal(TEMPLATE, "gemm<Tile{.bk=8}>").splitlines()
        assert lines[0] == (
            'kernel \'gemm<Tile{.bk=8}>\' does not fit kernel.cu: class "Tile" has no field "bk"'
        )
        assert lines[1] == "  gemm<Tile{.bk=8}>"
        assert lines[2].index("^") == lines[1].index("bk")

    @pytest.mark.parametrize("kernel", ["gemm", "inner"])
    def test_template_or_namespace_left_out(self, kernel):
        text = refusal(TEMPLATE, kernel)
        assert f"kernel '{kernel}' does not fit kernel.cu" in text
        assert "a template needs its arguments, and a name in a namespace its namespace::" in text

    def test_empty_name(self):
        assert "expected the name of a __global__ function" in refusal(TEMPLATE, " ")

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("__global__ void a(int);  __global__ void b() {}", ("a", "b")),
            ("__global__ void a(); __global__ void a() {}", ("a",)),
            ("// __global__ void a()\n/* __global__ void b() */ __global__ void c() {}", ("c",)),
            ('const char* s = "__global__ void a()"; __global__ void b() {}', ("b",)),
            ('auto s = R"x(" __global__ void a() )x"; __global__ void b() {}', ("b",)),
            ("int n = 1'000; __global__ void a() { char c = '\"'; }", ("a",)),
            ("__global__ void __launch_bounds__(T.threads(), 2) a(int) {}", ("a",)),
            ("__launch_bounds__(256) __global__ auto a() -> void {}", ("a",)),
            ("template <int N> __global__ __cluster_dims__(2, 1) void a() {}", ("a",)),
            ("template __global__ void a<2, float>(int); int main() {}", ("a",)),
            ("template <> __global__ void a<Tile{.bm = 2}>(int) { f(); }", ("a",)),
            ("__device__ void a() {}", ()),
        ],
    )
    def test_scan(self, text, names):
        assert kernels_in_cuda(text) == names

    def test_base_name(self):
        assert base_name("&ns::gemm<ns::Tile{.bm=1}>") == "gemm"
        assert base_name("naive") == "naive"


class TestOutput:
    def test_line_information_names_the_source_line(self, tmp_path):
        path = tmp_path / "01_two.cuh"
        path.write_text("\n" * 35 + "__global__ void k(float* p) {\n  p[0] = p[1];\n}\n")
        ptx = compiled(path, "k").ptx
        load = next(i for i, line in enumerate(ptx.splitlines(), 1) if "ld.global" in line)
        assert locate(ptx, load) == Location("01_two.cuh", 37)

    def test_line_information_of_a_header(self, tmp_path):
        lib = tmp_path / "include" / "lib"
        lib.mkdir(parents=True)
        (lib / "a.cuh").write_text("\n__device__ float f(float x) {\n  return x + 2.5f;\n}\n")
        source = '#include "lib/a.cuh"\n__global__ void k(float* p) { p[0] = f(p[0]); }\n'
        ptx = compiled(source, "k", include_dirs=[tmp_path / "include"]).ptx
        add = next(i for i, line in enumerate(ptx.splitlines(), 1) if "add.f32" in line)
        assert locate(ptx, add) == Location("lib/a.cuh", 3)

    def test_ptx_does_not_depend_on_the_folder(self, tmp_path, monkeypatch):
        texts = []
        for place in ("here", "a/b/there"):
            folder = tmp_path / place
            (folder / "lib").mkdir(parents=True)
            (folder / "lib" / "a.cuh").write_text("__device__ int f() { return 3; }\n")
            (folder / "k.cu").write_text(
                '#include "lib/a.cuh"\n__global__ void k(int* p) { p[0] = f() + p[1]; }\n'
            )
            monkeypatch.chdir(folder)
            texts.append(compiled(Path("k.cu"), "k").ptx)
            assert str(tmp_path) not in texts[-1]
        assert texts[0] == texts[1]

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/project/src/lib/a.cuh", "lib/a.cuh"),
            ("/project/lib/a.cuh", "../lib/a.cuh"),
            ("/opt/cuda/include/a.hpp", "include/a.hpp"),
            ("/usr/include/a.h", "/usr/include/a.h"),
        ],
    )
    def test_a_file_has_the_shortest_of_its_names(self, path, name):
        assert file_name(path, Path("/project/src"), [Path("/opt/cuda")]) == name

    def test_text_has_no_folder(self):
        assert '"kernel.cu"' in compiled("__global__ void k(int* p) { p[0] = 1; }", "k").ptx

    @pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90a", "sm_100", "sm_120"])
    def test_every_generation(self, arch):
        artifact = compiled("__global__ void k(float* p) { p[0] = 1.0f; }", "k", arch=arch)
        assert f".target {arch}\n" in artifact.ptx
        assert artifact.cubin.startswith(b"\x7fELF")
        assert artifact.arch == arch
        assert artifact.compiler.startswith("NVRTC 13.")

    def test_language_is_cpp20(self):
        source = "__global__ void k(long* p) { p[0] = __cplusplus; }"
        assert "202002;" in compiled(source, "k").ptx

    def test_options_reach_the_compiler(self):
        source = "__global__ void k(int* p) { p[0] = VALUE; }"
        assert "12345;" in compiled(source, "k", options=["-DVALUE=12345"]).ptx

    def test_warnings_are_kept_and_name_the_file(self):
        log = compiled("__global__ void k(int* p) { int unused; p[0] = 1; }", "k").log
        assert log.startswith("kernel.cu(1): warning")

    def test_cuda_headers_when_installed(self):
        if not toolkit.cuda_include_dirs(toolkit.load_nvrtc().version[0]):
            pytest.skip("CUDA's headers are not installed")
        source = "#include <cuda_fp16.h>\n__global__ void k(__half* p) { p[0] = p[1] + p[2]; }"
        assert "add.f16" in compiled(source, "k").ptx

    def test_threads(self):
        def one(number):
            source = f"__global__ void k{number}(int* p) {{ p[0] = {number}; }}"
            return compiled(source, f"k{number}").symbol

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(one, range(8))) == [f"_Z2k{n}Pi" for n in range(8)]


class TestErrors:
    def test_error_in_a_header_shows_its_lines_and_the_way_there(self, tmp_path):
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "bad.cuh").write_text(
            "#pragma once\n\n__device__ float f(float x) {\n\treturn x + gone;\n}\n"
        )
        (tmp_path / "mid.cuh").write_text('// a comment\n#include "lib/bad.cuh"\n')
        main = tmp_path / "main.cu"
        main.write_text('#include "mid.cuh"\n__global__ void k() {}\n')
        title, rest = refusal(main).split("\n\n", 1)
        assert title.startswith("NVRTC 13.")
        assert title.endswith("refused main.cu for sm_90")
        assert rest == (
            'lib/bad.cuh:4: identifier "gone" is undefined\n'
            "    2 |\n"
            "    3 | __device__ float f(float x) {\n"
            "  > 4 | \treturn x + gone;\n"
            "      | \t           ^\n"
            "    5 | }\n"
            "  included from mid.cuh:2\n"
            "  included from main.cu:1"
        )

    def test_caret_counts_characters_not_bytes(self):
        lines = refusal("__global__ void k(int* p) { /* é */ p[0] = gone; }").splitlines()
        assert lines[-1].index("^") == lines[-2].index("gone")

    def test_static_assert_shows_the_template_arguments(self):
        text = refusal(TEMPLATE, "gemm<Tile{.bm=33}>")
        assert 'kernel.cu:4: static assertion failed with "bm must be a multiple of 32"' in text
        assert "Tile{33, 0}" in text

    def test_no_wall_of_text(self):
        body = "\n".join(f"  p[{i}] = u{i};" for i in range(12))
        text = refusal(f"__global__ void k(int* p) {{\n{body}\n}}")
        assert text.count("is undefined") == 3
        assert text.endswith("and 9 more errors")

    def test_name_made_up_by_a_line_directive(self):
        text = refusal('#line 100 "made_up.cu"\n__global__ void k(int* p) { p[0] = gone; }')
        assert 'made_up.cu:100: identifier "gone" is undefined\n  > 100 | __global__' in text

    def test_ptxas_error_shows_ptx_and_source_line(self):
        source = '__global__ void k(int* p) {\n  asm("bogus.u32 %0, 3;" : "=r"(p[0]));\n}'
        text = refusal(source)
        assert "Not a name of any known instruction: 'bogus'" in text
        assert ": bogus.u32" in text
        assert (
            '  from kernel.cu:2\n    1 | __global__ void k(int* p) {\n  > 2 |   asm("bogus' in text
        )

    def test_ptxas_error_without_a_line(self):
        source = (
            "__global__ void k(int* p) { __shared__ int s[70000]; s[threadIdx.x] = p[0];"
            " __syncthreads(); p[1] = s[p[2]]; }"
        )
        assert "uses too much shared data" in refusal(source)

    @pytest.mark.parametrize(
        ("include", "remedy"),
        [
            ("<cuda_gone.h>", "pip install nvidia-cuda-runtime"),
            ("<cuda/std/gone>", "pip install nvidia-cuda-cccl"),
            ('"lib/gone.cuh"', "give the folder that has it in include_dirs"),
        ],
    )
    def test_missing_header(self, include, remedy):
        text = refusal(f"#include {include}\n__global__ void k() {{}}")
        assert f'kernel.cu:1: cannot open source file "{include[1:-1]}"' in text.replace(
            "could not open", "cannot open"
        ).replace(" (no directories in search list)", "")
        assert remedy in text

    def test_missing_file(self, tmp_path):
        (tmp_path / "naive.cu").write_text("")
        assert refusal(tmp_path / "naiv.cu").endswith("naiv.cu; did you mean naive.cu?")
        for path in ("gone/naive.cu", "gone/naive"):
            assert refusal(path).startswith(f"no such source file: {path} (and no folder ")
        assert "Is a directory" in refusal(tmp_path)

    def test_not_text(self, tmp_path):
        path = tmp_path / "k.cu"
        path.write_bytes(b"// \xff\n")
        assert "byte 3 is not" in refusal(path)
        path.write_bytes(b"__global__ void k() {}\n\0")
        assert "k.cu:2: a NUL character" in refusal(path)

    @pytest.mark.parametrize("arch", ["sm_50", "sm_999", "sm_75a", "sm_90f"])
    def test_unknown_arch_lists_the_known(self, arch):
        text = refusal(TEMPLATE, "plain", UnsupportedError, arch=arch)
        assert f"does not compile for {arch}; it does for {', '.join(supported_archs())}" in text

    @pytest.mark.parametrize("arch", ["90", "compute_90", "sm_90b", ""])
    def test_malformed_arch(self, arch):
        assert "expected sm_ and a number" in refusal(TEMPLATE, "plain", arch=arch)

    @pytest.mark.parametrize(
        ("option", "words"),
        [
            ("-bogus", "unrecognized option -bogus"),
            ("-I/somewhere", "give include_dirs"),
            ("-arch=sm_80", "give arch"),
            ("--std=c++17", "always C++20"),
            ("--pre-include=x.h", "write the #include in the source"),
        ],
    )
    def test_options_that_are_refused(self, option, words):
        assert words in refusal(TEMPLATE, "plain", options=[option])

    def test_one_string_is_not_a_sequence(self):
        assert "expected a sequence" in refusal(TEMPLATE, "plain", options="-DX")
        assert "expected a sequence" in refusal(TEMPLATE, "plain", include_dirs="lib")

    def test_missing_include_folder(self, tmp_path):
        assert "no such folder" in refusal(TEMPLATE, "plain", include_dirs=[tmp_path / "gone"])

    def test_nvrtc_not_installed(self, monkeypatch):
        toolkit.load_nvrtc.cache_clear()
        monkeypatch.setitem(sys.modules, "cuda.bindings", None)
        try:
            assert "pip install cuda-bindings nvidia-cuda-nvrtc" in refusal(
                TEMPLATE, "plain", ToolchainError
            )
        finally:
            toolkit.load_nvrtc.cache_clear()


class TestFromPtx:
    PTX = (
        "// .target sm_10\n.version 9.0\n.target sm_86, texmode_independent\n.address_size 64\n"
        ".visible .entry _Z5naivePf(\n.param .u64 a\n)\n{ ret; }\n"
        ".visible .entry _Z7naive_2Pf(\n.param .u64 a\n)\n{ ret; }\n"
        ".weak .entry _Z4gemmILi3EEvPf(\n.param .u64 a\n)\n{ ret; }\n"
        ".entry plain()\n{ ret; }\n.func helper()\n{ ret; }\n"
    )

    @pytest.mark.parametrize(
        ("kernel", "symbol"),
        [
            ("_Z7naive_2Pf", "_Z7naive_2Pf"),
            ("naive", "_Z5naivePf"),
            ("naive_2", "_Z7naive_2Pf"),
            ("gemm", "_Z4gemmILi3EEvPf"),
            ("plai", "plain"),
        ],
    )
    def test_pick(self, kernel, symbol):
        artifact = artifact_from_ptx(self.PTX, kernel)
        assert artifact.symbol == symbol
        assert artifact.arch == "sm_86"
        assert (artifact.ptx, artifact.cubin) == (self.PTX, b"")

    def test_ambiguous(self):
        with pytest.raises(CompileError, match=r"means 2 kernels.*_Z5naivePf, _Z7naive_2Pf"):
            artifact_from_ptx(self.PTX, "naiv")

    @pytest.mark.parametrize("kernel", ["helper", "gone", ""])
    def test_unknown(self, kernel):
        with pytest.raises((UnknownNameError, CompileError), match="plain"):
            artifact_from_ptx(self.PTX, kernel)

    def test_not_ptx(self, tmp_path):
        with pytest.raises(CompileError, match=r"expected a line `\.target"):
            artifact_from_ptx("__global__ void k() {}", "k")
        with pytest.raises(CompileError, match="no such source file"):
            artifact_from_ptx(tmp_path / "gone.ptx", "k")
        with pytest.raises(CompileError, match="has no kernel"):
            artifact_from_ptx(".target sm_90\n", "k")

    def test_ptx_of_a_compile_from_a_file(self, tmp_path):
        artifact = compiled(TEMPLATE, "plain")
        path = tmp_path / "out.ptx"
        path.write_text(artifact.ptx)
        again = artifact_from_ptx(str(path), "plain")
        assert (again.symbol, again.ptx, again.source_name) == ("plain", artifact.ptx, "out.ptx")


def test_importing_loads_no_compiler():
    code = "import sys, tilewright.toolchain; print([m for m in sys.modules if m == 'cuda'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
