import json

import pytest
import typer
from typer.testing import CliRunner

import tilewright
import tilewright.bench.cublas
import tilewright.device
import tilewright.toolchain
from tilewright.bench.cublas import CublasLibrary
from tilewright.cli.doctor import Check, doctor, examine
from tilewright.device import DeviceInfo, NoDevice
from tilewright.errors import ToolchainError, UnsupportedError

APP = typer.Typer()
APP.command()(doctor)

H200 = DeviceInfo(
    ordinal=0,
    pci_bus_id="0000:1B:00.0",
    name="NVIDIA H200",
    compute_capability=(9, 0),
    sm_count=132,
    memory_bytes=150 << 30,
    l2_bytes=60 << 20,
    shared_bytes_per_block_max=232448,
    max_threads_per_sm=2048,
    cuda="13.0",
    driver="580.1",
)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(tilewright.device, "probe", lambda: NoDevice(reason="no GPU in tests"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


def find(name: str) -> Check:
    (check,) = [check for check in examine() if check.name == name]
    return check


def test_a_machine_without_a_gpu_is_fine():
    done = CliRunner().invoke(APP, [])
    assert done.exit_code == 0, done.output
    assert "The base works" in done.output
    assert "no GPU in tests" in done.output
    assert "NVIDIA GPU: a machine with an NVIDIA GPU and its driver" in done.output


def test_json_says_the_same(tmp_path):
    done = CliRunner().invoke(APP, ["--json", str(tmp_path / "d.json")])
    assert done.exit_code == 0
    data = json.loads((tmp_path / "d.json").read_text())
    assert data["base_works"] is True
    checks = {check["name"]: check for check in data["checks"]}
    assert checks["NVIDIA GPU"]["works"] is False
    assert checks["NVRTC"]["found"].startswith("NVRTC 13.")
    assert [c["name"] for c in data["checks"] if c["base"]] == [
        "Python",
        "numpy",
        "NVRTC",
        "nvdisasm",
        "LLVM",
        "emulator",
    ]


def test_a_broken_base_exits_with_1_and_says_how_to_mend_it(monkeypatch):
    def absent():
        raise ToolchainError("NVRTC cannot be loaded\n  more lines")

    monkeypatch.setattr(tilewright.toolchain, "load_nvrtc", absent)
    done = CliRunner().invoke(APP, [])
    assert done.exit_code == 1
    assert "BROKEN" in done.output
    assert "NVRTC: pip install cuda-bindings nvidia-cuda-nvrtc" in done.output
    assert "more lines" not in done.output
    assert "The base does not work" in done.output


def test_nvrtc_that_loads_but_does_not_compile_is_broken(monkeypatch):
    def refuse(*_, **__):
        raise UnsupportedError("no built-ins")

    monkeypatch.setattr(tilewright.toolchain, "compile_cuda", refuse)
    assert find("NVRTC") == Check(
        name="NVRTC",
        works=False,
        found="no built-ins",
        purpose="compiling kernels",
        base=True,
        remedy="pip install cuda-bindings nvidia-cuda-nvrtc",
    )


def test_an_emulator_that_computes_wrongly_is_broken(monkeypatch):
    monkeypatch.setattr(tilewright, "emulate", lambda *_, **__: None, raising=False)
    check = find("emulator")
    assert (check.works, check.base) == (False, True)
    assert "computes wrongly" in check.found


def test_a_known_gpu_is_named_with_its_table_entry(monkeypatch):
    monkeypatch.setattr(tilewright.device, "probe", lambda: H200)
    check = find("NVIDIA GPU")
    assert check.works
    assert check.found == (
        "NVIDIA H200 (sm_90, H200 of `tilewright gpus`), driver 580.1, CUDA 13.0"
    )


def test_an_unwritable_cache_folder_is_no_broken_base(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    check = find("compile cache")
    assert not check.works
    assert not check.base
    assert "in memory only" in check.found


def test_cublas_is_named_with_who_provides_it(monkeypatch):
    library = CublasLibrary(path="/some/where/libcublas.so.13", provider="wheel")
    monkeypatch.setattr(tilewright.bench.cublas, "find_cublas", lambda: library)
    assert find("cuBLAS").found == "libcublas.so.13 (wheel)"
    monkeypatch.setattr(tilewright.bench.cublas, "find_cublas", lambda: None)
    assert not find("cuBLAS").works
    assert find("cuBLAS").remedy == "pip install 'tilewright[gpu]'"
