"""`tilewright bench` without a GPU: files shown, plotted, compared; choices explained; refusals."""

import importlib
import re
import sys

import pytest
from bench_files import bench_file, record, run, whole_suite
from typer.testing import CliRunner

from pages.images import count, pixels
from tilewright.bench.results import read_bench
from tilewright.bench.suites import case, suites
from tilewright.cli import app
from tilewright.errors import DeviceError
from tilewright.records import write_json

TIMES = {"tilewright": 1.25, "cublas": 1.5, "cublaslt": 1.4, "torch": 1.5, "triton": 1.9}


def invoke(*args):
    return CliRunner().invoke(app, ["bench", *map(str, args)])


def refuse(*args):
    done = invoke(*args)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def saved(tmp_path):
    def save(name, *records, **options):
        path = tmp_path / name
        write_json(path, bench_file(*records, **options).to_json())
        return path

    return save


@pytest.mark.parametrize("name", list(suites()))
def test_every_suite_fits_100_columns_with_all_baselines(saved, name):
    done = invoke("--records", saved("a.json", *whole_suite(name, TIMES)))
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    # One line a case: nothing is folded.
    head = next(i for i, line in enumerate(lines) if "───" in line)
    count = len(suites()[name].cases)
    assert all(
        re.search(r" (faster|slower|even) *$", s) for s in lines[head + 1 : head + 1 + count]
    )


def test_the_table_says_rates_floors_ratios_and_means(saved):
    path = saved("a.json", *whole_suite("squares", TIMES), absent={"triton": "no Triton"})
    text = invoke("--records", path).stdout
    lines = [line.split() for line in text.splitlines()]
    row = next(line for line in lines if line[:1] == ["4096x4096x4096"])
    # 66.9 TFLOP/s is the H200's peak: in 1.25 times the floor's time that is 53.5.
    assert row[4:6] == ["53.5", "TF"]
    assert row[6:8] == ["80%", "1.200"]
    assert row[-1] == "faster"
    summary = next(
        line.split() for line in text.splitlines() if line.split()[:2] == ["squares", "cublas"]
    )
    assert summary[2:5] == ["7", "1.200x", "1.200x"]
    assert "No triton: no Triton." in text
    assert "cuBLAS 13.1.0 (wheel), float32." in text
    assert "Largest error: 0.1 of its float32 bound" in text


def test_memory_bound_cases_are_in_bytes(saved):
    text = invoke("--records", saved("a.json", *whole_suite("transformer", TIMES))).stdout
    row = next(line for line in text.splitlines() if "llama3-8b out, 1 nt" in line)
    assert "3.84 TB" in row  # 4.8 TB/s over 1.25


def test_wrong_and_missing_results_are_marked(saved):
    wrong = run("tilewright", 1.0, timing=None, verified=False, reason="wrong: 3 of 9 elements")
    absent = run("tilewright", 1.0, timing=None, verified=False, way=None, reason="too large")
    path = saved(
        "a.json",
        record(case((3, 3, 3)), [wrong, run("cublas", 1.0)]),
        record(case((4, 4, 4)), [absent, run("cublas", 1.0)]),
    )
    text = invoke("--records", path).stdout
    assert re.search(r"3x3x3 nn +WRONG", text)
    assert re.search(r"4x4x4 nn +- ", text)
    assert "3x3x3 nn: tilewright: wrong: 3 of 9 elements." in text


def test_errors_beside_cublas_are_the_largest_of_any_kind(saved):
    errors = {"normal": 1e-5, "wide": 9.0}, {"normal": 2e-5, "wide": 3.0}
    shares = {"normal": 0.03, "wide": 0.1}, {"normal": 0.02, "wide": 0.1}
    ours, theirs = (
        run(name, 1.0, max_errors=error, bound_ratios=share)
        for name, error, share in zip(("tilewright", "cublas"), errors, shares, strict=True)
    )
    text = invoke("--records", saved("a.json", record(case((3, 3, 3)), [ours, theirs]))).stdout
    text = " ".join(text.split())
    assert "bound, over cuBLAS's: at most 1.5 (3x3x3 nn, normal data), above 2 in 0 of 2" in text
    assert "in itself over cuBLAS's: at most 3 (3x3x3 nn, wide data), above 2 in 1 of 2" in text


