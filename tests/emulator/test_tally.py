"""Accesses that are counted in a table, by hand."""

import numpy as np

from tilewright.emulator import state
from tilewright.emulator.tally import ROOM, FixedTally

LANES = tuple(range(0, 128, 4))
WHOLE, HALF = 0xFFFF_FFFF, 0xFFFF


def events(*fields: tuple[int, int, int, int]) -> np.ndarray:
    """Events by (pc, mask, row, base)."""
    found = np.zeros(len(fields), np.dtype(state.Event))
    for place, (pc, mask, row, base) in enumerate(fields):
        found[place]["pc"], found[place]["mask"] = pc, mask
        found[place]["row"], found[place]["base"] = row, base
    return found


def test_whole_warps_at_fixed_offsets_are_counted_and_the_rest_is_handed_back() -> None:
    tally = FixedTally({1: LANES, 2: LANES, 4: LANES}, [1, 2, 3], 5)
    rest = tally.take(
        events(
            (1, WHOLE, -1, 4096),
            (1, HALF, -1, 4096),  # not all lanes
            (1, WHOLE, -1, 8192),  # the same place in its line as the first
            (2, WHOLE, -1, 4100),
            (2, WHOLE, 0, 4100),  # addresses one by one
            (3, WHOLE, -1, 4096),  # nothing fixed
            (4, WHOLE, -1, 4096),  # not to be counted
            (1, WHOLE, -1, 4096 + 64),
        )
    )
    assert rest.tolist() == [1, 4, 5, 6]
    found = [
        (pc, (rows - np.uint64(ROOM)).tolist(), n.tolist()) for pc, rows, n in tally.patterns()
    ]
    first, shifted, second = (list(range(at, at + 128, 4)) for at in (0, 64, 4))
    assert found == [(1, [first, shifted], [2, 1]), (2, [second], [1])]


def test_rows_begin_at_the_line_of_the_first_lane() -> None:
    """As the rows of other accesses do: the same pattern is the same row, wherever it lies."""
    down = tuple(256 - 4 * lane for lane in range(32))
    tally = FixedTally({0: down}, [0], 1)
    tally.take(events((0, WHOLE, -1, 1024 + 8)))
    ((_, rows, counts),) = tally.patterns()
    assert counts.tolist() == [1]
    assert rows.tolist() == [[ROOM + 8 - 4 * lane for lane in range(32)]]


def test_what_was_counted_adds_up() -> None:
    tally = FixedTally({0: LANES}, [0], 1)
    for _ in range(3):
        assert tally.take(events((0, WHOLE, -1, 0), (0, WHOLE, -1, 128))).size == 0
    ((_, _, counts),) = tally.patterns()
    assert counts.tolist() == [6]


def test_nothing_to_count() -> None:
    tally = FixedTally({}, [], 3)
    assert tally.take(events((1, WHOLE, -1, 0))).tolist() == [0]
    assert list(tally.patterns()) == []
