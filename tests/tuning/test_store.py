"""The store: what was saved is there, whatever happens to processes, disks and files."""

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from tilewright.errors import StoreError
from tilewright.kernels.gemm.operation import Operation
from tilewright.settings import read_settings
from tilewright.tuning.space import space
from tilewright.tuning.store import (
    Store,
    StoreWarning,
    export_trials,
    fastest,
    import_trials,
    set_aside,
)
from tilewright.tuning.trial import Machine
from tuning.synthetic import H200, MACHINE, SQUARE, trial

VARIANTS = space(SQUARE, H200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "tuned.db"


def test_what_was_added_is_there_for_the_next_process(path: Path) -> None:
    timed = trial(SQUARE, VARIANTS[0], 1.25e-4, message="")
    failed = trial(SQUARE, VARIANTS[1], None, message="no room")
    with Store(path) as store:
        assert store.trials() == []
        store.add([timed, failed])
    with Store(path) as store:
        found = {t.variant: t for t in store.trials("H200", SQUARE.key)}
        assert found == {VARIANTS[0]: timed, VARIANTS[1]: failed}
        assert store.trials("A100") == []
        assert store.trials("H200", "f32-nn-1x1x1-b1-v11") == []
    row = (
        sqlite3.connect(path)
        .execute("SELECT median_us, state, date FROM trials ORDER BY state DESC")
        .fetchone()
    )
    assert row == (125.0, "timed", "2026-11-30T10:00:00+00:00")


def test_a_trial_of_the_same_variant_takes_the_old_ones_place_unless_the_machine_differs(
    path: Path,
) -> None:
    newer = Machine(gpu="H200", driver="590.0", toolkit=MACHINE.toolkit)
    with Store(path) as store:
        store.add([trial(SQUARE, VARIANTS[0], 3e-3)])
        store.add([trial(SQUARE, VARIANTS[0], 2e-3)])
        store.add([trial(SQUARE, VARIANTS[0], 1e-3, machine=newer)])
        assert sorted(t.median_s for t in store.trials()) == [1e-3, 2e-3]


def test_the_fastest_is_of_this_machine_first_then_of_the_most_careful() -> None:
    other = Machine(gpu="H200", driver="590.0", toolkit=MACHINE.toolkit)
    lucky = trial(SQUARE, VARIANTS[0], 1e-3, measure_s=0.005)
    careful = trial(SQUARE, VARIANTS[1], 1.1e-3)
    slow = trial(SQUARE, VARIANTS[2], 1.2e-3)
    elsewhere = trial(SQUARE, VARIANTS[3], 0.5e-3, machine=other)
    trials = [lucky, slow, careful, elsewhere, trial(SQUARE, VARIANTS[4], None)]
    assert fastest(trials, MACHINE)[SQUARE.key] == careful
    assert fastest(trials, other)[SQUARE.key] == elsewhere
    assert fastest([trial(SQUARE, VARIANTS[4], None)]) == {}


def test_what_was_written_is_not_written_again_over_newer_trials(path: Path) -> None:
    with Store(path) as one, Store(path) as other:
        one.add([trial(SQUARE, VARIANTS[0], 1e-3)])
        other.add([trial(SQUARE, VARIANTS[0], 2e-3)])
        one.add([trial(SQUARE, VARIANTS[1], 3e-3)])
        with Store(path) as third:
            assert sorted(t.median_s for t in third.trials()) == [2e-3, 3e-3]


def _write(path: str, worker: int, count: int, barrier: Barrier) -> None:
    warnings.simplefilter("error")
    barrier.wait()  # all of them make the file at once
    with Store(Path(path)) as store:
        for index in range(count):
            operation = Operation.plain(64 + worker, 64, 64 + index)
            store.add([trial(operation, VARIANTS[0], 1e-3)])


def test_many_processes_write_at_once_and_nothing_is_lost(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(8)
    arguments = [(str(path), worker, 20, barrier) for worker in range(8)]
    workers = [context.Process(target=_write, args=each) for each in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    with Store(path) as store:
        assert len({t.operation for t in store.trials()}) == 160


def test_a_process_killed_while_it_writes_loses_nothing_that_it_had_saved(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tuning.synthetic import *\n"
        "from tilewright.tuning.store import Store\n"
        "from tilewright.tuning.space import space\n"
        "store = Store(Path(sys.argv[1])); v = space(SQUARE, H200)[0]\n"
        "for k in range(1, 10**6):\n"
        "    store.add([trial(Operation.plain(64, 64, k), v, 1e-3)]); print(k, flush=True)\n"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True, env=environ
    )
    assert child.stdout is not None
    for _ in range(30):
        child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    said = 30 + len(child.stdout.read().split())
    child.wait()
    with Store(path) as store:
        kept = {t.operation for t in store.trials()}
        assert {Operation.plain(64, 64, k).key for k in range(1, said + 1)} <= kept
        assert len(kept) <= said + 1
        store.add([trial(SQUARE, VARIANTS[0])])
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_locked_store_falls_back_to_memory_says_so_once_and_writes_later(path: Path) -> None:
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = Store(path, patience_s=0.05)
    with pytest.warns(StoreWarning, match=r"locked.*kept in memory"):
        store.add([trial(SQUARE, VARIANTS[0])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.add([trial(SQUARE, VARIANTS[1])])
    assert {t.variant for t in store.trials()} == set(VARIANTS[:2])
    other.execute("ROLLBACK")
    store.add([trial(SQUARE, VARIANTS[2])])
    store.close()
    with Store(path) as again:
        assert {t.variant for t in again.trials()} == set(VARIANTS[:3])


def test_a_full_disk_loses_nothing_that_was_saved(path: Path) -> None:
    store = Store(path)
    store.add([trial(SQUARE, VARIANTS[0])])
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")  # as full to SQLite as a disk is
    many = [trial(Operation.plain(64, 64, k), VARIANTS[0]) for k in range(1, 200)]
    with pytest.warns(StoreWarning, match="full"):
        store.add(many)
    assert len(store.trials()) == 200
    with Store(path) as other:
        assert [t.operation for t in other.trials()] == [SQUARE.key]
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.close()
    with Store(path) as again:
        assert len(again.trials()) == 200


def test_a_full_device_leaves_the_search_going(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with pytest.warns(StoreWarning):
        store = Store(Path("/dev/full"))
    store.add([trial(SQUARE, VARIANTS[0])])
    assert len(store.trials()) == 1
    store.close()


def test_a_folder_that_cannot_be_made_falls_back_to_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(StoreWarning, match="kept in memory"):
        store = Store(tmp_path / "file" / "tuned.db")
    store.add([trial(SQUARE, VARIANTS[0])])
    assert len(store.trials()) == 1
    store.close()


def test_a_store_that_may_only_be_read_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path) as store:
        store.add([trial(SQUARE, VARIANTS[0])])
    real = sqlite3.connect

    def reading(database, **more):
        return real(f"{Path(database).as_uri()}?mode=ro", uri=True, **more)

    monkeypatch.setattr(sqlite3, "connect", reading)  # root may write what is read-only
    store = Store(path)
    assert len(store.trials()) == 1
    with pytest.warns(StoreWarning, match="readonly"):
        store.add([trial(SQUARE, VARIANTS[1])])
    assert len(store.trials()) == 2


@pytest.mark.parametrize("content", [b"not a database at all, by far" * 40, b"SQLite format 3\0xx"])
def test_a_corrupt_store_teaches_and_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"left as it is.*--set-aside.*TILEWRIGHT_STORE"):
        Store(path)
    assert path.read_bytes() == content


def test_a_store_corrupt_within_teaches_too(path: Path) -> None:
    with Store(path) as store:
        store.add([trial(Operation.plain(64, 64, k), VARIANTS[0]) for k in range(1, 300)])
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="corrupt"), Store(path) as store:
        store.trials()
    assert path.read_bytes() == bytes(data)


def test_a_newer_store_and_another_programs_are_left_as_they_are(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 2")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="schema 2, this version reads 1"):
        Store(path)
    assert path.read_bytes() == before
    other = path.with_name("other.db")
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE theirs (x)")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="another program"):
        Store(other)


def test_setting_aside_renames_and_starts_anew(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"garbage" * 100)
    moved = set_aside(path)
    assert moved.read_bytes() == b"garbage" * 100
    assert not path.exists()
    with Store(path) as store:
        assert store.trials() == []
    with pytest.raises(StoreError, match="cannot rename"):
        set_aside(path.with_name("none.db"))


def test_export_and_import_agree(tmp_path: Path) -> None:
    trials = [trial(SQUARE, VARIANTS[0]), trial(SQUARE, VARIANTS[1], None, message="no")]
    file = tmp_path / "trials.json"
    export_trials(file, trials)
    assert import_trials(file) == trials
    data = json.loads(file.read_text())
    data["trials"][0]["variant"]["tile"]["no_such_field"] = 1
    file.write_text(json.dumps(data))
    assert import_trials(file) == trials[1:]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "schema None"),
        ('{"schema": 2, "trials": []}', "schema 2, this version reads 1"),
        ('{"schema": 1, "trials": [{"machine": 3}]}', "not a file of trials"),
    ],
)
def test_import_of_something_else_teaches(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "trials.json"
    file.write_text(text)
    with pytest.raises(StoreError, match=said):
        import_trials(file)
    with pytest.raises(StoreError, match="cannot read"):
        import_trials(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("median_s", -1.0, "median_s is -1.0 of .*, a finite number above 0"),
        ("median_s", float("nan"), "median_s is nan"),
        ("median_s", [], r"median_s is \[\]"),
        ("operation", [], "not a file of trials"),
        ("state", None, "not a file of trials"),
        ("machine", {"gpu": {}, "driver": "1", "toolkit": "2"}, "not a file of trials"),
    ],
)
def test_a_trial_that_is_none_is_refused(
    tmp_path: Path, name: str, value: object, said: str
) -> None:
    file = tmp_path / "trials.json"
    export_trials(file, [trial(SQUARE, VARIANTS[0])])
    data = json.loads(file.read_text())
    data["trials"][0][name] = value
    file.write_text(json.dumps(data))
    with pytest.raises(StoreError, match=said):
        import_trials(file)


def test_without_a_file_all_is_kept_in_memory_quietly() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Store(None) as store:
            store.add([trial(SQUARE, VARIANTS[0])])
            assert len(store.trials("H200", SQUARE.key)) == 1


def test_adding_is_quick_enough_for_a_search(path: Path) -> None:
    with Store(path) as store:
        began = time.perf_counter()
        for k in range(1, 51):
            store.add([trial(Operation.plain(64, 64, k), VARIANTS[0])])
        assert (time.perf_counter() - began) / 50 < 0.05


def test_where_the_store_is_comes_from_the_environment(tmp_path: Path) -> None:
    assert read_settings({"TILEWRIGHT_STORE": str(tmp_path / "x.db")}).store == tmp_path / "x.db"
    assert read_settings({"TILEWRIGHT_STORE": "0"}).store is None
    usual = read_settings({}).store
    assert usual is not None
    assert usual.parts[-2:] == ("tilewright", "tuned.db")
