"""The simulated SM on tiny programs, whose times are worked out by hand.

Every program ends with END, which issues once and is over 5 cycles later.
"""

from typing import Any

import pytest
from small_programs import END, H200, operation, simulate

from tilewright.model.sm import PARTITIONS, Sm, _Partition

N = 20


def test_dependent_instructions_take_their_stalls() -> None:
    found = simulate([operation(stall=4)] * N + [END])
    assert found.cycles == 4 * N + 5
    assert found.issued == N + 1
    assert found.stalls == {"wait": 3 * N}
    assert found.busy["fma"] == N


def test_plain_instructions_in_a_row_are_over_after_the_last_ones_stall() -> None:
    found = simulate([*[operation()] * 3, operation(stall=4), END])
    assert found.cycles == 3 + 4 + 5
    assert found.stalls == {"wait": 3}


def test_every_cycle_of_a_warp_is_issued_or_charged_once() -> None:
    body = [
        operation("shared", wavefronts=8.0, write_barrier=0),
        operation("imad"),
        operation("imad", stall=2, reads=(2, 1)),
        operation(wait=1, reads=(3, 0)),
        operation(reads=(3, 0), stall=4),
        operation("barrier"),
    ]
    found = simulate([*body * 12, END])
    assert sum(found.stalls.values()) + found.issued == found.cycles - 5 + 1
    assert set(found.stalls) >= {"wait", "short_scoreboard", "math_pipe_throttle", "barrier"}


def test_warps_of_four_partitions_do_not_meet() -> None:
    program = [operation(stall=4)] * N + [END]
    one, four = simulate(program), simulate(program, warps=PARTITIONS)
    assert four.cycles == one.cycles
    assert four.issued == 4 * one.issued
    assert "not_selected" not in four.stalls


def test_warps_of_a_partition_fill_one_anothers_stalls() -> None:
    """Three more a partition issue in the three cycles between; what is beyond waits its turn."""
    program = [operation(stall=4)] * N + [END]
    assert simulate(program, warps=16).cycles == 4 * N + 5 + 3
    assert simulate(program, warps=32).cycles == pytest.approx(8 * N + 5, abs=8)
    assert simulate(program, warps=32).stalls["not_selected"] > 0


def test_a_partition_issues_one_instruction_a_cycle() -> None:
    found = simulate([operation()] * N + [END], warps=32)
    assert found.cycles == 8 * (N + 1) - 1 + 5
    assert found.issued == 32 * (N + 1)


@pytest.mark.parametrize(
    ("pipe", "interval"),
    # 128 lanes over four partitions are 32: a cycle. 64 are two, 16 eight.
    # CUDA C++ Programming Guide, throughput of arithmetic instructions, 9.0.
    [("fma", 1), ("imad", 2), ("alu", 2), ("xu", 8), ("fp64", 2)],
)
def test_a_pipe_takes_an_instruction_when_it_is_free(pipe: str, interval: int) -> None:
    short, long = (simulate([operation(pipe)] * n + [END], warps=4) for n in (N, 2 * N))
    assert long.cycles - short.cycles == interval * N
    assert (long.stalls.get("math_pipe_throttle", 0) > 0) == (interval > 1)
    assert long.busy[pipe] == PARTITIONS * 2 * N * interval


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(
    ("reads", "cycles"),
    [
        ([(1, 1)], 1.0),
        ([(2, 1)], 2.0),
        ([(0, 3)], 3.0),
        ([(2, 1), (1, 2)], 1.5),  # three registers of each bank in two instructions
        ([(2, 0), (0, 2)], 1.0),  # the other bank has the cycle to catch up
        ([(2, 1), (0, 0), (0, 0)], 1.0),
    ],
)
def test_a_bank_gives_a_register_a_cycle(
    reads: list[tuple[int, int]], cycles: float, plain: bool
) -> None:
    """Whether instructions are plain, and issued as spans, or hold a scoreboard and are not."""
    board = -1 if plain else 3

    def run(times: int) -> float:
        body = [operation(reads=each, write_barrier=board) for each in reads] * times
        return simulate([*body, END]).cycles

    assert run(400) - run(200) == pytest.approx(200 * len(reads) * cycles, abs=1)


