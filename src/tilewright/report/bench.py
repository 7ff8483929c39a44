"""The tables of a benchmark and of the comparison of two, made from records alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.bench.baselines import REFERENCE
from tilewright.bench.compare import Comparison, verdict
from tilewright.bench.results import (
    OURS,
    BenchFile,
    BenchRecord,
    moved_bytes,
    summaries,
)
from tilewright.report.ladder import Justify, Table

# Cases that a note names before it only counts them.
_NAMED = 3


def bench_table(file: BenchFile) -> Table:
    """Lay out a row a case: our time and rate, how close to the floor, and the ratios."""
    others = baselines_of(file.records)
    columns: dict[str, Justify] = {"case": "left"}
    heads = ["time\nus", "IQR", "per\nsecond", "of\nfloor", *(f"times\n{name}" for name in others)]
    columns |= dict.fromkeys(heads, "right")
    columns[f"beside\n{REFERENCE}"] = "left"
    rows = tuple(_row(each, others) for each in file.records)
    gpus = ", ".join(dict.fromkeys(each.gpu for each in file.records))
    env = file.environment
    title = f"D = A·B in float32 on {gpus}, {env.date[:10]}"
    if env.driver:
        title += f", driver {env.driver}"
    return Table(title, columns, rows, _notes(file))


def summary_table(file: BenchFile) -> Table:
    """Lay out each suite's geometric mean and lowest ratio to each baseline."""
    columns: dict[str, Justify] = {
        "suite": "left", "beside": "left", "cases": "right",
        "geometric\nmean": "right", "lowest": "right", "where": "left",
    }  # fmt: skip
    rows = tuple(
        (s.suite, name, str(s.cases), f"{s.mean:.3f}x", f"{s.worst:.3f}x", s.worst_case)
        for name in baselines_of(file.records)
        for s in summaries(file.records, other=name)
    )
    return Table("How many times faster than each", columns, rows, ())


def comparison_table(found: Comparison) -> Table:
    """Lay out a row a case: the old time, the new one, and whether that is more than noise."""
    columns: dict[str, Justify] = {
        "case": "left", "old\nus": "right", "new\nus": "right",
        "times\nfaster": "right", "noise": "right", "verdict": "left",
    }  # fmt: skip
    rows = tuple(
        (
            each.case,
            us(each.old_s),
            us(each.new_s),
            f"{each.verdict.ratio:.3f}x",
            f"{each.verdict.noise:.1%}",
            {"even": "within noise"}.get(each.verdict.word, each.verdict.word),
        )
        for each in found.cases
    )
    counts = {w: sum(c.verdict.word == w for c in found.cases) for w in ("faster", "slower")}
    even = len(found.cases) - sum(counts.values())
    notes = [
        f"{counts['faster']} faster, {counts['slower']} slower, {even} within noise, of "
        f"{len(found.cases)}.",
        "noise: both interquartile ranges, root of the sum of squares; more where cuBLAS, the "
        "same code in both files, changed more on that case.",
    ]
    if found.cards is not None:
        notes.insert(
            0,
            f"The files are of different machines, {' and '.join(found.cards)}: the verdicts are "
            "about both, not about the code alone.",
        )
    if found.control is not None:
        notes.append(f"cuBLAS itself: {found.control:.3f}x from the old file to the new.")
    notes += [f"The files differ in {line}." for line in found.differences]
    for which, names in (("old", found.only_old), ("new", found.only_new)):
        if names:
            shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
            notes.append(f"Only in the {which} file: {len(names)} cases: {shown}.")
    return Table(f"{found.cases[0].contender}, old and new", columns, rows, tuple(notes))


def baselines_of(records: Sequence[BenchRecord]) -> list[str]:
    """Return who took part beside us, cuBLAS first."""
    names = dict.fromkeys(run.contender for each in records for run in each.runs)
    return sorted((n for n in names if n != OURS), key=lambda name: name != REFERENCE)


def us(seconds: float) -> str:
    """Return a time in microseconds, with four digits at most before the point's are dropped."""
    value = 1e6 * seconds
    return f"{value:.2f}" if value < 100 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def rate(each: BenchRecord, seconds: float) -> str:
    """Return how fast that is: in operations where those are the floor, else in bytes moved."""
    if each.floor_by == "arithmetic":
        return f"{each.operation.flops / seconds / 1e12:.3g} TF"
    return f"{moved_bytes(each.operation) / seconds / 1e12:.3g} TB"


def _row(each: BenchRecord, others: Sequence[str]) -> tuple[str, ...]:
    ours = each.timing(OURS)
    if ours is None:
        run = each.run(OURS)
        said = "WRONG" if run is not None and run.wrong else "-"
        return (each.case, said, *("-" for _ in range(4 + len(others))))
    reference = each.timing(REFERENCE)
    return (
        each.case,
        us(ours.median_s),
        f"{ours.spread:.1%}",
        rate(each, ours.median_s),
        f"{each.floor_s / ours.median_s:.0%}",
        *("-" if (r := each.ratio(other=n)) is None else f"{r:.3f}" for n in others),
        verdict(ours, reference).word if reference else "-",
    )


def _notes(file: BenchFile) -> tuple[str, ...]:
    labels = {run.contender: run.label for each in file.records for run in each.runs}
    notes = [f"{name}: {labels[name]}." for name in baselines_of(file.records)]
    notes += [f"No {name}: {reason}." for name, reason in file.absent.items()]
    notes.append(
        "Medians of interleaved samples with a cold L2; IQR is the interquartile range. times: "
        "its time over ours. floor: the GPU's float32 peak, or moving every operand once; per "
        "second: TFLOP where the peak is the floor, TB moved where memory is."
    )
    notes += _error_notes(file.records)
    notes += [
        f"{each.case}: {run.contender}: {run.reason}."
        for each in file.records
        for run in each.runs
        if run.reason is not None
    ]
    return tuple(notes)


def _error_notes(records: Sequence[BenchRecord]) -> list[str]:
    """Say how far off results were: as a share of the bound, and beside cuBLAS."""
    pairs = [(each.case, each.run(OURS), each.run(REFERENCE)) for each in records]
    shares = [(s, case) for case, run, _ in pairs if run for s in run.bound_ratios.values()]
    if not shares:
        return []
    worst, case = max(shares)
    notes = [f"Largest error: {worst:.3g} of its float32 bound ({case})."]
    both = [(case, run, other) for case, run, other in pairs if run and other]
    shares_of_both = [(case, run.bound_ratios, other.bound_ratios) for case, run, other in both]
    errors_of_both = [(case, run.max_errors, other.max_errors) for case, run, other in both]
    if found := _most_times(shares_of_both):
        notes.append(f"Largest error, as a share of its bound, over cuBLAS's: at most {found}.")
    if found := _most_times(errors_of_both):
        notes.append(f"Largest error in itself over cuBLAS's: at most {found}; docs/bench.md.")
    return notes


def _most_times(
    pairs: Sequence[tuple[str, Mapping[str, float], Mapping[str, float]]],
) -> str | None:
    """Say how many times the second's errors the first's are, by kind of data, where and how often.

    Twice is what is asked of every case.
    """
    ratios = [
        (error / theirs[kind], f"{case}, {kind} data")
        for case, ours, theirs in pairs
        for kind, error in ours.items()
        if theirs.get(kind)
    ]
    if not ratios:
        return None
    ratio, where = max(ratios)
    above = sum(each > 2 for each, _ in ratios)
    return f"{ratio:.3g} ({where}), above 2 in {above} of {len(ratios)}"