def test_comparing_counts_verdicts_and_may_fail(saved):
    old = saved("old.json", *whole_suite("squares", {"tilewright": 1.0, "cublas": 1.0}))
    new = saved("new.json", *whole_suite("squares", {"tilewright": 1.2, "cublas": 1.0}))
    done = invoke("--compare", old, new)
    assert done.exit_code == 0
    assert "0 faster, 7 slower, 0 within noise, of 7." in done.stdout
    assert "cuBLAS itself: 1.000x" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert invoke("--compare", old, new, "--fail-slower").exit_code == 1
    assert invoke("--compare", new, old, "--fail-slower").exit_code == 0
    assert "7 within noise" in invoke("--compare", old, old).stdout


def test_json_is_what_was_read(saved, tmp_path):
    path = saved("a.json", *whole_suite("batched", TIMES))
    done = invoke("--records", path, "--json", tmp_path / "b.json")
    assert done.exit_code == 0
    assert (tmp_path / "b.json").read_text() == path.read_text()


def test_a_png_is_drawn(saved, tmp_path):
    pytest.importorskip("matplotlib")
    path = saved("a.json", *whole_suite("squares", TIMES))
    assert invoke("--records", path, "--plot", tmp_path / "a.png").exit_code == 0
    one = pixels(tmp_path / "a.png")
    height, width, _ = one.shape
    assert 800 < width < 1100
    # A row of pixels for every line of text: 22 a case.
    long = saved("b.json", *whole_suite("complaints", TIMES))
    assert invoke("--records", long, "--plot", tmp_path / "b.png").exit_code == 0
    rows = len(suites()["complaints"].cases) - len(suites()["squares"].cases)
    assert pixels(tmp_path / "b.png").shape[0] == pytest.approx(height + 22 * rows, abs=2)
    # Each contender's marks are there, in its colour.
    assert all(count(one, c) > 50 for c in ("#4477aa", "#ee6677", "#228833", "#ccbb44"))


def test_two_files_are_drawn_with_verdicts_and_side_by_side(saved, tmp_path):
    pytest.importorskip("matplotlib")
    old = saved("old.json", *whole_suite("squares", {"tilewright": 1.0, "cublas": 1.0}))
    new = saved("new.json", *whole_suite("squares", {"tilewright": 1.2, "cublas": 1.0}))
    alone = saved("alone.json", *whole_suite("squares", {"tilewright": 1.2}))
    target = tmp_path / "c.png"
    assert invoke("--compare", old, new, "--plot", target).exit_code == 0
    slower = pixels(target)
    assert 1600 < slower.shape[1] < 1900
    assert count(slower, "#ee6677") > 100  # only slower ones are red
    assert invoke("--compare", new, old, "--plot", target).exit_code == 0
    assert count(pixels(target), "#ee6677") < 40  # its legend
    assert invoke("--compare", alone, alone, "--plot", target).exit_code == 0
    assert pixels(target).shape[1] < 900  # nothing beside cuBLAS to draw


def test_side_by_side_has_one_axis_for_both():
    pytest.importorskip("matplotlib")
    from tilewright.bench.compare import compare
    from tilewright.report.bench_charts import comparison_figure

    old = bench_file(*whole_suite("squares", {"tilewright": 1.0, "cublas": 1.1}))
    new = bench_file(*whole_suite("squares", {"tilewright": 1.0, "cublas": 2.3}))
    _, *both = comparison_figure(compare(old, new), old, new).axes
    assert [axes.get_xscale() for axes in both] == ["log", "log"]
    assert both[0].get_xlim() == both[1].get_xlim()
    assert both[0].get_xlim()[0] <= 1.1 < 2.3 <= both[0].get_xlim()[1]
    assert [t.get_text() for t in both[0].get_xticklabels()].count("1.5") == 1


