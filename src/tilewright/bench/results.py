"""What is kept of a benchmark: who computed what, how fast, how far off; and its file.

A file is JSON like that of the ladder (`tilewright.records`), with `"kind": "bench"`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any, Literal

from tilewright.bench.baselines import REFERENCE
from tilewright.bench.contenders import Contender
from tilewright.bench.gemm import Entry
from tilewright.bench.suites import Case
from tilewright.errors import TilewrightError
from tilewright.gpus import Gpu
from tilewright.kernels.gemm.operation import Operation, Strides
from tilewright.kernels.tiles import FLOAT_BYTES
from tilewright.records import Environment, Timing, is_time, require

SCHEMA = 1
KIND = "bench"
OURS = "tilewright"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """One contender on one operation.

    `way` is what ran: our variant, a library's algorithm, the fastest of `tried`. `max_errors` are
    the largest |error| by kind of data, over the elements checked; `bound_ratios` the largest error
    over its own bound. `reason` says why there is no timing.
    """

    contender: str
    label: str
    way: str | None = None
    variant: Mapping[str, Any] | None = None
    tried: int = 0
    timing: Timing | None = None
    verified: bool = False
    max_errors: Mapping[str, float] = field(default_factory=dict)
    bound_ratios: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None

    @property
    def wrong(self) -> bool:
        """Whether it computed something that a check refused."""
        return self.way is not None and not self.verified

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BenchRun:
        """Rebuild what `to_json` wrote."""
        timing = data["timing"]
        require(data, {"contender": str, "label": str, "way": (str, NoneType)})
        require(data, {"reason": (str, NoneType), "max_errors": dict, "bound_ratios": dict})
        for errors in (data["max_errors"], data["bound_ratios"]):
            if not all(value == 0 or is_time(value) for value in errors.values()):
                raise TypeError(f"an error of {data['contender']} is none: {errors}")
        return replace(cls(**data), timing=Timing.from_json(timing) if timing else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRecord:
    """One operation, and everybody who computed it in the same rounds.

    `floor_s` is the time below which no kernel gets on this GPU: its float32 peak, or its memory
    moving every operand once, whichever `floor_by` says.
    """

    suite: str
    case: str
    operation: Operation
    gpu: str
    floor_s: float
    floor_by: Literal["arithmetic", "memory"]
    runs: tuple[BenchRun, ...]

    def run(self, contender: str) -> BenchRun | None:
        """Return a contender's run, None where it did not take part."""
        return next((run for run in self.runs if run.contender == contender), None)

    def timing(self, contender: str) -> Timing | None:
        """Return a contender's timing, None where it has none."""
        found = self.run(contender)
        return found.timing if found else None

    def ratio(self, contender: str = OURS, other: str = REFERENCE) -> float | None:
        """Return how many times faster `contender` was than `other`; None where either is not."""
        ours, theirs = self.timing(contender), self.timing(other)
        return theirs.median_s / ours.median_s if ours and theirs else None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values, by field name."""
        return asdict(self) | {
            "operation": self.operation.to_json(),
            "runs": [run.to_json() for run in self.runs],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BenchRecord:
        """Rebuild what `to_json` wrote."""
        require(data, dict.fromkeys(("suite", "case", "gpu", "floor_by"), str))
        if not is_time(data["floor_s"]):
            raise TypeError(f"floor_s is {data['floor_s']!r}")
        return cls(
            **{
                **data,
                "operation": Operation.from_json(data["operation"]),
                "runs": tuple(BenchRun.from_json(run) for run in data["runs"]),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchFile:
    """What a file of records holds; `absent` says why a baseline took no part at all."""

    environment: Environment
    records: tuple[BenchRecord, ...]
    absent: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """Return the content of the file, as plain JSON values."""
        return {
            "schema": SCHEMA,
            "kind": KIND,
            "environment": self.environment.to_json(),
            "absent": dict(self.absent),
            "records": [record.to_json() for record in self.records],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One suite's ratios to a baseline: their geometric mean, and the lowest with its case."""

    suite: str
    cases: int
    mean: float
    worst: float
    worst_case: str


def record(
    suite: str,
    case: Case,
    gpu: Gpu,
    contenders: Sequence[Contender],
    entries: Mapping[str, Entry],
) -> BenchRecord:
    """Return what is kept of one operation's entries."""
    floor_s, floor_by = floor(case.operation, gpu)
    return BenchRecord(
        suite=suite,
        case=case.name,
        operation=case.operation,
        gpu=gpu.name,
        floor_s=floor_s,
        floor_by=floor_by,
        runs=tuple(_run(c, entries[c.name]) for c in contenders),
    )


