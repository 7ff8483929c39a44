"""Which tiles are tried, by what warps wait for."""

import pytest

from tilewright.bench.trials import STEPS, others
from tilewright.gpus import gpu
from tilewright.kernels import rung

H200 = gpu("H200")


def test_the_next_rung_comes_first_and_the_last_has_none() -> None:
    (first, *_) = others(rung("03"), H200, "mio_throttle")
    assert first[0].name == "04_register_1d"
    assert first[2] == "the next rung, 04_register_1d: a column of outputs a thread"
    assert all(other.name == "08_warptiled" for other, _, _ in others(rung("08"), H200, "barrier"))


@pytest.mark.parametrize("stall", STEPS)
@pytest.mark.parametrize("name", ["01", "03", "05", "07", "08"])
def test_only_legal_tiles_that_differ_are_tried(stall: str, name: str) -> None:
    own = rung(name).tile_for(H200.name)
    found = [tile for other, tile, _ in others(rung(name), H200, stall) if other.name[:2] == name]
    for tile in found:
        rung(name).check(tile)
    assert own not in found
    assert len(set(found)) == len(found)


def test_a_field_that_the_kernel_ignores_is_left_alone() -> None:
    for _, tile, what in others(rung("04"), H200, "mio_throttle"):
        assert tile.pad == 0 or "next rung" in what
