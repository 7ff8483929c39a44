"""Make the tables of README.md and of docs/{model,study,tuning}.md from the records.

    python benchmarks/readme.py            # rewrite what lies between the markers
    python benchmarks/readme.py --check    # exit code 1 where a page is out of date

A part of a page from `<!-- begin NAME -->` to `<!-- end NAME -->` is the table NAME, made from a
file in `benchmarks/results/`. Everything outside the markers is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import bench_tables
import call_tables
import numpy as np
import study_tables
import tuning_tables
from page_text import table

from tilewright.errors import TilewrightError
from tilewright.kernels import PUBLISHED_CUBLAS_GFLOPS
from tilewright.records import LadderRecord, read_records
from tilewright.report.ladder import ladder_table

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MODEL_PAGE = ROOT / "docs" / "model.md"
TUNING_PAGE = ROOT / "docs" / "tuning.md"
STUDY_PAGE = ROOT / "docs" / "study.md"
RESULTS = ROOT / "benchmarks" / "results"

EMULATED = "ladder_rtx_a6000_emulated.json"
MEASURED = "ladder_nvidia_h200.json"
RATES = "emulator_cpu.json"
RATES_SCHEMA = 1
ERRORS = "model_errors.json"
EXAMPLES = "model_examples.json"
# Where the README compares with cuBLAS.
SHARE_SIZE = 4096

Table = Callable[[Path], list[str]]
_PART = re.compile(
    r"^<!-- begin (?P<name>\S+) -->\n(?P<body>.*?)^<!-- end (?P=name) -->$",
    re.DOTALL | re.MULTILINE,
)


def main(
    arguments: Sequence[str] | None = None,
    readme: Path = README,
    model_page: Path = MODEL_PAGE,
    tuning_page: Path = TUNING_PAGE,
    study_page: Path = STUDY_PAGE,
) -> int:
    """Rewrite the pages, or say whether they are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    options = parser.parse_args(arguments)
    old = False
    pages = (
        (readme, TABLES),
        (model_page, MODEL_TABLES),
        (tuning_page, TUNING_TABLES),
        (study_page, STUDY_TABLES),
    )
    for path, tables in pages:
        try:
            before = path.read_text(encoding="utf-8")
            after = rewritten(before, tables=tables, page=path.name)
        except TilewrightError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        if before == after:
            continue
        old = True
        if options.check:
            print(f"{path.name} differs from the records: run python benchmarks/readme.py")
        else:
            path.write_text(after, encoding="utf-8")
            print(f"{path.name} rewritten")
    return 1 if old and options.check else 0


def rewritten(
    text: str,
    results: Path = RESULTS,
    *,
    tables: Mapping[str, Table] | None = None,
    page: str = README.name,
) -> str:
    """Return a page with each table as the records in `results` have it; the README's, if not said.

    Raises:
        TilewrightError: markers that do not pair up, or name no table, or not each once; a record
            that cannot be read.
    """
    tables = TABLES if tables is None else tables
    found = [match["name"] for match in _PART.finditer(text)]
    markers = re.findall(r"^<!-- (?:begin|end) ", text, re.MULTILINE)
    if sorted(found) != sorted(tables) or len(markers) != 2 * len(found):
        raise TilewrightError(
            f"{page} has the tables {', '.join(found) or 'none'}: expected each of "
            f"{', '.join(tables)} once, between <!-- begin NAME --> and <!-- end NAME -->"
        )

    def fresh(match: re.Match[str]) -> str:
        name = match["name"]
        lines = ["", *tables[name](results), ""]
        return "\n".join([f"<!-- begin {name} -->", *lines, f"<!-- end {name} -->"])

    return _PART.sub(fresh, text)


# --- the tables ---------------------------------------------------------------------------------


