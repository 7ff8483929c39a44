"""Files of curves, and the script that measures them: what is kept, made again, and refused."""

from dataclasses import replace
from pathlib import Path

import h200_study
import pytest

from study.curves import made
from tilewright.errors import DeviceError, TilewrightError
from tilewright.records import Environment
from tilewright.study.records import read_curves, write_curves
from tilewright.toolchain import load_nvrtc

HERE = Environment(date="2026-11-30", tilewright="0.1.0", python="3.12", host="Linux", commit="abc")


def test_curves_are_read_as_they_were_written(tmp_path: Path) -> None:
    curves = (made(50, 100, own=2), made(1, 2, 3, measured=(3, 2, 1)))
    write_curves(tmp_path / "curves.json", HERE, curves)
    found = read_curves(tmp_path / "curves.json")
    assert (found.environment, found.curves) == (HERE, curves)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("[]", "not a file of curves"),
        ('{"schema": 1, "kind": "bench"}', "'bench' of schema 1, this version reads"),
        ('{"schema": 2, "kind": "study occupancy"}', "of schema 2"),
        ('{"schema": 1, "kind": "study occupancy", "environment": {}}', "not a file of curves"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "curves.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(TilewrightError, match=says) as raised:
        read_curves(path)
    assert "\n" not in str(raised.value)


def test_the_script_models_once_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--out",
        str(tmp_path),
        "--model",
        "--sizes",
        "256",
        "--rungs",
        "03",
        "--commit",
        "c",
    ]
    assert h200_study.main(options) == 0
    out = capsys.readouterr().out.splitlines()
    assert max(map(len, out[:-1])) <= 100  # the last has a path
    (curve,) = read_curves(tmp_path / "study_occupancy_h200.json").curves
    assert f"  32* -/{curve.best.predicted_gflops:.0f}" in out

    def again(*_: object) -> None:
        raise AssertionError("it was modelled before")

    monkeypatch.setattr(h200_study, "occupancy_curve", again)
    assert h200_study.main(options) == 0


def test_what_holds_is_kept(tmp_path: Path) -> None:
    path, label = tmp_path / "curves.json", load_nvrtc().label
    ours = replace(made(1, 2, measured=(1, 2)), compiler=f"{label}.1")
    other = replace(ours, compiler="NVRTC 9.9.1", rung="03_shared_tile")
    write_curves(path, HERE, [ours, other])
    key = ("05_register_2d", 1024)
    assert h200_study.kept_curves(path, HERE) == {key: ours}
    newer = h200_study.kept_curves(path, replace(HERE, commit="def"))
    assert not newer[key].is_measured
    assert newer[key].best.predicted_gflops == 2
    assert h200_study.kept_curves(tmp_path / "none.json", HERE) == {}


def test_without_a_gpu_it_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> None:
        raise DeviceError("no GPU: no driver")

    monkeypatch.setattr(h200_study, "require_device", none)
    assert h200_study.main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
