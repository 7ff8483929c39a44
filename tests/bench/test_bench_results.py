"""Records of a benchmark: floors and means by hand, and files that are none."""

import json

import pytest
from bench_files import H200, bench_file, record, run, whole_suite

from tilewright.bench.results import BenchFile, floor, moved_bytes, read_bench, summaries
from tilewright.bench.suites import case
from tilewright.errors import TilewrightError
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.records import write_json


def test_floors_by_hand():
    # 2 · 4096³ operations at 2 · 128 lanes · 132 SMs · 1.98 GHz.
    seconds, by = floor(Operation.plain(4096, 4096, 4096), H200)
    assert by == "arithmetic"
    assert seconds == pytest.approx(2 * 4096**3 / (2 * 128 * 132 * 1.98e9))
    # A matrix of 4096 x 4096 floats, and two vectors, at 4.8 TB/s.
    seconds, by = floor(Operation.plain(1, 4096, 4096), H200)
    assert by == "memory"
    assert seconds == pytest.approx(4 * (4096 * 4096 + 2 * 4096) / 4.8e12)


def test_a_repeated_operand_is_moved_once():
    plain = Operation.plain(8, 8, 8, batch=10)
    repeated = Operation(
        m=8, n=8, k=8, batch=10, a=plain.a, b=Strides(row=8, col=1, batch=0), d=plain.d
    )
    assert moved_bytes(plain) == 4 * 3 * 640
    assert moved_bytes(repeated) == 4 * (640 + 64 + 640)


def test_ratios_means_and_the_lowest():
    times = {1024: (1.0, 2.0), 2048: (4.0, 2.0), 4096: (1.0, 4.0)}
    records = [
        record(case((n, n, n)), [run("tilewright", ours), run("cublas", theirs)])
        for n, (ours, theirs) in times.items()
    ]
    assert [r.ratio() for r in records] == [2.0, 0.5, 4.0]
    (found,) = summaries(records)
    assert found.cases == 3
    assert found.mean == pytest.approx(4 ** (1 / 3))
    assert (found.worst, found.worst_case) == (0.5, "2048x2048x2048 nn")
    assert summaries(records, other="triton") == []


def test_a_case_that_one_has_not_timed_is_not_in_the_mean():
    right = record(case((8, 8, 8)), [run("tilewright", 1.0), run("cublas", 3.0)])
    wrong = record(
        case((9, 9, 9)),
        [run("tilewright", 1.0, timing=None, verified=False), run("cublas", 1.0)],
    )
    (found,) = summaries([right, wrong])
    assert (found.cases, found.worst) == (1, 3.0)
    assert wrong.runs[0].wrong
    assert not right.runs[0].wrong


def test_a_file_survives_the_disk(tmp_path):
    file = bench_file(
        *whole_suite("batched", {"tilewright": 1.5, "cublas": 2.0}), absent={"x": "y"}
    )
    write_json(tmp_path / "bench.json", file.to_json())
    back = read_bench(tmp_path / "bench.json")
    assert isinstance(back, BenchFile)
    assert back == file


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no file of `tilewright bench --json`"),
        ('{"schema": 1, "environment": {}, "records": []}', "no file of `tilewright bench"),
        ('{"kind": "bench", "schema": 2}', "schema 2, this version reads 1"),
        ('{"kind": "bench", "schema": 1, "environment": {}}', "not a file of records"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path, content, message):
    path = tmp_path / "bench.json"
    path.write_text(content)
    with pytest.raises(TilewrightError, match=message):
        read_bench(path)


@pytest.mark.parametrize("name", ["median_s", "p25_s", "p75_s"])
@pytest.mark.parametrize("value", [None, 0, -1, float("nan"), float("inf"), "1", True])
def test_times_that_are_none_are_refused_by_case_and_contender(tmp_path, name, value):
    runs = [run("tilewright", 1.0), run("cublas", 1.0)]
    data = json.loads(json.dumps(bench_file(record(case((8, 8, 8)), runs)).to_json()))
    data["records"][0]["runs"][1]["timing"][name] = value
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(data))
    with pytest.raises(TilewrightError, match=rf"bench\.json: 8x8x8 nn: cublas: .*{name} is "):
        read_bench(path)


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        (("absent",), [], "absent is "),
        (("absent", "x"), 3, "x is 3"),
        (("environment", "date"), None, "date is None"),
        (("environment", "card"), True, "card is True"),
        (("records",), {}, "records is "),
        (("records", 0, "case"), 8, "case is 8"),
        (("records", 0, "gpu"), None, "gpu is None"),
        (("records", 0, "floor_s"), "1", "floor_s is '1'"),
        (("records", 0, "runs", 1, "contender"), 1, "contender is 1"),
        (("records", 0, "runs", 1, "max_errors"), None, "max_errors is None"),
        (("records", 0, "runs", 1, "bound_ratios", "normal"), "x", "an error of cublas is none"),
        (("records", 0, "runs", 1, "max_errors", "wide"), float("nan"), "of cublas is none"),
        (("records", 0, "operation", "m"), float("inf"), "not a file of records"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(tmp_path, where, value, says):
    runs = [run("tilewright", 1.0), run("cublas", 1.0)]
    file = bench_file(record(case((8, 8, 8)), runs), absent={"x": "y"})
    data = json.loads(json.dumps(file.to_json()))
    place = data
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(data))
    with pytest.raises(TilewrightError, match=rf"cannot read .*bench\.json: .*{says}"):
        read_bench(path)


def test_a_file_without_records_is_refused(tmp_path):
    write_json(tmp_path / "bench.json", bench_file().to_json())
    with pytest.raises(TilewrightError, match=r"bench\.json: it has no records: "):
        read_bench(tmp_path / "bench.json")


def test_a_record_says_what_design_wants_of_every_file():
    data = json.loads(
        json.dumps(bench_file(record(case((8, 8, 8)), [run("cublas", 1.0)])).to_json())
    )
    assert data["environment"]["driver"] == "580.1"
    assert data["records"][0]["runs"][0]["timing"]["median_s"] == 1.0
    assert data["records"][0]["operation"]["m"] == 8
