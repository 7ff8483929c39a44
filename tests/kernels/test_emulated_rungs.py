"""Every rung on the emulator: right on every shape, the same bits on all rungs, its claims true."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kernels.operands import Operands, make_operands, matrix, padding_untouched
from kernels.shapes import PADDED_LD, RAGGED, SHAPES, TILE_EXACT, label
from tilewright.bench.verify import check
from tilewright.emulator import run
from tilewright.kernels import HISTORY, RUNGS, Rung, Tile
from tilewright.problem import Problem
from tilewright.toolchain import Artifact, compile_cuda

GPU, ARCH = "RTX A6000", "sm_86"
EVERY = {**RUNGS, **HISTORY}


@cache
def compiled(name: str, arch: str = ARCH) -> Artifact:
    rung = EVERY[name]
    return compile_cuda(
        rung.source,
        rung.expression(rung.tile_for(GPU)),
        arch=arch,
        include_dirs=rung.include_dirs,
    )


def arguments(rung: Rung, problem: Problem, tile: Tile, operands: Operands) -> tuple:
    args = rung.arguments(problem, operands.a, operands.b, operands.c)
    return *args, *rung.workspace(problem, tile)


def launch(rung: Rung, problem: Problem, operands: Operands, arch: str = ARCH) -> None:
    tile = rung.tile_for(GPU)
    args = arguments(rung, problem, tile, operands)
    run(compiled(rung.name, arch), rung.launch(problem, tile), args, workers=1)
    assert not any(arrivals.any() for arrivals in args[12:])  # as the next launch needs them


def verify(problem: Problem, operands: Operands) -> None:
    p = problem
    found = check(
        p,
        matrix(operands.a, p.m, p.k, p.lda),
        matrix(operands.b, p.k, p.n, p.ldb),
        matrix(operands.c0, p.m, p.n, p.ldc),
        matrix(operands.c, p.m, p.n, p.ldc),
    )
    assert found.ok, found.message()
    assert padding_untouched(p, operands)


@pytest.mark.parametrize("problem", SHAPES, ids=label)
@pytest.mark.parametrize("rung", EVERY.values(), ids=lambda r: r.name)
def test_rung_is_right_within_the_float32_bound(rung, problem):
    operands = make_operands(problem)
    launch(rung, problem, operands)
    verify(problem, operands)


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("rung", EVERY.values(), ids=lambda r: r.name)
def test_rung_takes_storages_at_any_alignment(rung, shift):
    for problem in (TILE_EXACT[1], RAGGED[0]):
        operands = make_operands(problem, shift=shift)
        launch(rung, problem, operands)
        verify(problem, operands)


@pytest.mark.parametrize("problem", [*RAGGED, *PADDED_LD], ids=label)
def test_rungs_agree_bit_for_bit(problem):
    """Each sums products in the order of k, one fused multiply-add each, but for 10's cut tiles."""
    results = []
    names = [name for name in EVERY if name != "10_persistent"]
    for name in names:
        operands = make_operands(problem)
        launch(EVERY[name], problem, operands)
        results.append(operands.c.view(np.uint32))
    for name, result in zip(names, results, strict=True):
        assert np.array_equal(result, results[0]), name


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ["01_naive", "04_register_1d", "08_warptiled", "volkov_2008"])
def test_rung_is_right_as_other_architectures_spell_it(name, arch):
    problem = RAGGED[2]
    operands = make_operands(problem)
    launch(EVERY[name], problem, operands, arch)
    verify(problem, operands)