def emulated_ladder(results: Path) -> list[str]:
    """Return the table that `tilewright ladder` prints without a GPU, as a block of code."""
    file = read_records(results / EMULATED)
    shown = ladder_table(file.records, PUBLISHED_CUBLAS_GFLOPS)
    heads = [("\n" * (1 - head.count("\n")) + head.rstrip()).split("\n") for head in shown.columns]
    rows = [*zip(*heads, strict=True), *shown.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if side == "left" else str.rjust for side in shown.columns.values()]
    lines = (
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True))
        for row in rows
    )
    return [f"    {line.rstrip()}" for line in lines]


def h200_ladder(results: Path) -> list[str]:
    """Return GFLOP/s by rung and size, as Markdown, with where and when they were measured."""
    file = read_records(results / MEASURED)
    at = {(record.rung, record.problem.m): record for record in file.records}
    sizes = sorted({size for _, size in at})
    rows = []
    for rung in dict.fromkeys(rung for rung, _ in at):
        ours = [_measured(at, rung, size) for size in sizes]
        other = at[rung, SHARE_SIZE].baseline_gflops
        share = ours[sizes.index(SHARE_SIZE)] / other if other else None
        rows.append([rung, *(f"{rate:.0f}" for rate in ours), f"{share:.1%}" if share else "-"])
    baselines = [
        np.median([r.baseline_gflops or np.nan for (_, s), r in at.items() if s == size])
        for size in sizes
    ]
    rows.append(["cuBLAS", *(f"{rate:.0f}" for rate in baselines), "100 %"])
    env = file.environment
    return [
        "On an H200, float32, GFLOP/s with a cold L2, beside cuBLAS in the same run",
        f"(`benchmarks/results/{MEASURED}`, {env.date[:10]}, driver {env.driver}, "
        f"NVRTC {env.nvrtc}):",
        "",
        *table(["rung", *map(str, sizes), f"of cuBLAS at {SHARE_SIZE}"], rows),
    ]


def _measured(at: Mapping[tuple[str, int], LadderRecord], rung: str, size: int) -> float:
    record = at.get((rung, size))
    if record is None or not record.verified or record.measured_gflops is None:
        raise TilewrightError(f"{MEASURED} has no right, timed {rung} at {size}: measure it again")
    return record.measured_gflops


def emulator_rates(results: Path) -> list[str]:
    """Return what the emulator costs, as Markdown, with the machine it was measured on."""
    file = _read_rates(results / RATES)
    machine, env = file["machine"], file["environment"]
    compiles = {each["rung"]: each for each in file["compiles"]}
    rows = [
        [
            rate["rung"],
            f"{rate['gflops']:.3g}",
            f"{rate['share']:.1%}",
            f"{compiles[rate['rung']]['plain_s']:.2f} s",
            f"{compiles[rate['rung']]['counting_s']:.2f} s",
        ]
        for rate in file["rates"]
    ]
    return [
        f"What emulating costs: {machine['cpu']}, {machine['cores']} cores, from an empty cache",
        f"(`benchmarks/results/{RATES}`, {env['date'][:10]}, numpy {machine['numpy']}, "
        f"llvmlite {machine['llvmlite']}, NVRTC {env['nvrtc']}):",
        "",
        *(f"- `{each['command']}`: {each['wall_s']:.0f} s" for each in file["ladder"]),
        "",
        f"and each rung on one core at {file['size']}³, without counting, beside numpy on one "
        "thread; its compile",
        "is the CPU time from PTX to machine code:",
        "",
        *table(["rung", "GFLOP/s", "of numpy", "compile", "compile, counting"], rows),
    ]


