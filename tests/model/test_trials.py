"""Which tiles are tried, by what warps wait for, and what comes of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tilewright.bench.profiling import profile_rung, rung_launch
from tilewright.bench.timing_model import launch_case
from tilewright.bench.trials import STEPS, Trials, others
from tilewright.gpus import gpu
from tilewright.kernels import Rung, rung
from tilewright.model.advice import Asked
from tilewright.model.whatif import COMPARING, Case
from tilewright.problem import Problem

H200 = gpu("H200")


def test_the_next_rung_comes_first_and_the_last_has_none() -> None:
    (first, *_) = others(rung("03"), H200, "mio_throttle")
    assert first[0].name == "04_register_1d"
    assert first[2] == "the next rung, 04_register_1d: a column of outputs a thread"
    last = others(rung("10"), H200, "barrier")
    assert all(other.name == "10_persistent" for other, _, _ in last)


def test_what_is_beside_the_ladder_has_no_next_rung() -> None:
    found = list(others(rung("volkov_2008"), H200, "long_scoreboard"))
    assert all(other.name == "volkov_2008" for other, _, _ in found)


@pytest.mark.parametrize("stall", STEPS)
@pytest.mark.parametrize("name", ["01", "03", "05", "07", "08", "09", "10"])
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


@pytest.mark.parametrize("most", [0, 1, 2])
def test_trials_beside_the_rung_give_what_each_would_alone(most: int) -> None:
    problem = Problem(m=128, n=128, k=32)
    case = case_of(rung("05"), problem)
    modelled, rough = case.estimates(1.0, COMPARING)
    with ThreadPoolExecutor(1) as pool:
        trials = Trials(pool, rung("05"), problem, H200, most)
        found = trials.start(Asked(case=case, estimate=modelled, rough=rough))()
    assert [each.basis for each in found] == ["tried"] * most
    if most:
        after = case_of(rung("06"), problem).estimate(effort=COMPARING)
        assert found[0].gain == rough.seconds / after.seconds
        assert found[0].text.startswith("the next rung, 06_vectorized")


def case_of(which: Rung, problem: Problem) -> Case:
    artifact, launch, args = rung_launch(which, problem, H200)
    return launch_case(artifact, launch, args, profile_rung(which, problem, H200), H200)


@pytest.mark.parametrize("name", ["05", "10"])
def test_what_most_stalls_ask_for_is_tried_from_the_start(name: str) -> None:
    firsts = [next(others(rung(name), H200, stall))[:2] for stall in STEPS]
    with ThreadPoolExecutor(1) as pool:
        trials = Trials(pool, rung(name), Problem(m=128, n=128, k=32), H200)
        ((begun, tile),) = trials.begun
    asked = [(other.name, each) for other, each in firsts]
    assert asked.count((begun, tile)) > len(asked) / 2