def test_the_pages_are_whole_and_load_nothing(saved, tmp_path):
    pytest.importorskip("matplotlib")
    records = whole_suite("squares", {**TIMES, "<b>": 2.0}, spread=0.1)
    path = saved("a.json", *records)
    for args in (("--records", path), ("--compare", path, path)):
        assert invoke(*args, "--html", tmp_path / "a.html").exit_code == 0
        page = (tmp_path / "a.html").read_text()
        assert not re.search(r"""(src|href)=["'](?!#)|@import|url\((?!#)""", page)
        assert "4096x4096x4096 nn</text>" in page
        assert ">4096x4096x4096 nn</td>" in page
        assert 'role="img"' in page
        assert "#010203" not in page
        assert "<b>" not in page
        assert invoke(*args, "--html", tmp_path / "b.html").exit_code == 0
        assert (tmp_path / "b.html").read_text() == page


def test_dots_span_the_quartiles_of_both():
    from tilewright.report.bench_charts import dots

    one = record(case((3, 3, 3)), [run("tilewright", 1.0, 0.2), run("cublas", 2.0, 0.1)])
    (dot,) = dots([one], "tilewright", {("squares", "3x3x3 nn"): 5})
    assert (dot.row, dot.ratio, dot.even) == (5, 2.0, False)
    assert dot.low == pytest.approx(1.9 / 1.1)
    assert dot.high == pytest.approx(2.1 / 0.9)


def test_nothing_beside_cublas_cannot_be_drawn(saved, tmp_path):
    pytest.importorskip("matplotlib")
    path = saved("a.json", record(case((3, 3, 3)), [run("tilewright", 1.0)]))
    for option, name in (("--plot", "a.png"), ("--html", "a.html")):
        assert "nothing to draw" in refuse("--records", path, option, tmp_path / name)
        assert not (tmp_path / name).exists()


def test_files_of_different_machines_are_said_to_be(saved):
    times = {"tilewright": 1.0, "cublas": 1.0}
    one = saved("one.json", *whole_suite("squares", times))
    other = saved("other.json", *whole_suite("squares", times), card="NVIDIA A100", driver="5")
    said = " ".join(invoke("--compare", one, other).stdout.split())
    assert "The files are of different machines, NVIDIA H200 and NVIDIA A100:" in said
    assert "The files differ in driver: 580.1 -> 5." in said
    assert "different machines" not in invoke("--compare", one, one).stdout


