"""A prepared launch hands the driver the argument and the grid, and explains codes."""

import ctypes
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright
from frameworks.fake_gpu import FakeDevice, fake_gpu, normal
from tilewright.device.gemm import Prepared
from tilewright.errors import DeviceError
from tilewright.kernels.gemm.kernel import Variant, Workspace
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.product import PRODUCT, Pointers, pack
from tilewright.kernels.tiles import Tile
from tilewright.launch import Launch

OPERATION = Operation.plain(8, 20, 12, layout="tn", batch=3, beta=True)
VARIANT = Variant(kernel="any", tile=Tile(bm=8, bn=32), splits=2)


class FakeConfig:
    """A launch configuration, whose stream is the default one at first."""

    def __init__(self):
        self.hStream = 0


class FakeDriver:
    """Notes each launch as the driver would see it."""

    CUlaunchConfig = FakeConfig

    def __init__(self):
        self.status, self.launches, self.meanwhile = 0, [], lambda: None

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        assert extra == 0
        self.meanwhile()
        argument = ctypes.c_void_p.from_address(parameters).value
        bytes_ = ctypes.string_at(argument, PRODUCT.itemsize)
        self.launches.append((function, dict(vars(config)), bytes_))
        return (self.status,)


@pytest.fixture
def driver(monkeypatch):
    made = FakeDriver()
    monkeypatch.setattr("tilewright.device.gemm.bindings", lambda: made)
    return made


def make():
    return Prepared(
        function="function",
        operation=OPERATION,
        variant=VARIANT,
        launch=Launch(grid=(1, 2, 3), block=(256, 1, 1), shared_bytes=99),
        workspace=Workspace(),
    )


def launch(prepared, a=1, stream=77):
    prepared.launch((a, 2, 3, 4, 5, 6), 0.5, -2.0, stream)


def expected(a):
    pointers = Pointers(a=a, b=2, c=3, d=4, partial=5, arrivals=6)
    return pack(OPERATION, pointers, splits=2, alpha=0.5, beta=-2.0)


def test_the_driver_gets_what_pack_makes(driver):
    prepared = make()
    cases = [(1, 77), (1 << 40, 77), (1, 0), (2, 5)]
    for a, stream in cases:
        launch(prepared, a, stream)
    for (a, stream), (function, config, argument) in zip(cases, driver.launches, strict=True):
        assert function == "function"
        sizes = {f"gridDim{axis}": size for axis, size in zip("XYZ", (1, 2, 3), strict=True)}
        sizes |= {"blockDimX": 256, "blockDimY": 1, "blockDimZ": 1, "sharedMemBytes": 99}
        assert config == sizes | {"hStream": stream}
        assert argument == expected(a)


def test_launches_of_threads_at_once_do_not_share_an_argument(driver):
    prepared, entered, together = make(), [], threading.Barrier(8, timeout=10)

    def meanwhile():
        # Each thread has written its argument: none was read yet, as if all were in the driver.
        entered.append(together.wait())

    driver.meanwhile = meanwhile
    for _ in range(3):
        driver.launches.clear()
        threads = [threading.Thread(target=launch, args=(prepared, a, a)) for a in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = sorted((config["hStream"], argument) for _, config, argument in driver.launches)
        assert found == [(a, expected(a)) for a in range(8)]
    assert len(entered) == 24
    assert len(prepared._idle) == 8  # used again


def test_a_refused_launch_says_which_and_why(driver):
    driver.status = SimpleNamespace(name="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(DeviceError, match=r"any Tile.*in 2 parts.*too few registers"):
        launch(make())


@pytest.mark.parametrize("needs", [Workspace(), Workspace(partial_bytes=40, arrivals_bytes=12)])
def test_another_context_is_left_for_the_launch_alone(needs):
    device, current = FakeDevice(), [9]
    device.needs = needs
    device.is_current = lambda: current[-1] == 5

    @contextmanager
    def pushed():
        current.append(5)
        try:
            yield
        finally:
            current.pop()

    device.current = pushed
    prepare, refused = device.prepare, []

    def noting(*args, **more):
        found = prepare(*args, **more)
        launch = found.launch

        def noted(*args):
            assert current == [9, 5]
            if refused:
                raise DeviceError("refused")
            launch(*args)

        found.launch = noted
        return found

    device.prepare = noting
    with fake_gpu(device):
        a = normal(4, 4)
        np.testing.assert_allclose(tilewright.matmul(a, a), np.asarray(a) @ a, rtol=1e-5)
        assert current == [9]
        refused.append(True)
        with pytest.raises(DeviceError, match="refused"):
            tilewright.matmul(a, a)
        assert current == [9]
