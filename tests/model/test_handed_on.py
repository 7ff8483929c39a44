"""What blocks leave for each other in global memory: traces by hand."""

from test_traffic import LOAD, STORE, trace

from tilewright.model.handed_on import from_l2, handed_on, unseen_hit
from tilewright.model.profile import AccessCounts
from tilewright.model.traffic import Hit


def test_what_one_block_stores_and_another_loads_is_handed_on() -> None:
    """Of four sectors that block 0 stores, block 1 loads one; two of its loads are of others."""
    found = handed_on(
        trace([(0, 0, STORE, [8, 9, 10, 11]), (1, 0, LOAD, [9, 20]), (1, 1, LOAD, [21, 9])])
    )
    assert found == {STORE: 1 / 4, LOAD: 1 / 3}


def test_of_one_block_it_is_what_it_loads_after_it_stored_it() -> None:
    after = [(0, 0, STORE, [8]), (0, 0, LOAD, [8, 9])]
    assert handed_on(trace(after)) == {STORE: 1.0, LOAD: 1 / 2}
    before = [(0, 0, LOAD, [8]), (0, 0, STORE, [8]), (1, 0, LOAD, [9])]
    assert handed_on(trace(before)) == {}


def test_that_part_does_not_come_from_the_dram() -> None:
    hit = Hit(missing=1.0, pending=0.0, sectors=4.0, dram=0.8)
    found = from_l2({LOAD: hit, STORE: hit}, {LOAD: 0.75})
    assert found[LOAD].dram == 0.8 * 0.25
    assert found[STORE] == hit
    assert (found[LOAD].missing, found[LOAD].sectors) == (1.0, 4.0)


def test_what_no_traced_block_does_goes_to_the_dram_with_its_sectors() -> None:
    access = AccessCounts(
        space="global", way="load", size=16, requests=10, sectors=160, lines=40, wavefronts=40,
        ideal=160,
    )  # fmt: skip
    assert unseen_hit(access) == Hit(missing=1.0, pending=0.0, sectors=16.0, dram=1.0)
