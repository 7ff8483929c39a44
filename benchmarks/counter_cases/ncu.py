"""Nsight Compute as a program: one run over one process, and what its reports say."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# The columns of a source page that are kept, by short name: label, then internal name.
_SOURCE_COLUMNS: dict[str, tuple[str, ...]] = {
    "executed": ("Instructions Executed", "# Warp Instructions Executed", "inst_executed"),
    "threads": ("Predicated-On Thread Instructions Executed", "thread_inst_executed_true"),
    "tag_requests": ("L1 Tag Requests Global", "memory_l1_tag_requests_global"),
    "sectors": ("L2 Theoretical Sectors Global", "memory_l2_theoretical_sectors_global"),
    "sectors_ideal": (
        "L2 Theoretical Sectors Global Ideal",
        "memory_l2_theoretical_sectors_global_ideal",
    ),
    "wavefronts": ("L1 Wavefronts Shared", "memory_l1_wavefronts_shared"),
    "wavefronts_ideal": ("L1 Wavefronts Shared Ideal", "memory_l1_wavefronts_shared_ideal"),
}
SOURCE_COLUMNS = tuple(_SOURCE_COLUMNS)
# The raw page also has what the card and the profiler are: `device__attribute_…`, `profiler__…`.
_METRIC = re.compile(r"memory_\w+|(?!device__|profiler__|nvlink__|numa__)[a-z]\w*__\w+")
_PREDICATE = re.compile(r"^@!?\w+\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One profiled launch: the kernel as the profiler names it, and its metrics."""

    kernel: str
    metrics: dict[str, float | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePage:
    """One launch by machine instruction: opcode with modifiers, then the SOURCE_COLUMNS."""

    kernel: str
    rows: list[list[str | int]]


def run(command: Sequence[str], log: Path, timeout_s: float) -> int | None:
    """Run a command with its output in `log`; None where it had to be ended after `timeout_s`."""
    with log.open("w") as out:
        out.write(" ".join(command) + "\n")
        out.flush()
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started just above
            process.wait()
            return None


def profile_command(
    ncu: str, report: Path, metrics: Sequence[str], *, source: bool, program: Sequence[str]
) -> list[str]:
    """Return the command that profiles every launch of `program` into `report`."""
    sections = ["--section", "SourceCounters"] if source else []
    return [
        ncu,
        *("--clock-control", "none", "--cache-control", "all", "--replay-mode", "kernel"),
        *("--force-overwrite", "--export", str(report)),
        *sections,
        *("--metrics", ",".join(metrics)),
        *program,
    ]


def import_page(ncu: str, report: Path, page: Path, options: Sequence[str]) -> bool:
    """Write one page of a report as CSV; False where the profiler cannot."""
    command = [ncu, "--import", str(report), "--csv", *options]
    try:
        with page.open("w") as out:
            done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=120)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def number(text: str) -> float | int | None:
    """Return a printed metric as a number; None for what is none."""
    plain = text.strip().replace(",", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None


def read_raw(text: str, precise: str = "") -> list[Result]:
    """Read a raw page: a row a launch under a row of names and one of units.

    Fractions are printed with two digits; `precise` is the same page with all of them.
    """
    fine = list(_raw_rows(precise))
    results = []
    for place, row in enumerate(_raw_rows(text)):
        more = fine[place] if place < len(fine) else {}
        metrics: dict[str, float | int] = {}
        for name, printed in row.items():
            value = number(printed) if _METRIC.match(name) else None
            if isinstance(value, float):
                better = number(more.get(name, ""))
                value = value if better is None else better
            if value is not None:
                metrics[name] = value
        results.append(Result(kernel=row.get("Kernel Name", ""), metrics=metrics))
    return results


def _raw_rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the launches of a raw page by column name; the unit in brackets is taken off."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.lstrip().startswith('"ID"')), None)
    if start is None:
        return
    rows = csv.reader(lines[start:])
    names = [re.sub(r"\s*\[.*\]$", "", name) for name in next(rows)]
    for row in rows:
        if row and row[0].isdigit():
            yield dict(zip(names, row, strict=False))


def read_source(text: str) -> list[SourcePage]:
    """Read a source page: for each launch its name, a row of names, a row an instruction."""
    pages: list[SourcePage] = []
    places: dict[str, int] = {}
    source = 0
    for row in csv.reader(text.splitlines()):
        if row and row[0] == "Kernel Name":
            pages.append(SourcePage(kernel=row[1] if len(row) > 1 else "", rows=[]))
            places = {}
        elif "Source" in row and ("Address" in row or "#" in row):
            source = row.index("Source")
            places = {
                short: next(row.index(n) for n in names if n in row)
                for short, names in _SOURCE_COLUMNS.items()
                if any(n in row for n in names)
            }
        elif pages and places and len(row) > max(places.values()):
            counts = [_count(row[places[c]]) if c in places else 0 for c in SOURCE_COLUMNS]
            while len(counts) > 1 and not counts[-1]:
                counts.pop()
            pages[-1].rows.append([_opcode(row[source]), *counts])
    return pages


def _count(printed: str) -> int:
    return int(number(printed) or 0)


def _opcode(text: str) -> str:
    words = _PREDICATE.sub("", text.strip()).split(maxsplit=1)
    return words[0].rstrip(";") if words else ""