def test_a_wait_for_registers_is_a_dispatch_stall() -> None:
    found = simulate([operation(reads=(3, 0))] * N + [END])
    assert found.stalls["dispatch_stall"] == pytest.approx(2 * N, abs=3)


@pytest.mark.parametrize("plain", [True, False])
def test_every_warp_that_could_issue_is_in_a_dispatch_stall(plain: bool) -> None:
    """Two warps a partition: while one works the other waits with it, and does not get the turn.

    Read on an H200: no `not_selected` behind FFMAs whose registers share a bank.
    """
    program = [operation(reads=(3, 0), write_barrier=-1 if plain else 3)] * N
    found = simulate([*program, END], warps=2 * PARTITIONS)
    assert found.stalls["dispatch_stall"] == pytest.approx(PARTITIONS * 3 * 2 * N, rel=0.06)
    assert "not_selected" not in found.stalls


def test_a_scoreboard_holds_what_waits_for_it() -> None:
    load = operation("shared", write_barrier=2)
    free = [load, operation(stall=1), END]
    bound = [load, operation(stall=1, wait=1 << 2), END]
    other = [load, operation(stall=1, wait=1 << 3), END]
    early, late = simulate(free), simulate(bound)
    assert simulate(other).cycles == early.cycles
    assert simulate([load, operation(), *bound[1:]]).cycles == late.cycles
    assert late.stalls["short_scoreboard"] == pytest.approx(H200.latency["lds"], abs=2)
    assert "short_scoreboard" not in early.stalls


def test_a_store_holds_its_operands_until_they_are_read() -> None:
    store = operation("shared", read_barrier=0, load=False)
    found = simulate([store, operation(wait=1), END])
    assert 5 < found.stalls["short_scoreboard"] < H200.latency["lds"]


