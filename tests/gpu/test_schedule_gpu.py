"""Scheduled kernels on a real GPU: the bits of the plain ones."""

import numpy as np
import pytest

from tilewright.device.driver import call, function_attribute
from tilewright.device.gemm import Prepared, gemm_device
from tilewright.device.probe import require_device
from tilewright.kernels.gemm.build import compile_variant
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.registry import gemm_kernel
from tilewright.toolchain import Artifact
from tilewright.toolchain.schedule import BEST, Style, schedule_main_loop
from tilewright.toolchain.schedule.main_loop import ARCHS
from toolchain.schedule.tiled_kernels import TILES

pytestmark = pytest.mark.gpu


def product(artifact: Artifact, operation: Operation, variant: Variant) -> np.ndarray:
    o, device = operation, gemm_device(0)
    rng = np.random.default_rng(o.m)
    a, b = (rng.standard_normal(size, np.float32) for size in (o.m * o.k, o.k * o.n))
    d = np.full((o.m, o.n), np.nan, np.float32)
    kernel = gemm_kernel("tiled")
    launch = kernel.launch_on(o, variant, device.gpu)
    with device.current():
        module = call("cuModuleLoadData", artifact.cubin)
        function = call("cuModuleGetFunction", module, artifact.symbol.encode())
        dynamic = function_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES")
        call("cuFuncSetAttribute", function, dynamic, launch.shared_bytes)
        there = [int(call("cuMemAlloc", each.nbytes)) for each in (a, b, d)]
        for address, each in zip(there, (a, b, d), strict=True):
            call("cuMemcpyHtoD", address, each.ctypes.data, each.nbytes)
        prepared = Prepared(
            function=function,
            operation=o,
            variant=variant,
            launch=launch,
            workspace=kernel.workspace(o, variant),
        )
        prepared.launch((there[0], there[1], 0, there[2], 0, 0), 1.0, 0.0, 0)
        call("cuCtxSynchronize")
        call("cuMemcpyDtoH", d.ctypes.data, there[2], d.nbytes)
        for address in there:
            call("cuMemFree", address)
        call("cuModuleUnload", module)
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
