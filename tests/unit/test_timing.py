import pytest

from tilewright.bench.timing import Budget, rotation_sets, summarize, time_interleaved
from tilewright.errors import ProblemError
from tilewright.records import Timing


class FakeGpu:
    """A stream whose launches take the times given; its clock moves only with them."""

    def __init__(self, durations):
        self.now = 0.0
        self.durations = durations
        self.launches = []
        self.waits = 0

    def candidate(self, name):
        def launch(index):
            self.launches.append((name, index))
            duration = self.durations[name]
            self.now += duration(len(self.launches)) if callable(duration) else duration

        return launch

    def mark(self):
        return self.now

    def seconds(self, start, stop):
        self.waits += 1
        return stop - start

    def time(self, sets=4, **budget):
        candidates = {name: self.candidate(name) for name in self.durations}
        return time_interleaved(candidates, stopwatch=self, sets=sets, budget=Budget(**budget))


def test_times_are_those_of_each_candidate():
    gpu = FakeGpu({"ours": 0.25, "library": 0.0625})
    found = gpu.time(warmup_s=0.1, measure_s=4, min_rounds=3, max_rounds=100)
    # A round takes 0.3125 s, so 12 fit into 4 s.
    assert found["ours"] == Timing(median_s=0.25, p25_s=0.25, p75_s=0.25, runs=12, sets=4)
    assert found["library"] == Timing(median_s=0.0625, p25_s=0.0625, p75_s=0.0625, runs=12, sets=4)


def test_rounds_alternate_their_order_after_one_launch_of_the_fastest():
    gpu = FakeGpu({"a": 1.0, "b": 0.5, "c": 2.0})
    gpu.time(warmup_s=0.1, measure_s=1, min_rounds=3, max_rounds=9)
    names = [name for name, _ in gpu.launches]
    assert names[:3] == ["a", "b", "c"]  # the warm-up round
    assert names[3:] == ["b", *"abc", *"cba", *"abc"]


def test_every_launch_takes_the_next_set():
    gpu = FakeGpu({"a": 1.0, "b": 1.0})
    gpu.time(sets=5, warmup_s=0.1, measure_s=20)
    assert [index for _, index in gpu.launches] == [i % 5 for i in range(len(gpu.launches))]


def test_each_candidate_sees_every_set():
    gpu = FakeGpu({"a": 1.0, "b": 1.0})
    gpu.time(sets=2, warmup_s=0.1, measure_s=20)
    for name in "ab":
        assert {index for n, index in gpu.launches if n == name} == {0, 1}


def test_slow_candidates_run_the_fewest_rounds():
    gpu = FakeGpu({"naive": 2.2, "library": 0.02})
    found = gpu.time()
    assert found["naive"].runs == 3
    # One warm-up round, one launch to fill the queue, three rounds.
    assert [name for name, _ in gpu.launches].count("naive") == 4


def test_fast_candidates_run_the_most_rounds():
    assert FakeGpu({"a": 1e-5}).time(max_rounds=70)["a"].runs == 70


def test_warm_up_goes_on_until_times_settle():
    # Clocks that rise: the first 40 launches are slow. None of their times may be counted.
    gpu = FakeGpu({"a": lambda launch: 0.1 / launch if launch < 40 else 0.0025})
    found = gpu.time(warmup_s=0.2, measure_s=0.25)
    assert found["a"].median_s == pytest.approx(0.0025)
    assert found["a"].p75_s == pytest.approx(0.0025)


def test_warm_up_ends_where_times_never_settle():
    gpu = FakeGpu({"a": lambda launch: 0.01 if launch % 2 else 0.02})
    gpu.time(warmup_s=0.3, measure_s=0.01, min_rounds=1)
    # Four times 0.3 s of launches of 0.015 s on average, then two more.
    assert 80 <= len(gpu.launches) <= 84


def test_launches_without_duration_end_too():
    assert FakeGpu({"a": 0.0}).time(max_rounds=5)["a"].runs == 5


def test_times_are_read_only_after_a_batch_is_queued():
    gpu = FakeGpu({"a": 1.0})
    order = []
    launch, seconds = gpu.candidate("a"), gpu.seconds

    def noted(index):
        order.append("launch")
        launch(index)

    def waited(start, stop):
        order.append("wait")
        return seconds(start, stop)

    gpu.seconds = waited
    time_interleaved({"a": noted}, stopwatch=gpu, sets=2, budget=Budget(measure_s=6))
    assert order == ["launch", "wait"] + ["launch"] * 7 + ["wait"] * 6


def test_statistics_by_hand():
    # Of 1, 2, 3, 4, 10: median 3; quartiles at positions 1 and 3 of 0..4.
    assert summarize([10, 1, 3, 2, 4], 7) == Timing(median_s=3, p25_s=2, p75_s=4, runs=5, sets=7)
    # Of 1, 2, 3, 4: between the middle two; quartiles a quarter of the way.
    assert summarize([4, 3, 2, 1], 2) == Timing(
        median_s=2.5, p25_s=1.75, p75_s=3.25, runs=4, sets=2
    )


@pytest.mark.parametrize(
    ("set_bytes", "l2_bytes", "sets"),
    [(12 << 20, 60 << 20, 15), (13 << 20, 60 << 20, 14), (768 << 20, 60 << 20, 2), (1, 1, 3)],
)
def test_sets_pass_three_times_the_cache(set_bytes, l2_bytes, sets):
    assert rotation_sets(set_bytes, l2_bytes) == sets
    assert sets * set_bytes >= 3 * l2_bytes


def test_sets_of_a_tiny_problem_are_bounded():
    assert rotation_sets(12, 60 << 20) == 256


def test_nothing_to_time_is_refused():
    with pytest.raises(ProblemError, match="0 candidates"):
        time_interleaved({}, stopwatch=FakeGpu({}), sets=2)
