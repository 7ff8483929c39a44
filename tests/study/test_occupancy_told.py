"""A curve in words, and the command: what it prints, writes and refuses."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from study.curves import curve_of, made
from tilewright.cli import app
from tilewright.kernels import RUNGS
from tilewright.report.occupancy_study import occupancy_study, occupancy_verdict
from tilewright.study.curve import Curve, Modelled
from tilewright.study.little import Little

SMALL = ("--m", "1024", "--n", "1024", "--k", "32", "--backend", "model")


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["study", "occupancy", *map(str, arguments)])


def binding(curve: Curve, unit: str, busy: float) -> Curve:
    """The curve with another busiest unit at all of its points."""
    model = Modelled(gflops=1.0, unit=unit, busy=busy, stall="wait", issue=1.0, waves=1.0)
    points = tuple(
        replace(p, modelled=replace(model, gflops=p.predicted_gflops)) for p in curve.points
    )
    return replace(curve, points=points)


def test_the_verdict_says_how_many_warps_are_enough_and_what_took_over() -> None:
    curve = made(50, 99, 100, 90, own=3)
    assert occupancy_verdict(curve) == (
        "05_register_2d at 1024 x 1024 x 1024 on H200 is within 2% of its best with 16 of 64 warps "
        "an SM (25% occupancy, 2 blocks): 99 GFLOP/s modelled, of 100 at best; there the "
        "load-store unit took over, busy 90% of the time."
    )
    said = occupancy_verdict(binding(curve, "fma", 0.79))
    assert "no unit is full there (the multiply-add pipes: 79%)" in said
    assert "wait (the fixed latency of its last instruction)" in said
    assert "with as few as 8 of 64 warps" in occupancy_verdict(made(99, 100, own=2))
    assert "gains from every warp, up to the most: 16 of 64" in occupancy_verdict(made(9, 10))
    assert occupancy_verdict(made(100)).startswith(
        "05_register_2d at 1024 x 1024 x 1024 on H200 runs with 8 of 64 warps an SM"
    )
    assert "measured, of 70 at best" in occupancy_verdict(made(1, 2, 3, measured=(20, 69, 70)))


def test_why_has_the_fewer_warps_littles_law_and_the_spills() -> None:
    law = Little(rate=2.5, few_rate=1.0, few_warps=8, latency=12.0)
    told = occupancy_study(replace(made(50, 100, 120, own=2), little=law))
    why = " ".join(told.why)
    assert "With 16 warps one unit is full already (the load-store unit, 90% of the time)" in why
    assert "has 30.0 in flight" in why
    assert "each has 1.50 in flight: it takes 20.0 warps at least (modelled)" in why
    assert "24 warps take 96 registers a thread instead of 128: 40 bytes a thread" in why
    assert "1.20 times as fast as 16 warps" in why
    assert "As it is, the register file keeps one more block away." in why


def test_the_table_has_a_row_a_point_and_marks_enough() -> None:
    told = occupancy_study(made(50, 99, 100, 90, own=3, measured=(40, 95, 90, 80)))
    heads = [head.replace("\n", " ") for head in told.table.columns]
    rows = [dict(zip(heads, row, strict=True)) for row in told.table.rows]
    assert [row["warps"] for row in rows] == ["8 ", "16*", "24 ", "32 "]
    assert [row["model GFLOP/s"] for row in rows] == ["50", "99", "100", "90"]
    assert [row["measured GFLOP/s"] for row in rows] == ["40", "95", "90", "80"]
    assert [row["of best"] for row in rows] == ["42%", "100%", "95%", "84%"]
    assert rows[0]["spread"] == "2.0%"
    assert [row["forced by"] for row in rows] == ["+48.8 KiB", "+24.4 KiB", "as it is", "registers"]


def test_the_command_prints_a_verdict_a_table_and_why(tmp_path: Path) -> None:
    file, page = tmp_path / "curve.json", tmp_path / "curve.html"
    done = call("04", *SMALL, "--json", file, "--html", page)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("04_register_1d at 1024 x 1024 x 32 on H200 ")
    curve = Curve.from_json(json.loads(file.read_text(encoding="utf-8")))
    rows = [line.split() for line in lines if re.match(r" +\d+[* ] +\d+%", line)]
    assert [int(row[0].rstrip("*")) for row in rows] == [point.warps for point in curve.ran]
    assert [int(row[2]) for row in rows] == [point.blocks for point in curve.ran]
    for row, point in zip(rows, curve.ran, strict=True):
        assert f"{point.predicted_gflops:.0f}" in row
    assert "04_register_1d: blocks an SM: 1 (1/" in done.stderr
    assert lines[0] in " ".join(page.read_text(encoding="utf-8").split())
    again = call("04", *SMALL, "--json", "-")
    assert json.loads(again.stdout) == json.loads(file.read_text(encoding="utf-8"))


def test_a_longest_table_stays_within_100_columns() -> None:
    from tilewright.cli.output import print_table

    curve = curve_of("02", "A100")
    rates = tuple(point.predicted_gflops or 0.0 for point in curve.ran)
    wide = made(*rates, own=2, measured=rates)
    with CliRunner().isolation() as (out, *_):
        for each in (curve, wide):
            table = occupancy_study(each).table
            print_table(table.columns, table.rows, title=table.title)
        text = out.getvalue().decode()
    assert max(map(len, text.splitlines())) <= 100
    assert "long_scoreboard" in text  # in one piece


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("11", *SMALL), "unknown rung '11'"),
        (("04", *SMALL[:-1], "cpu"), "--backend 'cpu': choose one of auto, model, device"),
        (("04", "--size", "64", "--m", "64"), "--size 64 sets m, n and k"),
        (("04", "--backend", "model", "--gpu", "GTX 280"), "cannot be compiled for it"),
        (("04", "--backend", "model", "--gpu", "H2000"), "unknown GPU"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments: tuple[str, ...], says: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert says.lower() in done.stderr.lower()


def test_an_unknown_rung_is_told_with_those_that_are() -> None:
    said = call("nothing", *SMALL).stderr
    assert all(name in said for name in RUNGS)


def test_a_device_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.device import NoDevice

    monkeypatch.setattr("tilewright.bench.ladder.probe", lambda: NoDevice(reason="no driver here"))
    done = call("04", "--backend", "device")
    assert done.exit_code == 2
    assert done.stderr == "error: no GPU to run on: no driver here; leave --backend out\n"


def test_what_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: object, **__: object) -> None:
        raise AssertionError("it went to work")

    monkeypatch.setattr("tilewright.study.occupancy.occupancy_curve", ran)
    for option in ("--html", "--json"):
        for target in (tmp_path, Path(__file__) / "page.html"):
            done = call("04", *SMALL, option, target)
            assert done.exit_code == 2
            assert done.stderr.startswith(f"error: {option} {target}")
            assert len(done.stderr.splitlines()) == 1
