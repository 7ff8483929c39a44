"""torch tensors without a GPU: those of the CPU, and the same posing as a GPU's."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import tilewright
from frameworks.fake_gpu import fake_gpu
from tilewright.errors import ProblemError, UnsupportedError
from tilewright.frameworks import multiply
from tilewright.frameworks.face import FACES
from tilewright.frameworks.torch import TorchFace

torch = pytest.importorskip("torch")


class Posing(TorchFace):
    """CPU tensors said to be on GPU 0."""

    def __init__(self):
        super().__init__()
        self.stream = lambda gpu: 7
        # The CPU's part: number -1, as torch counts it.
        self._here = lambda: -1
        self._empty_here = lambda *view: torch.empty_strided(view[0], view[1], dtype=view[2])

    def describe(self, tensor, name):
        return replace(super().describe(tensor, name), gpu=0, device="cuda:0")


@contextmanager
def posing():
    with fake_gpu() as device, pytest.MonkeyPatch.context() as patch:
        face = Posing()
        for kind in (torch.Tensor, torch.nn.Parameter):
            patch.setitem(FACES, kind, face)
        yield device


@pytest.fixture(params=["cpu", "posing"])
def place(request, monkeypatch):
    monkeypatch.setattr(multiply, "_plans", {})
    if request.param == "cpu":
        yield None
    else:
        with posing() as device:
            yield device


def normal(*shape):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (normal(3, 4), normal(4, 5)),
        (normal(4, 3).T, normal(5, 4).T),
        (normal(2, 1, 3, 4), normal(3, 4, 5)),
        (normal(4), normal(2, 4, 5)),
        (normal(3, 4), normal(4)),
        (normal(4), normal(4)),
        (normal(3, 0), normal(0, 5)),
        (normal(2, 0, 4), normal(4, 5)),
        (normal(3, 8)[:, ::2], normal(4, 5)),
        (normal(3, 4), normal(1, 4).expand(5, 4).T),
    ],
)
def test_products_are_torchs(place, a, b):
    found = tilewright.matmul(a, b)
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, torch.matmul(a, b))
    c, out = normal(*found.shape), torch.full_like(found, torch.nan)
    got = tilewright.gemm(a, b, c, alpha=0.5, beta=-2, out=out)
    assert got is out
    torch.testing.assert_close(out, 0.5 * torch.matmul(a, b) - 2 * c)


def test_an_out_of_any_strides_is_written(place):
    a, b = normal(3, 4), normal(4, 5)
    for out in (torch.empty(5, 3).T, torch.empty(3, 10)[:, ::2]):
        assert tilewright.matmul(a, b, out=out) is out
        torch.testing.assert_close(out, a @ b)


def test_nan_times_0_is_not_read(place):
    nan = torch.full((4, 4), torch.nan)
    a = normal(4, 4)
    torch.testing.assert_close(tilewright.gemm(a, a, nan), a @ a)
    torch.testing.assert_close(tilewright.gemm(nan, nan, a, alpha=0, beta=2), 2 * a)


def test_gradients_are_refused_unless_they_are_off(place):
    weight = torch.nn.Parameter(normal(4, 4))
    a = normal(4, 4)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(tilewright.matmul(a, weight), a @ weight)
        with pytest.raises(ProblemError, match=r"b requires gradients.*no_grad.*b.detach"):
            tilewright.matmul(a, weight)
    tilewright.matmul(a, weight.detach())


def test_writing_out_is_seen_by_autograd(place):
    out, weight = torch.zeros(4, 4), torch.nn.Parameter(normal(4, 4))
    loss = (weight * out).sum()
    tilewright.matmul(normal(4, 4), normal(4, 4), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    ("tensor", "error", "says"),
    [
        (normal(4, 4).double(), UnsupportedError, r"b is float64.*b.float\(\)"),
        (normal(4, 4).bfloat16(), UnsupportedError, "b is bfloat16"),
        (normal(4, 4).to_sparse(), UnsupportedError, r"layout torch.sparse_coo.*to_dense"),
        (normal(4, 4).to("meta"), UnsupportedError, "b is on meta"),
        (torch.zeros(4, 4, dtype=torch.complex64).conj().imag, ProblemError, "resolve_neg"),
        (np.zeros((4, 4), np.float32), ProblemError, "a is an array of torch and b of numpy"),
        (torch.tensor(2.0), ProblemError, r"b has shape \(\)"),
        (normal(3, 4), ProblemError, r"a has shape \(4, 4\) and b \(3, 4\)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refusals(tensor, error, says):
    with pytest.raises(error, match=says):
        tilewright.matmul(normal(4, 4), tensor)


def test_a_lazily_negated_tensor_is_not_taken_for_a_plain_one_alike(place):
    plain = torch.zeros(4, 8)[:, 1::2]
    negated = torch.zeros(4, 4, dtype=torch.complex64).conj().imag
    assert plain.stride() == negated.stride()
    tilewright.matmul(plain, normal(4, 4))
    with pytest.raises(ProblemError, match="resolve_neg"):
        tilewright.matmul(negated, normal(4, 4))


def test_tensors_alike_but_for_their_alignment_are_read_as_they_are():
    memory = torch.zeros(40)
    skip = -memory.data_ptr() // 4 % 4
    with posing() as device:
        for start in (skip, skip + 1):
            tilewright.matmul(memory[start : start + 16].view(4, 4), normal(4, 4))
    assert [operation.a.vector for operation, _, _ in device.launched] == [True, False]


def test_on_another_gpu_than_the_current_one_memory_is_made_where_the_tensor_is(monkeypatch):
    def refuse(*_):
        raise AssertionError("this makes memory on the current GPU")

    with posing():
        face = FACES[torch.Tensor]
        monkeypatch.setattr(face, "_here", lambda: 3)
        monkeypatch.setattr(face, "_empty_here", refuse)
        a = normal(4, 4)
        torch.testing.assert_close(tilewright.matmul(a, a), a @ a)


def test_a_tensor_of_a_class_of_its_own_is_refused():
    class Mine(torch.Tensor):
        pass

    with pytest.raises(UnsupportedError, match=r"a is a .*Mine, a subclass"):
        tilewright.matmul(normal(4, 4).as_subclass(Mine), normal(4, 4))


def test_an_alpha_on_a_device_is_refused():
    with pytest.raises(ProblemError, match=r"alpha is a Tensor.*\.item\(\)"):
        tilewright.gemm(normal(4, 4), normal(4, 4), alpha=torch.tensor(2.0))
