"""Launches in graphs: each on a set of its own, as many for all, and the L2 emptied between."""

import pytest

from tilewright.bench import gemm
from tilewright.bench.contenders import Way
from tilewright.bench.gemm import OperationBench, shared_out
from tilewright.bench.timing import Budget, time_interleaved


class Stream:
    """A GPU whose clock moves with what is queued; counts what it was asked for."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def run(self, what, seconds):
        self.log.append(what)
        self.now += seconds

    def mark(self):
        return self.now

    def seconds(self, start, stop):
        return stop - start


def test_the_time_of_a_call_is_shared_among_its_launches():
    stream = Stream()
    found = time_interleaved(
        {"a": lambda _: stream.run("a", 8.0)}, stopwatch=stream, sets=1, launches=4,
        budget=Budget(warmup_s=1, measure_s=30),
    )  # fmt: skip
    assert found["a"].median_s == 2.0


def test_what_comes_before_is_not_timed():
    stream = Stream()
    found = time_interleaved(
        {"a": lambda _: stream.run("a", 1.0), "b": lambda _: stream.run("b", 2.0)},
        stopwatch=stream, sets=1, before=lambda: stream.run("flush", 100.0),
        budget=Budget(warmup_s=1, measure_s=12),
    )  # fmt: skip
    assert (found["a"].median_s, found["b"].median_s) == (1.0, 2.0)
    # Only the launch that starts a batch, which is not timed, has none.
    timed = stream.log[2 * 4 :]
    assert stream.log[:4] == ["flush", "a", "flush", "b"]
    assert timed.count("flush") == timed.count("a") + timed.count("b") or (
        stream.log.count("flush") == stream.log.count("a") + stream.log.count("b") - 1
    )


@pytest.mark.parametrize(
    ("sets", "wanted", "launches"),
    [(2, 1, 1), (2, 200, 2), (15, 13, 15), (29, 13, 14), (256, 200, 64), (256, 3, 3), (7, 7, 7)],
)
def test_sets_are_shared_out_by_hand(sets, wanted, launches):
    assert shared_out(sets, wanted) == launches


class Sets:
    """Eight sets of operands, named by their number."""

    def __init__(self, cold):
        self.cold = cold
        self.count = 8
        self.pointers = list(range(8))


@pytest.mark.parametrize("cold", [True, False])
def test_every_set_is_in_one_graph_and_flushed_unless_they_rotate(monkeypatch, cold):
    stream = Stream()

    class Graph:
        def __init__(self, session, queue):
            before = stream.now, list(stream.log)
            queue()
            self.what = stream.log[len(before[1]) :]
            self.seconds = stream.now - before[0]
            stream.now, stream.log = before

        def launch(self):
            stream.run(tuple(self.what), self.seconds)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    class Arena:
        session = None

    sets = Sets(cold)
    sets.flush = lambda: stream.run("flush", 1.0)
    monkeypatch.setattr(gemm, "Graph", Graph)
    monkeypatch.setattr(gemm, "EventStopwatch", lambda session: stream)
    ways = {
        name: Way(name=name, bind=lambda at, n=name, s=s: lambda: stream.run((n, at), s))
        for name, s in (("ours", 125e-6), ("theirs", 250e-6))
    }
    found = OperationBench(Arena(), sets).time(ways, Budget(warmup_s=0.001, measure_s=0.05))
    assert found["ours"].median_s == pytest.approx(125e-6)
    assert found["theirs"].median_s == pytest.approx(250e-6)
    graphs = {g for g in stream.log if isinstance(g, tuple) and isinstance(g[0], tuple)}
    # The fastest takes 500 us in four launches: two graphs of four sets for each.
    assert sorted(graphs) == sorted(
        tuple((name, at) for at in part) for name in ways for part in ((0, 1, 2, 3), (4, 5, 6, 7))
    )
    assert ("flush" in stream.log) is not cold
