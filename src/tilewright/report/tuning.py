"""What a search found, as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilewright.report.ladder import Table
from tilewright.tuning.search import NOISY_SPREAD, Found

# Above this share of them, times say more about what else runs than about the kernels.
_NOISY_SHARE = 0.25
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
