"""`tilewright explain`: what it prints, writes and refuses; counts derived by hand."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tilewright.bench.explain import spread
from tilewright.cli import app
from tilewright.launch import Launch

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
COMPILERS = ROOT / "tests" / "toolchain" / "data" / "compilers"


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def document(*arguments: object) -> dict:
    done = explain(*arguments, "--json", "-")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def counters(*arguments: object) -> dict[str, int]:
    return {c["name"]: c["value"] for c in document(*arguments)["counters"]}


def test_a_naive_transpose() -> None:
    found = counters(EXAMPLES / "transpose_naive.toml")
    warps = 512 * 512 // 32
    assert found["global load requests"] == warps
    assert found["global load sectors"] == 4 * warps  # 32 neighbours of 4 bytes
    assert found["global store sectors"] == 32 * warps  # each lane in a row of its own
    assert "shared wavefronts" not in found


def test_a_tiled_transpose_has_no_conflicts() -> None:
    found = counters(EXAMPLES / "transpose_tiled.toml")
    warps = 512 * 512 // 32
    assert found["global store sectors"] == 4 * warps
    assert found["shared wavefronts"] == found["  the fewest possible"] == 2 * warps


def test_the_classic_tile() -> None:
    told = document(EXAMPLES / "sgemm_tiled_32.toml")
    found = {c["name"]: c["value"] for c in told["counters"]}
    assert found["FFMA thread instructions"] == 256 * 256 * 128
    assert found["global load requests"] == 2 * (128 // 32) * 256 * 256 // 32
    assert told["kernel"] == "sgemm_tiled_32"
    assert (told["grid"], told["block"], told["blocks_run"]) == ([8, 8, 1], [32, 32, 1], 64)
    assert set(told["provenance"].values()) == {"exact"}
    loop = told["loops"][0]
    assert loop["file"] == "sgemm_tiled_32.cu"
    assert loop["trips"] == 128 / 32
    assert loop["mix"]["FFMA"] > 0.3
    product = next(line for line in told["lines"] if line["line"] == 18)
    # Of each 32 steps a warp reads four values of A at a time, one address, and 32 rows of B.
    assert product["shared_requests"] == 64 * 32 * (128 // 32) * (32 // 4 + 32)


def test_a_rung_is_exact() -> None:
    told = document("03", "--size", 256, "--gpu", "RTX A6000")
    found = {c["name"]: c["value"] for c in told["counters"]}
    assert told["gpu"] == "RTX A6000"
    assert found["FFMA thread instructions"] == 256**3 + 256**2
    assert set(told["provenance"].values()) == {"exact"}
    assert any(line["file"] == "03_shared_tile.cuh" for line in told["lines"])


def test_flags_say_what_a_file_says(tmp_path: Path) -> None:
    flags = ["--grid", "16,64", "--block", "32,8", "--kernel", "transpose_naive"]
    for arg in ("f32[512,512]:normal", "f32[512,512]", "i32=512", "i32=512"):
        flags += ["--arg", arg]
    by_flags = tmp_path / "flags.json"
    assert explain(EXAMPLES / "transpose_naive.cu", *flags, "--json", by_flags).exit_code == 0
    assert json.loads(by_flags.read_text()) == document(EXAMPLES / "transpose_naive.toml")
    assert document("--launch", EXAMPLES / "transpose_naive.toml", "--gpu", "T4")["arch"] == "sm_75"


def test_what_is_printed() -> None:
    done = explain(EXAMPLES / "transpose_naive.toml")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].startswith("transpose_naive on H200: about ")
    assert any(line.startswith("Modelled: ") for line in lines)
    assert max(map(len, lines)) <= 100
    assert any("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum" in line for line in lines)
    source = next(line for line in lines if "out[column * rows" in line)
    assert source.split("|")[0].split() == ["8", "52.2%", "18", "(4)"]
    assert "transpose_naive.cu:8 moves 18 sectors a request where 4 would do" in " ".join(
        done.output.split()
    )


def test_a_file_with_a_long_name_fits_the_width(tmp_path: Path) -> None:
    folder = tmp_path / "headers_that_are_kept_far_away" / "from_the_kernel_that_includes_them"
    folder.mkdir(parents=True)
    (folder / "a.cuh").write_text(
        "\n\n\n__device__ void twice(float* x) {\n  x[threadIdx.x] *= 2;\n}\n"
    )
    path = tmp_path / "k.cu"
    path.write_text(
        f'#include "{folder.relative_to(tmp_path)}/a.cuh"\n'
        "__global__ void k(float* x) { twice(x); }\n"
    )
    done = explain(path, "--grid", 1, "--block", 32, "--arg", "f32[32]")
    assert done.exit_code == 0
    assert "them/a.cuh: what each line costs (in\n  brackets, " in done.output
    assert max(map(len, done.output.splitlines())) <= 100


def test_host_code_is_left_out() -> None:
    found = counters(EXAMPLES / "saxpy_program.toml")
    assert found["FFMA thread instructions"] == 65536


def test_a_sample_stands_for_all_and_says_so() -> None:
    path = EXAMPLES / "scan_blocks.cu"
    flags = ["--grid", 300, "--block", 512, "--arg", "i32[153600]", "--arg", "i32[153600]"]
    told = document(path, *flags, "--arg", "i32=153600")
    assert told["blocks_run"] == 256
    assert set(told["provenance"].values()) == {"derived"}
    loads = next(c for c in told["counters"] if c["name"] == "global load requests")
    assert loads["value"] == 300 * 512 // 32
    assert document(path, *flags, "--arg", "i32=153600", "--full")["blocks_run"] == 300


@pytest.mark.parametrize(
    ("blocks", "most", "expected"),
    [
        (4, None, None),
        (4, 4, None),
        (5, 4, [0, 1, 2, 4]),
        (100, 1, [0]),
        (1000, 3, [0, 499, 999]),
    ],
)
def test_a_sample_is_spread_over_the_grid(blocks: int, most: object, expected: object) -> None:
    assert spread(Launch(grid=blocks, block=1), most) == expected


TALK = """#include <cstdio>
__global__ void talk(const float* x, float* y, int n) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) sum = fmaf(x[i], 2.0f, sum);
  printf("%f", sum);
  *y = sum;
}
int main() {}
"""


def test_what_cannot_run_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "talk.cu").write_text(TALK)
    flags = ["--grid", 1, "--block", 64, "--arg", "f32[8]", "--arg", "f32[1]", "--arg", "i32=8"]
    done = explain(tmp_path / "talk.cu", *flags)
    assert done.exit_code == 0  # the half that there is was given
    assert "does not execute printf, which writes to the host: remove it" in done.stderr
    assert "talk.cu:6" in done.stderr
    assert "not run, so nothing is counted or timed" in done.output
    assert "registers a thread" in done.output
    row = next(line for line in done.output.splitlines() if line.strip().startswith("talk.cu:5"))
    assert "1 LDG 4" in row
    told = document(tmp_path / "talk.cu", *flags)
    assert told["not_run"].startswith("the emulator does not execute printf")
    (loop,) = told["machine_code"]["loops"]
    assert (loop["lines"], loop["depth"], loop["inner"]) == ([5, 5], 1, True)
    assert loop["mix"]["FFMA"] == 1 / loop["instructions"]
    assert loop["widths"] == [{"opcode": "LDG", "bytes": 4, "instructions": 1}]
    assert "counters" not in told


def test_suggestions_are_ranked_and_say_that_they_are_modelled() -> None:
    told = document(EXAMPLES / "transpose_naive.toml")
    (first, *_) = told["suggestions"]
    assert (first["kind"], first["place"]) == ("coalescing", "transpose_naive.cu:8")
    gains = [each["gain"] for each in told["suggestions"]]
    assert gains == sorted(gains, reverse=True)
    assert all(gain > 1 for gain in gains)
    assert {each["provenance"] for each in told["suggestions"]} == {"modelled"}
    assert told["estimate"]["provenance"] == told["roofline"]["provenance"] == "modelled"
    shown = explain(EXAMPLES / "transpose_naive.toml").output
    assert f"1. [what-if: {gains[0]:.2f}x at most, modelled, for " in shown


def test_the_roofline_of_a_copy_and_of_a_product() -> None:
    copied = document(EXAMPLES / "transpose_naive.toml")["roofline"]
    assert (copied["flops"], copied["intensity"], copied["bound"]) == (0, 0, "memory")
    product = document(EXAMPLES / "sgemm_tiled_32.toml")["roofline"]
    assert product["flops"] == 2 * 256 * 256 * 128
    assert product["ridge"] == product["peak_flops_per_s"] / product["peak_bytes_per_s"]


def test_a_rung_tries_the_next_one() -> None:
    told = document("02", "--size", 128)
    (tried,) = [each for each in told["suggestions"] if each["basis"] == "tried"]
    assert tried["text"] == "the next rung, 03_shared_tile: stage tiles of A and B on chip"
    told = document("02", "--size", 128, "--tries", 0)
    assert "tried" not in {each["basis"] for each in told["suggestions"]}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name what to explain: a rung, a .cu or .ptx file, or --launch FILE"),
        (["nine"], "unknown rung 'nine'"),
        (["matvec.c"], "matvec.c: expected a rung"),
        (["matvec.cu"], "no such source file"),
        (["matvek.cu"], "no such source file: matvek.cu"),
        ([EXAMPLES / "matvec.cu"], "matvec.toml is beside it"),
        ([EXAMPLES / "matvec.cu", "--grid", 8], "--block missing: say how to launch"),
        ([EXAMPLES / "matvec.cu", "--grid", 8, "--block", 2000], "a block is at most"),
        ([EXAMPLES / "matvec.cu", "--grid", 8, "--block", 32], "takes 5 arguments, got 0"),
        ([EXAMPLES / "matvec.toml", "--kernel", "matvek"], "did you mean 'matvec'"),
        ([EXAMPLES / "matvec.toml", "--gpu", "V100"], "NVRTC 13 compiles for sm_75 and later"),
        ([EXAMPLES / "matvec.toml", "--block", 4], "--block: "),
        ([EXAMPLES / "matvec.toml", "--shared-bytes", 4], "--shared-bytes: "),
        ([EXAMPLES / "matvec.toml", "--option", "-O3"], "--option: "),
        ([EXAMPLES / "matvec.toml", "--include-dir", "."], "--include-dir: "),
        ([EXAMPLES / "matvec.toml", "--size", 4], "--size: those are for rungs"),
        (["01", "--size", 1 << 26], "more than this machine has free: choose smaller sizes"),
        (["01", "--size", 1 << 30], "more than this machine has free: choose smaller sizes"),
        (["01", "--grid", 4], "--grid: 01 is a rung, which launches itself"),
        (["01", "--m", 4], "give --m, --n and --k together: --n, --k is missing"),
        ([EXAMPLES / "mat.toml"], "no such launch file"),
    ],
)
def test_bad_input_ends_in_one_clear_line(arguments: list, says: str) -> None:
    if arguments == ["matvec.cu"]:
        arguments = ["matvec.cu", "--grid", 1, "--block", 1]
    done = explain(*arguments)
    assert done.exit_code == 2
    assert done.output.startswith("error: ")
    assert says in done.output


def test_help_has_an_example() -> None:
    told = " ".join(explain("--help").output.split())
    assert "Example: tilewright explain examples/saxpy_program.cu --kernel" in told


def has_linker() -> bool:
    from tilewright.errors import ToolchainError
    from tilewright.toolchain.assembler import load_nvjitlink

    try:
        load_nvjitlink()
    except ToolchainError:
        return False
    return True


needs_linker = pytest.mark.skipif(not has_linker(), reason="nvJitLink is not installed")


@needs_linker
def test_ptx_of_another_compiler_is_explained_by_its_own_lines() -> None:
    flags = ["--grid", 2, "--block", 128]
    for arg in (*["f32[1024]"] * 3, "i32=1000", "u8[1]", "u8[1]"):
        flags += ["--arg", arg]
    told = document(COMPILERS / "triton_add.ptx", *flags)
    found = {c["name"]: c["value"] for c in told["counters"]}
    assert found["global load requests"] == 2 * 32  # 1000 floats: 31 whole warps and one of 8
    assert found["global store sectors"] == 125
    text = (COMPILERS / "triton_add.ptx").read_text().splitlines()
    stores = [line for line in told["lines"] if "st.global" in text[line["line"] - 1]]
    assert sum(line["sectors"] for line in stores) == 125


@needs_linker
def test_ptx_that_cannot_run_is_still_read() -> None:
    flags = ["--grid", 1, "--block", 128, "--shared-bytes", 4096, "--gpu", "RTX A6000"]
    for arg in (*["f16[4096]"] * 3, *["i32=32"] * 3, "u8[1]", "u8[1]"):
        flags += ["--arg", arg]
    done = explain(COMPILERS / "triton_matmul_fp16.ptx", *flags)
    assert done.exit_code == 0
    assert "does not execute ldmatrix" in done.output
    assert "4096 bytes of shared memory" in done.output


@pytest.mark.skipif(has_linker(), reason="nvJitLink is installed")
def test_ptx_without_a_linker_is_told_what_to_install() -> None:
    done = explain(COMPILERS / "triton_add.ptx", "--grid", 1, "--block", 128, "--arg", "f32[4]")
    assert done.exit_code == 2
    assert "pip install nvidia-nvjitlink" in done.output
