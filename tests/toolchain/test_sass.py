"""Machine code as values: a listing by hand, and the disassembler's own other output format."""

import json
import subprocess

import pytest

from tilewright.errors import ToolchainError, UnsupportedError
from tilewright.toolchain import (
    artifact_from_ptx,
    compile_cuda,
    disassemble,
    opcode_histogram,
    toolkit,
)
from tilewright.toolchain.ptx.ir import Location
from tilewright.toolchain.sass import parse_sass

# Written by hand in nvdisasm's form.
LISTING = """\
	.target	sm_90

	.elftype	@"ET_EXEC"


//--------------------- .text.first         --------------------------
	.section	.text.first,"ax",@progbits
	.align	128
        .global         first
        .type           first,@function
first:
.text.first:
	//## File "/home/me/p/k.cu", line 5
	//## File ".nv_debug_ptx_txt", line 18
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/home/me/p/lib/a.cuh", line 3 inlined at "/home/me/p/k.cu", line 7
	//## File "/home/me/p/k.cu", line 7 inlined at "/home/me/p/k.cu", line 9
	//## File "/home/me/p/k.cu", line 9
	//## File ".nv_debug_ptx_txt", line 21
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64+0x10] ;
	//## File ".nv_debug_ptx_txt", line 22
        /*0020*/                   LOP3.LUT R0, R7.reuse, 0x3, RZ, 0xc0, !PT ;
.L_x_1:
	//## File "/home/me/p/k.cu", line 6
        /*0030*/             @!UP1 UIADD3 UR5, UR5, UR4, URZ ;
        /*0040*/               @P1 BRA `(.L_x_1) ;
        /*0050*/                   CALL.REL.NOINC `($first$helper) ;
        /*0060*/                   EXIT ;
        .type           $first$helper,@function
$first$helper:
        /*0070*/                   RET.REL.NODEC R20 `(first) ;
.L_x_0:
        /*0080*/                   BRA `(.L_x_0);
        /*0090*/                   NOP;
        /*00a0*/                   NOP;
.L_x_2:


//--------------------- .text.second         --------------------------
	.section	.text.second,"ax",@progbits
second:
.text.second:
        /*0000*/                   EXIT ;


//--------------------- SYMBOLS --------------------------
"""

SOURCE = """\
__device__ __noinline__ float square(float x, int n) {
  for (int i = 0; i < n; ++i) x *= x;
  return x;
}
__global__ void k(float* p, const float* q, int n) {
  __shared__ float4 s[64];
  s[threadIdx.x] = reinterpret_cast<const float4*>(q)[threadIdx.x];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 1
  for (int i = 0; i < n; ++i)
    sum = fmaf(p[i], q[i], sum);
  if (n > 3) sum = square(sum, n);
  p[threadIdx.x] = sum + s[n].x;
}
"""


@pytest.fixture(scope="module")
def compiled():
    return compile_cuda(SOURCE, "k", cache=None)


@pytest.fixture(scope="module")
def kernel(compiled):
    return disassemble(compiled).functions[compiled.symbol]


