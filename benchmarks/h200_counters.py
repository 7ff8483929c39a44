"""Record what Nsight Compute counts for known kernels on this machine's GPU.

    python benchmarks/h200_counters.py --out benchmarks/results --raw /tmp/counters --commit HASH

Cases go in batches, each one run of the profiler over one process that launches them in turn. The
record is rewritten after every batch; cases recorded before are kept, and new ones replace those of
the same name. `--raw` keeps the profiler's own reports and pages, and `--parse` reads them again
without a GPU. Exit code 1 where a batch gave less than it should.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from counter_cases.cases import Case, batches
from counter_cases.ncu import Result, SourcePage, read_raw, read_source
from counter_cases.profiler import Profiler
from counter_cases.record import NAME, Record

from tilewright.bench.environment import describe_environment
from tilewright.device import require_device
from tilewright.device import run as run_on_gpu
from tilewright.errors import TilewrightError

RESULTS = Path(__file__).parent / "results"
# A batch is not begun with less time left than this, in seconds.
LEAST_S = 20


def main() -> int:
    """Record what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the record")
    parser.add_argument("--raw", type=Path, required=True, help="folder of the profiler's output")
    parser.add_argument("--only", nargs="+", default=[], help="batches, by the start of their name")
    parser.add_argument("--seconds", type=float, default=540, help="stop after this long")
    parser.add_argument("--commit", help="the source's commit, where git cannot say")
    parser.add_argument("--ncu", default="ncu", help="the profiler")
    parser.add_argument("--parse", action="store_true", help="read --raw again; no GPU")
    parser.add_argument("--list", action="store_true", help="print the batches and stop")
    parser.add_argument("--launch", help=argparse.SUPPRESS)  # the process under the profiler
    options = parser.parse_args()
    chosen = {
        name: cases
        for name, cases in batches().items()
        if not options.only or name.startswith(tuple(options.only))
    }
    if options.list:
        print("\n".join(f"{name}: {len(cases)} cases" for name, cases in chosen.items()))
        return 0
    if options.launch:
        return launch_all(batches()[options.launch], options.raw / options.launch)
    return record_all(chosen, options)


def launch_all(cases: Sequence[Case], folder: Path) -> int:
    """Launch every case once, noting each that ran: what the profiler sees, in order."""
    failed = 0
    with (folder / "launched.txt").open("w") as done:
        for case in cases:
            try:
                run_on_gpu(case.artifact(), case.launch(), case.arguments())
            except TilewrightError as error:
                failed += 1
                print(f"{case.name}: {error}", file=sys.stderr, flush=True)
                continue
            print(case.name, file=done, flush=True)
    return 1 if failed else 0


def record_all(chosen: dict[str, list[Case]], options: argparse.Namespace) -> int:
    """Profile the batches one after the other, as long as there is time, and record them."""
    deadline = time.monotonic() + options.seconds
    options.raw.mkdir(parents=True, exist_ok=True)
    profiler = Profiler(ncu=options.ncu, raw=options.raw, deadline=deadline)
    path = options.out / NAME
    earlier = next((p for p in (path, RESULTS / NAME) if p.is_file()), None)
    record = Record.read(earlier) if earlier else Record()
    session = describe_session(profiler, options)
    record.sessions[session["date"]] = session
    short = 0
    for name, given in chosen.items():
        cases = compiled(given)
        began = time.monotonic()
        if not options.parse:
            if profiler.left() < LEAST_S:
                print(f"{name}: not begun, {profiler.left():.0f} s left", file=sys.stderr)
                short += 1
                continue
            program = [sys.executable, sys.argv[0], "--launch", name, "--raw", str(options.raw)]
            session["profiles"][name] = profiler.profile(name, cases, program)
            (options.raw / "session.json").write_text(json.dumps(session, indent=1))
        found = add_batch(record, name, cases, options.raw / name, session["date"])
        record.write(path)
        short += found < len(given)
        spent = time.monotonic() - began
        print(f"{name}: {found} of {len(given)} cases, {spent:.1f} s", file=sys.stderr, flush=True)
    print(f"{len(record.cases)} cases in {path}")
    return 1 if short else 0


def compiled(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that compile, so that what the profiler runs has them in the cache."""
    good = []
    for case in cases:
        try:
            case.artifact()
        except TilewrightError as error:
            print(f"{case.name}: left out: {error}", file=sys.stderr)
        else:
            good.append(case)
    return good


def describe_session(profiler: Profiler, options: argparse.Namespace) -> dict[str, Any]:
    """Return where and how this record is made; with --parse, as it was noted then."""
    if options.parse:
        return dict(json.loads((options.raw / "session.json").read_text()))
    profiler.ask()
    environment = describe_environment(require_device(), commit=options.commit)
    return environment.to_json() | {
        "ncu": profiler.version(),
        "command": " ".join(["python benchmarks/h200_counters.py", *_only(options.only)]),
        "profiles": {},
    }


def _only(names: Sequence[str]) -> list[str]:
    return ["--only", *names] if names else []


def add_batch(record: Record, name: str, cases: Sequence[Case], folder: Path, session: str) -> int:
    """Put a batch's results on its cases, in the order of the launches; return how many."""
    by_name = {case.name: case for case in cases}
    launched = [by_name[line] for line in _text(folder / "launched.txt").split() if line in by_name]
    results = read_raw(_text(folder / "raw.csv"), _text(folder / "precise.csv"))
    pages: list[SourcePage | None] = list(read_source(_text(folder / "source.csv")))
    if len(pages) != len(results):
        if pages:
            print(f"{name}: {len(pages)} source pages of {len(results)} launches", file=sys.stderr)
        pages = [None] * len(results)
    found = 0
    for case, result, page in zip(launched, results, pages, strict=False):
        if not same_kernel(case, result):
            print(f"{name}: {case.name} meets {result.kernel}: stopped there", file=sys.stderr)
            break
        record.add(case, name, session, result, page)
        found += 1
    return found


def same_kernel(case: Case, result: Result) -> bool:
    """Whether the profiler's name of a launch is the case's kernel."""
    base = case.artifact().name.partition("<")[0].rpartition("::")[2].strip()
    return base in result.kernel


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
