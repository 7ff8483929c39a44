"""What was measured, kept in a file: SQLite, safe with many processes and after a crash.

A store that cannot be written (a full disk, a lock that is never given back, a folder without
write permission) is kept in memory instead, which is said once; what is written stays, and what is
not is written as soon as that works again. A store that is corrupt, another program's or newer is
an error, and is left as it is.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from tilewright.errors import StoreError, TilewrightError
from tilewright.kernels.gemm.kernel import Variant
from tilewright.records import is_time, write_json
from tilewright.tuning.trial import Machine, Trial

SCHEMA = 1
# Marks the file as ours: "tile", as a number. Source: sqlite.org, pragma application_id.
_APPLICATION = 0x74696C65
_PATIENCE_S = 5.0
# Once the store could not be written, each further try is short.
_IMPATIENCE_S = 0.05
_WAL_TRIES = 50

_KEY = ("gpu", "driver", "toolkit", "operation", "variant")
_VALUES = ("state", "median_us", "spread", "measure_s", "message", "date", "commit_id")
_CREATE = """
CREATE TABLE trials (
  gpu TEXT NOT NULL, driver TEXT NOT NULL, toolkit TEXT NOT NULL, operation TEXT NOT NULL,
  variant TEXT NOT NULL, state TEXT NOT NULL, median_us REAL, spread REAL,
  measure_s REAL NOT NULL, message TEXT NOT NULL, date TEXT NOT NULL, commit_id TEXT,
  PRIMARY KEY (gpu, driver, toolkit, operation, variant)
) WITHOUT ROWID
"""


class StoreWarning(UserWarning):
    """The store cannot be used as it should be; what was said with it says how it goes on."""


class Store:
    """Trials in a file, or with None in memory alone. Use it in a `with` statement.

    Raises:
        StoreError: a file that is corrupt, newer, or no store. It is not changed.
    """

    def __init__(self, path: Path | None, *, patience_s: float = _PATIENCE_S) -> None:
        self.path = path
        self._patience_s = patience_s
        self._unwritten: dict[tuple[str, ...], Trial] = {}
        self._warned = False
        self._db: sqlite3.Connection | None = None
        if path is not None:
            with self._teaching(), self._falling_back():
                path.parent.mkdir(parents=True, exist_ok=True)
                self._db = _connect(path, patience_s)
                _prepare(self._db, path)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left to write, and close the file."""
        if self._unwritten and self._db is not None:
            self.add(())
        if self._db is not None:
            self._db.close()
            self._db = None

    def add(self, trials: Iterable[Trial]) -> None:
        """Keep trials; one of the same variant on the same machine takes an old one's place.

        Raises:
            StoreError: the file is corrupt; the trials stay in memory.
        """
        self._unwritten.update((_key(trial), trial) for trial in trials)
        if self._db is None or not self._unwritten:
            return
        with self._teaching(), self._falling_back():
            rows = [(*key, *_values(trial)) for key, trial in self._unwritten.items()]
            names = (*_KEY, *_VALUES)
            with _transaction(self._db):
                self._db.executemany(
                    f"INSERT OR REPLACE INTO trials ({', '.join(names)}) "
                    f"VALUES ({', '.join('?' * len(names))})",
                    rows,
                )
            self._unwritten.clear()

    def trials(self, gpu: str | None = None, operation: str | None = None) -> list[Trial]:
        """Return the trials of a GPU and an operation, of all without.

        Raises:
            StoreError: the file is corrupt.
        """
        wanted = {"gpu": gpu, "operation": operation}
        given = {name: value for name, value in wanted.items() if value is not None}
        found: dict[tuple[str, ...], Trial] = {}
        if self._db is not None:
            where = " AND ".join(f"{name} = ?" for name in given)
            query = f"SELECT {', '.join((*_KEY, *_VALUES))} FROM trials"
            query += f" WHERE {where}" if where else ""
            with self._teaching(), self._falling_back():
                for row in self._db.execute(query, tuple(given.values())):
                    # A tile that this version does not know is nothing it could choose.
                    with contextlib.suppress(TilewrightError):
                        found[row[: len(_KEY)]] = _trial(row)
        for key, trial in self._unwritten.items():
            if all(key[_KEY.index(name)] == value for name, value in given.items()):
                found[key] = trial
        return list(found.values())

    @contextlib.contextmanager
    def _teaching(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _corrupt(self.path, error) from error

    @contextlib.contextmanager
    def _falling_back(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.OperationalError, OSError) as error:
            if self._db is not None:
                self._db.execute(f"PRAGMA busy_timeout = {int(1000 * _IMPATIENCE_S)}")
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"the store of tuned choices {self.path} cannot be used: {error}: what is "
                    "measured now is kept in memory until it can; free the disk or the lock, or "
                    "set TILEWRIGHT_STORE to another file",
                    StoreWarning,
                    stacklevel=4,
                )


