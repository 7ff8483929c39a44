"""The command line: what every command shares, and the commands `gpus` and `occupancy`."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import tilewright
from tilewright.cli import app
from tilewright.cli.group import Group
from tilewright.cli.output import binary, check_json, output_json, print_table, si
from tilewright.errors import LaunchError, TilewrightError
from tilewright.gpus import GPUS
from tilewright.tuning.store import StoreWarning

RUN = CliRunner()
A6000 = ["occupancy", "--gpu", "RTX A6000", "--threads", "256", "--registers", "128"]


def succeed(*arguments: str) -> str:
    result = RUN.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    if arguments[-1] != "-":
        assert max(map(len, result.stdout.splitlines())) <= 100
    return result.stdout


def refuse(*arguments: str) -> str:
    """Return the one line that a bad command prints, on stderr, with exit code 2."""
    result = RUN.invoke(app, list(arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.output
    line = result.stderr
    assert line.startswith("error: ")
    assert line.count("\n") == 1
    return line


def test_version() -> None:
    assert succeed("--version") == f"tilewright {tilewright.__version__}\n"


def test_help_lists_the_commands_and_each_has_an_example() -> None:
    listed = succeed("--help")
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        assert f"\n  {name} " in listed
        text = succeed(name, "--help")
        assert f"Example: tilewright {name}" in text
        assert "--json FILE" in text


def test_gpus_lists_all_with_their_peak() -> None:
    out = succeed("gpus")
    rows = {line[1:11].strip(): line.split() for line in out.splitlines()}
    assert {g.name for g in GPUS} <= set(rows)
    # 2 x 128 lanes x 84 SMs x 1.8 GHz = 38.7 TFLOP/s; 6 MiB, 48 GiB, 768 GB/s.
    a6000 = ["sm_86", "84", "1800", "38.7", "154.8", "6", "48", "768"]
    assert rows["RTX A6000"][2:] == a6000
    assert "*" in rows["GTX 280"]
    assert "*" not in rows["H200"]


@pytest.mark.parametrize("g", GPUS, ids=lambda g: g.name)
def test_gpus_name_gives_every_figure_a_source(g: object) -> None:
    name = next(x.name for x in GPUS if x is g)
    out = succeed("gpus", name)
    for figure in next(x for x in GPUS if x is g).figures():
        line = next(text for text in out.splitlines() if text.startswith(f" {figure.name} "))
        assert f" {figure.source.grade} " in line
        assert figure.source.text.split()[0] in line


def test_gpus_json_on_stdout_is_only_json() -> None:
    data = json.loads(succeed("gpus", "h200", "--json", "-"))
    (h200,) = data["gpus"]
    assert h200["name"] == "H200"
    assert h200["figures"]["shared_bytes"] == {
        "value": 233472,
        "unit": "bytes/SM",
        "grade": "vendor",
        "source": "CUDA C++ Programming Guide, Technical Specifications per Compute Capability",
    }


def test_gpus_json_file_comes_beside_the_table(tmp_path: Path) -> None:
    target = tmp_path / "gpus.json"
    assert "RTX A6000" in succeed("gpus", "--json", str(target))
    assert [g["name"] for g in json.loads(target.read_text())["gpus"]] == [g.name for g in GPUS]
    assert [p.name for p in tmp_path.iterdir()] == ["gpus.json"]


def test_an_unknown_gpu_is_one_line() -> None:
    assert "unknown GPU 'rtx a600': did you mean 'RTX A6000'?" in refuse("gpus", "rtx a600")
    assert "did you mean 'H200'" in refuse(
        "occupancy", "--gpu", "h20", "--threads", "1", "--registers", "1"
    )


def test_occupancy_says_how_many_why_and_what_next() -> None:
    out = succeed(*A6000, "--shared", "16384")
    assert "2 blocks an SM, 16 of 48 warps, 33.3% occupancy; limited by registers" in out
    assert "80 registers a thread (48 fewer): 3 blocks, 24 warps, 50.0%" in out
    table = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert table["registers"].split()[-3:] == ["2", "<-", "limits"]
    assert "32768 (128 a thread)" in table["registers"]
    assert "17408 bytes (16384 + 1024 the driver's)" in table["shared"]
    assert table["shared"].split()[-1] == "5"
    assert table["warps"].split()[-1] == "6"
    assert table["blocks"].split()[-1] == "16"


def test_a_long_hint_is_wrapped() -> None:
    out = succeed(*A6000, "--dynamic", "65536")
    assert "another block fits at 50176 bytes of shared memory a block (15360 fewer)" in out


def test_occupancy_json() -> None:
    data = json.loads(succeed(*A6000, "--dynamic", "65536", "--carveout", "100", "--json", "-"))
    assert (data["active_blocks"], data["limiters"]) == (1, ["shared"])
    assert data["limits"] == {"warps": 6, "blocks": 16, "registers": 2, "shared": 1}
    assert "another block fits" in data["hint"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--threads", "2000"], "threads 2000: expected a whole number from 1 to 1024"),
        (["--threads", "1024"], "at most 64 a thread"),
        (["--shared", "50000"], "extern __shared__"),
        (["--dynamic", "200000"], "at most 101376 bytes a block"),
        (["--carveout", "120"], "carveout 120"),
    ],
)
def test_an_impossible_launch_is_one_line(more: list[str], message: str) -> None:
    assert message in refuse(*A6000, *more)


def test_a_json_target_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    assert "that is a folder" in refuse("gpus", "--json", str(tmp_path))
    file = tmp_path / "file"
    file.touch()
    assert "error" in refuse("gpus", "--json", str(file / "below.json"))
    assert file.read_text() == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TilewrightError, match="not writable"):
        check_json(str(tmp_path / "new.json"))


def test_json_replaces_a_file_but_writes_to_a_device(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a.json"
    for n in (1, 2):
        output_json({"n": n}, str(target))
    assert json.loads(target.read_text()) == {"n": 2}
    output_json({"n": 3}, os.devnull)
    assert not Path(os.devnull).is_file()


def test_usage_mistakes_end_with_2_and_no_traceback() -> None:
    for arguments in (["gpu"], ["occupancy"], [*A6000, "--threads", "many"], ["--nope"]):
        result = RUN.invoke(app, arguments)
        assert result.exit_code == 2
        assert "Error: " in result.stderr
        assert "Traceback" not in result.output


def _small_app() -> typer.Typer:
    small = typer.Typer(cls=Group)

    @small.command()
    def interrupt() -> None:
        raise KeyboardInterrupt

    @small.command()
    def wrong() -> None:
        raise LaunchError("threads 0: give at least 1")

    @small.command()
    def warned() -> None:
        warnings.warn("the store is locked", StoreWarning, stacklevel=1)
        warnings.warn("of another package", RuntimeWarning, stacklevel=1)

    @small.command()
    def bug() -> None:
        raise ZeroDivisionError

    return small


def test_a_warning_of_ours_is_one_line() -> None:
    done = RUN.invoke(_small_app(), ["warned"])
    first, second, *_ = done.stderr.splitlines()
    assert (done.exit_code, first) == (0, "warning: the store is locked")
    assert second.endswith("RuntimeWarning: of another package")


def test_how_commands_end() -> None:
    interrupted = RUN.invoke(_small_app(), ["interrupt"])
    assert (interrupted.exit_code, interrupted.stderr) == (130, "interrupted\n")
    wrong = RUN.invoke(_small_app(), ["wrong"])
    assert (wrong.exit_code, wrong.stderr) == (2, "error: threads 0: give at least 1\n")
    bug = RUN.invoke(_small_app(), ["bug"])
    assert isinstance(bug.exception, ZeroDivisionError), "a bug keeps its traceback"


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "tilewright", *A6000]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "limited by registers" in done.stdout
    command[-1] = "500"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: registers 500: expected a whole number from 1 to 255 " + (
        "(a thread on RTX A6000)\n"
    )


def test_importing_the_commands_loads_nothing_heavy() -> None:
    heavy = {"numpy", "llvmlite", "cuda", "rich.table", "torch"}
    code = f"import sys, tilewright.cli; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_numbers_are_written_for_people() -> None:
    assert si(4.8e12, "B/s") == "4.8 TB/s"
    assert si(1.98e9, "Hz") == "1.98 GHz"
    assert si(12, "Hz") == "12 Hz"
    assert [binary(n) for n in (233472, 62914560, 2**40, 512)] == [
        "228 KiB",
        "60 MiB",
        "1024 GiB",
        "512 bytes",
    ]


def test_a_table_keeps_brackets_and_the_first_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table({"name": "left", "x": "right"}, [["a" * 60, "[bold]y[/] " * 20]])
    out = capsys.readouterr().out
    assert "a" * 60 in out
    assert "[bold]y[/]" in out
    assert max(map(len, out.splitlines())) <= 100