def _run(contender: Contender, entry: Entry) -> BenchRun:
    wrong = next((c.message() for c in entry.checks.values() if not c.ok), None)
    finite = {k: c for k, c in entry.checks.items() if math.isfinite(c.bound_ratio)}
    return BenchRun(
        contender=contender.name,
        label=contender.label,
        way=entry.way.name if entry.way else None,
        variant=entry.way.variant.to_json() if entry.way and entry.way.variant else None,
        tried=entry.tried,
        timing=entry.timing,
        verified=bool(entry.checks) and entry.ok,
        max_errors={kind: check.max_error for kind, check in finite.items()},
        bound_ratios={kind: check.bound_ratio for kind, check in finite.items()},
        reason=entry.reason or wrong,
    )


def floor(operation: Operation, gpu: Gpu) -> tuple[float, Literal["arithmetic", "memory"]]:
    """Return the least time of an operation on a GPU, in seconds, and what sets it."""
    arithmetic = operation.flops / gpu.fp32_flops_per_s
    memory = moved_bytes(operation) / gpu.dram_bytes_per_s
    return (arithmetic, "arithmetic") if arithmetic >= memory else (memory, "memory")


def moved_bytes(operation: Operation) -> int:
    """Return the bytes that every kernel must move: each operand once, D once."""
    o = operation

    def floats(strides: Strides, rows: int, cols: int) -> int:
        return rows * cols * (o.batch if strides.batch else 1)

    read = floats(o.a, o.m, o.k) + floats(o.b, o.k, o.n)
    added = floats(o.c, o.m, o.n) if o.c else 0
    return FLOAT_BYTES * (read + added + o.m * o.n * o.batch)


def summaries(
    records: Iterable[BenchRecord], contender: str = OURS, other: str = REFERENCE
) -> list[Summary]:
    """Return each suite's summary, of the cases that both computed."""
    found: dict[str, list[tuple[float, str]]] = {}
    for each in records:
        ratio = each.ratio(contender, other)
        if ratio is not None:
            found.setdefault(each.suite, []).append((ratio, each.case))
    return [
        Summary(
            suite=suite,
            cases=len(ratios),
            mean=math.exp(math.fsum(math.log(r) for r, _ in ratios) / len(ratios)),
            worst=min(ratios)[0],
            worst_case=min(ratios)[1],
        )
        for suite, ratios in found.items()
    ]


def read_bench(path: str | Path) -> BenchFile:
    """Read what `BenchFile.to_json` gave.

    Raises:
        TilewrightError: no such file, not JSON, not of a benchmark, of another schema version,
            without records, or with times that no kernel takes.
    """
    source = Path(path)
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise TilewrightError(f"cannot read {source}: {error.strerror or error}") from error
    except ValueError as error:
        raise TilewrightError(f"cannot read {source}: not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise TilewrightError(f"{source} is no file of `tilewright bench --json`: give one")
    if data.get("schema") != SCHEMA:
        raise TilewrightError(
            f"cannot read {source}: schema {data.get('schema')!r}, this version reads {SCHEMA}: "
            "measure again, or use the tilewright that wrote it"
        )
    try:
        require(data, {"records": list, "absent": dict})
        require(data["absent"], dict.fromkeys(data["absent"], str))
        file = BenchFile(
            environment=Environment.from_json(data["environment"]),
            records=tuple(BenchRecord.from_json(each) for each in data["records"]),
            absent=data["absent"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TilewrightError(f"cannot read {source}: not a file of records: {error}") from error
    if not file.records:
        raise TilewrightError(f"cannot read {source}: it has no records: measure again")
    for each in file.records:
        for run in each.runs:
            if run.timing is not None:
                _check(run.timing, f"cannot read {source}: {each.case}: {run.contender}")
    return file


def _check(timing: Timing, where: str) -> None:
    """Refuse times that are not finite and positive: ratios and logarithms are made of them."""
    for name in ("median_s", "p25_s", "p75_s"):
        value = getattr(timing, name)
        if not is_time(value):
            raise TilewrightError(
                f"{where}: {name} is {value!r}, a finite number above 0 is required: measure again"
            )