class TestListing:
    def test_functions(self):
        sass = parse_sass(LISTING)
        assert sass.arch == "sm_90"
        assert list(sass.functions) == ["first", "second"]
        assert len(sass.functions["second"].instructions) == 1

    def test_instruction(self):
        load = parse_sass(LISTING).functions["first"].instructions[1]
        assert (load.address, load.predicate) == (0x10, "!P0")
        assert (load.opcode, load.modifiers) == ("LDG", ("E", "128", "CONSTANT"))
        assert load.mnemonic == "LDG.E.128.CONSTANT"
        assert load.operands == ("R4", "desc[UR4][R2.64+0x10]")
        assert load.target is None

    def test_uniform_predicate_and_operands(self):
        found = parse_sass(LISTING).functions["first"].instructions
        assert found[3].predicate == "!UP1"
        assert found[2].operands == ("R0", "R7.reuse", "0x3", "RZ", "0xc0", "!PT")
        assert found[6].operands == ()

    def test_lines(self):
        names = ("k.cu", "lib/a.cuh", "cuh")
        found = parse_sass(LISTING, names).functions["first"].instructions
        assert found[0].location == Location("k.cu", 5)
        assert found[0].inlined_at == ()
        assert found[1].location == Location("lib/a.cuh", 3)
        assert found[1].inlined_at == (Location("k.cu", 7), Location("k.cu", 9))
        # A new PTX line leaves the CUDA line, and the other way about.
        assert found[2].location == Location("lib/a.cuh", 3)
        assert found[3].location == Location("k.cu", 6)
        assert [i.ptx_line for i in found[:4]] == [18, 21, 22, 22]

    def test_lines_without_names_keep_the_path(self):
        found = parse_sass(LISTING).functions["first"].instructions
        assert found[0].location == Location("/home/me/p/k.cu", 5)

    def test_the_longest_name_wins(self):
        found = parse_sass(LISTING, ("a.cuh", "lib/a.cuh", "../p/k.cu")).functions["first"]
        assert found.instructions[1].location.file == "lib/a.cuh"
        assert found.instructions[0].location.file == "../p/k.cu"

    def test_no_line_information(self):
        (exit_,) = parse_sass(LISTING).functions["second"].instructions
        assert (exit_.location, exit_.inlined_at, exit_.ptx_line) == (None, (), None)

    def test_targets(self):
        function = parse_sass(LISTING).functions["first"]
        targets = {i.opcode: i.target for i in function.instructions}
        assert (targets["BRA"], targets["CALL"], targets["RET"]) == (0x30, 0x70, None)
        assert function.labels["$first$helper"] == 0x70

    def test_padding_is_left_out(self):
        assert parse_sass(LISTING).functions["first"].instructions[-1].opcode == "RET"

    def test_a_line_that_is_not_understood(self):
        with pytest.raises(ToolchainError, match=r"not understood: .*0010"):
            parse_sass(LISTING.replace("@!P0 LDG", "@!Q0 {LDG"))


