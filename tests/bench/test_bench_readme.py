"""The README's table of the suites, made from files of records."""

import pytest
import readme
from bench_files import bench_file, whole_suite

from tilewright.errors import TilewrightError
from tilewright.records import write_json


def test_a_row_a_suite_with_means_and_the_lowest(tmp_path):
    times = {"squares": {"tilewright": 1.0, "cublas": 1.25, "triton": 2.0}}
    times["batched"] = {"tilewright": 2.0, "cublas": 1.0}
    for name, each in times.items():
        path = tmp_path / f"bench_{name}_nvidia_h200.json"
        write_json(path, bench_file(*whole_suite(name, each)).to_json())
    lines = readme.bench_suites(tmp_path)
    assert lines[-4] == "| suite | cases | cublas | triton |"
    assert lines[-2] == "| batched | 21 | 0.50 (0.50) | - |"
    assert lines[-1] == "| squares | 7 | 1.25 (1.25) | 2.00 (2.00) |"
    assert "2026-11-30, driver 580.1" in lines[1]


def test_no_records_is_an_error_that_says_what_makes_them(tmp_path):
    with pytest.raises(TilewrightError, match=r"run benchmarks/h200_bench\.py"):
        readme.bench_suites(tmp_path)
