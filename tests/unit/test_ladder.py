"""The ladder without a GPU: sampled counts are those of every block; the command and its table."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from tilewright.bench.emulated_ladder import EmulatedLadder
from tilewright.cli import app
from tilewright.emulator import run
from tilewright.gpus import gpu
from tilewright.kernels import HISTORY, RUNGS, Tile
from tilewright.problem import Problem
from tilewright.records import RecordFile, read_records
from tilewright.toolchain import compile_cuda

A6000 = gpu("RTX A6000")
EVERY = {**RUNGS, **HISTORY}


# Ragged on both sides, with rows that begin anywhere in a sector; several blocks of each class.
# The first tile's blocks begin half way into a sector, every other one.
@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("01_naive", Tile(bm=4, bn=8)),
        ("02_coalesced", None),
        ("03_shared_tile", None),
        ("06_vectorized", None),
        ("09_pipelined", None),
        ("both_shared_2008", None),
        ("volkov_2008", None),
        # Six tiles are shared, three of them cut.
        ("10_persistent", replace(RUNGS["10_persistent"].default, workers=4)),
    ],
)
def test_scaled_counts_are_those_of_every_block(name, tile):
    rung, problem = EVERY[name], Problem(m=290, n=419, k=21, beta=0.5, lda=27, ldb=421, ldc=423)
    tile = tile or rung.tile_for(A6000.name)
    sampled = EmulatedLadder(problem, A6000).measure(rung, tile)
    assert sampled.verification.ok, sampled.verification.message()
    artifact = compile_cuda(
        rung.source, rung.expression(tile), arch="sm_86", include_dirs=rung.include_dirs
    )
    a, b, c = (np.zeros(n, np.float32) for n in (290 * 27, 21 * 421, 290 * 423))
    args = (*rung.arguments(problem, a, b, c), *rung.workspace(problem, tile))
    every = run(artifact, rung.launch(problem, tile), args, count=True).counters
    counted = sampled.record.counters
    if tile.workers:  # instructions of PTX are derived: those that share tiles are left out
        rough = ("warp_instructions", "thread_instructions", "opcodes")
        counted = replace(counted, **{name: getattr(every, name) for name in rough})
    assert counted == every


def invoke(*args: str):
    return CliRunner().invoke(app, ["ladder", *args])


def test_the_command_writes_what_design_says(tmp_path):
    path = tmp_path / "ladder.json"
    done = invoke(
        "--size", "70", "--rungs", "naive,02", "--backend", "emulator", "--json", str(path)
    )
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 100
    file = read_records(path)
    assert isinstance(file, RecordFile)
    assert [r.rung for r in file.records] == ["01_naive", "02_coalesced"]
    record = json.loads(path.read_text())["records"][0]
    assert record["backend"] == "emulator"
    assert record["gpu"] == "RTX A6000"
    assert record["verified"] is True
    assert record["measured_gflops"] is None
    # One multiply-add an output and step, one to blend it with C.
    assert record["counters"]["ffma_thread_instructions"] == 70**3 + 70**2
    assert record["published_gflops"] == 309.0


def test_published_figures_stand_beside_their_own_gpu_only():
    done = invoke("--size", "40", "--rungs", "01", "--gpu", "h200", "--backend", "emulator")
    assert done.exit_code == 0, done.output
    assert "published" not in done.stdout
    assert "309" not in done.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--rungs", "navie"], "did you mean '01_naive'?"),
        (["--gpu", "rtx a600"], "did you mean 'RTX A6000'?"),
        (["--gpu", "GTX 280"], "GTX 280"),
        (["--size", "-1"], "m = -1: expected a whole number from 1"),
        (["--size", "900000"], "choose smaller sizes"),
        (["--size", "8", "--m", "8"], "leave --m out"),
        (["--m", "8"], "--n, --k is missing"),
        (["--backend", "gpu"], "choose one of auto, emulator, device"),
        (["--rungs", ","], "names no rung"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(args, message):
    done = invoke(*args, "--backend", "emulator") if "--backend" not in args else invoke(*args)
    assert done.exit_code == 2
    assert message in done.output
    assert done.stdout == ""
