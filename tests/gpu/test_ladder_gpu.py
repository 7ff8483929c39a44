"""Every rung on a real GPU: right against float64, and bit for bit what the emulator computes."""

import functools

import numpy as np
import pytest

from kernels.operands import Operands, make_operands, matrix, padding_untouched
from kernels.shapes import RAGGED, SHAPES, label
from tilewright import device, emulator
from tilewright.bench.device_ladder import measure_ladder
from tilewright.bench.timing import Budget
from tilewright.bench.verify import check
from tilewright.device import DeviceInfo, probe
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.gpus import by_device_name
from tilewright.kernels import HISTORY, RUNGS, Rung, Tile
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda

pytestmark = pytest.mark.gpu

EVERY = {**RUNGS, **HISTORY}
NAMES = list(EVERY)


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
    each = EVERY[name]
    return compile_cuda(
        each.source,
        each.expression(tile_of(each)),
        arch=card().arch,
        include_dirs=each.include_dirs,
    )


def launched(executor, name: str, problem: Problem, shift: int = 0) -> Operands:
    """The operands as an executor leaves them, from the same start."""
    rung, operands = EVERY[name], make_operands(problem, shift=shift)
    tile = tile_of(rung)
    workspace = rung.workspace(problem, tile)
    args = (*rung.arguments(problem, operands.a, operands.b, operands.c), *workspace)
    executor(compiled(name), rung.launch(problem, tile), args)
    assert not any(arrivals.any() for arrivals in workspace[1:])  # as the next launch needs them
    return operands


def verify(problem: Problem, name: str, shift: int = 0) -> None:
    """Right on the device, nothing outside C written, the bits of the emulator."""
    p, there = problem, launched(device.run, name, problem, shift)
    found = check(
        p,
        matrix(there.a, p.m, p.k, p.lda),
        matrix(there.b, p.k, p.n, p.ldb),
        matrix(there.c0, p.m, p.n, p.ldc),
        matrix(there.c, p.m, p.n, p.ldc),
    )
    tile = tile_of(EVERY[name])
    assert found.ok, found.message((tile.bm, tile.bn))
    assert padding_untouched(p, there)
    here = launched(emulator.run, name, problem, shift)
    np.testing.assert_array_equal(there.c.view(np.uint32), here.c.view(np.uint32))


@pytest.mark.parametrize("problem", SHAPES, ids=label)
@pytest.mark.parametrize("name", NAMES)
def test_rung_is_right_and_bit_equal_to_the_emulator(name, problem):
    verify(problem, name)


@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_rung_is_right_on_unaligned_pointers(name, shift):
    verify(Problem(m=132, n=132, k=36, alpha=0.5, beta=3.0), name, shift)


def test_a_small_ladder_is_measured_end_to_end():
    found = list(measure_ladder(RAGGED[0], EVERY.values(), budget=Budget(measure_s=0.01)))
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
        check_far_rows(problem, EVERY[name])


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
            *(np.uint64(arena.upload(each)) for each in rung.workspace(problem, tile_of(rung))),
        )
        session.load(compiled(rung.name)).bind(launch, values)()
        for row in range(problem.m):
            arena.read(c[row], c_there + 4 * row * problem.ldc)
    assert check(problem, a, b, None, c).ok, rung.name