def set_aside(path: Path) -> Path:
    """Rename a store that is no use, with what SQLite keeps beside it, and return its new name.

    Raises:
        StoreError: there is none, or it cannot be renamed.
    """
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
    target = path.with_name(f"{path.name}.aside-{stamp}")
    try:
        path.rename(target)
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                beside.rename(target.with_name(target.name + suffix))
    except OSError as error:
        raise StoreError(f"cannot rename {path}: {error.strerror or error}") from error
    return target


def export_trials(path: str | Path, trials: Iterable[Trial]) -> None:
    """Write trials as JSON.

    Raises:
        TilewrightError: the file cannot be written.
    """
    write_json(path, {"schema": SCHEMA, "trials": [trial.to_json() for trial in trials]})


def import_trials(path: str | Path) -> list[Trial]:
    """Return the trials that `export_trials` wrote; those with tiles of another version left out.

    Raises:
        StoreError: no such file, or not one of trials that this version reads.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise StoreError(f"cannot read {path}: not JSON: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise StoreError(
            f"cannot read {path}: schema {found!r}, this version reads {SCHEMA}: give a "
            "file that `tilewright tune --export` wrote"
        )
    if not isinstance(data.get("trials"), list):
        raise StoreError(
            f"cannot read {path}: it has no list of trials: give a file that `tilewright tune "
            "--export` wrote"
        )
    trials = []
    for entry in data["trials"]:
        try:
            trial = Trial.from_json(entry)
        except TilewrightError:
            continue
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StoreError(f"cannot read {path}: not a file of trials") from error
        if trial.median_s is not None and not is_time(trial.median_s):
            raise StoreError(
                f"cannot read {path}: median_s is {trial.median_s!r} of {trial.variant}, a finite "
                "number above 0 is required: export again"
            )
        trials.append(trial)
    return trials


def fastest(trials: Iterable[Trial], machine: Machine | None = None) -> Mapping[str, Trial]:
    """Return the fastest trial of each operation, those of `machine` before all others.

    The most carefully measured decide among themselves: of many short measurements the fastest is
    often just the luckiest.
    """
    best: dict[str, Trial] = {}

    def rank(trial: Trial) -> tuple[bool, float, float]:
        return trial.machine != machine, -trial.measure_s, trial.median_s or 0.0

    for trial in trials:
        if trial.state == "timed" and trial.median_s is not None:
            held = best.get(trial.operation)
            if held is None or rank(trial) < rank(held):
                best[trial.operation] = trial
    return best


def _connect(path: Path, patience_s: float) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=patience_s, isolation_level=None, check_same_thread=False)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Accept a store, or make one of a new file."""
    if _accepted(db, path):
        return
    for _ in range(_WAL_TRIES):  # SQLite does not wait for this lock by itself
        try:
            db.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            time.sleep(0.02)
    with _transaction(db):
        if not _accepted(db, path):  # else another process was first
            db.execute(_CREATE)
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")


def _accepted(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file is a store, False where it is empty.

    Raises:
        StoreError: it is something else.
    """
    alone = not db.in_transaction
    if alone:
        db.execute("BEGIN")  # the three answers are of one state: another process may be writing it
    try:
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
    finally:
        if alone:
            db.execute("COMMIT")
    if not tables and not application and not version:
        return False
    if application != _APPLICATION:
        raise StoreError(
            f"{path} is a database of another program; it was left as it is: set TILEWRIGHT_STORE "
            "to another file"
        )
    if version != SCHEMA:
        raise StoreError(
            f"{path} has schema {version}, this version reads {SCHEMA}; it was left as it is: "
            "use the tilewright that wrote it, set TILEWRIGHT_STORE to another file, or rename it "
            "by `tilewright tune --set-aside`"
        )
    return True


def _corrupt(path: Path | None, error: Exception) -> StoreError:
    return StoreError(
        f"{path} is corrupt or no store ({error}); it was left as it is: rename it by "
        "`tilewright tune --set-aside`, which starts a new one, or set TILEWRIGHT_STORE to "
        "another file"
    )


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _key(trial: Trial) -> tuple[str, ...]:
    variant = json.dumps(trial.variant.to_json(), sort_keys=True)
    machine = trial.machine
    return machine.gpu, machine.driver, machine.toolkit, trial.operation, variant


def _values(trial: Trial) -> tuple[object, ...]:
    median_us = None if trial.median_s is None else 1e6 * trial.median_s
    timed = (median_us, trial.spread, trial.measure_s)
    return (trial.state, *timed, trial.message, trial.date, trial.commit)


def _trial(row: tuple[object, ...]) -> Trial:
    gpu, driver, toolkit, operation, variant, state, median_us, *rest = row
    spread, measure_s, message, date, commit = rest
    return Trial(
        machine=Machine(gpu=str(gpu), driver=str(driver), toolkit=str(toolkit)),
        operation=str(operation),
        variant=Variant.from_json(json.loads(str(variant))),
        state=state,  # type: ignore[arg-type]
        median_s=None if median_us is None else float(median_us) / 1e6,  # type: ignore[arg-type]
        spread=spread,  # type: ignore[arg-type]
        measure_s=measure_s,  # type: ignore[arg-type]
        message=str(message),
        date=str(date),
        commit=commit,  # type: ignore[arg-type]
    )
