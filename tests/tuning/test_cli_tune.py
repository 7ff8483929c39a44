"""`tilewright tune`: what it prints, keeps and returns, with a measurer that needs no GPU."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pages.images import coloured, count, pixels
from tilewright.cli import app
from tilewright.records import read_text
from tilewright.tuning import fleet
from tilewright.tuning import measure as jobs
from tilewright.tuning.replay import read_recordings
from tilewright.tuning.search import Workers
from tilewright.tuning.space import space
from tilewright.tuning.store import Store
from tuning.synthetic import H200, SQUARE, Synthetic

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
RECORD = RESULTS / "tuning_common_nvidia_h200.json.gz"
BENCH = RESULTS / "bench_squares_nvidia_h200.json"
SPACE = len(space(SQUARE, H200))
run = CliRunner().invoke


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tuned.db"
    monkeypatch.setenv("TILEWRIGHT_STORE", str(path))
    monkeypatch.setattr(fleet, "local_workers", lambda count, stack: (Workers(), H200))
    monkeypatch.setattr(jobs, "OnDevice", Synthetic)
    return path


def test_it_tunes_keeps_and_goes_on(path: Path) -> None:
    done = run(app, ["tune", "--size", "1024"])
    assert done.exit_code == 0, done.output
    assert "tuned on H200" in done.stdout
    assert f"20 of {SPACE}" in done.stdout
    assert SQUARE.key in done.stdout
    with Store(path) as store:
        assert len(store.trials("H200", SQUARE.key)) == 20
    again = run(app, ["tune", "--size", "1024"])
    assert f" 0 of {SPACE}" in again.stdout
    fresh = run(app, ["tune", "--size", "1024", "--fresh"])
    assert f"20 of {SPACE}" in fresh.stdout


def test_shapes_layouts_and_suites_are_those_of_bench(path: Path) -> None:
    args = ["tune", "--m", "64", "--n", "80", "--k", "96", "--layout", "tn", "--batch", "3"]
    assert run(app, args).exit_code == 0
    with Store(path) as store:
        assert {t.operation for t in store.trials()} == {"f32-tn-64x80x96-b3-v44"}
    args = ["tune", "--suite", "squares", "--layout", "nn", "--strategy", "halving"]
    assert run(app, args).exit_code == 0
    with Store(path) as store:
        assert SQUARE.key in {t.operation for t in store.trials()}


def test_json_is_a_recording_that_a_replay_reads(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    args = ["tune", "--size", "1024", "--strategy", "exhaustive", "--json", str(file)]
    assert run(app, args).exit_code == 0
    (found,) = read_recordings(file)
    assert found.operation == SQUARE
    assert len(found.times) == json.loads(file.read_text())["searches"][0]["space"]
    alone = run(app, ["tune", "--size", "1024", "--json", "-"])
    assert json.loads(alone.stdout)["searches"][0]["ended"] == "done"


def test_a_recording_is_shown_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "local_workers", None)
    monkeypatch.setattr(jobs, "OnDevice", None)
    done = run(app, ["tune", "--replay", str(RECORD)])
    assert done.exit_code == 0, done.output
    assert "tuned on H200, driver 580.159.04, NVRTC 13.0" in done.stdout
    assert re.search(r"f32-nn-64x4096x4096-b1-v44 +56\.05 +38315 +\d+\.\d%", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "The 10 fastest" not in done.stdout
    one = ["tune", "--replay", str(RECORD), "--m", "64", "--n", "4096", "--k", "4096"]
    alone = run(app, one).stdout
    assert "f32-nn-64x4096x4096" in alone
    assert "4096x4096x4096" not in alone
    assert "The 10 fastest" in alone
    assert max(map(len, alone.splitlines())) <= 100


def test_a_search_is_drawn_when_it_is_done_and_when_it_is_replayed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    now, then = tmp_path / "now", tmp_path / "then"
    drawn = ["--plot", f"{now}.png", "--html", f"{now}.html"]
    tuned = ["tune", "--size", "1024", "--strategy", "exhaustive", "--json", f"{now}.json"]
    assert run(app, [*tuned, *drawn]).exit_code == 0
    drawn = ["--plot", f"{then}.png", "--html", f"{then}.html"]
    assert run(app, ["tune", "--replay", f"{now}.json", *drawn]).exit_code == 0
    assert Path(f"{now}.html").read_text() == Path(f"{then}.html").read_text()
    assert SQUARE.key in Path(f"{now}.html").read_text()
    assert not re.search(
        r"""(src|href)=["'](?!#)|@import|url\((?!#)""", Path(f"{now}.html").read_text()
    )
    whole = pixels(f"{now}.png")
    assert whole.shape == pixels(f"{then}.png").shape
    assert whole.shape[0] > whole.shape[1] > 850  # three charts under each other
    assert count(whole, "#4477aa") > 500
    part = tmp_path / "part.png"
    assert run(app, ["tune", "--size", "1000", "--plot", str(part)]).exit_code == 0
    assert pixels(part).shape[0] < whole.shape[0]  # without the strategies


