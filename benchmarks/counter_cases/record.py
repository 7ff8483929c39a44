"""The file of recorded counters: written one case a line, read back as values.

Counts are kept as lists beside one list of names (`columns`); the compiled kernels are kept too, so
that a reader has the very machine code that was counted, whatever compiler it has.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counter_cases.cases import Case, Kind, kind_of, rebuild
from counter_cases.ncu import SOURCE_COLUMNS, Result, SourcePage
from tilewright.launch import Launch
from tilewright.records import read_text, write_text
from tilewright.toolchain import Artifact, resources

SCHEMA = 1
NAME = "counters_nvidia_h200.json"
ABOUT = (
    "What Nsight Compute counted for known kernels, by benchmarks/h200_counters.py. `cases`: "
    "`metrics` are the values of the names in columns[case.columns]; "
    "`sass` is the source page, a row an instruction: opcode, then sass_columns, zeros at the end "
    "left out; `artifact` is the SHA-256 of the cubin, by which `artifacts` holds it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One case as it was counted."""

    name: str
    kind: Kind
    batch: str
    session: str
    launch: Launch
    metrics: Mapping[str, float | int]
    sass: tuple[tuple[str | int, ...], ...]
    artifact: Artifact
    registers: int
    case: Case


@dataclass(slots=True, kw_only=True)
class Record:
    """The content of the file, as plain JSON values; `write` puts it on disk at any time."""

    sessions: dict[str, Any] = field(default_factory=dict)
    columns: list[list[str]] = field(default_factory=list)
    artifacts: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a file that `write` wrote."""
        data = json.loads(read_text(path))
        if data.get("schema") != SCHEMA:
            raise SystemExit(f"{path}: schema {data.get('schema')}, expected {SCHEMA}")
        return cls(
            sessions=data["sessions"],
            columns=data["columns"],
            artifacts=data["artifacts"],
            cases={each["name"]: each for each in data["cases"]},
        )

    def add(
        self, case: Case, batch: str, session: str, result: Result, page: SourcePage | None
    ) -> None:
        """Take one result, in place of an earlier one of the same case."""
        artifact, launch = case.artifact(), case.launch()
        names = sorted(result.metrics)
        if names not in self.columns:
            self.columns.append(names)
        self.cases[case.name] = {
            "name": case.name,
            "kind": kind_of(case),
            "batch": batch,
            "session": session,
            "case": case.to_json(),
            "kernel": artifact.name,
            "symbol": artifact.symbol,
            "artifact": self._keep(artifact),
            "registers": resources(artifact).registers,
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes,
            "columns": self.columns.index(names),
            "metrics": [result.metrics[name] for name in names],
        } | ({"sass": page.rows} if page is not None else {})

    def _keep(self, artifact: Artifact) -> str:
        digest = hashlib.sha256(artifact.cubin).hexdigest()
        self.artifacts[digest] = {
            "arch": artifact.arch,
            "compiler": artifact.compiler,
            "source_name": artifact.source_name,
            "ptx": _pack(artifact.ptx.encode()),
            "cubin": _pack(artifact.cubin),
        }
        return digest

    def write(self, path: Path) -> None:
        """Write the file whole, by a rename."""
        used = {each["artifact"] for each in self.cases.values()}
        sessions = {each["session"] for each in self.cases.values()}
        head = {"schema": SCHEMA, "about": ABOUT, "sass_columns": list(SOURCE_COLUMNS)}
        parts = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        kept = {key: value for key, value in self.sessions.items() if key in sessions}
        parts.append(f'"sessions": {json.dumps(kept, indent=1)}')
        parts.append(f'"columns": {_lines(self.columns)}')
        shared = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in self.artifacts.items()]
        shared = [line for line, key in zip(shared, self.artifacts, strict=True) if key in used]
        parts.append('"artifacts": {\n' + ",\n".join(shared) + "\n}")
        parts.append(f'"cases": {_lines(list(self.cases.values()))}')
        write_text(path, "{\n" + ",\n".join(parts) + "\n}\n")

    def recorded(self) -> list[Recorded]:
        """Return the cases as values."""
        return [self._recorded(each) for each in self.cases.values()]

    def _recorded(self, data: Mapping[str, Any]) -> Recorded:
        kept = dict(self.artifacts[data["artifact"]])
        kept |= {"ptx": _unpack(kept["ptx"]).decode(), "cubin": _unpack(kept["cubin"])}
        names = self.columns[data["columns"]]
        return Recorded(
            name=data["name"],
            kind=data["kind"],
            batch=data["batch"],
            session=data["session"],
            launch=Launch(
                grid=data["grid"], block=data["block"], shared_bytes=data["shared_bytes"]
            ),
            metrics=dict(zip(names, data["metrics"], strict=True)),
            sass=tuple(_padded(row) for row in data.get("sass", ())),
            artifact=Artifact(
                name=data["kernel"], symbol=data["symbol"], log="", source="", **kept
            ),
            registers=data["registers"],
            case=rebuild(data["kind"], data["name"], data["case"]),
        )


def _padded(row: list[str | int]) -> tuple[str | int, ...]:
    return (*row, *[0] * (1 + len(SOURCE_COLUMNS) - len(row)))


def _lines(items: list[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(item) for item in items) + "\n]"


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
