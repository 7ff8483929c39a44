"""What is kept of a run: ladder records, the environment they were made in, their file.

Values only: nothing here touches CUDA. A file of records is JSON with a schema version,
`{"schema": 1, "environment": {...}, "records": [...]}`; a reader refuses a version it does not
know instead of guessing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias

from tilewright.counters import Counters, Provenance
from tilewright.errors import TilewrightError
from tilewright.problem import Problem

SCHEMA = 1

Backend: TypeAlias = Literal["emulator", "device"]
Kind: TypeAlias = "type | tuple[type, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times of repeated launches of one kernel.

    Units: seconds, by CUDA events around each launch, nothing subtracted. `sets` is how many sets
    of buffers the launches rotated among to find the L2 cache cold.
    """

    median_s: float
    p25_s: float
    p75_s: float
    runs: int
    sets: int

    @property
    def spread(self) -> float:
        """The interquartile range over the median; a difference smaller than it is noise."""
        return (self.p75_s - self.p25_s) / self.median_s

    def gflops(self, problem: Problem) -> float:
        """Return the rate of the median launch, in 10^9 operations a second."""
        return problem.flops / self.median_s / 1e9

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Timing:
        """Rebuild what `to_json` wrote."""
        return cls(**data)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where and with what records were made; None marks what the machine does not have.

    `clocks` is the state of the card as found, by the name and unit that `nvidia-smi` gives it.
    `commit` is that of the source tree, `dirty` whether the tree held changes beyond it; both are
    None for an installed package.
    """

    date: str
    tilewright: str
    python: str
    host: str
    nvrtc: str | None = None
    card: str | None = None
    driver: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    clocks: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits that tell environments apart; records refer to it."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self) | {"clocks": dict(self.clocks)}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Environment:
        """Rebuild what `to_json` wrote."""
        require(data, dict.fromkeys(("date", "tilewright", "python", "host"), str))
        require(data, dict.fromkeys(("nvrtc", "card", "driver", "commit"), (str, NoneType)))
        return cls(**data)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRecord:
    """One rung on one problem: whether it was right, what it cost, how fast it ran.

    Units: `*_gflops` are 10^9 floating-point operations a second, `shared_bytes` bytes a block,
    `occupancy` the fraction of the warps an SM can hold, `max_error` and `error_bound` absolute
    (the bound is that of the element nearest to breaking its own). None marks a figure that this
    backend does not give.

    `tile` is the schedule that the kernel was compiled with, by field name. `provenance` says of
    each figure where it comes from (the names are this class's fields); `timing` and
    `baseline_timing` carry the spread of the measured rates; `baseline` names the library timed
    beside the rung; `environment` is the `Environment.key` of the file it was first written to.
    """

    rung: str
    problem: Problem
    gpu: str
    backend: Backend
    verified: bool
    tile: Mapping[str, int] | None = None
    max_error: float | None = None
    error_bound: float | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    occupancy: float | None = None
    counters: Counters | None = None
    sectors_per_request: float | None = None
    predicted_gflops: float | None = None
    limiter: str | None = None
    measured_gflops: float | None = None
    baseline_gflops: float | None = None
    published_gflops: float | None = None
    timing: Timing | None = None
    baseline: str | None = None
    baseline_timing: Timing | None = None
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    environment: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        data: dict[str, object] = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("problem", "counters", "timing", "baseline_timing"):
            value = getattr(self, name)
            data[name] = None if value is None else value.to_json()
        return data | {
            "tile": None if self.tile is None else dict(self.tile),
            "provenance": dict(sorted(self.provenance.items())),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LadderRecord:
        """Rebuild what `to_json` wrote."""
        values = dict(data)
        values["problem"] = Problem.from_json(values["problem"])
        if values.get("counters") is not None:
            values["counters"] = Counters.from_json(values["counters"])
        for name in ("timing", "baseline_timing"):
            if values.get(name) is not None:
                values[name] = Timing.from_json(values[name])
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """What a file of records holds."""

    environment: Environment
    records: tuple[LadderRecord, ...]


def write_records(
    path: str | Path, environment: Environment, records: Iterable[LadderRecord]
) -> None:
    """Write records to `path`, whole or not at all: what was there stays until the rename.

    Raises:
        TilewrightError: the path cannot be written, with the reason; an old file is untouched.
    """
    write_json(path, records_to_json(environment, records))


def records_to_json(environment: Environment, records: Iterable[LadderRecord]) -> dict[str, object]:
    """Return the content of a file of records, as plain JSON values."""
    return {
        "schema": SCHEMA,
        "environment": environment.to_json(),
        "records": [record.to_json() for record in records],
    }


def read_text(path: str | Path) -> str:
    """Return a file's text, unpacked where its name ends in .gz.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not text, or not packed whole.
    """
    source = Path(path)
    raw = source.read_bytes()
    if source.suffix != ".gz":
        return raw.decode()
    try:
        return gzip.decompress(raw).decode()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"not a whole gzip file: {error}") from error


def write_json(path: str | Path, payload: Mapping[str, object]) -> None:
    """Write one JSON object to `path` atomically, as `write_text` does.

    Numbers that JSON lacks (NaN, infinities) are refused rather than written as something that
    other readers reject.

    Raises:
        TilewrightError: the path cannot be written, or `payload` is no JSON.
    """
    target = Path(path)
    try:
        text = json.dumps(payload, indent=1, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise TilewrightError(f"cannot write {target}: not plain JSON values: {error}") from error
    write_text(target, text)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path`, whole or not at all, packed where the name ends in .gz.

    Raises:
        TilewrightError: the path cannot be written, with the reason; an old file is untouched.
    """
    content = text.encode()
    if Path(path).suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # the same text, the same bytes
    write_bytes(path, content)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content` to `path`, whole or not at all.

    Raises:
        TilewrightError: the path cannot be written, with the reason; an old file is untouched.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise TilewrightError(
            f"cannot write {target}: {error.strerror or error}; nothing was changed: name a file "
            "in a folder that you may write to"
        ) from error


def read_records(path: str | Path) -> RecordFile:
    """Read what `write_records` wrote.

    Raises:
        TilewrightError: no such file, not JSON, another schema version, or fields that do not fit.
    """
    source = Path(path)
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise TilewrightError(f"cannot read {source}: {error.strerror or error}") from error
    except ValueError as error:
        raise TilewrightError(f"cannot read {source}: not JSON: {error}") from error
    found = data.get("schema") if isinstance(data, dict) else None
    if found != SCHEMA:
        raise TilewrightError(
            f"cannot read {source}: schema {found!r}, this version reads {SCHEMA}: "
            "make the records again, or use the tilewright that wrote them"
        )
    try:
        return RecordFile(
            environment=Environment.from_json(data["environment"]),
            records=tuple(LadderRecord.from_json(record) for record in data["records"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TilewrightError(f"cannot read {source}: not a file of records: {error}") from error


def _umask() -> int:
    # The mask can only be read by setting it; mkstemp alone would leave the file at 0600.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def require(data: Mapping[str, object], kinds: Mapping[str, Kind]) -> None:
    """Require of what a file has the kinds of value that its readers rely on.

    Raises:
        TypeError: a value of another kind, with its name.
    """
    for name, kind in kinds.items():
        if name in data and not isinstance(data[name], kind):
            raise TypeError(f"{name} is {data[name]!r}")


def is_time(value: object) -> bool:
    """Return whether what a file has can be a time: a finite number above 0; NaN is not above."""
    return isinstance(value, int | float) and value is not True and 0 < value < math.inf
