"""The example kernels, run from their launch files: right by numpy in float64, and quickly."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tilewright.emulator import run
from tilewright.emulator.prepare import prepare_launch
from tilewright.launchfile import read_launch_file

EXAMPLES = Path(__file__).parents[2] / "examples"
EPS = 2.0**-24  # half a unit in the last place of float32, relative

Exact = tuple[int, np.ndarray, object]  # argument that holds the result, values, allowed error


def reduction(args: list) -> Exact:
    x = args[0].astype(np.float64).reshape(-1, 64, 256)  # a block's 256 threads take every 64th
    return 1, x.sum(axis=(0, 2)), np.abs(x).sum(axis=(0, 2)) * 30 * EPS


def transpose(args: list) -> Exact:
    return 1, args[0].T, 0


def softmax(args: list) -> Exact:
    x = args[0].astype(np.float64)
    power = np.exp(x - x.max(axis=1, keepdims=True))
    exact = power / power.sum(axis=1, keepdims=True)
    # __expf(x) errs by 2 + floor(|1.173 x|) units (CUDA C++ Programming Guide), x at most 10.
    return 1, exact, exact * 2 * 40 * EPS


def layernorm(args: list) -> Exact:
    x, gain, bias = (a.astype(np.float64) for a in args[:3])
    centred = x - x.mean(axis=1, keepdims=True)
    exact = centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + bias
    return 3, exact, 1e-5


def stencil(args: list) -> Exact:
    p = args[0].astype(np.float64)
    exact = p.copy()
    around = p[1:-1, :-2] + p[1:-1, 2:] + p[:-2, 1:-1] + p[2:, 1:-1]
    exact[1:-1, 1:-1] += np.float64(np.float32(0.2)) * (around - 4 * p[1:-1, 1:-1])
    return 1, exact, 10 * EPS


def histogram(args: list) -> Exact:
    return 1, np.bincount(args[0], minlength=256), 0


def scan(args: list) -> Exact:
    padded = np.zeros(256 * 512, np.int64)
    padded[:131000] = args[0]
    return 1, padded.reshape(256, 512).cumsum(axis=1).ravel()[:131000], 0


def spmv(args: list) -> Exact:
    starts, columns, values, x = args[:4]
    assert starts[-1] == values.size == 120000
    terms = (values.astype(np.float64) * x[columns]).reshape(10000, 12)
    return 4, terms.sum(axis=1), np.abs(terms).sum(axis=1) * 13 * EPS


def nbody(args: list) -> Exact:
    bodies = args[0].astype(np.float64)
    apart = bodies[None, :, :3] - bodies[:, None, :3]
    pull = bodies[:, 3] * ((apart**2).sum(axis=2) + np.float64(np.float32(0.01))) ** -1.5
    exact = np.zeros((1024, 4))
    exact[:, :3] = (apart * pull[..., None]).sum(axis=1)
    bound = np.ones((1024, 4))
    bound[:, :3] = (np.abs(apart) * pull[..., None]).sum(axis=1)
    return 1, exact, bound * 100 * EPS


def matvec(args: list) -> Exact:
    a, x = (v.astype(np.float64) for v in args[:2])
    return 2, a @ x, np.abs(a) @ np.abs(x) * 502 * EPS


def sgemm(args: list) -> Exact:
    a, b = (v.astype(np.float64) for v in args[:2])
    return 2, a @ b, np.abs(a) @ np.abs(b) * 130 * EPS


def saxpy(args: list) -> Exact:
    x, y = (v.astype(np.float64) for v in args[1:3])
    return 2, 2 * x + y, 4 * EPS * (np.abs(x) + np.abs(y))


CASES: dict[str, Callable[[list], Exact]] = {
    "block_reduction": reduction,
    "histogram_shared": histogram,
    "layernorm_rows": layernorm,
    "matvec": matvec,
    "nbody_tiled": nbody,
    "saxpy_program": saxpy,
    "scan_blocks": scan,
    "sgemm_tiled_32": sgemm,
    "softmax_rows": softmax,
    "spmv_csr": spmv,
    "stencil_2d": stencil,
    "transpose_naive": transpose,
    "transpose_tiled": transpose,
    "transpose_unpadded": transpose,
}


def test_every_example_is_tested() -> None:
    assert {p.stem for p in EXAMPLES.glob("*.cu")} == set(CASES)
    assert {p.stem for p in EXAMPLES.glob("*.toml")} == set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_an_example_computes_what_it_says(name: str) -> None:
    spec = read_launch_file(EXAMPLES / f"{name}.toml")
    ready = prepare_launch(spec)
    args = spec.make_arguments()
    place, exact, bound = CASES[name](args)
    exact, bound = np.array(exact), np.array(bound)  # of the inputs as they were
    found = run(ready.artifact, ready.launch, args, count=True)
    result = args[place].reshape(exact.shape)
    assert np.all(np.abs(result - exact) <= bound)
    assert found.blocks == spec.launch.blocks
    assert found.seconds < 3
