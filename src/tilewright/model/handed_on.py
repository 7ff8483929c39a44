"""What a launch stores and loads again, as blocks for each other: it is in the L2, not the DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.model.profile import AccessCounts
from tilewright.model.traffic import Hit
from tilewright.trace import AccessTrace


def handed_on(trace: AccessTrace) -> dict[int, float]:
    """Return, by PTX line, the share of its sectors that are stored first and loaded then.

    Of one block that is in the order of its accesses; what others store is taken to come first.
    """
    touched: dict[int, dict[tuple[int, int], int]] = {}  # by line: block and sector, when
    stored: dict[int, dict[int, int]] = {}  # by sector: block, when first
    loaded: dict[int, dict[int, int]] = {}  # by sector: block, when last
    loads = {}
    rows = zip(
        trace.line.tolist(), trace.block.tolist(), trace.load.tolist(), trace.order.tolist(),
        trace.sectors.tolist(), strict=True,
    )  # fmt: skip
    for line, block, load, order, sectors in rows:
        loads[line] = load
        for sector in sectors:
            if sector < 0:
                break
            touched.setdefault(line, {})[block, sector] = order
            if load:
                loaded.setdefault(sector, {})[block] = order
            else:
                stored.setdefault(sector, {}).setdefault(block, order)
    found = {}
    for line, own in touched.items():
        count = 0
        for (block, sector), order in own.items():
            if loads[line]:
                count += any(b != block or at < order for b, at in stored.get(sector, {}).items())
            else:
                count += any(b != block or at > order for b, at in loaded.get(sector, {}).items())
        if count:
            found[line] = count / len(own)
    return found


def from_l2(hits: Mapping[int, Hit], shares: Mapping[int, float]) -> dict[int, Hit]:
    """Return hits by PTX line with what is handed on taken from what the DRAM gives."""
    return {
        line: replace(hit, dram=hit.dram * (1 - shares.get(line, 0.0)))
        for line, hit in hits.items()
    }


def unseen_hit(access: AccessCounts) -> Hit:
    """Return where accesses are served that no traced block makes: nobody was there before."""
    sectors = access.sectors / access.requests
    return Hit(missing=1.0, pending=0.0, sectors=sectors, dram=1.0)
