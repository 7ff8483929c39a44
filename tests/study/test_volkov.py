"""`tilewright study volkov`: what it computes, prints and refuses."""

import json
from functools import cache
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from study.curves import LESS, curve_of
from tilewright.cli import app
from tilewright.gpus import gpu
from tilewright.kernels import HISTORY
from tilewright.report.volkov_study import mix_table, volkov_told
from tilewright.study.volkov import OTHER, THEIRS, VolkovStudy, volkov_study
from tilewright.toolchain import load_nvrtc


@cache
def study(old: str = "GTX 280") -> VolkovStudy:
    return volkov_study(gpu(old), (curve_of(THEIRS, problem=LESS), curve_of(OTHER, problem=LESS)))


def invoke(*args: str) -> Result:
    return CliRunner().invoke(app, ["study", "volkov", *args])


def test_it_is_about_the_two_kernels_beside_the_ladder() -> None:
    assert {THEIRS, OTHER} == set(HISTORY)


def test_the_curve_ends_where_registers_do() -> None:
    """30 registers a thread: a block takes 2048, so four fit in 8192 and eight in 16384."""
    assert [len(study(name).curve) for name in ("8800 GTX", "9800 GTX", "GTX 280")] == [4, 4, 8]
    assert study().enough.blocks == 4
    assert study("8800 GTX").published_curve == {}


def test_assumptions_move_the_start_of_the_curve_and_not_its_end() -> None:
    ends = {name: (points[0].share, points[-1].share) for name, points in study().others.items()}
    assert set(ends) == {
        *(f"{n} loads ahead" for n in (1, 2, 16)),
        *(f"{n} cycles to memory" for n in (400, 600)),
    }
    assert ends["1 loads ahead"][0] < 0.2 < 0.45 < ends["16 loads ahead"][0]
    assert max(e for _, e in ends.values()) - min(e for _, e in ends.values()) < 0.005


def test_today_few_warps_of_theirs_beat_many_of_the_other() -> None:
    theirs, other = study().today
    assert theirs.enough.warps < theirs.max_warps == other.best.warps
    assert (theirs.rate(theirs.enough) or 0) > 1.5 * (other.rate(other.best) or 0)


def test_the_json_says_where_each_figure_comes_from() -> None:
    told = json.loads(json.dumps(study().to_json()))
    assert [each["rung"] for each in told["designs"]] == [THEIRS, OTHER]
    assert [each["published_multiply_add_share"] for each in told["designs"]] == [0.82, 0.56]
    assert told["curve_2008"]["published_share"] == {"1": 0.32, "2": 0.49, "3": 0.58, "4": 0.59}
    assert told["provenance"]["curve_2008.modelled"] == "modelled"
    assert [each["rung"] for each in told["today"]] == [THEIRS, OTHER]
    for each in told["designs"]:
        for mix in (each["then"], *each["now"].values()):
            assert mix["multiply_add_share"] == mix["multiply_adds"] / mix["instructions"]


def test_the_table_of_loops_has_the_published_beside_the_derived() -> None:
    rows = {row[:2]: row for row in mix_table(study()).rows}
    assert len(rows) == 6
    assert rows[THEIRS, "2008"][5] == "82%"
    assert rows[OTHER, "2008"][5] == "56%"
    assert rows[THEIRS, "sm_90"][2] == "256"


def test_what_it_says_of_a_gpu_whose_registers_end_at_four_blocks() -> None:
    assert "4 blocks of 64 threads, 33% occupancy" in volkov_told(study("8800 GTX")).verdict
    assert "as many as fit" in volkov_told(study("8800 GTX")).verdict
    assert "and all 8 that fit 59%" in volkov_told(study()).verdict


def test_the_command() -> None:
    done = invoke("--backend", "model", "--size", "512", "--gpu", "RTX A6000", "--json", "-")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert {each["gpu"] for each in told["today"]} == {"RTX A6000"}
    assert told["curve_2008"]["gpu"] == "GTX 280"


def test_the_text_fits_a_page() -> None:
    done = invoke("--backend", "model", "--size", "512", "--old-gpu", "8800 GTX")
    assert done.exit_code == 0
    assert "What are the main loops made of?" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--old-gpu", "GTX 480"], "unknown GPU of 2008 'GTX 480'"),
        (["--old-gpu", "H200"], "unknown GPU of 2008 'H200'"),
        (["--gpu", "H201"], "unknown GPU 'H201'"),
        (["--gpu", "GTX 280"], "NVRTC 13 compiles for sm_75 and later"),
        (["--backend", "gpu"], "--backend 'gpu': choose one of auto, model, device"),
        (["--size", "0"], "m = 0"),
        (["--html", "/dev/null/page.html"], "/dev/null is no folder"),
        (["--json", "/dev/null/told.json"], "/dev/null is no folder"),
    ],
)
def test_bad_input_is_one_line(args: list[str], says: str) -> None:
    done = invoke(*args)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_the_page_of_studies_has_these_figures() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "study.md").read_text("utf-8").splitlines()
    cells = {
        row[0]: row[1:] for row in ([c.strip() for c in n.split("|")[1:-1]] for n in lines) if row
    }
    points = {point.blocks: point for point in study().curve}
    assert cells["modelled"] == [f"{100 * points[n].share:.1f} %" for n in (1, 2, 3, 4, 8)]
    assert cells["share of the peak, published"][:4] == [
        f"{share:.0%}".replace("%", " %") for share in study().published_curve.values()
    ]
    for each in (study().theirs, study().other):
        derived, published, *now = (float(c.split()[0]) for c in cells[each.rung.name])
        if load_nvrtc().label == "NVRTC 13.5":  # as the page says
            assert derived == round(100 * each.kernel.mix.multiply_add_share, 1)
        assert published == round(100 * each.published_mix)
        # Compilers differ in a few instructions of the rest.
        for said, mix in zip(now, each.now.values(), strict=True):
            assert said == pytest.approx(100 * mix.multiply_add_share, abs=3)
