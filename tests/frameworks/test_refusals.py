"""What `matmul` and `gemm` refuse, and what they say of it."""

import subprocess
import sys

import numpy as np
import pytest

import tilewright
from frameworks.fake_gpu import FakeFace, fake, fake_gpu, normal
from tilewright.errors import DeviceError, ProblemError, UnsupportedError
from tilewright.frameworks import multiply

A = np.ones((3, 4), np.float32)
B = np.ones((4, 5), np.float32)
SQUARE = np.ones((4, 4), np.float32)
READ_ONLY = np.broadcast_to(np.float32(0), (3, 5))


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        (A, A, r"a has shape \(3, 4\) and b \(3, 4\).*4.*3.*must be equal; b with its last two"),
        (A.T, B[:, :2], r"must be equal; a with its last two axes swapped"),
        (A, np.ones(3, np.float32), r"the last size of a \(4\) and the only of b \(3\)"),
        (np.float32(2) * np.ones((), np.float32)[...], B, r"a is of type numpy.float32"),
        (np.ones((), np.float32), B, r"a has shape \(\).*multiply by a number with \*"),
        (np.ones((2, 3, 4), np.float32), np.ones((5, 4, 3), np.float32), r"batches \(2,\) and"),
        (A, 3, "b is of type builtins.int: expected an array of numpy, torch or cupy"),
        ([[1.0]], B, "a is of type builtins.list"),
        (A, np.ma.masked_array(B), r"b is a masked array.*b.filled\(0\)"),
    ],
)
def test_operands_that_make_no_product(a, b, says):
    with pytest.raises(ProblemError, match=says):
        tilewright.matmul(a, b)


def test_rows_that_do_not_depend_on_others_are_not_the_hosts_to_promise():
    with pytest.raises(ProblemError, match="batch_invariant: the host's BLAS"):
        tilewright.matmul(A, B, batch_invariant=True)
    with pytest.raises(ProblemError, match="batch_invariant"):
        tilewright.gemm(A, B, batch_invariant=True)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "complex64", ">f4"])
def test_other_dtypes_name_the_conversion(dtype):
    with pytest.raises(UnsupportedError, match=r"b is .* for now: .* b.astype\(np.float32\)"):
        tilewright.matmul(A, B.astype(dtype))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"beta": 2}, "beta = 2, but there is no c"),
        ({"c": SQUARE}, r"c has shape \(4, 4\) and the product \(3, 5\)"),
        ({"c": np.ones((1, 3, 5), np.float32)}, r"c has shape \(1, 3, 5\)"),
        ({"alpha": "2"}, "alpha is a str: expected a number"),
        ({"alpha": 1e39}, r"alpha = 1e\+39 is past the range of float32"),
        ({"beta": np.ones(1)}, "beta is a ndarray: .*with .item"),
        ({"out": SQUARE}, r"out has shape \(4, 4\), the product has \(3, 5\)"),
        ({"out": READ_ONLY}, "out is read-only"),
        ({"out": 3}, "out is of type builtins.int"),
    ],
)
def test_gemms_that_make_no_sense(more, says):
    with pytest.raises(ProblemError, match=says):
        tilewright.gemm(A, B, **more)


def test_an_out_is_looked_at_again_where_it_became_read_only():
    out = np.zeros((3, 5), np.float32)
    tilewright.matmul(A, B, out=out)
    out.flags.writeable = False
    with pytest.raises(ProblemError, match="out is read-only"):
        tilewright.matmul(A, B, out=out)


def halves(fakes):
    """Two interleaved matrices in one memory: no element in common, addresses in between."""
    memory = np.ones((4, 8), np.float32)
    memory = fake(memory) if fakes else memory
    return memory[:, ::2], memory[:, 1::2]


@pytest.mark.parametrize("fakes", [False, True], ids=["host", "gpu"])
def test_an_out_that_shares_memory_is_refused_and_one_in_between_is_not(fakes):
    with fake_gpu():
        a, between = halves(fakes)
        for wrong in (a, a[::-1], a.T):
            with pytest.raises(ProblemError, match="out shares memory with a, which is read"):
                tilewright.matmul(a, between, out=wrong)
        tilewright.matmul(a, a, out=between)
        np.testing.assert_array_equal(between, np.full((4, 4), 4))
        with pytest.raises(ProblemError, match="shares memory with b"):
            tilewright.matmul(a, between, out=between)


