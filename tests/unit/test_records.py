import gzip
import json
import os

import pytest

from tilewright.counters import Counters
from tilewright.errors import TilewrightError
from tilewright.problem import Problem
from tilewright.records import (
    Environment,
    LadderRecord,
    Timing,
    read_records,
    read_text,
    write_json,
    write_records,
)

# The keys of a ladder record as design.md states them.
DESIGN_KEYS = {
    "rung",
    "problem",
    "gpu",
    "backend",
    "verified",
    "max_error",
    "error_bound",
    "registers",
    "shared_bytes",
    "occupancy",
    "counters",
    "sectors_per_request",
    "predicted_gflops",
    "limiter",
    "measured_gflops",
    "baseline_gflops",
    "published_gflops",
}
DESIGN_COUNTERS = {
    "ffma_thread_instructions",
    "global_load_requests",
    "global_load_sectors",
    "global_store_sectors",
    "shared_load_requests",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "warp_instructions",
}

ENVIRONMENT = Environment(
    date="2026-11-30T00:00:00+00:00",
    tilewright="0.1.0",
    python="3.12.3",
    host="Linux x86_64",
    nvrtc="13.0",
    card="NVIDIA H200",
    driver="580.1",
    commit="0" * 40,
    dirty=False,
    clocks={"clocks.current.sm": "345 MHz"},
)
RECORD = LadderRecord(
    rung="01_naive",
    problem=Problem(m=4096, n=4096, k=4096, alpha=0.5, beta=0.5, lda=4100),
    gpu="H200",
    backend="device",
    verified=True,
    tile={"bm": 32, "bn": 32},
    max_error=1e-5,
    error_bound=1e-3,
    registers=32,
    shared_bytes=0,
    occupancy=1.0,
    counters=Counters(global_load_requests=4, global_load_sectors=66, opcodes={"fma": 2}),
    sectors_per_request=16.5,
    measured_gflops=500.0,
    baseline_gflops=50000.0,
    timing=Timing(median_s=0.275, p25_s=0.27, p75_s=0.28, runs=3, sets=2),
    baseline="cuBLAS 13.1.0 (wheel), float32",
    baseline_timing=Timing(median_s=0.0027, p25_s=0.0026, p75_s=0.0028, runs=3, sets=2),
    provenance={"measured_gflops": "measured", "sectors_per_request": "exact"},
    environment=ENVIRONMENT.key,
)


def test_record_has_the_keys_of_the_design():
    data = RECORD.to_json()
    assert set(data) >= DESIGN_KEYS
    assert set(data["counters"]) >= DESIGN_COUNTERS
    assert (
        data["problem"] | {"m": 4096, "n": 4096, "k": 4096, "dtype": "float32"} == data["problem"]
    )


def test_file_round_trip_gives_equal_values(tmp_path):
    path = tmp_path / "new" / "folder" / "records.json"
    write_records(path, ENVIRONMENT, [RECORD])
    back = read_records(path)
    assert back.environment == ENVIRONMENT
    assert back.records == (RECORD,)
    assert set(json.loads(path.read_text())) == {"schema", "environment", "records"}


def test_minimal_record_round_trips(tmp_path):
    record = LadderRecord(
        rung="01_naive",
        problem=Problem(m=1, n=1, k=0),
        gpu="RTX A6000",
        backend="emulator",
        verified=False,
    )
    write_records(tmp_path / "r.json", ENVIRONMENT, [record])
    assert read_records(tmp_path / "r.json").records == (record,)


def test_gflops_and_spread_by_hand():
    timing = Timing(median_s=2.0, p25_s=1.5, p75_s=2.5, runs=4, sets=2)
    # 2 · 1000³ operations in 2 s are 10^9 a second.
    assert timing.gflops(Problem(m=1000, n=1000, k=1000)) == 1.0
    assert timing.spread == 0.5


def test_environment_key_tells_environments_apart():
    other = Environment.from_json(ENVIRONMENT.to_json() | {"driver": "570.1"})
    assert ENVIRONMENT.key == Environment.from_json(ENVIRONMENT.to_json()).key
    assert other.key != ENVIRONMENT.key
    assert len(ENVIRONMENT.key) == 12


def test_unwritable_path_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TilewrightError, match=r"cannot write .*file/records\.json"):
        write_records(tmp_path / "file" / "records.json", ENVIRONMENT, [RECORD])


def test_failed_write_keeps_the_old_file_and_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "records.json"
    write_records(path, ENVIRONMENT, [RECORD])
    before = path.read_bytes()

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(TilewrightError, match="No space left"):
        write_records(path, ENVIRONMENT, [])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["records.json"]


def test_nan_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TilewrightError, match="not plain JSON"):
        write_json(tmp_path / "r.json", {"x": float("nan")})
    assert os.listdir(tmp_path) == []


def test_a_name_in_gz_is_packed_and_the_same_content_the_same_bytes(tmp_path):
    plain, packed, again = (tmp_path / name for name in ("r.json", "r.json.gz", "s.json.gz"))
    for path in (plain, packed, again):
        write_json(path, {"x": ["µ"] * 1000})
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert read_text(packed) == read_text(plain)
    assert packed.read_bytes() == again.read_bytes()
    assert len(packed.read_bytes()) < len(plain.read_bytes()) / 10
    for broken in (packed.read_bytes()[:-9], b"no gzip"):
        packed.write_bytes(broken)
        with pytest.raises(ValueError, match="not a whole gzip file"):
            read_text(packed)
    with pytest.raises(OSError, match="No such file"):
        read_text(tmp_path / "none.json.gz")


def test_file_mode_follows_the_umask(tmp_path):
    old = os.umask(0o022)
    try:
        write_json(tmp_path / "r.json", {})
    finally:
        os.umask(old)
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "schema None"),
        ('{"schema": 2}', "schema 2"),
        ('{"schema": 1}', "not a file of records"),
        ('{"schema": 1, "environment": {}, "records": []}', "not a file of records"),
        ('{"schema": 1, "environment": [], "records": []}', "not a file of records"),
    ],
)
def test_odd_files_are_refused(tmp_path, text, says):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(TilewrightError, match=says):
        read_records(path)


def test_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(TilewrightError, match="No such file"):
        read_records(tmp_path / "none.json")
