"""One profiler on one machine: what it knows, and running it over a batch of cases."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from counter_cases.cases import Case, kind_of
from counter_cases.metrics import SAFE, SetName, choose, listed, refused
from counter_cases.ncu import import_page, profile_command, run

# A report larger than this is dropped once its pages are read.
MOST_REPORT_BYTES = 16 * 2**20
_TRIES = 6
_PAGES = {
    "raw.csv": ("--page", "raw", "--print-units", "base"),
    "precise.csv": ("--page", "raw", "--print-units", "base", "--print-fp"),
    "source.csv": ("--page", "source", "--print-source", "sass"),
}


@dataclass(slots=True, kw_only=True)
class Profiler:
    """The profiler `ncu`; `raw` is where its output goes, a folder a batch.

    `known` are the metrics it lists by type, `banned` those that it refused in an earlier batch.
    Units: `deadline` is a time of `time.monotonic`, in seconds.
    """

    ncu: str
    raw: Path
    deadline: float
    known: dict[str, str] = field(default_factory=dict)
    banned: set[str] = field(default_factory=set)

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def version(self) -> str | None:
        """Return the last line of what it says of itself."""
        done = subprocess.run([self.ncu, "--version"], capture_output=True, text=True)
        lines = done.stdout.strip().splitlines()
        return lines[-1] if lines else None

    def ask(self) -> None:
        """Learn which metrics it lists; none where it does not answer: then all are tried."""
        kept = self.raw / "query.txt"
        if run([self.ncu, "--query-metrics"], kept, 60) == 0:
            self.known = listed(kept.read_text(errors="replace"))
        print(f"{len(self.known)} metrics are listed, see {kept}", file=sys.stderr)

    def profile(
        self, name: str, cases: Sequence[Case], program: Sequence[str]
    ) -> dict[str, object]:
        """Profile the launches of `program`, the batch's cases; return how it went.

        Metrics that the profiler refuses are dropped, and it is run again; where it gives another
        reason, with less and less.
        """
        folder = self.raw / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        wanted, source = _set_of(name, cases)
        metrics, dropped = choose(wanted, self.known)
        metrics = [metric for metric in metrics if metric not in self.banned]
        report = folder / "report.ncu-rep"
        for attempt in range(_TRIES):
            log = folder / f"log{attempt}.txt"
            command = profile_command(self.ncu, report, metrics, source=source, program=program)
            code = run(command, log, max(self.left(), 1))
            if code is None or report.is_file():
                break
            said = log.read_text(errors="replace").partition("\n")[2]
            unknown = refused(said, metrics)
            print(f"{name}: {unknown or said[-800:]}", file=sys.stderr, flush=True)
            self.banned |= set(unknown)
            if unknown:
                metrics = [metric for metric in metrics if metric not in unknown]
                dropped += unknown
            elif source:
                source = False
            elif metrics != list(SAFE):
                dropped += [metric for metric in metrics if metric not in SAFE]
                metrics = list(SAFE)
            else:
                break
        self._print_pages(report, folder, source=source)
        return {"asked": len(metrics), "dropped": sorted(set(dropped)), "source": source}

    def _print_pages(self, report: Path, folder: Path, *, source: bool) -> None:
        """Have a report printed as CSV: raw, raw with all digits, and by instruction."""
        if not report.is_file():
            print(f"{folder.name}: no report, see {folder}", file=sys.stderr)
            return
        for page, flags in _PAGES.items():
            if page == "source.csv" and not source:
                continue
            if not import_page(self.ncu, report, folder / page, flags):
                print(f"{folder.name}: {page} is not whole, see it", file=sys.stderr)
        if report.stat().st_size > MOST_REPORT_BYTES:
            report.unlink()


def _set_of(name: str, cases: Sequence[Case]) -> tuple[SetName, bool]:
    """Return which metrics a batch wants, and whether by machine instruction too."""
    if kind_of(cases[0]) == "micro":
        return "micro", False
    return ("large", False) if name.startswith("large_") else ("program", True)
