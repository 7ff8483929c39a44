"""README.md's tables are those of the records, and the tool that makes them sees a difference."""

import importlib.util
import json
import math
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.errors import TilewrightError

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    copy = tmp_path / "README.md"
    copy.write_text(TEXT, encoding="utf-8")
    return copy


def part(text: str, name: str) -> str:
    return text.split(f"<!-- begin {name} -->")[1].split(f"<!-- end {name} -->")[0]


def test_the_readme_is_what_the_records_say(tool: ModuleType) -> None:
    assert tool.rewritten(TEXT) == TEXT, "run python benchmarks/readme.py"


def test_figures_of_the_readme_are_in_the_records() -> None:
    """Read from JSON, past the code that makes the tables."""
    results = ROOT / "benchmarks" / "results"

    def records(name: str) -> dict[tuple[str, int], dict]:
        data = json.loads((results / name).read_text(encoding="utf-8"))
        return {(r["rung"], r["problem"]["m"]): r for r in data["records"]}

    measured = records("ladder_nvidia_h200.json")
    rows = [
        line.strip("| ").split(" | ") for line in part(TEXT, "h200").splitlines() if "|" in line
    ]
    sizes = [int(size) for size in rows[0][1:-1]]
    for name, *rates, _ in rows[2:-1]:
        for size, shown in zip(sizes, rates, strict=True):
            assert float(shown) == pytest.approx(measured[name, size]["measured_gflops"], abs=0.51)
    emulated = records("ladder_rtx_a6000_emulated.json")
    lines = [
        line.split() for line in part(TEXT, "ladder").splitlines() if re.match(r" {4}\d", line)
    ]
    assert [line[0] for line in lines] == [name for name, _ in emulated]
    for name, ratio, registers, occupancy, sectors, *_, published, _ in lines:
        record = emulated[name, 4092]
        assert record["verified"]
        assert float(ratio) == pytest.approx(record["max_error"] / record["error_bound"], abs=6e-5)
        assert int(registers) == record["registers"]
        assert occupancy == f"{record['occupancy']:.0%}"
        assert float(sectors) == pytest.approx(record["sectors_per_request"], rel=1e-3)
        if record["published_gflops"] is None:  # of 09 and 10
            assert published == "-"
        else:
            assert float(published) == pytest.approx(record["published_gflops"], abs=0.51)


def test_errors_of_the_readme_are_those_of_the_records() -> None:
    path = ROOT / "benchmarks" / "results" / "bench_squares_nvidia_h200.json"
    ratios = []
    for record in json.loads(path.read_text(encoding="utf-8"))["records"]:
        runs = {run["contender"]: run["max_errors"]["scaled"] for run in record["runs"]}
        ratios.append(runs["tilewright"] / runs["cublas"])
    mean = math.prod(ratios) ** (1 / len(ratios))
    (row,) = (li for li in part(TEXT, "accuracy").splitlines() if li.startswith("| squares"))
    assert row.split("|")[-2].strip() == f"{mean:.2f} ({max(ratios):.2f})"


@pytest.mark.parametrize("name", ["ladder", "h200", "emulator"])
def test_check_finds_an_edited_figure_and_a_run_mends_it(
    tool: ModuleType, readme: Path, name: str
) -> None:
    body = part(TEXT, name)
    line = next(line for line in body.splitlines() if "01_naive" in line)
    other = re.sub(r"\d(?=\D*$)", lambda last: str((int(last[0]) + 1) % 10), line)
    edited = TEXT.replace(line, other)
    assert edited != TEXT
    readme.write_text(edited, encoding="utf-8")
    assert tool.main(["--check"], readme) == 1
    assert readme.read_text(encoding="utf-8") == edited
    assert tool.main([], readme) == 0
    assert readme.read_text(encoding="utf-8") == TEXT
    assert tool.main(["--check"], readme) == 0


def test_a_new_record_makes_the_readme_old(tool: ModuleType, tmp_path: Path) -> None:
    shutil.copytree(tool.RESULTS, tmp_path / "results", copy_function=shutil.copyfile)
    path = tmp_path / "results" / tool.MEASURED
    data = json.loads(path.read_text(encoding="utf-8"))
    record = next(
        r for r in data["records"] if (r["rung"], r["problem"]["m"]) == ("01_naive", 1024)
    )
    record["measured_gflops"] += 1000
    path.write_text(json.dumps(data), encoding="utf-8")
    assert f"| 01_naive | {record['measured_gflops']:.0f} |" in tool.rewritten(
        TEXT, tmp_path / "results"
    )
    record["verified"] = False
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(TilewrightError, match="no right, timed 01_naive at 1024"):
        tool.rewritten(TEXT, tmp_path / "results")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<!-- end h200 -->", ""),
        ("<!-- begin ladder -->", ""),
        ("begin emulator", "begin emulater"),
        ("<!-- begin h200 -->", "<!-- begin h200 -->\n\n<!-- end h200 -->\n<!-- begin h200 -->"),
    ],
)
def test_markers_that_do_not_pair_up_are_refused(
    tool: ModuleType, readme: Path, old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    readme.write_text(TEXT.replace(old, new), encoding="utf-8")
    assert tool.main([], readme) == 2
    expected = f"expected each of {', '.join(tool.TABLES)} once"
    assert expected in capsys.readouterr().err
    assert readme.read_text(encoding="utf-8") == TEXT.replace(old, new)
