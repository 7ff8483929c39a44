"""A whole run without a GPU: its memory is the host's, its clock counts what contenders say."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from tilewright.bench import gemm
from tilewright.bench.contenders import Way
from tilewright.bench.gemm import run_operation
from tilewright.bench.operands import KINDS, extent, view
from tilewright.bench.timing import Budget
from tilewright.errors import DeviceError, ProblemError
from tilewright.kernels.gemm.operation import Operation

OPERATION = Operation.plain(40, 30, 20, layout="tn", batch=3)
BUDGET = Budget(warmup_s=0.001, measure_s=0.05)


class HostArena:
    """Memory of the host behind the interface of the GPU's."""

    def __init__(self, session):
        self.session = session
        self.kept = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def allocate(self, size):
        self.kept.append(np.zeros(size, np.uint8))
        return self.kept[-1].ctypes.data

    def write(self, pointer, array):
        ctypes.memmove(pointer, array.ctypes.data, array.nbytes)

    def read(self, array, pointer):
        ctypes.memmove(array.ctypes.data, pointer, array.nbytes)

    def copy(self, target, source, size):
        ctypes.memmove(target, source, size)

    def fill(self, pointer, byte, size):
        ctypes.memset(pointer, byte, size)


class Clock:
    def __init__(self):
        self.now = 0.0

    def mark(self):
        return self.now

    def seconds(self, start, stop):
        return stop - start


class Contender:
    """numpy's product in a time of its own; `spoil` makes it err."""

    def __init__(self, name, clock, seconds, spoil=lambda d, call: None, error=None):
        self.name = self.label = name
        self.clock, self.seconds, self.spoil, self.error = clock, seconds, spoil, error
        self.calls = 0

    def ways(self, operation, arena):
        if self.error:
            raise self.error
        return [
            Way(name=f"{self.name} {s}", bind=lambda there, s=s: lambda: self.launch(there, s))
            for s in self.seconds
        ]

    def launch(self, there, seconds):
        o = OPERATION
        sides = ((o.a, o.m, o.k), (o.b, o.k, o.n), (o.d, o.m, o.n))
        floats = [
            np.ctypeslib.as_array((ctypes.c_float * extent(s, r, c, o.batch)).from_address(at))
            for at, (s, r, c) in zip((there.a, there.b, there.d), sides, strict=True)
        ]
        for z in range(o.batch):
            a, b, d = (view(f, *side, z) for f, side in zip(floats, sides, strict=True))
            np.matmul(a, b, out=d)
        self.spoil(floats[2], self.calls)
        self.calls += 1
        self.clock.now += seconds


@pytest.fixture
def machine(monkeypatch):
    clock = Clock()

    class Graph:
        def __init__(self, session, queue):
            self.queue = queue

        def launch(self):
            self.queue()

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(gemm, "Arena", HostArena)
    monkeypatch.setattr(gemm, "Graph", Graph)
    monkeypatch.setattr(gemm, "EventStopwatch", lambda session: clock)
    info = SimpleNamespace(l2_bytes=40_000, memory_bytes=10**9, name="host")
    session = SimpleNamespace(info=info, enter=lambda: None)
    return SimpleNamespace(clock=clock, session=session)


def run(machine, *contenders):
    return run_operation(machine.session, OPERATION, contenders, budget=BUDGET)


def test_the_fastest_of_several_ways_is_timed_beside_the_others(machine):
    ours = Contender("ours", machine.clock, [3e-4, 1e-4, 2e-4])
    theirs = Contender("theirs", machine.clock, [4e-4])
    found = run(machine, ours, theirs)
    assert found["ours"].way.name == "ours 0.0001"
    assert found["ours"].tried == 3
    assert found["ours"].timing.median_s == pytest.approx(1e-4)
    assert found["theirs"].timing.median_s == pytest.approx(4e-4)
    assert tuple(found["theirs"].checks) == KINDS
    # Each kind is drawn eight times: 3600 elements are few to compare the largest errors of.
    assert all(c.ok and c.checked == 8 * 3 * 40 * 30 for c in found["theirs"].checks.values())


def test_a_wrong_way_is_not_the_fastest_and_a_wrong_contender_not_timed(machine):
    def spoil(d, call):
        d[-1] += 1

    def spoil_first(d, call):
        if call == 0:
            d[7] = 0

    wrong = Contender("wrong", machine.clock, [1e-4], spoil)
    partly = Contender("partly", machine.clock, [1e-4, 2e-4], spoil_first)
    found = run(machine, wrong, partly)
    assert found["wrong"].timing is None
    assert not found["wrong"].ok
    assert found["wrong"].checks["normal"].worst == (39, 29)
    assert found["partly"].way.name == "partly 0.0002"
    assert found["partly"].ok


def test_a_result_that_another_left_there_is_nobodys(machine):
    class Idle(Contender):
        def launch(self, there, seconds):
            self.clock.now += seconds

    right = Contender("right", machine.clock, [1e-4])
    found = run(machine, right, Idle("idle", machine.clock, [1e-6]))
    assert found["right"].ok
    assert not found["idle"].ok


def test_every_set_has_the_same_operands_at_an_address_of_its_own(machine):
    seen = {}

    class Looking(Contender):
        def launch(self, there, seconds):
            super().launch(there, seconds)
            floats = (ctypes.c_float * (40 * 20 * 3)).from_address(there.a)
            seen.setdefault(there.a, set()).add(bytes(floats))

    run(machine, Looking("ours", machine.clock, [1e-4]))
    # A set takes 9728 + 7424 + 14592 bytes, three times the L2 120 000.
    assert len(seen) == 4
    first, *others = seen
    assert len(seen[first]) == 8 * len(KINDS)
    assert all(len(seen[other]) == 1 and seen[other] < seen[first] for other in others)


def test_wrong_on_one_kind_of_data_alone_is_wrong(machine):
    def spoil(d, call):
        if np.abs(d).max() > 1e4:  # wide data and scaled rows have such sums
            d[0] = np.nan

    found = run(machine, Contender("ours", machine.clock, [1e-4], spoil))["ours"]
    assert [kind for kind, check in found.checks.items() if not check.ok] == ["wide", "scaled"]
    assert found.timing is None


def test_wrong_on_one_draw_alone_is_wrong(machine):
    def spoil(d, call):
        if call == len(KINDS) + 1:  # each kind once, then normal and uniform data again
            d[0] += 1

    found = run(machine, Contender("ours", machine.clock, [1e-4], spoil))["ours"]
    assert [kind for kind, check in found.checks.items() if not check.ok] == ["uniform"]
    assert found.checks["uniform"].failed == 1
    assert found.timing is None


def test_who_cannot_says_why_and_the_others_go_on(machine):
    absent = Contender("absent", machine.clock, [1e-4], error=DeviceError("strides it cannot"))
    found = run(machine, absent, Contender("ours", machine.clock, [1e-4]))
    assert found["absent"].reason == "strides it cannot"
    assert found["ours"].timing is not None


def test_operands_past_the_memory_are_refused_with_their_size(machine):
    machine.session.info.memory_bytes = 50_000
    with pytest.raises(ProblemError, match=r"sets of A, B and D take .* GB, host has .* GB"):
        run(machine, Contender("ours", machine.clock, [1e-4]))