@pytest.mark.parametrize("fakes", [False, True], ids=["host", "gpu"])
def test_out_may_be_c_but_no_other_view_of_it(fakes):
    with fake_gpu():
        a = normal(4, 4) if fakes else np.asarray(normal(4, 4))
        memory = np.ones((4, 5), np.float32)
        c = (fake(memory) if fakes else memory)[:, :4]
        expected = 2 * (np.asarray(a) @ a) - 1
        moved = (fake(memory) if fakes else memory)[:, 1:]
        for other in (c.T, moved):
            with pytest.raises(ProblemError, match=r"shares memory with c.*or c itself"):
                tilewright.gemm(a, a, c, beta=1, out=other)
        assert tilewright.gemm(a, a, c, alpha=2, beta=-1, out=c) is c
        np.testing.assert_allclose(c, expected, rtol=1e-5)
        tilewright.gemm(a, a, c.T, beta=0, out=c)  # c is not read


def test_an_out_with_two_elements_in_one_place_is_refused():
    with fake_gpu():
        out = np.broadcast_to(fake(np.zeros((1, 4), np.float32)), (4, 4), subok=True)
        with pytest.raises(ProblemError, match=r"share memory \(strides \(0, 1\)\)"):
            tilewright.matmul(normal(4, 4), normal(4, 4), out=out)


def test_arrays_of_two_libraries_are_refused():
    with fake_gpu():
        with pytest.raises(ProblemError, match="a is an array of fake and b of numpy: convert"):
            tilewright.matmul(normal(4, 4), SQUARE)
        with pytest.raises(ProblemError, match="a is an array of numpy and out of fake"):
            tilewright.matmul(SQUARE, SQUARE, out=normal(4, 4))


def test_arrays_on_two_devices_are_refused():
    class TwoDevices(FakeFace):
        def describe(self, array, name):
            found = super().describe(array, name)
            return found if name == "a" else type(found)(view=found.view, gpu=1, device="fake:1")

    with fake_gpu(face=TwoDevices()), pytest.raises(ProblemError, match="a is on fake:0 and b on"):
        tilewright.matmul(normal(4, 4), normal(4, 4))


def test_a_refusal_is_not_remembered_and_launches_nothing():
    with fake_gpu() as device:
        a = normal(3, 4)
        for _ in range(2):
            with pytest.raises(ProblemError):
                tilewright.matmul(a, a)
        assert device.launched == []
        assert multiply._plans == {}


def test_no_memory_for_the_result_leaves_all_as_it_was():
    class Full(FakeFace):
        def allocate(self, like, packed):
            raise DeviceError("no memory")

    with fake_gpu(face=Full()) as device:
        a = normal(4, 4)
        out = fake(np.zeros((4, 4), np.float32))
        with pytest.raises(DeviceError, match="no memory"):
            tilewright.matmul(a, a)
        tilewright.matmul(a, a, out=out)  # needs none
        assert len(device.launched) == 1


def test_without_a_driver_the_message_says_what_still_works(monkeypatch):
    def none(ordinal):
        raise DeviceError("no CUDA driver on this machine")

    with fake_gpu():
        monkeypatch.setattr(multiply, "gemm_device", none)
        with pytest.raises(DeviceError, match=r"no CUDA driver.*numpy arrays .* without a GPU"):
            tilewright.matmul(normal(4, 4), normal(4, 4))


def test_numpy_is_multiplied_without_torch_cupy_or_a_driver():
    code = (
        "import sys, numpy as np, tilewright\n"
        "a = np.ones((2, 2), np.float32)\n"
        "assert tilewright.matmul(a, a).tolist() == [[2, 2], [2, 2]]\n"
        "print({'torch', 'cupy', 'cuda', 'llvmlite'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
