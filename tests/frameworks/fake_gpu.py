"""A GPU that is not there: numpy arrays posing as arrays of a GPU, launches run by the emulator."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.plain_gemm import PLAIN, registered
from tilewright.bench.emulated_gemm import launch_emulated
from tilewright.frameworks import multiply, workspace
from tilewright.frameworks.face import FACES, Operand
from tilewright.frameworks.views import View
from tilewright.gpus import gpu
from tilewright.kernels.gemm.kernel import Workspace
from tilewright.kernels.gemm.product import Pointers


class FakeArray(np.ndarray):
    """An array of the fake GPU."""


def fake(values):
    """`values` on the fake GPU, where they lie."""
    return np.asarray(values).view(FakeArray)


def normal(*shape, seed=0):
    return fake(np.random.default_rng(seed).standard_normal(shape, np.float32))


class FakeFace:
    """The adapter of the fake GPU; its current stream is whatever a test says."""

    name = "fake"

    def __init__(self):
        self.current_stream = 7
        self.allocated, self.kept, self.was_written = [], [], []

    def signature(self, array):
        return array.shape, array.strides, array.dtype, array.ctypes.data % 16

    def describe(self, array, name):
        strides = tuple(s // 4 for s in array.strides)
        view = View(shape=array.shape, strides=strides, aligned=array.ctypes.data % 16 == 0)
        return Operand(view=view, gpu=0, device="fake:0")

    def address(self, array):
        return array.ctypes.data

    def empty(self, like, shape):
        return fake(np.empty(shape, np.float32))

    def allocate(self, like, packed):
        made = fake(np.full(packed.shape, np.nan, np.float32))
        self.allocated.append(made)
        return made

    def zeros(self, like, shape):
        made = fake(np.zeros(shape, np.float32))
        self.allocated.append(made)
        return made

    def stream(self, index):
        assert index == 0
        return self.current_stream

    def keep(self, array):
        self.kept.append(array)

    def copy(self, target, source):
        target[...] = source

    def written(self, array):
        self.was_written.append(array)


class FakeDevice:
    """Launches run at once, on the emulator, and are noted with their operation and stream."""

    def __init__(self):
        self.gpu = gpu("H200")
        self.info = SimpleNamespace(ordinal=0)
        self.launched, self.capturing, self.needs = [], False, Workspace()
        self.is_current = lambda: True

    def prepare(self, operation, variant, *, stream):
        def launch(pointers, alpha, beta, stream):
            self.launched.append((operation, pointers, stream))
            a, b, c, d, partial, arrivals = pointers
            there = Pointers(a=a, b=b, c=c, d=d, partial=partial, arrivals=arrivals)
            launch_emulated(operation, variant, there, alpha=alpha, beta=beta)

        return SimpleNamespace(launch=launch, workspace=self.needs)

    def stream_state(self, stream):
        return self.capturing, 1000 + stream


@contextmanager
def fake_gpu(device=None, face=None, kernel=PLAIN):
    """Put the fake GPU in the place of a real one."""
    device = device or FakeDevice()
    with pytest.MonkeyPatch.context() as patch, registered(kernel) as variant:
        patch.setattr(multiply, "_plans", {})
        patch.setattr(workspace, "_arrivals", {})
        patch.setattr(multiply, "gemm_device", lambda ordinal: device)
        choice = SimpleNamespace(variant=variant)
        patch.setattr("tilewright.tuning.choice.choose", lambda operation, gpu, **_: choice)
        patch.setitem(FACES, FakeArray, face or FakeFace())
        yield device
