"""What searches found, as tables; and what looking back at them says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tilewright.kernels.tiles import Tile
from tilewright.report.bench import us
from tilewright.report.ladder import Justify, Table
from tilewright.tuning.review import Course, Review
from tilewright.tuning.search import NOISY_SPREAD, Found

# Above this share of them, times say more about what else runs than about the kernels.
_NOISY_SHARE = 0.25
# How many of a search are listed as its best, and after how many measured strategies are told.
_BEST = 10
_AFTER = (5, 10, 20)
_ENDS = {"done": "", "budget": ", out of time", "interrupted": ", interrupted"}


def tuning_table(searches: Sequence[Found], gpu: str) -> Table:
    """Lay out searches on one GPU: a row for each operation, with its fastest variant."""
    columns = ("operation", "µs", "GFLOP/s", "gain", "measured", "fastest variant")
    return Table(
        title=f"tuned on {gpu}",
        columns={
            name: "left" if name in (columns[0], columns[-1]) else "right" for name in columns
        },
        rows=tuple(_row(found) for found in searches),
        notes=tuple(_notes(searches)),
    )


def _row(found: Found) -> tuple[str, ...]:
    measured = f"{found.measured} of {found.space}{_ENDS[found.ended]}"
    if found.best is None or found.best.median_s is None:
        return (found.operation.key, "", "", "", measured, "none that is right")
    seconds = found.best.median_s
    first = found.first_s
    return (
        found.operation.key,
        f"{1e6 * seconds:.4g}",
        f"{found.operation.flops / seconds / 1e9:.0f}",
        "" if first is None else f"{first / seconds - 1:.1%}",
        measured,
        str(found.best.variant),
    )


def _notes(searches: Sequence[Found]) -> list[str]:
    notes = ["gain: over the variant that the model would choose, both measured."]
    states = Counter(trial.state for found in searches for trial in found.trials)
    if states["failed"]:
        notes.append(f"{states['failed']} variants failed to compile or run, and were passed over.")
    if states["wrong"]:
        notes.append(
            f"{states['wrong']} variants are wrong: a bug in their kernel; --json says where."
        )
    noisy = [found for found in searches if found.noisy > _NOISY_SHARE]
    if noisy:
        notes.append(
            f"The times of {', '.join(f.operation.key for f in noisy)} vary by more than "
            f"{NOISY_SPREAD:.0%}: something else uses the GPU; tune again with --fresh when it is "
            "idle."
        )
    return notes


def review_table(reviews: Sequence[Review]) -> Table:
    """Lay out recorded searches: a row a product, with how good choices and predictions were."""
    columns: dict[str, Justify] = {
        "operation": "left", "µs": "right", "GFLOP/s": "right", "model\nalone": "right",
        "tune": "right", "rank": "right", "measured": "right", "kernel": "left",
    }  # fmt: skip
    machines = dict.fromkeys(each.machine for each in reviews)
    named = "; ".join(f"{m.gpu}, driver {m.driver}, {m.toolkit}" for m in machines)
    notes = [
        "model alone: the speed of the variant predicted to be the fastest, of the fastest "
        "measured. tune: the same of what the strategy model finds on these times, without noise. "
        "rank: Spearman's correlation of predicted and measured times. kernel: of the fastest."
    ]
    if len(machines) > 1:
        notes.append(
            f"The searches are of {len(machines)} machines: {named}: times of different machines "
            "say nothing about each other."
        )
    partly = sum(not each.courses for each in reviews)
    if partly:
        notes.append(
            f"{partly} of {len(reviews)} searches did not measure the whole space, so strategies "
            "cannot be compared on them: tune with --strategy exhaustive for that."
        )
    rows = tuple(_review_row(each) for each in reviews)
    return Table(f"tuned on {named}", columns, rows, tuple(notes))


def _review_row(each: Review) -> tuple[str, ...]:
    recording, best = each.recording, each.best
    measured = f"{len(recording.trials)} of {recording.space}"
    if best is None or best.median_s is None:
        return (recording.operation.key, "", "", "", "", "", measured, "none that is right")
    return (
        recording.operation.key,
        us(best.median_s),
        f"{recording.operation.flops / best.median_s / 1e9:.0f}",
        "" if each.first is None else f"{each.share(each.first):.1%}",
        f"{each.courses['model'].chosen:.1%}" if each.courses else "",
        "" if each.rank is None else f"{each.rank:.2f}",
        measured,
        best.variant.kernel,
    )


def strategies_table(courses: Mapping[str, Course]) -> Table:
    """Lay out what strategies find on recorded times: a row each."""
    columns: dict[str, Justify] = {"strategy": "left"}
    heads = ["measures\nat most", "device\nseconds", *(f"after\n{n}" for n in _AFTER), "ends\nwith"]
    columns |= dict.fromkeys(heads, "right")
    rows = tuple(
        (
            name,
            str(len(course.shares)),
            f"{course.seconds:.2f}",
            *(f"{course.shares[min(n, len(course.shares)) - 1]:.1%}" for n in _AFTER),
            f"{course.chosen:.1%}",
        )
        for name, course in courses.items()
    )
    notes = (
        "Shares of the fastest variant's speed, replayed on the recorded times without noise; "
        "random: the median of several orders.",
    )
    return Table("What each strategy finds", columns, rows, notes)


def best_table(found: Review) -> Table:
    """Lay out the ten fastest variants with the numbers of their tiles, and what those share."""
    timed = [t for t in found.recording.trials if t.median_s is not None]
    best = sorted(timed, key=lambda t: t.median_s or 0.0)[:_BEST]
    plain = Tile(bm=1, bn=32).to_json()
    numbers = [
        t.variant.tile.to_json() | {"splits": t.variant.splits, "workers": t.variant.workers}
        for t in best
    ]
    kept = [
        name
        for name in (numbers[0] if numbers else ())
        if any(each[name] != plain.get(name, int(name == "splits")) for each in numbers)
    ]
    columns: dict[str, Justify] = {
        "": "right", "µs": "right", "IQR": "right", "of best": "right", "kernel": "left",
    }  # fmt: skip
    columns |= dict.fromkeys(kept, "right")
    rows = tuple(
        (
            str(place),
            us(trial.median_s or 0.0),
            f"{trial.spread or 0.0:.1%}",
            f"{found.share(trial):.1%}",
            trial.variant.kernel,
            *(str(each[name]) for name in kept),
        )
        for place, (trial, each) in enumerate(zip(best, numbers, strict=True), start=1)
    )
    kernels = {t.variant.kernel for t in best}
    alike = [
        f"{name} = {numbers[0][name]}" for name in kept if len({e[name] for e in numbers}) == 1
    ]
    if len(kernels) == 1:
        alike.insert(0, f"kernel = {kernels.pop()}")
    notes = (f"All of these have {', '.join(alike)}.",) if alike and len(best) > 1 else ()
    return Table(f"The {len(best)} fastest", columns, rows, notes)
