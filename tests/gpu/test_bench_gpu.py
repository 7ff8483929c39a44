"""The benchmark on a real GPU: baselines right in every layout, launches in graphs, the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.bench.baselines import BASELINES, opened_baselines
from tilewright.bench.contenders import Ours
from tilewright.bench.gemm import run_operation
from tilewright.bench.operands import KINDS
from tilewright.bench.timing import Budget
from tilewright.cli import app
from tilewright.device.graphs import Graph
from tilewright.device.memory import Arena
from tilewright.device.session import open_session
from tilewright.device.standin import gpu_of
from tilewright.kernels.gemm.operation import Operation
from tilewright.tuning.choice import choose

pytestmark = pytest.mark.gpu
SHORT = Budget(warmup_s=0.002, measure_s=0.01)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("shape", [(130, 70, 50, 1), (1, 300, 257, 1), (33, 20, 7, 5)])
def test_everybody_is_right_and_timed(layout, shape):
    m, n, k, batch = shape
    operation = Operation.plain(m, n, k, layout=layout, batch=batch)
    session = open_session()
    session.enter()
    card = gpu_of(session.info)
    with Arena(session) as arena, opened_baselines(arena, BASELINES) as (found, absent):
        assert "cublas" not in absent
        ours = Ours(lambda o: [choose(o, card).variant])
        entries = run_operation(session, operation, [ours, *found], budget=SHORT)
    for name, entry in entries.items():
        assert entry.reason is None, f"{name}: {entry.reason}"
        assert set(entry.checks) == set(KINDS)
        assert entry.ok
        assert 0 < entry.timing.median_s < 1e-3


def test_a_graph_queues_what_was_recorded_each_time():
    session = open_session()
    session.enter()
    with Arena(session) as arena:
        source = arena.upload(np.arange(64, dtype=np.int32))
        target = arena.allocate(256)
        arena.fill(target, 0, 256)
        with Graph(session, lambda: arena.copy(target, source, 256)) as graph:
            found = np.empty(64, np.int32)
            arena.read(found, target)
            assert not found.any()  # recorded, not run
            for _ in range(2):
                graph.launch()
                arena.read(found, target)
                np.testing.assert_array_equal(found, np.arange(64))
                arena.fill(target, 0, 256)


def test_the_command_measures_and_records(tmp_path):
    path = tmp_path / "bench.json"
    done = CliRunner().invoke(app, ["bench", "--size", "256", "--json", str(path)])
    assert done.exit_code == 0, done.output
    (record,) = json.loads(path.read_text())["records"]
    by_name = {run["contender"]: run for run in record["runs"]}
    assert by_name["tilewright"]["verified"]
    assert by_name["tilewright"]["variant"]
    assert by_name["cublas"]["timing"]["median_s"] > 0
