"""NVIDIA_TF32_OVERRIDE, which outranks cuBLAS's math mode: a float32 baseline refuses it."""

import pytest

from tilewright.bench.cublas import Cublas, CublasLibrary
from tilewright.errors import DeviceError
from tilewright.settings import read_settings


@pytest.mark.parametrize(
    ("environ", "forced"),
    [
        ({}, False),
        ({"NVIDIA_TF32_OVERRIDE": "0"}, False),
        ({"NVIDIA_TF32_OVERRIDE": "1"}, True),
    ],
)
def test_only_one_forces_tf32(environ: dict[str, str], forced: bool) -> None:
    assert read_settings(environ).tf32_forced is forced


def test_a_baseline_in_tf32_is_refused_before_anything_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = CublasLibrary(path="/no/such/libcublas.so", provider="system")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    with pytest.raises(DeviceError, match=r"NVIDIA_TF32_OVERRIDE=1 .* unset it"):
        Cublas(library, stream=0)
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    with pytest.raises(DeviceError, match="does not load"):
        Cublas(library, stream=0)
