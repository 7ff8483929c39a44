"""Whole numbers from equations: what follows, what contradicts, what is chosen."""

import numpy as np

from tilewright.model.system import System


def values(system: System) -> dict[object, list[int]]:
    return {unknown: value.tolist() for unknown, value in system.values.items()}


def test_unknowns_follow_one_by_one_for_every_kind_of_warp() -> None:
    system = System(2)
    system.know("entry", 1)
    system.add({"loop": 4, "rest": 1}, np.array([12, 7]), label=9)
    system.add({"rest": 1, "entry": -1}, np.array([-1, 2]))
    system.propagate()
    assert values(system) == {"entry": [1, 1], "rest": [0, 3], "loop": [3, 1]}
    assert not system.conflicts
    assert not system.chosen


def test_counts_that_add_up_to_nothing_are_nothing() -> None:
    system = System(1)
    system.add({"a": 1, "b": 2}, 0)
    system.propagate()
    assert values(system) == {"a": [0], "b": [0]}


def test_most_lines_of_a_block_outvote_one_that_was_moved() -> None:
    system = System(1)
    for line, count in ((1, 64), (2, 64), (3, 1)):
        system.add({"body": 1}, count, label=line)
    system.propagate()
    assert values(system) == {"body": [64]}
    assert system.conflicts == [3]


def test_most_lines_are_heard_before_one_that_the_machine_code_does_twice() -> None:
    system = System(1)
    system.add({"body": 2}, 64, label=1)
    for line in (2, 3):
        system.add({"body": 1}, 64, label=line)
    system.propagate()
    assert values(system) == {"body": [64]}
    assert system.conflicts == [1]


def test_fractions_and_negative_counts_are_conflicts() -> None:
    system = System(1)
    system.add({"a": 2}, 3, label=5)
    system.add({"b": 1}, -1, label=6)
    system.propagate()
    assert not system.values
    assert sorted(system.conflicts) == [5, 6]


def test_flow_that_does_not_add_up_is_told_as_line_0() -> None:
    system = System(1)
    system.know("a", 1)
    system.know("b", 2)
    system.add({"a": 1, "b": -1})
    system.propagate()
    assert system.conflicts == [0]


def test_an_unrolled_loop_takes_its_widest_body_as_often_as_it_can() -> None:
    # ptxas: while more than 3 turns are left, four at once; then two at once; then one.
    system = System(3)
    turns = np.array([1024, 127, 2])
    system.add({"four": 4, "two": 2, "one": 1}, turns, label=1)
    system.choose()
    assert system.chosen
    assert values(system) == {"four": [256, 31, 0], "two": [0, 1, 1], "one": [0, 1, 0]}


def test_what_is_chosen_keeps_the_flow_of_control() -> None:
    # The two-turn body is passed at most once, and there are three turns left behind the loop.
    system = System(1)
    system.know("entry", 1)
    system.add({"four": 4, "two": 2, "one": 1}, 6, label=1)
    system.add({"two": 1, "skip": 1, "entry": -1})
    system.add({"one": 1}, 2, label=2)
    system.choose()
    system.choose(everything=True)
    assert values(system) == {
        "entry": [1],
        "four": [1],
        "two": [0],
        "one": [2],
        "skip": [1],
    }


def test_no_solution_leaves_the_unknowns_open() -> None:
    system = System(1)
    system.add({"four": 4, "two": 2}, 7, label=1)
    system.choose()
    assert not system.values
    assert not system.chosen
