"""Scheduled kernels on a real GPU: the bits of the plain ones."""

import numpy as np
import pytest

from tilewright.bench.emulated_gemm import emulated_argument
from tilewright.device import run
from tilewright.device.probe import require_device
from tilewright.kernels.gemm.build import compile_variant
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import Pointers
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.toolchain import Artifact
from tilewright.toolchain.schedule import BEST, Style, schedule_main_loop
from tilewright.toolchain.schedule.main_loop import ARCHS
from toolchain.schedule.tiled_kernels import TILES

pytestmark = pytest.mark.gpu


def product(artifact: Artifact, operation: Operation, variant: Variant) -> np.ndarray:
    o = operation
    rng = np.random.default_rng(o.m)
    a, b = (rng.standard_normal(size, np.float32) for size in (o.m * o.k, o.k * o.n))
    d = np.full((o.m, o.n), np.nan, np.float32)
    addresses = Pointers(a=a.ctypes.data, b=b.ctypes.data, d=d.ctypes.data)
    argument = emulated_argument(o, variant, addresses, alpha=1.0, beta=0.0)
    run(artifact, gemm_kernel("tiled").launch(o, variant), [argument])
    return d


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("tile", TILES)
def test_bits_are_those_of_the_plain_kernel(tile: str, layout: str) -> None:
    if require_device(0).arch not in ARCHS:
        pytest.skip("the scheduler knows no machine code of this GPU")
    variant = Variant(kernel="tiled", tile=TILES[tile], splits=1)
    # k is no multiple of bk in the second: the first step of k is a short one.
    for m, n, k in ((1024, 1024, 1024), (1024, 1024, 1004)):
        operation = Operation.plain(m, n, k, layout=layout)
        plain = compile_variant(operation, variant, "sm_90")
        expected = product(plain, operation, variant)
        assert np.isfinite(expected).all()
        for style in (BEST, Style(order="rows", across="none")):
            found = product(schedule_main_loop(plain, style).artifact, operation, variant)
            assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
