"""The choice whose rows do not depend on the others: any of its tiles gives the same bits."""

import numpy as np
import pytest

from tilewright.bench.emulated_gemm import emulate_gemm
from tilewright.gpus import gpu
from tilewright.kernels.gemm.kernel import Variant
from tilewright.kernels.gemm.operation import Operation
from tilewright.kernels.gemm.tiled import TILED
from tilewright.tuning.choice import choose

H200 = gpu("H200")
N, K = 72, 203
ROWS = (3, 50, 200)


def chosen(m: int, layout: str, k: int = K) -> Variant:
    return choose(Operation.plain(m, N, k, layout=layout), H200, batch_invariant=True).variant


@pytest.mark.parametrize("m", [1, 3, 64, 1000, 30000])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_it_never_cuts_k(m: int, layout: str) -> None:
    variant = chosen(m, layout)
    assert (variant.kernel, variant.splits, variant.workers) == ("tiled", 1, 0)


def test_rows_have_the_same_bits_however_many_they_are() -> None:
    rng = np.random.default_rng(5)
    a = rng.standard_normal((max(ROWS), K)).astype(np.float32)
    b = rng.standard_normal((K, N)).astype(np.float32)
    # In the order of k, each product rounded once with its sum: what all of the tiles do.
    expected = np.zeros((max(ROWS), N))
    for k in range(K):
        exact = a[:, k, None].astype(np.float64) * b[k] + expected
        expected = exact.astype(np.float32).astype(np.float64)
    found = {m: emulate_gemm(Operation.plain(m, N, K), chosen(m, "nn"), a[:m], b)[0] for m in ROWS}
    for m, rows in found.items():
        assert np.array_equal(rows.view(np.uint32), found[max(ROWS)][:m].view(np.uint32))
    # float64 rounds the sum before float32 does: rarely, and by one unit, that is another result.
    assert np.abs(found[max(ROWS)] - expected).max() < 1e-5


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_long_sums_are_cut_in_the_same_places_by_all(layout: str) -> None:
    for m in (1, 3, 64, 200, 1000, 30000):
        o = Operation.plain(m, N, 5000, layout=layout)
        assert TILED.sums_bytes(o, chosen(m, layout, 5000), H200) > 0


def test_others_may_cut_it() -> None:
    long = Operation.plain(64, 64, 100000)
    free = choose(long, H200).variant
    assert free.splits > 1 or free.workers > 0
    assert choose(long, H200, batch_invariant=True).variant != free
