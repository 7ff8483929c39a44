"""Programs that NVRTC refuses go to nvcc: where there is one, by a stand-in, and where none is."""

import shutil
from pathlib import Path

import pytest

from tilewright.errors import CompileError, ToolchainError
from tilewright.settings import read_settings
from tilewright.toolchain import compile_cuda, disassemble, resources
from tilewright.toolchain.nvcc import find_nvcc

PROGRAM = """#include <tuple>
#include <vector>
template <typename T>
__global__ void scale(T* x, T by, int n) {
  using F = std::tuple_element_t<0, std::tuple<T, int>>;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= F(by);
}
int main() {
  std::vector<float> host(3);
  return int(host.size()) - 3;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    return path


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_nvcc_takes_what_nvrtc_refuses(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_NVCC", raising=False)
    made = compile_cuda(program, "scale<float>", cache=None)
    assert made.compiler.startswith("nvcc ")
    assert "NVRTC refused" in made.log
    code = disassemble(made).functions[made.symbol].instructions
    (store,) = (ins for ins in code if ins.opcode == "STG")
    assert store.location is not None
    assert (store.location.file, store.location.line) == ("program.cu", 7)
    text = made.ptx.splitlines()[(store.ptx_line or 0) - 1]
    assert text.strip().startswith("st.global")
    assert resources(made).registers > 0


def test_without_nvcc_the_refusal_says_what_would_help(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_NVCC", "0")
    assert find_nvcc() is None
    with pytest.raises(CompileError) as caught:
        compile_cuda(program, "scale<float>", cache=None)
    said = str(caught.value)
    assert "program.cu:5" in said
    assert "none on PATH: TILEWRIGHT_NVCC can name one" in said


def test_a_plain_kernel_is_not_sent_to_nvcc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_NVCC", "/no/such/nvcc")
    path = tmp_path / "k.cu"
    path.write_text("__global__ void k(float* x) { x[0] = y; }\n")
    with pytest.raises(CompileError, match=r"NVRTC .* refused k\.cu"):
        compile_cuda(path, "k", cache=None)


def test_the_named_nvcc_is_asked_and_heard(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "nvcc"
    named.write_text(
        '#!/bin/sh\ncase "$*" in\n  --version) echo "release 9.9, V9.9.1";;\n'
        '  *) echo "program.cu(5): error: not today" >&2; exit 1;;\nesac\n'
    )
    named.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_NVCC", str(named))
    with pytest.raises(CompileError, match=r"nvcc 9\.9\.1, which .* error: not today"):
        compile_cuda(program, "scale<float>", cache=None)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", None])
def test_a_named_nvcc_that_is_none(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "nvcc"
    if text is not None:
        named.write_text(text)
        named.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_NVCC", str(named))
    with pytest.raises(ToolchainError, match="TILEWRIGHT_NVCC"):
        find_nvcc()


def test_the_setting() -> None:
    assert read_settings({}).nvcc is None
    assert read_settings({"TILEWRIGHT_NVCC": "0"}).nvcc == "never"
    assert read_settings({"TILEWRIGHT_NVCC": "nvcc-13"}).nvcc == "nvcc-13"