@pytest.mark.parametrize("rung", EVERY.values(), ids=lambda r: r.name)
def test_counts_are_what_the_header_claims(rung):
    tile = rung.tile_for(GPU)
    if replace(tile, workers=rung.default.workers) != rung.default:
        pytest.skip("the claims are for the default tile")
    problem = Problem(m=2 * tile.bm, n=2 * tile.bn, k=4 * max(tile.bk, 8))
    args = arguments(rung, problem, tile, make_operands(problem))
    launched = rung.launch_of_tiles(problem, tile)
    done = run(compiled(rung.name), launched, args, workers=1, count=True)
    counts, claims = done.counters, rung.claims
    assert counts is not None
    assert counts.ffma_thread_instructions == rung.ffma_thread_instructions(problem, tile)
    assert counts.sectors_per_request == claims.load_sectors_per_request
    warp_fma = problem.m * problem.n * problem.k // 32
    assert counts.global_load_requests == claims.load_requests_per_warp_fma * warp_fma
    outputs = problem.m * problem.n
    assert counts.global_store_sectors == claims.store_sectors_per_output * outputs
    claimed = claims.shared_store_wavefronts_per_request
    if claimed is None:
        assert counts.shared_store_requests == counts.shared_load_requests == 0
    else:
        stores = counts.shared_store_requests
        assert counts.shared_store_wavefronts == pytest.approx(claimed * stores, abs=0.5)


# Hand derivation: one load of A and one of B a step, of C one load where beta is not 0.
# Naive: 32 rows of A, so 32 sectors where lda >= 8; one element of B. Coalesced: one element of A;
# 32 neighbours of B, 4 sectors where the row begins at a sector and else 5.
@pytest.mark.parametrize(
    ("name", "problem", "requests", "sectors"),
    [
        ("01_naive", Problem(m=64, n=64, k=16), 2 * 16 * 128, (32 + 1) * 16 * 128),
        ("01_naive", Problem(m=64, n=32, k=40, beta=1.0), 81 * 64, (33 * 40 + 32) * 64),
        ("01_naive", Problem(m=32, n=32, k=8, lda=4096), 16 * 32, 33 * 8 * 32),
        ("02_coalesced", Problem(m=64, n=64, k=16), 2 * 16 * 128, (1 + 4) * 16 * 128),
        ("02_coalesced", Problem(m=64, n=32, k=40, beta=1.0), 81 * 64, (5 * 40 + 4) * 64),
        ("02_coalesced", Problem(m=32, n=32, k=8, ldb=36), 16 * 32, (8 + 4 * 4 + 4 * 5) * 32),
    ],
)
def test_global_loads_equal_hand_derivation(name, problem, requests, sectors):
    rung = RUNGS[name]
    operands = make_operands(problem)
    args = rung.arguments(problem, operands.a, operands.b, operands.c)
    tile = rung.tile_for(GPU)
    counts = run(compiled(name), rung.launch(problem, tile), args, count=True).counters
    assert counts is not None
    assert counts.global_load_requests == requests
    assert counts.global_load_sectors == sectors


# Nsight Compute 2025.3.1 on an H200, 2026-11-30, m = n = k = 4096 with beta != 0: kernels with the
# same accesses as rungs 01 and 02 (public ones, which spend one multiply-add more an output).
PROFILED = {
    "01_naive": (4295491584, 70883737600, 16777216),
    "02_coalesced": (4295491584, 10739515392, 2097152),
}


@pytest.mark.parametrize("name", PROFILED)
def test_counts_equal_the_profilers_at_4096(name):
    from tilewright.bench.classes import block_classes

    rung, problem = RUNGS[name], Problem(m=4096, n=4096, k=4096, alpha=0.5, beta=3.0)
    tile = rung.tile_for(GPU)
    (only,) = block_classes(rung, problem, tile)
    rng = np.random.default_rng(0)
    # One block reads 32 rows of A and 32 columns of B: the storages need not be whole.
    a = rng.standard_normal(4096 * 4096, np.float32)
    c = np.zeros(4096 * 4096, np.float32)
    args = rung.arguments(problem, a, a, c)
    launched = rung.launch(problem, tile)
    counts = run(compiled(name), launched, args, sample=[only.first], count=True).counters
    assert counts is not None
    found = (counts.global_load_requests, counts.global_load_sectors, counts.global_store_sectors)
    assert tuple(n * only.count for n in found) == PROFILED[name]
