"""A prepared launch hands the driver the argument, the grid and the context, and explains codes."""

import ctypes
import importlib
from types import SimpleNamespace

import pytest

from tilewright.device.gemm import Prepared
from tilewright.errors import DeviceError
from tilewright.kernels.gemm.kernel import Variant, Workspace
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import PRODUCT, Pointers, pack
from tilewright.kernels.tiles import Tile
from tilewright.launch import Launch

OPERATION = Operation.plain(8, 20, 12, layout="tn", batch=3, beta=True)
VARIANT = Variant(kernel="any", tile=Tile(bm=8, bn=32), splits=2)


class FakeDriver:
    """Notes each launch as the driver would see it."""

    def __init__(self, context):
        self.context, self.status, self.launches = context, 0, []

    def cuCtxGetCurrent(self):
        return 0, self.context

    def cuLaunchKernel(self, *args):
        *shape, stream, params, extra = args
        assert extra == 0
        argument = ctypes.c_void_p.from_address(params).value
        bytes_ = ctypes.string_at(argument, PRODUCT.itemsize)
        self.launches.append((tuple(shape), stream, bytes_, self.context))
        return (self.status,)


def make(driver, monkeypatch):
    bindings = importlib.import_module("cuda.bindings.driver")
    for name in ("cuCtxGetCurrent", "cuLaunchKernel"):
        monkeypatch.setattr(bindings, name, getattr(driver, name))
    return Prepared(
        function="function",
        context=5,
        operation=OPERATION,
        variant=VARIANT,
        launch=Launch(grid=(1, 2, 3), block=(256, 1, 1), shared_bytes=99),
        workspace=Workspace(),
    )


def launch(prepared, pointers=(1, 2, 3, 4, 5, 6)):
    prepared.launch(pointers, 0.5, -2.0, 77)


def test_the_driver_gets_what_pack_makes(monkeypatch):
    driver = FakeDriver(5)
    prepared = make(driver, monkeypatch)
    for a in (1, 1 << 40):
        launch(prepared, (a, 2, 3, 4, 5, 6))
    for a, (shape, stream, argument, _) in zip((1, 1 << 40), driver.launches, strict=True):
        assert shape == ("function", 1, 2, 3, 256, 1, 1, 99)
        assert stream == 77
        pointers = Pointers(a=a, b=2, c=3, d=4, partial=5, arrivals=6)
        assert argument == pack(OPERATION, pointers, splits=2, alpha=0.5, beta=-2.0)


def test_the_gpus_context_is_current_for_the_launch_alone(monkeypatch):
    driver = FakeDriver(9)
    prepared = make(driver, monkeypatch)
    stack = []

    def call(function, *args):
        if function == "cuCtxPushCurrent":
            stack.append(driver.context)
            driver.context = args[0]
        else:
            driver.context = stack.pop()

    monkeypatch.setattr("tilewright.device.gemm.call", call)
    launch(prepared)
    assert driver.launches[0][3] == 5
    assert driver.context == 9
    driver.status = SimpleNamespace(name="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(DeviceError):
        launch(prepared)
    assert driver.context == 9


def test_a_refused_launch_says_which_and_why(monkeypatch):
    driver = FakeDriver(5)
    prepared = make(driver, monkeypatch)
    driver.status = SimpleNamespace(name="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(DeviceError, match=r"any Tile.*in 2 parts.*too few registers"):
        launch(prepared)
