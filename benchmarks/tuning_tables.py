"""The table of docs/tuning.md: how near to the fastest the model and a search by it come."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import fit_cost
from page_text import table

from tilewright.gpus import gpu
from tilewright.tuning.cost import FILE, coefficients
from tilewright.tuning.forest import forest_of
from tilewright.tuning.replay import read_recordings, replay
from tilewright.tuning.strategies import model

# Records begin so.
SEARCHES = ("tuning_drawn", "tuning_more", "tuning_later", "judged", "unseen")


def choices(results: Path) -> list[str]:
    """Return the shares of the fastest, in geometric mean and at worst, of recorded searches."""
    card = gpu("H200")
    shipped = fit_cost.Model(known=coefficients(), forest=forest_of(card.name))
    fitted_to = json.loads(FILE.read_text(encoding="utf-8"))["fitted_to"]
    head = ["searches", "products", "chosen: mean", "worst", "`tune`: mean", "worst"]
    rows = []
    for path in (results / name for each in SEARCHES for name in sorted(results.glob(f"{each}_*"))):
        cases = fit_cost.read(path, card)
        chosen = [fit_cost.quality(case, shipped, card) for case in cases]
        tuned = [
            1 / replay(model, fit_cost.ordered(each, shipped, card), each.times).ratio
            for each in read_recordings(path)
            if len(each.times) > 1
        ]
        shares = [
            f"{share:.1%}"
            for found in (chosen, tuned)
            for share in (statistics.geometric_mean(found), min(found))
        ]
        relation = "fitted to" if path.name in fitted_to else "not fitted to"
        rows.append([f"`{path.name}`, {relation}", str(len(cases)), *shares])
    return table(head, rows)