def test_several_searches_are_drawn_by_product(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "all.png"
    assert run(app, ["tune", "--replay", str(RECORD), "--plot", str(target)]).exit_code == 0
    image = pixels(target)
    # A row of marks for each of 13 products, in the colour of the strategy model.
    rows = coloured(image, "#ee6677").any(axis=1)[: image.shape[0] // 2]
    assert sum(here and not above for above, here in itertools.pairwise(rows)) >= 13


def test_nothing_measured_is_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "none.png"
    done = run(app, ["tune", "--size", "1024", "--budget", "0", "--plot", str(target)])
    assert done.exit_code == 0
    assert "nothing was measured, so nothing is drawn" in done.stderr
    assert not target.exists()


def test_searches_of_two_machines_are_said_to_be(tmp_path: Path) -> None:
    data = json.loads(read_text(RECORD))
    data["searches"][1]["machine"]["driver"] = "1.2"
    file = tmp_path / "mixed.json"
    file.write_text(json.dumps(data))
    said = " ".join(run(app, ["tune", "--replay", str(file)]).stdout.split())
    assert (
        "The searches are of 2 machines: H200, driver 580.159.04, NVRTC 13.0; H200, driver 1.2"
        in said
    )
    data["searches"][1]["machine"]["gpu"] = "Voodoo 2"
    file.write_text(json.dumps(data))
    done = run(app, ["tune", "--replay", str(file)])
    assert done.exit_code == 2
    assert "unknown GPU 'Voodoo 2'" in done.stderr


def test_what_is_exported_is_imported(tmp_path: Path, path: Path) -> None:
    file = tmp_path / "trials.json"
    assert run(app, ["tune", "--size", "1024", "--export", str(file)]).exit_code == 0
    path.unlink()
    done = run(app, ["tune", "--import", str(file)])
    assert (done.exit_code, done.stdout) == (0, "imported 20 trials\n")
    with Store(path) as store:
        assert len(store.trials()) == 20
    file.write_text('{"schema": 1, "trials": []}')
    assert run(app, ["tune", "--import", str(file)]).stdout == "imported 0 trials\n"


def test_no_time_left_is_said_and_no_error(path: Path) -> None:
    done = run(app, ["tune", "--suite", "squares", "--budget", "0"])
    assert done.exit_code == 0
    assert "out of time" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "nothing to tune: give --size"),
        (["--m", "3"], "--n, --k is missing"),
        (["--size", "0"], "m = 0"),
        (["--size", "64", "--suite", "squares"], "give one or the other"),
        (["--size", "64", "--strategy", "best"], "unknown strategy 'best'"),
        (["--size", "64", "--layout", "xx"], "layout 'xx'"),
        (["--suite", "nothing"], "unknown suite"),
        (["--import", "/no/such/file"], "cannot read /no/such/file"),
        (["--size", "64", "--export", "/"], "that is a folder"),
        (["--size", "64", "--cluster", "nonsense://here"], "no Dask cluster at"),
        (["--size", "64", "--plot", "/"], "that is a folder"),
        (["--size", "64", "--plot", "a.pdf"], "end the name in .png"),
        (["--size", "64", "--html", f"{__file__}/a.html"], "is no folder; give another file"),
        (["--import", "/no/such/file", "--html", "a.html"], "give products too, or --replay"),
        (["--replay", "/no/such/file"], "cannot read /no/such/file"),
        (["--replay", str(BENCH)], "not a file of recorded searches"),
        (["--replay", str(RECORD), "--size", "77"], "has no search of that product: it has f32-nn"),
        (["--replay", str(RECORD), "--layout", "nn"], "leave --layout out"),
        (["--replay", str(RECORD), "--budget", "3", "--fresh"], "leave --budget and --fresh out"),
    ],
)
def test_bad_input_is_one_line_and_2(args: list[str], said: str) -> None:
    done = run(app, ["tune", *args])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "not JSON: "),
        (b"{", "not JSON: "),
        (b"[]", "not a file of recorded searches: "),
        (b'{"schema": 2}', "schema 2, this version reads 1"),
        (b'{"schema": 1}', "not a file of recorded searches: "),
        (b'{"schema": 1, "searches": [{}]}', "its search 1 is not one of recorded searches: "),
    ],
)
def test_a_file_of_no_searches_is_refused_in_a_sentence(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "out.json"
    file.write_bytes(content)
    done = run(app, ["tune", "--replay", str(file)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: cannot read {file}: {said}")
    assert "Error(" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("median", [0, -1, float("nan"), float("inf"), "1", True])
def test_a_recorded_time_that_is_none_is_refused(tmp_path: Path, median: object) -> None:
    data = json.loads(read_text(RECORD))
    search = data["searches"][1]
    next(t for t in search["trials"] if t.get("median_s"))["median_s"] = median
    file = tmp_path / "out.json"
    file.write_text(json.dumps(data))
    done = run(app, ["tune", "--replay", str(file)])
    assert done.exit_code == 2
    assert f"cannot read {file}: its search 2: " in done.stderr
    assert f"median_s is {median!r}" in done.stderr


def test_without_a_gpu_it_says_what_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("TILEWRIGHT_STORE", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = run(app, ["tune", "--size", "64"])
    assert done.exit_code == 2
    assert "without a GPU, --replay, --import and --export work" in done.stderr


def test_a_corrupt_store_is_left_until_it_is_asked_to_be_set_aside(path: Path) -> None:
    path.write_bytes(b"garbage" * 999)
    done = run(app, ["tune", "--size", "1024"])
    assert done.exit_code == 2
    assert "--set-aside" in done.stderr
    assert path.read_bytes() == b"garbage" * 999
    done = run(app, ["tune", "--size", "1024", "--set-aside"])
    assert done.exit_code == 0
    assert "renamed to" in done.stdout
    assert len(list(path.parent.glob("tuned.db.aside-*"))) == 1


def test_nothing_right_is_exit_code_1_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "OnDevice", lambda operation: Synthetic(operation, wrong=1))
    done = run(app, ["tune", "--size", "1024"])
    assert done.exit_code == 1
    assert "none that is right" in done.stdout
    assert "20 variants are wrong" in done.stdout


def test_a_busy_gpu_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "OnDevice", lambda operation: Synthetic(operation, spread=0.5))
    done = run(app, ["tune", "--size", "1024"])
    assert "something else uses the GPU" in done.stdout


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from tilewright.cli import app
from tilewright.tuning import fleet, measure as jobs
from tilewright.tuning.search import Workers
from tuning.synthetic import *

def slowly(self, variants, measure_s, real=SyntheticMeasurer.measure):
    time.sleep(0.1)
    return real(self, variants, measure_s)

SyntheticMeasurer.measure = slowly
fleet.local_workers = lambda count, stack: (Workers(), H200)
jobs.OnDevice = Synthetic
sys.argv = ["tilewright", "tune", "--size", "1024", "--strategy", "exhaustive"]
app()
"""


def test_ctrl_c_keeps_what_was_measured(path: Path) -> None:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ,
        text=True,
    )  # fmt: skip
    assert child.stderr is not None
    for _ in range(8):
        child.stderr.readline()
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    out, error = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "interrupted; what was measured is kept" in error
    assert "interrupted" in out
    with Store(path) as store:
        assert 8 <= len(store.trials()) < 100


def test_help_has_an_example() -> None:
    done = run(app, ["tune", "--help"])
    assert done.exit_code == 0
    assert "tilewright tune --m 64 --n 4096 --k 14336 --layout nt --budget 60" in done.stdout
