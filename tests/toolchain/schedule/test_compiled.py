"""Compiling with a schedule: kept in the cache, and plain with the reason where it cannot be."""

from pathlib import Path

import pytest

from tilewright.errors import ToolchainError
from tilewright.toolchain import CompileCache, compile_cuda
from tilewright.toolchain.schedule import Style, compile_scheduled
from tilewright.toolchain.schedule import compiled as module
from tilewright.toolchain.schedule.compiled import SCHEDULER_VERSION
from toolchain.schedule.tiled_kernels import compiled, scheduled

COPY = 'extern "C" __global__ void copy(float* a) { a[threadIdx.x + 32] = a[threadIdx.x]; }'


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Style]:
    found: list[Style] = []
    real = module.schedule_main_loop

    def counted(artifact, style):
        found.append(style)
        return real(artifact, style)

    monkeypatch.setattr(module, "schedule_main_loop", counted)
    return found


def test_a_refusal_gives_the_plain_kernel_and_is_kept(tmp_path: Path, calls: list[Style]) -> None:
    plain = compile_cuda(COPY, "copy", cache=None)
    first = compile_scheduled(COPY, "copy", cache=CompileCache(tmp_path))
    again = compile_scheduled(COPY, "copy", cache=CompileCache(tmp_path))
    assert len(calls) == 1
    assert first == again
    assert first.artifact == plain
    assert first.refused == "copy has no loop of one basic block with an FFMA in it"


def test_a_schedule_is_kept(
    tmp_path: Path, calls: list[Style], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "compile_cuda", lambda *_, **__: compiled("4x4"))
    first = compile_scheduled("", "tiled", cache=CompileCache(tmp_path))
    again = compile_scheduled("", "tiled", cache=CompileCache(tmp_path))
    assert len(calls) == 1
    assert first == again
    assert first.refused == ""
    assert first.artifact == scheduled("4x4").artifact
    compile_scheduled("", "tiled", cache=CompileCache(tmp_path), style=Style(load_gap=8))
    monkeypatch.setattr(module, "SCHEDULER_VERSION", SCHEDULER_VERSION + 1)
    compile_scheduled("", "tiled", cache=CompileCache(tmp_path))
    assert len(calls) == 3


def test_without_a_disassembler_it_is_plain_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ToolchainError("nvdisasm is not here")

    monkeypatch.setattr(module, "compile_cuda", lambda *_, **__: compiled("4x4"))
    cache = CompileCache(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "schedule_main_loop", missing)
        found = compile_scheduled("", "tiled", cache=cache)
    assert found.artifact == compiled("4x4")
    assert found.refused == "nvdisasm is not here"
    assert compile_scheduled("", "tiled", cache=cache).refused == ""
