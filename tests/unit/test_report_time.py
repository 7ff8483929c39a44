"""The time model's answer in words."""

from dataclasses import replace

from tilewright.model.estimate import Estimate
from tilewright.report.time import time_sentence, time_table

ESTIMATE = Estimate(
    gpu="H200",
    seconds=2e-3,
    cycles=3.6e6,
    clock_hz=1.8e9,
    waves=2.5,
    resident_blocks=4,
    issue_active=0.4,
    stalls={"not_selected": 3.0, "long_scoreboard": 2.0, "barrier": 1.0, "selected": 2.0},
    demand={"fma": 0.25, "l2": 0.9},
)


def test_the_sentence_says_how_long_how_fast_and_why() -> None:
    assert time_sentence(ESTIMATE, 10**9) == (
        "about 2 ms, 1000 GFLOP/s; warps wait most for long_scoreboard (25% of their time, data "
        "from global memory)"
    )
    assert time_sentence(replace(ESTIMATE, seconds=3.25e-6, stalls={}), 0) == "about 3.25 us"


def test_blocks_that_start_no_faster_are_the_reason() -> None:
    busy = replace(ESTIMATE, cycles=3.5e6, demand={"l2": 0.9, "blocks": 1.0})
    assert time_sentence(busy, 0) == "about 2 ms; its blocks start no faster"
    short = replace(busy, cycles=1.7e6)  # the launch itself is most of it
    assert time_sentence(short, 0).startswith("about 2 ms; warps wait most for")


def test_what_is_waited_for_nearly_as_long_is_named() -> None:
    stalls = {"long_scoreboard": 1.0, "dispatch_stall": 0.85, "barrier": 0.79, "not_selected": 3.0}
    sentence = time_sentence(replace(ESTIMATE, stalls=stalls), 0)
    assert sentence.endswith("data from global memory), nearly as long for dispatch_stall")


def test_the_table_has_the_busiest_units_and_the_longest_waits() -> None:
    table = time_table(ESTIMATE)
    assert table.rows == (
        ("l2", "90%", "not_selected", "3.00"),
        ("fma", "25%", "long_scoreboard", "2.00"),
        ("", "", "selected", "2.00"),
        ("", "", "barrier", "1.00"),
    )
    assert table.notes[0].startswith("Modelled: 3,600,000 cycles at 1800 MHz, 2.5 rounds of 4 ")