@pytest.mark.parametrize("warps", [1, 4, 8, 32])
def test_a_barrier_costs_each_warp_two_cycles_and_all_thirteen(warps: int) -> None:
    """Measured, chain-bar: 14.7 cycles of one warp, 77 of 32."""
    program = [operation("barrier")] * 3 + [END]
    assert simulate(program, warps=warps).cycles == pytest.approx(
        3 * (13 + 2 * (warps - 1)) + 5, abs=3 + 2 * (warps // PARTITIONS)
    )


def test_a_barrier_waits_for_its_own_block_alone() -> None:
    """Of four loads the unit serves two at a time: two warps of a block wait for the other two."""
    program = [operation("shared", wavefronts=100.0, write_barrier=0),
               operation("barrier", wait=1), END]  # fmt: skip
    apart, together = simulate(program, blocks=4), simulate(program, warps=4)
    assert together.stalls["barrier"] - apart.stalls["barrier"] == pytest.approx(400, abs=20)


def test_a_warp_goes_on_with_arithmetic_until_its_barrier_blocks_it() -> None:
    """Two warps wait 400 cycles for the other two of their block: 50 less with 50 to issue.

    Read of 03 to 08 on an H200: all samples of `barrier` are at the next access or branch.
    """
    load = operation("shared", wavefronts=100.0, write_barrier=0)

    def waited(arithmetic: int, then: str) -> float:
        behind = [*[operation()] * arithmetic, operation(then), END]
        return simulate([load, operation("barrier", wait=1), *behind], warps=4).stalls["barrier"]

    for then in ("shared", "global", "branch"):
        assert waited(0, then) - waited(50, then) == pytest.approx(4 * 13 + 2 * (50 - 13), abs=9)


def test_a_full_queue_is_a_throttle_by_its_memory() -> None:
    """Eight wait in a partition's queue and twenty in the unit; the next does not issue."""
    for pipe, why in (("shared", "mio_throttle"), ("global", "lg_throttle")):
        load = operation(pipe, wavefronts=32.0, stall=2)  # as far apart as they leave the queue
        few, many = simulate([load] * 28 + [END]), simulate([load] * 40 + [END])
        assert why not in few.stalls
        # The last one issues when the twelfth is served, eleven behind that of cycle 2. One warp's
        # passes are two cycles apart.
        assert many.stalls[why] == pytest.approx(2 + 64 * 11 - 2 * 39, abs=5)
        assert many.busy["lsu"] == 32 * 40


def test_a_full_queue_leaves_a_warp_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen warps go on from a barrier with six LDS.128 of four passes each, 4 cycles apart.

    Measured: of each partition's warps one has sent its last one at once, the others 45, 81 and
    129 cycles later in the mean. In turn all of them would be the last.
    """
    sent: dict[int, float] = {}
    issue = Sm._issue

    def noted(sm: Sm, now: float, partition: Any, number: int) -> None:
        if sm._warps[number].at <= 6:
            sent[number] = now
        issue(sm, now, partition, number)

    monkeypatch.setattr(Sm, "_issue", noted)
    load = operation("shared", size=16, wavefronts=4.0, stall=4, write_barrier=0)
    simulate([operation("barrier"), *[load] * 6, operation(wait=1), END], warps=16)
    begin = min(sent.values())
    for first in range(PARTITIONS):
        found = sorted(sent[number] - begin for number in range(first, 16, PARTITIONS))
        assert found == pytest.approx([0, 45, 81, 129], abs=24)


def test_the_warp_that_issued_longest_ago_is_next() -> None:
    partition = _Partition(warps=[0, 4, 8, 12])
    for number in (4, 4, 12, 4):
        partition.picked(number)
    assert partition.warps == [0, 8, 12, 4]
    partition.ended(4)
    assert partition.warps == [0, 8, 12]


def test_a_scoreboard_that_is_clear_leaves_a_warp_its_turn() -> None:
    """Four warps of a partition, runs of 16 behind a clear scoreboard each: one after the other.

    Read on an H200: the runs of a warp start 17 cycles apart, with a reading of the clock in each.
    """
    run = [operation(stall=1, wait=1), *[operation(stall=1)] * 16]
    found = simulate(run * 20 + [END], warps=4 * PARTITIONS)
    assert found.cycles == pytest.approx(4 * 20 * 17, abs=10)
    assert "not_selected" not in found.stalls  # which counts from a warp's first instruction on


def test_a_partition_that_is_woken_issues_once_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A barrier's release comes between two of its own looks."""
    issues: list[tuple[int, float]] = []
    issue = Sm._issue

    def noted(sm: Sm, now: float, partition: Any, number: int) -> None:
        issues.append((number % PARTITIONS, now))
        issue(sm, now, partition, number)

    monkeypatch.setattr(Sm, "_issue", noted)
    body = [
        operation("shared", wavefronts=8.0, write_barrier=0),
        operation("barrier"),
        operation("imad", stall=2),
        operation(wait=1, write_barrier=1),
    ]
    simulate([*body * 12, END], warps=8, blocks=3)
    assert len(set(issues)) == len(issues)


def test_warps_go_their_own_ways() -> None:
    """Two warps of a block: one multiplies, the other adds up twice as long."""
    program = [operation(stall=4), operation("alu", stall=8), END]
    found = simulate(program, warps=2, blocks=3, ways=[[0] * N + [2], [1] * N + [2]])
    assert found.cycles == pytest.approx(8 * N + 5, abs=3)
    assert (found.busy["fma"], found.busy["alu"]) == (3 * N, 3 * N * 2)
    assert found.issued == 3 * 2 * (N + 1)
