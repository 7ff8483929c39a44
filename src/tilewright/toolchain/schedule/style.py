"""The choices of a schedule that the proof does not decide: only time does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Where things go among the FFMAs of a step of k. Units: FFMAs.

    `order` of the FFMAs: "balanced" keeps the two register banks equally busy, "rows" is a plain
    snake along B. `first_load` stands before the first load of the next step's fragments,
    `load_gap` between two of them; `barrier` FFMAs before the last step comes the barrier; the
    rest starts at `first_other` with `other_gap` between two, `copy_gap` between two of the copies,
    `sync_gap` from the wait for copies to the barrier.
    A step that is too short for these has them closer. `across` says which inserted
    instructions a kept operand outlives: none, shared-memory loads, or all.
    """

    order: Literal["balanced", "rows"] = "balanced"
    first_load: int = 2
    load_gap: int = 12
    barrier: int = 30
    first_other: int = 6
    other_gap: int = 9
    copy_gap: int = 5
    sync_gap: int = 3
    across: Literal["none", "loads", "all"] = "all"


BEST = Style()
