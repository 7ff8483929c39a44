"""Environment variables that change what is run: each does what it says."""

import pytest

from tilewright.bench.cublas import Cublas, CublasLibrary
from tilewright.errors import DeviceError
from tilewright.kernels.gemm.build import compile_for_gpu, compile_variant
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.tiles import Tile
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


def test_loops_are_scheduled_unless_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = Operation.plain(256, 256, 64)
    tile = Tile(bm=128, bn=128, bk=8, tm=8, tn=16, wm=32, wn=128, stages=4)
    variant = Variant(kernel="tiled", tile=tile)
    plain = compile_variant(operation, variant, "sm_90").cubin
    assert compile_for_gpu(operation, variant, "sm_90").artifact.cubin != plain
    monkeypatch.setenv("TILEWRIGHT_SCHEDULE", "0")
    assert compile_for_gpu(operation, variant, "sm_90").artifact.cubin == plain


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