def transposes(results: Path) -> list[str]:
    """Return the three transposes of the README, modelled and measured, as Markdown."""
    found = {each["name"]: each for each in _examples(results)}
    rows: list[list[str]] = []
    before: dict[str, float] = {}
    for name in ("transpose_naive", "transpose_unpadded", "transpose_tiled"):
        now = {kind: found[f"{name}_8192"][f"{kind}_s"] for kind in ("modelled", "measured")}
        gains = [f"{before[kind] / now[kind]:.2f}x" if before else "" for kind in now]
        times = [f"{1e6 * now[kind]:.0f} us" for kind in now]
        rows.append([f"`{name}`", times[0], gains[0], times[1], gains[1]])
        before = now
    heads = ["8192 x 8192, H200", "modelled", "gain", "measured", "gain"]
    return [
        *table(heads, rows),
        "",
        f"(`benchmarks/results/{EXAMPLES}`; measured, with a cold L2, by",
        "`benchmarks/h200_examples.py`)",
    ]


def model_examples(results: Path) -> list[str]:
    """Return every example, modelled and measured, as Markdown."""
    rows = [
        [
            each["name"],
            f"{1e6 * each['modelled_s']:.1f}",
            f"{1e6 * each['measured_s']:.1f}",
            f"{each['modelled_s'] / each['measured_s']:.2f}",
        ]
        for each in _examples(results)
    ]
    return table(["example, H200", "modelled us", "measured us", "ratio"], rows)


def _examples(results: Path) -> list[dict[str, Any]]:
    path = results / EXAMPLES
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["examples"]
    except (OSError, ValueError, KeyError) as error:
        raise TilewrightError(f"cannot read {path}: {error}") from error
    return found


def model_errors(results: Path) -> list[str]:
    """Return the time model's errors by group of kernels, as Markdown."""
    file = _read_errors(results / ERRORS)
    rows = [
        [
            name,
            f"{each['kernels']}",
            f"{each['mean_absolute_error']:.1%}",
            f"{each['largest_error']:.0%}",
            f"{each['kendall_tau']:.2f}",
        ]
        for name, each in file["summary"].items()
    ]
    heads = ["kernels", "", "mean error of the time", "largest", "rank correlation (tau)"]
    environment = file["environment"]
    return [
        f"`benchmarks/results/{ERRORS}`, {environment['date'][:10]}, NVRTC {environment['nvrtc']}. "
        "The 40 tiles are drawn",
        "at random (`benchmarks/model_set.py`); of the A6000 nothing was calibrated, its times are",
        "those of the chapter.",
        "",
        *table(heads, rows),
    ]


def model_stalls(results: Path) -> list[str]:
    """Return the three largest stalls of each rung, measured and modelled, as Markdown."""
    rows = [
        [rung, *(_largest(each[f"{kind}_stalls"]) for kind in ("measured", "modelled"))]
        for rung, each in _read_errors(results / ERRORS)["first_stalls"].items()
    ]
    return [
        "The largest stalls at 4096 on the H200, in warps that wait an issued instruction:",
        "",
        *table(["rung", "measured (ncu)", "modelled"], rows),
    ]


def _largest(stalls: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in list(stalls.items())[:3])


def _read_errors(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TilewrightError(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or not {"summary", "first_stalls"} <= data.keys():
        raise TilewrightError(f"{path} is no record of benchmarks/model_errors.py: run it again")
    return data


def _read_rates(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TilewrightError(f"cannot read {path}: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != RATES_SCHEMA:
        raise TilewrightError(f"{path} is no record of benchmarks/emulator_rates.py: run it again")
    return data


TABLES: Mapping[str, Table] = {
    "ladder": emulated_ladder,
    "h200": h200_ladder,
    "bench": bench_tables.speeds,
    "accuracy": bench_tables.errors,
    "calls": call_tables.host_calls,
    "emulator": emulator_rates,
    "transposes": transposes,
}
MODEL_TABLES: Mapping[str, Table] = {
    "errors": model_errors,
    "stalls": model_stalls,
    "examples": model_examples,
}
TUNING_TABLES: Mapping[str, Table] = {"choices": tuning_tables.choices}
STUDY_TABLES: Mapping[str, Table] = {"curves": study_tables.curves}


if __name__ == "__main__":
    sys.exit(main())
