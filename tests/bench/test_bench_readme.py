"""The README's table of the suites, made from files of records."""

import shutil

import bench_tables
import readme
from bench_files import bench_file, whole_suite

from tilewright.records import write_json

TIMES = {
    "squares": {"tilewright": 1.0, "cublas": 1.25, "triton": 2.0},
    "batched": {"tilewright": 2.0, "cublas": 1.0},
}


def write_records(folder):
    for name, each in TIMES.items():
        path = folder / f"bench_{name}_nvidia_h200.json"
        write_json(path, bench_file(*whole_suite(name, each)).to_json())


def test_a_row_a_suite_with_means_and_the_lowest(tmp_path):
    write_records(tmp_path)
    lines = bench_tables.speeds(tmp_path)
    assert lines[-4] == "| suite | cases | cublas | triton |"
    assert lines[-2] == "| batched | 20 | 0.50 (0.50) | - |"
    assert lines[-1] == "| squares | 7 | 1.25 (1.25) | 2.00 (2.00) |"
    assert "2026-11-30, driver 580.1" in " ".join(lines)
    assert max(map(len, lines)) <= 100


def test_a_suite_in_two_files_is_one_row(tmp_path):
    records = whole_suite("squares", TIMES["squares"])
    for part, kept in (("", records[:3]), ("_from3", records[3:])):
        path = tmp_path / f"bench_squares{part}_nvidia_h200.json"
        write_json(path, bench_file(*kept).to_json())
    rows = [line for line in bench_tables.speeds(tmp_path) if line.startswith("| squares")]
    assert rows == ["| squares | 7 | 1.25 (1.25) | 2.00 (2.00) |"]


def test_a_suite_that_is_not_whole_says_so(tmp_path):
    records = whole_suite("squares", TIMES["squares"])[:3]
    write_json(tmp_path / "bench_squares_nvidia_h200.json", bench_file(*records).to_json())
    assert bench_tables.speeds(tmp_path)[-1].startswith("| squares | 3 of 7 |")


def test_the_readme_has_a_place_for_it_which_is_empty_without_a_record(tmp_path):
    results = tmp_path / "results"
    without = shutil.ignore_patterns("bench_*")
    shutil.copytree(readme.RESULTS, results, ignore=without, copy_function=shutil.copyfile)
    text = readme.README.read_text(encoding="utf-8")
    empty = readme.rewritten(text, results)
    assert "| squares |" not in empty
    write_records(results)
    full = readme.rewritten(empty, results)
    assert "| squares | 7 | 1.25 (1.25) | 2.00 (2.00) |" in full
    assert readme.rewritten(full, results) == full