def test_without_matplotlib_the_extra_is_named(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = saved("a.json", *whole_suite("squares", TIMES))
    assert "pip install 'tilewright[plot]'" in refuse(
        "--records", path, "--plot", tmp_path / "a.png"
    )


def test_why_needs_no_gpu_where_one_is_named():
    done = invoke("--size", "512", "--why", "--gpu", "H200")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("512x512x512 nn\n")
    assert "H200" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.fixture
def measured(monkeypatch):
    """Pretend a GPU that measures what is given, an exception last where one is."""

    def pretend(*found):
        def measure_suites(plan, absent, watch):
            absent["triton"] = "no Triton"
            for each in found:
                if isinstance(each, BaseException):
                    raise each
                yield each

        monkeypatch.setattr("tilewright.device.require_device", lambda: None)
        # Of the package's two things of this name, the module and not the command.
        module = importlib.import_module("tilewright.cli.bench")
        monkeypatch.setattr(module, "_chooser", lambda variants: None)
        monkeypatch.setattr("tilewright.bench.run.measure_suites", measure_suites)

    return pretend


def test_what_was_measured_is_kept_when_interrupted(measured, tmp_path):
    one = record(case((3, 3, 3)), [run("tilewright", 1.0), run("cublas", 2.0)])
    for error, code in ((KeyboardInterrupt(), 130), (DeviceError("the GPU fell off"), 2)):
        measured(one, error)
        done = invoke("--suite", "squares", "--json", tmp_path / "a.json")
        assert done.exit_code == code
        assert "3x3x3 nn" in done.stdout
        assert read_bench(tmp_path / "a.json").records == (one,)
        assert read_bench(tmp_path / "a.json").absent == {"triton": "no Triton"}
    assert "error: the GPU fell off" in done.stderr


def test_a_wrong_result_of_ours_is_exit_code_1(measured):
    wrong = {"timing": None, "verified": False, "reason": "wrong: 3 of 9 elements"}
    measured(record(case((3, 3, 3)), [run("tilewright", 1.0, **wrong), run("cublas", 1.0)]))
    done = invoke("--size", "3")
    assert done.exit_code == 1
    assert "error: 3x3x3 nn: tilewright is wrong: 3 of 9 elements" in done.stderr
    measured(record(case((3, 3, 3)), [run("tilewright", 1.0), run("cublas", 1.0, **wrong)]))
    done = invoke("--size", "3")
    assert done.exit_code == 0
    assert "error: 3x3x3 nn: cublas is wrong" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--suite", "squers"), "did you mean 'squares'"),
        (("--suite", "squares", "--size", "3"), "give one or the other"),
        (("--suite", ","), "no case"),
        (("--m", "3"), "--n, --k is missing"),
        (("--batch", "3"), "give the sizes too"),
        (("--size", "3", "--layout", "nx"), "expected nn, nt, tn or tt"),
        (("--layout", "tt"), "no case in layout tt"),
        (("--variants", "best"), "choose one of chosen, all"),
        (("--baselines", "cutlass"), "unknown baseline 'cutlass'"),
        (("--plot", "a.pdf"), "end the name in .png; a page is written by --html"),
        (("--plot", "/"), "that is a folder"),
        (("--html", f"{__file__}/a.html"), "is no folder; give another file"),
        (("--size", "3", "--why", "--gpu", "H200", "--plot", "a.png"), "leave --plot out"),
        (("--size", "3", "--baselines", "triton", "--html", "a.html"), "add it to --baselines"),
        (("--fail-slower",), "needs --compare"),
        (("--records", "/nowhere.json"), "cannot read /nowhere.json"),
        (("--compare", "/a.json", "/b.json"), "cannot read /a.json"),
        (("--compare", "/a.json", "/b.json", "--json", "-"), "leave --json out"),
        (("--json", "/proc"), "that is a folder"),
        (("--size", "3", "--why", "--gpu", "H2000"), "unknown GPU"),
        (("--size", "3", "--why", "--gpu", "GTX 280"), "NVRTC 13 compiles for sm_75 and later"),
        (("--size", "3", "--why", "--gpu", "V100"), "NVRTC 13 compiles for sm_75 and later"),
        (("--size", "3", "--why", "--gpu", "H200", "--json", "-"), "leave --json out"),
        (("--why", "--gpu", "H200", "--baselines", "torch"), "leave --baselines out"),
        (("--why", "--gpu", "H200", "--records", "a.json"), "leave --why and --gpu out"),
        (("--records", "a.json", "--size", "3"), "leave --size out"),
        (("--records", "a.json", "--m", "3", "--n", "3", "--k", "3"), "leave --m and --n and --k"),
        (("--records", "a.json", "--suite", "squares"), "leave --suite out"),
        (("--compare", "a.json", "b.json", "--size", "3"), "leave --size out"),
    ],
)
def test_bad_input_is_refused_in_a_line(args, message):
    assert message in refuse(*args)


def test_without_a_gpu_it_says_what_still_works():
    from tilewright.device import NoDevice, probe

    if not isinstance(probe(), NoDevice):
        pytest.skip("there is a GPU")
    said = refuse("--size", "64")
    assert all(option in said for option in ("--compare", "--records", "--plot", "--why"))
    assert "name a GPU, --gpu H200" in refuse("--size", "64", "--why")
