"""The PTX reader on what NVRTC wrote and writes, for data/samples.cu."""

import re
import struct
from pathlib import Path

import pytest

from tilewright.toolchain import compile_cuda
from tilewright.toolchain.ptx.ir import Symbol
from tilewright.toolchain.ptx.parser import parse

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module", params=["80", "100"])
def recorded(request):
    return parse((DATA / f"samples_sm{request.param}.ptx").read_text())


class TestRecorded:
    """What NVRTC 13.5 made of data/samples.cu; the expectations are read off that source."""

    def test_every_kernel_and_nothing_unknown(self, recorded):
        assert [n for n, f in recorded.functions.items() if f.is_entry] == [
            "block_sum",
            "tiles",
            "calls",
            "scopes",
        ]
        assert all(i.known for f in recorded.functions.values() for i in f.body)

    def test_as_many_instructions_as_there_are(self, recorded):
        text = (DATA / f"samples_{recorded.target.replace('_', '')}.ptx").read_text()
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        declarations = re.findall(
            r"(?<!\w)\.(?:reg|param|shared|global|local|const|func|pragma)\b[^;]*;", text
        )
        count = text.count(";") - len(declarations)
        assert sum(len(f.body) for f in recorded.functions.values()) == count

    def test_module_variables(self, recorded):
        variables = recorded.variables
        assert variables["weights"].init == struct.pack("<4f", 1.0, 2.0, -0.5, 0.25)
        assert variables["origin"].init == struct.pack("<fid3s5x", 1.5, -2, 0.1, b"abc")
        assert variables["counter"].init == struct.pack("<i", 7)
        assert variables["counter_address"].relocations == {0: Symbol("counter")}
        assert (variables["tile"].space, variables["tile"].size_bytes) == ("shared", 0)

    def test_launch_bounds_and_shared_memory(self, recorded):
        function = recorded.functions["block_sum"]
        assert function.directives["maxntid"][0] == 256
        assert function.directives["minnctapersm"] == (2,)
        assert [(v.space, v.size_bytes) for v in function.variables] == [("shared", 128)]
        assert [p.size_bytes for p in function.params] == [8, 8, 4]
        assert sum(i.opcode == "shfl" for i in function.body) == 10

    def test_source_lines(self, recorded):
        source = (DATA / "samples.cu").read_text().splitlines()
        (atomic,) = (i for i in recorded.functions["block_sum"].body if i.opcode in ("atom", "red"))
        assert atomic.location.file == "samples.cu"
        assert "atomicAdd" in source[atomic.location.line - 1]

    def test_ptx_lines(self, recorded):
        lines = (DATA / f"samples_{recorded.target.replace('_', '')}.ptx").read_text().splitlines()
        for function in recorded.functions.values():
            for found in function.body:
                assert f"{found.opcode}" in lines[found.ptx_line - 1]

    def test_inline_scopes(self, recorded):
        labels = recorded.functions["scopes"].labels
        assert sorted(labels) == ["DONE", "DONE.2", "WAIT", "WAIT.2"]
        assert labels["WAIT"] < labels["DONE"] <= labels["WAIT.2"] < labels["DONE.2"]

    def test_the_call(self, recorded):
        (call,) = (i for i in recorded.functions["calls"].body if i.opcode == "call")
        results, target, arguments = call.operands
        assert target == Symbol("_Z6scaledf4PairPf")
        assert (len(results.items), len(arguments.items)) == (1, 3)


@pytest.mark.parametrize("arch", ["75", "86", "90", "120"])
def test_reads_what_this_nvrtc_writes(arch):
    path = DATA / "samples.cu"
    made = compile_cuda(path, "block_sum", arch=f"sm_{arch}", options=["-G"], cache=None)
    module = parse(made.ptx)
    assert module.target == f"sm_{arch}"
    assert sum(f.is_entry for f in module.functions.values()) == 4
    assert all(i.known for f in module.functions.values() for i in f.body)
