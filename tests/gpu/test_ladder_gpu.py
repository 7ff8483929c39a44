"""Every rung on a real GPU: right against float64, and bit for bit what the emulator computes."""

import functools
import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright import device, emulator
from tilewright.bench.device_ladder import measure_ladder
from tilewright.bench.timing import Budget
from tilewright.bench.verify import check
from tilewright.device import DeviceInfo, probe
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.gpus import by_device_name
from tilewright.kernels import RUNGS, Rung, Tile
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from shapes import RAGGED, SHAPES, label

pytestmark = pytest.mark.gpu

NAMES = list(RUNGS)


def card() -> DeviceInfo:
    info = probe()
    assert isinstance(info, DeviceInfo), info
    return info


def tile_of(each: Rung) -> Tile:
    """The tile that the ladder takes on this card."""
    known = by_device_name(card().name)
    return each.tile_for(known.name if known is not None else card().name)


@functools.cache
def compiled(name: str) -> Artifact:
    each = RUNGS[name]
    return compile_cuda(
        each.source,
        each.expression(tile_of(each)),
        arch=card().arch,
        include_dirs=each.include_dirs,
    )


class Operands:
    """A, B and C with NaN in the padding of their rows, and in C where beta is 0."""

    def __init__(self, problem: Problem, *, skew: int = 0):
        rng = np.random.default_rng(0)
        self.problem, self.skew = problem, skew
        self.a = self._padded(rng, problem.m, problem.k, problem.lda)
        self.b = self._padded(rng, problem.k, problem.n, problem.ldb)
        self.c = self._padded(rng, problem.m, problem.n, problem.ldc)
        self.c0 = self.inside(self.c).copy()
        if not problem.beta:
            self.c[:] = np.nan

    def _padded(self, rng, rows, cols, ld):
        # A view `skew` floats into its owner: for a skew of 1, no address is a multiple of 16.
        flat = np.full(rows * ld + self.skew, np.nan, np.float32)[self.skew :]
        matrix = flat.reshape(rows, ld)
        matrix[:, :cols] = rng.standard_normal((rows, cols), np.float32)
        return matrix

    def inside(self, c):
        return c[:, : self.problem.n]

    def run(self, executor, rung: Rung):
        """Return C as an executor leaves it; the operands stay as they are."""
        c = np.full(self.c.size + self.skew, np.nan, np.float32)[self.skew :]
        c = c.reshape(self.c.shape)
        c[:] = self.c
        args = rung.arguments(self.problem, self.a, self.b, c)
        executor(compiled(rung.name), rung.launch(self.problem, tile_of(rung)), args)
        return c

    def check(self, c):
        p = self.problem
        return check(p, self.a[:, : p.k], self.b[:, : p.n], self.c0, self.inside(c))


@pytest.mark.parametrize("problem", SHAPES, ids=label)
@pytest.mark.parametrize("name", NAMES)
def test_rung_is_right_and_bit_equal_to_the_emulator(name, problem):
    operands = Operands(problem)
    there = operands.run(device.run, RUNGS[name])
    found = operands.check(there)
    tile = tile_of(RUNGS[name])
    assert found.ok, found.message((tile.bm, tile.bn))
    assert np.isnan(there[:, problem.n :]).all(), "the padding of C was written"
    here = operands.run(emulator.run, RUNGS[name])
    np.testing.assert_array_equal(there.view(np.uint32), here.view(np.uint32))


@pytest.mark.parametrize("skew", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_rung_is_right_on_unaligned_pointers(name, skew):
    operands = Operands(Problem(m=132, n=132, k=36, alpha=0.5, beta=3.0), skew=skew)
    there = operands.run(device.run, RUNGS[name])
    assert operands.check(there).ok
    here = operands.run(emulator.run, RUNGS[name])
    np.testing.assert_array_equal(there.view(np.uint32), here.view(np.uint32))


def test_a_small_ladder_is_measured_end_to_end():
    found = list(measure_ladder(RAGGED[0], RUNGS.values(), budget=Budget(measure_s=0.01)))
    assert [m.record.rung for m in found] == NAMES
    for measured in found:
        record = measured.record
        assert record.verified, measured.verification.message()
        assert record.measured_gflops > 0
        assert record.baseline_gflops > 0
        assert record.timing.runs >= 3
        assert record.timing.sets >= 2
        assert record.baseline.startswith("cuBLAS")
        assert 0 < record.occupancy <= 1
        assert record.max_error <= 10 * record.error_bound


def test_offsets_past_two_to_the_31_are_right():
    """A C of 2^31 elements and more: row offsets overflow 32 bits, in bytes and in elements."""
    problem = Problem(m=3, n=130, k=4, ldc=2**30 + 64)
    if card().memory_bytes < 12 * 2**30:
        pytest.skip("C takes 8.6 GB")
    for name in NAMES:
        check_far_rows(problem, RUNGS[name])


def check_far_rows(problem: Problem, rung: Rung) -> None:
    session = open_session()
    session.enter()
    rng = np.random.default_rng(0)
    a = rng.standard_normal((problem.m, problem.k), np.float32)
    b = rng.standard_normal((problem.k, problem.n), np.float32)
    c = np.empty((problem.m, problem.n), np.float32)
    launch = rung.launch(problem, tile_of(rung))
    with Arena(session) as arena:
        a_there, b_there = arena.upload(a), arena.upload(b)
        c_there = arena.allocate(4 * ((problem.m - 1) * problem.ldc + problem.n))
        values = (
            np.int32(problem.m),
            np.int32(problem.n),
            np.int32(problem.k),
            np.float32(problem.alpha),
            np.uint64(a_there),
            np.int64(problem.lda),
            np.uint64(b_there),
            np.int64(problem.ldb),
            np.float32(problem.beta),
            np.uint64(c_there),
            np.int64(problem.ldc),
        )
        session.load(compiled(rung.name)).bind(launch, values)()
        for row in range(problem.m):
            arena.read(c[row], c_there + 4 * row * problem.ldc)
    assert check(problem, a, b, None, c).ok, rung.name