class TestDisassembler:
    @pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90", "sm_100", "sm_120"])
    def test_agrees_with_its_json(self, arch, tmp_path):
        artifact = compile_cuda(SOURCE, "k", arch=arch, cache=None)
        found = disassemble(artifact)
        assert found.arch == arch
        mnemonics = [i.mnemonic for i in found.functions[artifact.symbol].instructions]
        path = tmp_path / "k.cubin"
        path.write_bytes(artifact.cubin)
        command = [toolkit.find_nvdisasm(), "-json", path]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        # Some releases list the device functions that stand in the same section by themselves.
        parts = sorted(json.loads(done.stdout)[1], key=lambda part: part["start"])
        names = (artifact.symbol, f"${artifact.symbol}$")
        mine = [part for part in parts if part["function-name"].startswith(names)]
        expected = [i["opcode"] for part in mine for i in part["sass-instructions"]]
        padding = len(expected) - len(mnemonics)
        assert mnemonics == expected[: len(mnemonics)]
        assert expected[len(mnemonics) :] == ["BRA", *["NOP"] * (padding - 1)]

    def test_histogram(self, kernel):
        counts = opcode_histogram(kernel.instructions)
        assert counts["FFMA"] == 1
        assert counts["BAR"] == 1
        assert sum(counts.values()) == len(kernel.instructions)
        full = opcode_histogram(kernel.instructions, modifiers=True)
        assert full["STS.128"] == 1
        assert full["LDG.E.128"] == 1
        assert list(full.values()) == sorted(full.values(), reverse=True)

    def test_each_instruction_knows_its_lines(self, compiled, kernel):
        def of(mnemonic):
            (found,) = [i for i in kernel.instructions if i.mnemonic == mnemonic]
            return found

        ptx = compiled.ptx.splitlines()
        assert of("FFMA").location == Location("kernel.cu", 12)
        assert "fma.rn.f32" in ptx[of("FFMA").ptx_line - 1]
        assert of("STS.128").location == Location("kernel.cu", 7)
        assert "st.shared.v4" in ptx[of("STS.128").ptx_line - 1]
        assert of("BAR.SYNC.DEFER_BLOCKING").location == Location("kernel.cu", 8)

    def test_the_loop_and_the_call(self, kernel):
        (fma,) = [i for i in kernel.instructions if i.opcode == "FFMA"]
        back = [i for i in kernel.instructions if i.opcode == "BRA" and i.target <= fma.address]
        assert any(i.address > fma.address for i in back)
        (call,) = [i for i in kernel.instructions if i.opcode == "CALL"]
        (helper,) = [a for name, a in kernel.labels.items() if name.endswith("squarefi")]
        assert call.target == helper

    def test_inlining_and_names_as_in_the_ptx(self, tmp_path):
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "a.cuh").write_text(
            "__device__ inline float twice(float x) {\n  return x * 2.5f;\n}\n"
        )
        main = tmp_path / "main.cu"
        main.write_text(
            '#include "lib/a.cuh"\n__global__ void k(float* p) {\n  *p = twice(*p);\n}\n'
        )
        artifact = compile_cuda(main, "k", cache=None)
        (function,) = disassemble(artifact).functions.values()
        (multiply,) = [i for i in function.instructions if i.opcode == "FMUL"]
        assert multiply.location == Location("lib/a.cuh", 2)
        assert multiply.inlined_at == (Location("main.cu", 3),)

    def test_bare_cubin(self, compiled, kernel):
        (function,) = disassemble(compiled.cubin).functions.values()
        assert function.instructions[0].location.file == "/tilewright/kernel.cu"
        assert len(function.instructions) == len(kernel.instructions)

    def test_not_a_cubin(self):
        with pytest.raises(ToolchainError, match=r"nvdisasm failed.*the cubin"):
            disassemble(b"no cubin")

    def test_ptx_has_no_machine_code(self, compiled):
        with pytest.raises(UnsupportedError, match="given as PTX"):
            disassemble(artifact_from_ptx(compiled.ptx, "k"))

    def test_missing_disassembler(self, monkeypatch):
        monkeypatch.setattr(toolkit, "_roots", lambda: [])
        monkeypatch.setenv("PATH", "")
        toolkit.find_nvdisasm.cache_clear()
        try:
            with pytest.raises(ToolchainError, match="pip install nvidia-cuda-nvdisasm"):
                disassemble(b"not seen before")
        finally:
            toolkit.find_nvdisasm.cache_clear()

    def test_an_installed_toolkit_will_do(self, monkeypatch, tmp_path):
        program = tmp_path / "bin" / "nvdisasm"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        monkeypatch.setattr(toolkit.importlib.util, "find_spec", lambda name: None)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path))
        monkeypatch.setenv("PATH", "")
        toolkit.find_nvdisasm.cache_clear()
        try:
            # A file that cannot be run is passed over.
            monkeypatch.setattr(toolkit, "_INSTALLED", tmp_path / "gone")
            with pytest.raises(ToolchainError):
                toolkit.find_nvdisasm()
            program.chmod(0o755)
            assert toolkit.find_nvdisasm() == program
        finally:
            toolkit.find_nvdisasm.cache_clear()


def test_saved_registers_are_marked() -> None:
    listing = """\t.section\t.text.k,"ax",@progbits
k:
        /*0000*/  STL.64 [R1+0x8], R12          (*"SpillRefill"*) ;
        /*0010*/  LDL R2, [R1+0x4] ;
        /*0020*/  EXIT ;
"""
    saved, own, _ = parse_sass(listing).functions["k"].instructions
    assert (saved.mnemonic, saved.operands, saved.spill) == ("STL.64", ("[R1+0x8]", "R12"), True)
    assert (own.operands, own.spill) == (("R2", "[R1+0x4]"), False)
