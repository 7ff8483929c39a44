"""`matmul` and `gemm` from the call to the launch, on a fake GPU: numpy's results, no copies."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from frameworks.fake_gpu import FakeDevice, FakeFace, fake, fake_gpu, normal
from tilewright.frameworks import multiply
from tilewright.kernels.gemm.kernel import Workspace


@pytest.fixture(scope="module")
def device():
    with fake_gpu() as device:
        yield device


def whole_numbers(draw, shape):
    """Small whole numbers, whose products are exact, in an order of axes and steps drawn."""
    order = draw(st.permutations(range(len(shape))))
    steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=len(shape), max_size=len(shape)))
    storage = [shape[axis] * abs(steps[axis]) for axis in order]
    shift = draw(st.integers(0, 3))
    count = int(np.prod(storage, dtype=int))
    seed = draw(st.integers(0, 100))
    flat = np.random.default_rng(seed).integers(-4, 5, count + shift).astype(np.float32)
    array = flat[shift:].reshape(storage).transpose(np.argsort(order))
    array = array[tuple(slice(None, None, step) for step in steps)]
    assert array.shape == tuple(shape)
    return fake(array)


@st.composite
def products(draw):
    """a, b, and perhaps an out; batches broadcast by sizes of 1, by fewer axes, by steps of 0."""
    m, n, k = (draw(st.sampled_from([0, 1, 2, 4, 5])) for _ in range(3))
    batch = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=3))

    def some(sizes):
        kept = sizes[draw(st.integers(0, len(sizes))) :]
        return [draw(st.sampled_from([1, size])) for size in kept]

    a = whole_numbers(draw, [k] if draw(st.booleans()) else [*some(batch), m, k])
    b = whole_numbers(draw, [k] if draw(st.booleans()) else [*some(batch), k, n])
    if a.ndim > 2 and draw(st.booleans()):
        a = np.broadcast_to(a, (*batch[len(batch) - a.ndim + 2 :], *a.shape[-2:]), subok=True)
    expected = np.matmul(np.asarray(a, np.float64), np.asarray(b, np.float64))
    out = whole_numbers(draw, expected.shape) if draw(st.booleans()) else None
    return a, b, out, expected


@settings(max_examples=150, deadline=None)
@given(products())
def test_matmul_is_numpys(device, product):
    a, b, out, expected = product
    found = tilewright.matmul(a, b, out=out)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(found), expected)
    assert out is None or found is out


@settings(max_examples=100, deadline=None)
@given(
    products(),
    st.data(),
    st.sampled_from([0, 1, -2, 0.5]),
    st.sampled_from([0, 1, -2, 0.5]),
)
def test_gemm_adds_c_broadcast(device, product, data, alpha, beta):
    a, b, out, expected = product
    drop = data.draw(st.integers(0, expected.ndim))
    sizes = [data.draw(st.sampled_from([1, size])) for size in expected.shape[drop:]]
    c = whole_numbers(data.draw, sizes)
    if out is not None and data.draw(st.booleans()):
        c = out
    before = np.asarray(c, np.float64)
    found = tilewright.gemm(a, b, c, alpha=alpha, beta=beta, out=out)
    np.testing.assert_array_equal(np.asarray(found), alpha * expected + beta * before)


@pytest.mark.parametrize("make", [fake, np.asarray], ids=["gpu", "host"])
def test_what_zero_multiplies_is_not_read_whatever_came_before(device, make):
    nan, a = make(np.full((4, 4), np.nan, np.float32)), make(normal(4, 4))
    c = np.asarray(normal(4, 4, seed=1))
    product = np.asarray(a) @ np.asarray(a)
    for alpha, beta in [(1, 0), (1, 2), (0, 2), (1, 2), (0, 0), (1, 0)]:
        left, added = (a if alpha else nan), make(c if beta else nan)
        found = tilewright.gemm(left, left, added, alpha=alpha, beta=beta)
        expected = (product if alpha else 0) + (2 * c if beta else 0 * c)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_array_equal(tilewright.gemm(nan, nan, alpha=0), np.zeros((4, 4)))


@pytest.mark.parametrize("make", [fake, np.asarray], ids=["gpu", "host"])
def test_a_c_of_other_strides_and_an_out_are_used_as_they_are(device, make):
    a, c = make(normal(4, 4)), make(normal(4, 4, seed=1))
    out = make(np.zeros((4, 4), np.float32))
    for added in (c, c.T, c[:1]):
        expected = 0.5 * (np.asarray(a) @ np.asarray(a)) + np.asarray(added)
        assert tilewright.gemm(a, a, added, alpha=0.5, beta=1, out=out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-5)
        tilewright.gemm(a, a, alpha=0.5, out=out)
        np.testing.assert_allclose(out, 0.5 * (np.asarray(a) @ np.asarray(a)), rtol=1e-5)


def test_a_launch_gets_the_callers_stream_and_the_arrays_own_addresses():
    face = FakeFace()
    with fake_gpu(face=face) as device:
        a, b = normal(4, 8), normal(6, 8).T
        face.current_stream = 41
        d = tilewright.matmul(a, b)
        face.current_stream = 42
        tilewright.matmul(a, b)
    (operation, pointers, first), (_, _, second) = device.launched
    assert (first, second) == (41, 42)
    assert pointers[:4] == (a.ctypes.data, b.ctypes.data, 0, d.ctypes.data)
    assert (operation.b.row, operation.b.col) == (1, 8)
    assert len(face.allocated) == 2  # the two results, no copy


def test_a_transposed_out_is_written_in_place_and_a_scattered_one_through_a_copy():
    face = FakeFace()
    a, b = normal(4, 8), normal(8, 6)
    column_major = fake(np.zeros((6, 4), np.float32)).T
    scattered = fake(np.zeros((4, 12), np.float32))[:, ::2]
    with fake_gpu(face=face):
        for out, copies in ((column_major, 0), (scattered, 1)):
            face.allocated.clear()
            assert tilewright.matmul(a, b, out=out) is out
            np.testing.assert_allclose(out, np.asarray(a) @ b, rtol=1e-5)
            assert len(face.allocated) == copies
            assert face.was_written.pop() is out


def test_the_second_product_alike_is_not_planned_again(monkeypatch):
    with fake_gpu() as device:
        prepared = []
        prepare = device.prepare
        device.prepare = lambda *args, **more: prepared.append(args) or prepare(*args, **more)
        memory = fake(np.zeros(400, np.float32))
        a = memory[:64].reshape(8, 8)
        tilewright.matmul(a, a)
        tilewright.matmul(memory[64:128].reshape(8, 8), a)
        assert len(prepared) == 1
        tilewright.matmul(memory[65:129].reshape(8, 8), a)  # no longer aligned
        tilewright.matmul(a.T, a)
        tilewright.gemm(a, a, a, beta=1)
        tilewright.gemm(a, a, a, beta=2)
        assert len(prepared) == 4


NEEDS = Workspace(partial_bytes=40, arrivals_bytes=12)


def workspaces(device):
    """What each launch so far got as partial sums and counts."""
    return [pointers[4:] for _, pointers, _ in device.launched]


def test_counts_are_kept_for_a_stream_and_partial_sums_are_not():
    face, device = FakeFace(), FakeDevice()
    device.needs = NEEDS
    with fake_gpu(device, face):
        a = normal(4, 4)
        for stream in (1, 1, 2):
            face.current_stream = stream
            tilewright.matmul(a, a)
    (_, one), (_, again), (_, other) = workspaces(device)
    assert one == again != other
    shapes = [made.shape for made in face.allocated]
    assert shapes.count((10,)) == 3
    assert shapes.count((3,)) == 2
    assert face.kept == []


def test_counts_grow_with_what_is_needed():
    device = FakeDevice()
    with fake_gpu(device) as device:
        for size in (3, 5, 4):
            device.needs = Workspace(arrivals_bytes=4 * size)
            tilewright.matmul(normal(4, 4), normal(4, size))
    (_, few), (_, more), (_, again) = workspaces(device)
    assert few != more == again


def test_a_captured_launch_has_counts_and_sums_of_its_own():
    face, device = FakeFace(), FakeDevice()
    device.needs = NEEDS
    with fake_gpu(device, face):
        a = normal(4, 4)
        tilewright.matmul(a, a)
        device.capturing = True
        tilewright.matmul(a, a)
        device.capturing = False
        tilewright.matmul(a, a)
    (_, one), (_, captured), (_, again) = workspaces(device)
    assert one == again != captured
    assert [kept.ctypes.data for kept in face.kept] == list(workspaces(device)[1])


def test_the_examples_of_the_docstrings_hold():
    found = doctest.testmod(multiply)
    assert (found.failed, found.attempted) == (0, 8)
